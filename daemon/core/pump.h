/* The pump carries events to the engine and its effects to the store, the origin and the clients.
 *
 * The engine decides; the pump does what it says through three small interfaces (core/store.h,
 * core/origin.h, struct pump_host), so that the same engine and pump run in the daemon and in the
 * simulator. One request's way through this file:
 *
 *   pump_lookup   answered from the near cache: nothing else happens (the hot path)
 *   pump_submit   ─> engine: joins or starts the key's flight ─> effects: store and origin calls
 *   their `done`  ─> engine: the flight's next step           ─> effects …
 *   pump_turn     the host's one timer: deadlines, retries, and waking waiters, 64 a turn
 *
 * All on the loop's thread. No callback fires inside the call that asks for it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "core/engine.h"
#include "core/moment.h"
#include "core/origin.h"
#include "core/request.h"
#include "core/store.h"

/* One build, and what came of it, when the store has been told. */
struct regeneration {
	const struct flight *flight; /* borrowed for the call: key, cause, fence, build, op */
	const struct entry *before;  /* what this daemon had of the key; NULL: nothing */
	int64_t queue_us;            /* waited for room and a permit */
	int64_t lease_us;            /* waited for the lease */
	int64_t build_us;            /* waited for the origin */
	int64_t save_us;             /* waited for the store to take it */
};

/* What the pump needs of the program around it. */
struct pump_host {
	void *impl;

	/* Now, in µs of the fleet clock; does not go back. */
	int64_t (*now_us)(void *impl);

	/* Calls pump_turn at that moment, or in the loop's next turn if it has passed; replaces the
	   moment asked for before. INT64_MAX: no call. Never calls it from inside. */
	void (*wake_at)(void *impl, int64_t at_us);

	/* The pump has stopped: nothing of it is under way any more. Called once, after pump_stop.
	 */
	void (*stopped)(void *impl);

	/* A build is over. NULL: nobody cares. */
	void (*regenerated)(void *impl, const struct regeneration *regeneration);
};

struct pump {
	struct engine *engine; /* borrowed */
	struct store store;
	struct origin origin;
	struct pump_host host;
	struct moment_listener listener; /* pump_listen */
	uint32_t ops; /* what pump_invalidate, pump_inspect, pump_look and pump_warm have under way
		       */
	bool stopping;
	bool stopped;
	char text[ERROR_TEXT_MAX]; /* of the last answer made without the engine */
};

/* Also tells the origin which keyspaces are gone (core/origin.h). */
void pump_init(struct pump *pump, struct engine *engine, const struct store *store,
	       const struct origin *origin, const struct pump_host *host);

enum lookup {
	LOOKUP_ANSWER, /* `ret_answer` is filled: reply with it */
	LOOKUP_WAIT,   /* the query needs a request: pump_submit */
};

/* Answers from the near cache where that is allowed, and starts a background refresh where one is
   due. `now_us`: the read batch's time. On LOOKUP_ANSWER, ret_answer->value is borrowed until the
   next call of the pump: take a reference to keep it. Also answers what can be answered without
   waiting (wait_us 0; a key whose arguments cannot fit: STATUS_BAD_REQUEST). */
enum lookup pump_lookup(struct pump *pump, const struct query *query, int64_t now_us,
			struct answer *ret_answer);

/* Lets the request wait; it is answered exactly once, later, through request->answer. The request
   and its key's bytes stay in place until then. */
void pump_submit(struct pump *pump, struct request *request);

/* Takes a submitted, unanswered request back, unanswered: its client is gone. */
void pump_abandon(struct pump *pump, struct request *request);

/* Ends the freshness of a key in the store and here. `done` fires once, later. */
struct invalidation {
	struct key key;    /* bytes: the caller's until done */
	bool hard;         /* the old value may not be served stale either */
	int64_t spread_us; /* of a keyspace: over which time */
	void (*done)(struct invalidation *invalidation);
	enum status status; /* out */
	struct pump *pump;  /* the pump's own, as what follows */
	struct store_op op;
};
void pump_invalidate(struct pump *pump, struct invalidation *invalidation);

/* The same for all keys of key.keyspace, spread over spread_us (core/epoch.h); key.bytes are its
   name. Nothing becomes unfit to be served stale. */
void pump_invalidate_keyspace(struct pump *pump, struct invalidation *invalidation);

/* What is known of a key, near and in the store. `done` fires once, later. */
struct inspection {
	struct key key; /* bytes: the caller's until done */
	void (*done)(struct inspection *inspection);

	/* The answer; counted values stay the inspection's until `done` returns. */
	int64_t now_us;
	bool has_near;
	struct entry near;
	int64_t refresh_in_us; /* who asks then has it refreshed, at the earliest; 0: now */
	bool has_flight;
	const char *flight_state; /* static */
	int64_t flight_age_us;
	uint32_t flight_waiters;
	uint32_t flight_keys;             /* that go to the origin together, this one included */
	enum store_outcome store_outcome; /* STORE_DONE: the rest holds */
	bool has_store;
	struct entry store;
	bool has_claim;
	uint64_t claim_fence;
	uint64_t claim_floor;
	int64_t claim_held_us; /* a lease is held for this long at most; 0: none */
	int64_t claim_age_us;  /* … and has been for so long; 0: not known */
	int claim_holder;      /* … by the daemon of this place; -1: not known */
	bool has_failure;
	struct failure failure;

	struct pump *pump;
	struct store_op op;
};
void pump_inspect(struct pump *pump, struct inspection *inspection);

/* Whether a key is worth a warm-up's build, at the cost of one small question to the store: the
   value stays there. `done` fires once, later. */
enum look_outcome { LOOK_FRESH, LOOK_MISSING, LOOK_FAILED, LOOK_AWAY };
struct look {
	struct key key; /* bytes: the caller's until done */
	bool alone;     /* nothing is shared: what is not here is nowhere */
	void (*done)(struct look *look);

	/* The answer. */
	enum look_outcome outcome;
	struct failure failure; /* FAILED: remembered; text counted, the caller's */

	struct pump *pump;
	struct store_op op;
};
void pump_look(struct pump *pump, struct look *look);

/* Brings what the store has of the key into the near cache, in the background: nothing is built.
   Not told; engine->fetching says how many are under way. */
void pump_fetch(struct pump *pump, const struct key *key);

/* Has the keys of a warming built, if there is room for that now (core/warming.h). It fires its
   `done` once, later. */
struct warming;
void pump_warm(struct pump *pump, struct warming *warming);

/* Has it told what happens to keys, at once and from inside any of these functions: it must not
   call them. NULL: nobody listens any more. */
void pump_listen(struct pump *pump, const struct moment_listener *listener);

/* Who a shared store tells what it knows by itself; valid as long as the pump. */
struct store_listener pump_listener(struct pump *pump);

/* The time for a batch of lookups, in µs of the fleet clock. A daemon that was paused must not
   trust what it has: this notices before the lookups do, whatever the order of the loop's
   callbacks. */
int64_t pump_now_us(struct pump *pump);

/* engine_begin and engine_reload, now. */
void pump_begin(struct pump *pump);
enum reload_outcome pump_reload(struct pump *pump, const struct policy *policies, uint32_t count,
				const struct engine_limits *limits)
	__attribute__((warn_unused_result));

/* The host's timer. */
void pump_turn(struct pump *pump);

/* Ends all: waiters get STATUS_UNAVAILABLE, builds are cancelled, leases given back. Then, once,
   host.stopped. Submitting stays allowed and is answered with STATUS_UNAVAILABLE. */
void pump_stop(struct pump *pump);
