/* The parts of a struct feed, for the files that work on it:
 *
 *   feed.c           the course: what follows on what
 *   feed_right.c     the right to read: asked for, kept, given back
 *   feed_begin.c     from where to read
 *   feed_policies.c  what it goes by
 *   feed_words.c     what is said to PostgreSQL, and what its answers mean
 */
#pragma once

#include "base/rng.h"
#include "origin/feed.h"
#include "origin/feed_link.h"
#include "origin/feed_position.h"
#include "origin/feed_rows.h"

/* X(NAME, name) */
#define FEED_STATE_MAP(X)                                                                          \
	X(RESTING, resting)                                                                        \
	X(ASKING, asking)                                                                          \
	X(CONNECTING, connecting)                                                                  \
	X(LEARNING, learning)                                                                      \
	X(READING, reading)                                                                        \
	X(APPLYING, applying)                                                                      \
	X(FINISHING, finishing)                                                                    \
	X(WAITING, waiting)                                                                        \
	X(LEAVING, leaving)

enum feed_state {
#define X(NAME, name) FEED_##NAME,
	FEED_STATE_MAP(X)
#undef X
};

/* What a turn asks of PostgreSQL. */
enum feed_turn {
	FEED_TURN_DIRECT,
	FEED_TURN_SET,
	FEED_TURN_HISTORY,
	FEED_TURN_POSITION,
	FEED_TURN_READ,
	FEED_TURN_MORE,
	FEED_TURN_END
};

struct feed {
	struct feed_options options;
	uv_loop_t *loop;
	enum feed_state state;
	struct rng rng;
	uv_timer_t timer; /* RESTING, WAITING: their end */
	uv_timer_t keep;  /* while it follows: lengthens the right */
	int handles;
	struct feed_link link;
	enum feed_turn turn;
	struct policy *policies; /* owned copies, their names too, of what `rows` reads by */
	char *keyspaces;         /* owned: the followed ones, as a text[] */
	uint64_t followed;       /* … as a hash */
	struct policy *later;    /* owned: from the next read on; NULL: no others */
	size_t later_count;
	char *later_keyspaces; /* owned */

	struct change_call call;
	bool calling;
	bool keeping;     /* the call only lengthens the right */
	bool apply_waits; /* for that call to end */
	bool leave_waits;
	bool following;

	struct feed_rows rows;
	bool is_last;  /* of a read: with this call the position moves */
	bool expiring; /* all keyspaces, before the first read */
	size_t expire_at;

	uint64_t history;              /* of this connection; 0: unknown */
	char store_text[POSITION_MAX]; /* what the store has, as it is */
	struct feed_position at;       /* all that was visible here has been applied */
	struct feed_position next;     /* what is being read leads here */
	struct feed_position stored;   /* what the store had at the beginning */
	bool db_is_good;               /* `at` is what the database has, at the beginning */
	bool has_db;                   /* the database has a position: */
	char db_text[POSITION_MAX];    /* a snapshot */
	uint64_t present_xmax; /* the log had been read up to this transaction, or was to be */
	uint64_t trimmed;      /* the log may lack transactions before this one */
	bool moved;            /* FINISHING: the database took the position */

	bool rung;
	uint64_t read_at_ms, saved_at_ms, trimmed_at_ms, stuck_at_ms; /* the loop's clock */
	uint32_t losses;                                              /* in a row */
	char why[128]; /* of the last that was logged; empty: it goes well */
	struct feed_stats stats;

	void (*closed)(void *arg);
	void *closed_arg;
	bool closing;
};

/* feed.c: the one place that moves it; when it is looked at again; a call of the store, none being
   under way. */
void feed_move(struct feed *feed, enum feed_state state);
void feed_arm(struct feed *feed, uint64_t ms);
void feed_submit(struct feed *feed, enum change_verb verb);

/* feed_right.c: asks for the right; what was answered; and what, where it was only lengthened. */
void feed_ask(struct feed *feed);
void feed_on_asked(struct feed *feed);
void feed_on_kept(struct feed *feed);

/* Lets go of everything, and asks again after this. */
void feed_rest(struct feed *feed, uint64_t ms);
uint64_t feed_rest_ms(const struct feed *feed); /* after so many losses */

/* Gives the right back, for another may have better luck; then rests. */
void feed_leave(struct feed *feed);
void feed_stop_following(struct feed *feed); /* it is not ours any more */

/* Leaves: PostgreSQL's trouble. */
void feed_fail(struct feed *feed, const char *why);

/* Rests: the store's trouble; or another reads now, or the position is not where we left it. */
void feed_start_over(struct feed *feed);

/* feed_words.c: sends the turn's statements. */
void feed_say(struct feed *feed, enum feed_turn turn);

/* Takes a result of it. False: it is none that is understood. */
bool feed_hear(struct feed *feed, unsigned n, const PGresult *result);

/* feed_policies.c: copies what a change is judged by, for the next read. 0 or -ENOMEM. */
int feed_policies_take(struct feed *feed, const struct policy *policies, size_t count)
	__attribute__((warn_unused_result));
void feed_policies_adopt(struct feed *feed); /* where no rows are being applied */
void feed_policies_drop_later(struct feed *feed);
void feed_policies_free(struct feed *feed);

/* feed_begin.c: chooses where to read on from, into `at`: of the store's and the database's
   position the older. NULL, or why some of the log may be lost to us: then all that is cached is to
   expire. */
const char *feed_choose_position(struct feed *feed);
