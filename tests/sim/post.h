/* The way between a daemon and the shared store: what Redis' adapter is in the daemon.
 *
 *   post.c        the connection; core's store interface
 *   post_parcel.c what is sent: there, back, late, twice or never
 *   post_ops.c    what the daemon makes of operations, their answers, and their want of one
 *   post_pulse.c  what the daemon asks for itself: time, place, heartbeat, amends
 *   post_changes.c the changes of the origin's log, handed on
 *   post_news.c   what the store tells, as letters
 *
 * Only the messages are simulated. What a daemon makes of them is its own: the fleet clock, place,
 * own share, amends, trust and era of daemon/store, used in the order in which redis.c, pulse.c and
 * news.c use them.
 *
 *   RESTING ── tries again ──> GREETING ── time and place are told ──> READY
 *      ^──────── no reply ─────────┘                                     │
 *      └─────────────── a reply is overdue, the connection breaks ───────┘
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/store.h"
#include "errand.h"
#include "shared.h"
#include "store/alone.h"
#include "store/amends.h"
#include "store/epoch_book.h"
#include "store/era.h"
#include "store/fleet_clock.h"
#include "store/place.h"
#include "store/store_error.h"
#include "store/trust.h"

enum { POST_CONTROL_US = SECOND, POST_VALUES_US = 5 * SECOND };

enum post_state { POST_RESTING, POST_GREETING, POST_READY };

/* What a parcel carries. */
enum cargo {
	CARGO_OP,
	CARGO_CLOCK,
	CARGO_PLACE,
	CARGO_EPOCHS,
	CARGO_BEAT,
	CARGO_AMEND,
	CARGO_SUCCESSOR,
	CARGO_CHANGE
};
enum { CARGO_COUNT = CARGO_CHANGE + 1 };

/* What the store answers to all but operations. */
struct receipt {
	struct shared_time time; /* CLOCK */
	struct epochs *epochs;   /* EPOCHS: of each keyspace; owned. On the way there: what the
				    daemon knows */
	int place;               /* PLACE; -1: the fleet is full */
	struct shared_row row;   /* BEAT */
	bool yes;                /* PLACE: it was the predecessor's; BEAT: we publish */
	struct shared_feed_answer *change; /* CHANGE; owned */
};

struct post {
	struct node *node;
	bool cut; /* nothing passes; set by trouble.c */
	enum post_state state;
	enum store_error error; /* why RESTING */
	struct errand again;    /* RESTING: the next attempt */
	struct errand broken;   /* to be noticed */
	struct list waiting;    /* parcels that wait for READY */
	struct list unanswered; /* parcels under way */
	struct list abandoned;  /* operations of a dying daemon */

	/* The daemon's own. */
	struct fleet_clock clock;
	struct era era;
	struct place place;
	struct alone alone;
	struct amends amends;
	struct trust trust;
	struct epoch_book *epochs; /* owned */
	struct rng rng;

	/* post_pulse.c; moments are local. */
	struct errand tick, place_due;
	bool asked[CARGO_COUNT];
	bool is_beating, epochs_due, trust_waits;
	struct shared_row row; /* of beats, as far as it published them */
	int64_t clock_due_us, place_due_us, beat_due_us, beat_heard_us, successor_due_us;
	int64_t trusted_until_us, epochs_again_us;
	struct amend *amending; /* owned */

	/* post_changes.c */
	struct change_call *change; /* under way; NULL: none */
	struct errand change_fails;

	/* post_news.c */
	bool listening;
	int64_t heard_us;        /* when the last beat was published; 0: trust is lost */
	struct list letters;     /* on their way, delivered in order */
	int64_t last_arrival_us; /* of the last, true time */
	struct errand listen;    /* a broken connection is made anew */
};

/* `place` and `before`: from the daemon's state folder; -1 and 0: nothing is there. */
void post_open(struct post *post, struct node *node, int place, uint64_t before);
void post_begin(struct post *post);
void post_close(struct post *post);

struct store post_iface(struct post *post);
struct change_store post_changes(struct post *post);

/* All connections break, and the daemon hears of it. */
void post_break(struct post *post);

/* The daemon is dying: what it waits for is STORE_AWAY now. */
void post_abandon(struct post *post);

/* The store tells: a letter sets out. */
void post_tell(struct post *post, const struct tiding *tiding);

/* The connection on which the daemon listens breaks; it is noticed at once or not. */
void post_deafen(struct post *post, bool noticed);

/* Between the files. */
int64_t post_local(const struct post *post);
int64_t post_store_clock(struct post *post);
struct caller post_caller(struct post *post);
void post_send(struct post *post, enum cargo cargo, const struct store_op *amend);
void post_send_op(struct post *post, struct store_op *op);
void post_send_change(struct post *post, const struct change_call *call);
/* Once the connection is greeted, unless it is given up. */
void post_send_later(struct post *post, struct store_op *op);
void post_send_waiting(struct post *post);
/* Nothing that was sent, or waits to be, is answered by the store any more. */
void post_fail_all(struct post *post, enum store_error sent, enum store_error waiting);
void post_op_fail(struct post *post, struct store_op *op, enum store_error error);
void post_op_leaves(struct post *post, struct store_op *op);
/* `offset_us`: from our clock to the store's, when it was sent. */
void post_op_comes(struct post *post, struct store_op *op, const struct store_op *from,
		   int64_t offset_us);
void post_ready(struct post *post);
void post_rest(struct post *post, enum store_error error);
void post_pulse_open(struct post *post);
void post_pulse_begin(struct post *post);
void post_pulse_close(struct post *post);
void post_pulse_greet(struct post *post);
bool post_pulse_execute(struct post *post, enum cargo cargo, const struct caller *caller,
			struct receipt *ret_receipt);
void post_pulse_done(struct post *post, enum cargo cargo, const struct receipt *receipt,
		     int64_t sent_us, enum store_error error);
/* The moment of a keyspace's epoch, which the store has told: by the daemon's clock. */
int64_t post_take_epoch(struct post *post, int keyspace, int64_t store_us, int64_t spread_us);
/* A change that the reader hands on, by itself: its own copy. */
struct change_call *post_change_copy(const struct change_call *call);
void post_change_free(struct change_call *call);
bool post_change_execute(struct post *post, const struct change_call *call,
			 const struct caller *caller, struct shared_feed_answer *ret_answer);
/* NULL: it has come to nothing. */
void post_change_done(struct post *post, const struct shared_feed_answer *answer);
/* What the daemon knows of all keyspaces. */
void post_write_epochs(const struct post *post, struct epochs ret_epochs[KEYSPACES]);
void post_epochs_are_known(struct post *post);
void post_news_begin(struct post *post);
void post_news_close(struct post *post);
