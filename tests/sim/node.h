/* A daemon of the fleet: the real engine, pump, fallback and memory store, on a clock of its own.
 *
 *   DOWN ── node_start ──> UP ── node_stop ──> STOPPING ── all has ended ──> DOWN
 *                           └───── node_kill ─────┴──────────────────────────^
 *
 * A killed daemon is buried: its pump is stopped while store and origin are out of its reach, so
 * that its memory comes back through the daemon's own way out, and nothing of it is heard again.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/pump.h"
#include "errand.h"
#include "hot.h"
#include "post.h"
#include "reader.h"
#include "scene.h"
#include "store/fallback.h"
#include "store/memory.h"

enum { CONNECTIONS = 4, HEARD_MAX = 4 };

/* A version that clients have seen, of one history of the origin. */
struct seen {
	int64_t version;
	uint64_t history;
	uint64_t overflow; /* of the ghosts, by then: what is pushed out of them is forgotten */
};

enum node_state { NODE_DOWN, NODE_UP, NODE_STOPPING };

struct node {
	struct fleet *fleet;
	int number;
	enum node_state state;
	bool open; /* it has begun to serve: in touch with the store, or tried to be */
	bool paused, buried;
	uint64_t life; /* a random number: one for each start */
	struct rng rng;
	int kept_place; /* in its state folder; -1: none */
	uint64_t kept_life;

	/* The host's clock goes a little wrong; the fleet clock is made of it (post.clock). */
	int64_t ticked_us, ticked_local_us; /* true time, and what it showed then */
	int64_t drift_ppm;
	int64_t resumed_us; /* true time of the last end of a pause */
	int64_t trouble_us; /* true time at which it was last paused, killed or stopped */
	int64_t error_us;   /* of its clocks, the greatest so far in this life */
	/* It came into touch when the store's clock had jumped and nobody had told the store: it
	   knows nothing of the clock that entries may be by, up to the new era. Two faults at once.
	 */
	bool unsettled;
	int64_t doubted_us; /* true time at which it last read or wrote an entry while it was not
			       settled whose clock had jumped */

	struct engine *engine;
	struct memory_store *memory;
	struct fallback fallback;
	struct pump pump;
	struct post post;
	struct reader reader;

	struct list errands;
	struct list calls;      /* clients' requests that wait here */
	struct list statements; /* builds under way for it */
	struct hot hot;
	struct errand turn, memory_turn, look;
	bool stopped; /* the pump has said so */

	/* For the judge. What each connection has seen: a row's version must not go back. When its
	   clients last asked for a newer value, and invalidated, true time. */
	struct seen seen[CONNECTIONS][KEYS_MAX];
	int64_t demanded_us[KEYS_MAX], invalidated_us[KEYS_MAX];
	/* When the last but one flight of a key began here, whose waiters may be waking still, and
	   the last; when the store was last away
	   for one of its operations, or for a permit; when the origin was last lost. */
	int64_t flight_us[KEYS_MAX], flight_last_us[KEYS_MAX];
	int64_t away_us[KEYS_MAX], permit_away_us, origin_lost_us;
	uint64_t heard[KEYS_MAX]
		      [HEARD_MAX]; /* floors of the last hard changes that it was told of */
};

void node_init(struct node *node, struct fleet *fleet, int number);
void node_start(struct node *node);
void node_opened(struct node *node);
void node_stop(struct node *node);
void node_kill(struct node *node);
void node_pause(struct node *node);
void node_resume(struct node *node);

bool node_runs(const struct node *node); /* not DOWN, not paused */

/* The host's clock: µs since it was started, or so. */
int64_t node_local(const struct node *node);

/* µs of the fleet clock, as the daemon knows it. */
int64_t node_now(struct node *node);

/* What it will know, or knew, at a moment in true time, if it hears of no other till then; and now.
   Nothing of the daemon changes by it, so the judge looks this way. */
int64_t node_now_at(const struct node *node, int64_t true_us);
int64_t node_clock(const struct node *node);

/* How wrong it has been so far about the store's clock. */
int64_t node_measure(struct node *node);

/* The host's clock goes at another speed from now on. */
void node_drift(struct node *node, int64_t drift_ppm);

/* Around whatever touches a running daemon from outside an errand. */
void node_enter(struct node *node);
void node_leave(struct node *node);
