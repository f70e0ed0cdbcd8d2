/* The parts of a struct redis_store, for the files that work on them:
 *
 *   redis.c     birth and end, the links, the turn in which answers are told
 *   errand.c    operations: where each goes, and what becomes of it
 *   verbs.c     operations as scripts' arguments, and replies as answers
 *   pulse.c     what the daemon asks for itself: time, place, trust, amends
 *   news.c      what the fleet publishes
 *   changes.c   changes of the origin's log
 *   jobs.c      warm-ups' jobs
 */
#pragma once

#include "base/rng.h"
#include "store/alone.h"
#include "store/amends.h"
#include "store/changes.h"
#include "store/definition_book.h"
#include "store/epoch_book.h"
#include "store/era.h"
#include "store/fleet_clock.h"
#include "store/keys.h"
#include "store/link.h"
#include "store/place.h"
#include "store/record.h"
#include "store/redis.h"
#include "store/script_call.h"
#include "store/trust.h"

/* An operation's way through the store. */
struct errand {
	struct list_node node; /* in `waiting`, while it is not sent */
	struct script_call call;
	struct redis_store *redis;
	struct store_op *op;
	struct link *link;
	int64_t asked_at_us;   /* local, as these two */
	int64_t give_up_at_us; /* while it is not sent */
	int64_t sent_at_us;
	uint64_t fetched_fence; /* LEASE, enough, but too large for control: of the entry there */
	bool fetching;          /* … then it is loaded */
	size_t bytes;           /* of the value that it sends */
	unsigned char header[RECORD_HEADER_LEN]; /* SAVE */
};

/* Bytes of what the scripts call a server's history. */
enum { SERVER_HISTORY_LEN = 6 };

/* What the daemon asks for itself. One call of each kind at a time. */
struct pulse {
	uv_timer_t timer;
	struct script_call clock, place, epochs, define, beat, amend, successor;
	bool clock_asked, place_asked, epochs_asked, define_asked, beat_asked, amend_asked,
		successor_asked;
	bool epochs_due;         /* after a gap in what is told */
	int64_t epochs_again_us; /* without trust nothing is told: they are asked for */
	bool place_held_back;    /* in the greeting: a build of our own share is to begin first */
	int64_t clock_sent_us;   /* these moments are local */
	int64_t clock_due_us, place_due_us, beat_due_us, define_due_us;
	uint32_t define_edition; /* of the book, that is being asked about */
	int64_t beat_heard_us;
	int64_t successor_due_us; /* free the predecessor's slots then; INT64_MAX: there is none */
	struct amend *amending;   /* owned */
	bool is_beating;          /* it is this daemon that publishes */
	int64_t beat_number;      /* the last that it published; 0: none */
	char beat_history[SERVER_HISTORY_LEN]; /* the server's, then */
};

/* Changes of the origin's log, on their way. */
struct redis_changes {
	struct script_call call;
	struct change_call *op; /* borrowed; NULL: none */
	bool failed;            /* it was not sent: to be told on the next turn */
	unsigned char *form;    /* owned; of the call */
	size_t form_len;
};

/* When a trouble that lasts is logged again. */
struct told_last {
	int64_t quiet_until_us; /* local */
	int64_t quiet_us;       /* doubling, until the store is up again */
};

struct redis_store {
	uv_loop_t *loop;
	struct store_url url;
	struct keys keys;
	double rate_per_s;
	uint32_t concurrency, fleet;
	int64_t trust_us;
	bool standby;
	uint32_t control_timeout_ms, values_timeout_ms;
	void (*opened)(void *arg);
	void *opened_arg;
	struct store_listener listener;
	struct rng rng;

	struct link control, values, news;
	uint32_t links_open;
	struct fleet_clock clock;
	int64_t rtt_us;
	struct era era;
	struct epoch_book epochs;
	struct definition_book definitions;
	char definitions_form[DEFINITION_BOOK_BYTES]; /* of the script that is being sent */
	char epochs_form[EPOCH_BOOK_BYTES];           /* of the script that is being sent */
	struct place place;
	uint32_t places_live;
	struct alone alone;
	struct trust trust;
	int64_t beat_store_us;    /* when the last that was heard was published; 0: trust is lost */
	int64_t trusted_until_us; /* now's clock */
	bool trust_waits;         /* for the epochs of the gap before that beat */
	struct amends amends;
	struct pulse pulse;
	struct redis_changes changes;
	struct list jobs_unsent; /* of struct job_call: to be told */

	struct list waiting;  /* of struct errand: not sent yet */
	struct list answered; /* of struct store_op: to be told */
	uint32_t errands;     /* not answered */
	size_t values_bytes;  /* sent to `values`, not answered */
	uv_idle_t turn;       /* runs while there is something to tell */
	bool epochs_untold;   /* to a listener that came later */
	bool is_open;         /* `opened` has fired */
	bool closing;
	uint32_t handles; /* of our own, to be closed */
	void (*closed)(void *arg);
	void *closed_arg;
	struct redis_stats counters; /* only its counters are used */
	struct durations latencies[STORE_VERB_COUNT];
	struct told_last told[STORE_ERRORS_COUNT];
	struct told_last told_foreign;
};

/* µs of CLOCK_BOOTTIME. */
int64_t redis_local_us(void);
int64_t redis_store_clock_us(struct redis_store *redis);

/* Lets the loop's next turn look at what there is to tell. */
void redis_kick(struct redis_store *redis);

/* The deadline, by the store's clock, of a command that is sent now over this link. */
int64_t redis_deadline_us(struct redis_store *redis, const struct link *link);

/* Counts and, now and then, logs an error. */
void redis_note_error(struct redis_store *redis, const char *what, enum store_error error,
		      const char *text);

/* A save was refused, being of an origin that is not the fleet's. */
void redis_note_foreign(struct redis_store *redis);

/* errand.c */
void errand_submit(void *impl, struct store_op *op); /* as core/store.h has it */
void errands_go_on(struct redis_store *redis);       /* those that wait for a link, if they may */

/* verbs.c */
enum script_name verb_script(const struct errand *errand);
uint32_t verb_keys(const struct errand *errand);
void verb_write(struct errand *errand, struct script_args *args);
/* The answer; GARBAGE where the reply is none. Fills op's outputs. */
enum store_error verb_read(struct errand *errand, const redisReply *reply);

/* pulse.c */
void pulse_init(struct redis_store *redis);
void pulse_greet(struct redis_store *redis); /* control is greeting: time first, then place */
void pulse_ready(struct redis_store *redis); /* control is ready */
void pulse_down(struct redis_store *redis);  /* control is lost */
void pulse_close(struct redis_store *redis);

/* changes.c */
void changes_turn(struct redis_store *redis);

/* jobs.c */
void jobs_turn(struct redis_store *redis);

/* news.c */
void news_on_message(struct redis_store *redis, const char *bytes, size_t len);
void news_lost(struct redis_store *redis);
/* They were asked for after the last gap in what is told: trust may begin. */
void news_epochs_are_known(struct redis_store *redis);

/* What the store says of the definitions: whoever listens is told what is news. */
void news_take_definitions(struct redis_store *redis, const char *bytes, size_t len);

/* An epoch has been heard of: whoever listens is told, if it is new. Its moment on our clock. */
int64_t news_take_epoch(struct redis_store *redis, const char *keyspace, size_t len,
			int64_t store_us, int64_t spread_us);
void news_tell_epochs(struct redis_store *redis); /* all that are known */
