/* The engine decides what happens with each request: the near cache, the flights, who may build.
 *
 * It performs no I/O: engine_step takes one event, with the time in it, and returns a short list of
 * effects for the pump to carry out. Time never passes inside; randomness comes from a seed.
 * One engine a daemon, on the loop's thread.
 *
 *   lookup.c    what the near cache has to say
 *   engine.c    requests: joining a flight, deadlines, the end
 *   course.c    flights: what each answer of the store and the origin leads to
 *     loading.c   what a load brings, against what is wanted
 *     boarding.c  flights on their batches, which go to the origin
 *     leasing.c   the lease: asked for, given, held elsewhere; tenure.c: its renewals
 *     building.c  the permit and the build; built.c: what came of it
 *     warming.c   statements of warm-ups, which take their permit first
 *     landing.c   the end: what the near cache keeps, and what it is counted as
 *   changing.c  changes of keys: what they do to the near cache and to flights
 *     giving.c    entries given back to a store that has lost them
 *   told.c      what the store tells by itself
 *   wake.c      answering those who wait
 *   roster.c    the keyspaces there are; keyspace.c: what their policies make of entries
 *   chores.c    a reload, and what it leaves to be done a bit at a time
 *   answer.c    what a client is told
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/list.h"
#include "base/rng.h"
#include "base/table.h"
#include "core/batch.h"
#include "core/breaker.h"
#include "core/bulkhead.h"
#include "core/flight.h"
#include "core/hotlist.h"
#include "core/keyspace.h"
#include "core/near.h"
#include "core/permits.h"
#include "core/request.h"
#include "core/roster.h"

/* X(name, what it counts): of the daemon, beside those of its keyspaces in sum */
#define ENGINE_COUNTER_MAP(X)                                                                      \
	X(hits_fresh, "gets answered at once with a fresh value")                                  \
	X(hits_stale, "gets answered at once with a stale value")                                  \
	X(requests_refused, "requests refused, for too many waited")                               \
	X(trust_lost, "times that the shared store's sign of life did not come")                   \
	X(histories, "changes to another incarnation of the origin")                               \
	X(older_histories, "values of an earlier incarnation of the origin")                       \
	X(other_histories, "values of another origin, from before a build of ours")

struct engine_counters {
#define X(name, text) uint64_t name;
	ENGINE_COUNTER_MAP(X)
	ACCOUNT_COUNTER_MAP(X)
#undef X
};

/* Counts one more for a keyspace, and in sum. */
#define ENGINE_COUNT(engine, keyspace, name)                                                       \
	((engine)->counters.name++, (keyspace)->account.counters.name++)

enum { ANSWER_OLD_LEAST_US = 1000 * 1000 }; /* else a slow store could give no answer at all */

/* Run-time limits; the configuration and base/limits.h bound them. */
struct engine_limits {
	uint32_t requests_max; /* requests that wait */
	uint32_t queue_max;    /* flights waiting for room, per priority */
	uint32_t concurrency;  /* builds at once */
	size_t key_bytes_max;  /* of flights' keys */
	size_t near_bytes_max;
	uint32_t hot_keys;     /* so many of the hottest are tracked; not changed by a reload */
	int64_t answer_old_us; /* a shared store's answer that was longer under way says nothing of
				  now; 0: none is */
};

struct engine {
	struct roster keyspaces;
	struct engine_limits limits;
	uint8_t secret[KEY_SECRET_LEN];
	struct rng rng;
	struct engine_counters counters;

	struct near near;
	struct hotlist hotlist; /* which keys are asked for most */
	struct table flights;   /* by key; all but the DONE ones */
	struct list all;        /* every flight; when stopping, those already told at the end */
	struct list batches;    /* every batch */
	struct list givings;    /* flights that wait for a beat, to give an entry back */
	struct list moving; /* flights to be moved on, a few a step: on a batch that was let in, or
			       off one that is over */
	struct list warmings; /* of struct warming: to start flights, a few a step */
	struct list warmed;   /* … that are over: their owners are to be told */
	struct bulkhead bulkhead;
	struct permits permits;
	struct breaker breaker;
	struct heap deadlines; /* of requests */
	struct heap timers;    /* of flights */
	struct heap batch_timers;
	struct heap renewals;     /* of flights' leases */
	struct list ready;        /* requests to be answered without a flight */
	struct list wake;         /* DONE flights whose waiters are to be woken */
	struct list looking;      /* flights whose waiters look at the near cache again */
	uint64_t seq;             /* grows with every arrival, load, build and invalidation */
	uint32_t requests;        /* waiting, the ready ones included */
	uint32_t leases, slots;   /* held by flights */
	uint32_t fetching;        /* flights that only look */
	uint32_t giving;          /* flights that give an entry back */
	int64_t walk_at_us;       /* when the next of the near cache is looked up for that */
	size_t key_bytes;         /* of all flights */
	uint64_t history;         /* of the origin, the latest seen; 0: none yet */
	int64_t history_built_us; /* the last build of our own that was of it */
	bool stopping;

	bool trusted;             /* no change can have gone untold … */
	uint32_t trusts;          /* grows with each loss of trust, and when the store is emptied */
	uint32_t trusts_broken;   /* as it was after the last loss */
	int64_t trusted_until_us; /* … before this moment */
	bool away;                /* the shared store was, when last asked */
	int64_t no_leases_us;     /* until then it is known to answer, and to give no leases */
};

/* Orders to the pump. Each concerns one flight or batch, whose op, renew_op, free_op or build is
   filled in. */
enum effect_type {
	EFFECT_STORE,  /* submit flight->op */
	EFFECT_RENEW,  /* submit flight->renew_op */
	EFFECT_PERMIT, /* submit batch->op */
	EFFECT_FREE,   /* submit batch->free_op */
	EFFECT_BUILD,  /* start batch->build */
	EFFECT_CANCEL, /* cancel batch->build */
};
struct effect {
	enum effect_type type;
	union {
		struct flight *flight; /* STORE, RENEW */
		struct batch *batch;   /* the others */
	};
};
/* However many wait on a flight, a step has at most so many effects; engine_wake walks waiters. */
enum { EFFECTS_MAX = 16 };
struct effects {
	struct effect at[EFFECTS_MAX];
	uint32_t count;
};

enum event_type {
	EVENT_ASK,     /* request: cannot be answered at once */
	EVENT_LEAVE,   /* request: its client is gone */
	EVENT_REFRESH, /* refresh: start a flight that nobody waits on */
	EVENT_WARM,    /* warming: build these, as soon as nothing else goes on */
	EVENT_STORE,   /* flight: its op is answered */
	EVENT_RENEWED, /* flight: its renew_op is answered */
	EVENT_PERMIT,  /* batch: its op is answered */
	EVENT_FREED,   /* batch: its free_op is answered */
	EVENT_BUILT,   /* batch: its build is answered */
	EVENT_CHANGED, /* key, fence, hard: it has a new floor */
	EVENT_ROW,     /* row: the same by a change of a row that it is built from */
	EVENT_SETTLED, /* key, fence: another daemon's lease of it ended, or it stored an entry */
	EVENT_EPOCH,   /* epoch: the keyspace has one more */
	EVENT_DEFINED, /* defined: the fleet's definition of the keyspace */
	EVENT_EMPTIED, /* the store has lost what it had, though no change has gone untold */
	EVENT_TRUSTED, /* until_us: before that moment no change can have gone untold */
	EVENT_TICK,    /* a moment that engine_next_at named has come */
	EVENT_STOP,    /* end everything; repeat as long as engine_next_at says now */
};

struct refresh_event {
	struct key key;
	const struct query *query; /* what it is started for: it may want more than fresh */
	enum priority priority;
	int64_t patient_until_us; /* goes on without waiters so long */
	bool again;               /* a build that has begun already is not enough */
	bool newer;               /* than the near entry: one that is fresh is not enough */
	bool looks_only; /* for what the store has: nothing is built, unless someone joins */
	bool joined;     /* out: a flight that is enough was there */
};

struct event {
	enum event_type type;
	int64_t now_us;
	union {
		struct request *request;
		struct refresh_event *refresh;
		struct warming *warming;
		struct flight *flight;
		struct batch *batch;
		struct {
			struct key key;
			uint64_t fence;
			bool hard;
		} told;
		struct {
			struct key key;
			const struct row_change *change;
		} row;
		int64_t until_us;
		struct {
			struct keyspace *keyspace;
			struct epoch epoch;
		} epoch;
		struct {
			struct keyspace *keyspace;
			uint64_t definition;
			struct changeover since;
		} defined;
	};
};

/* An engine for these policies, which it keeps (policy_ref). `secret`: KEY_SECRET_LEN random bytes.
   NULL when memory is missing. */
struct engine *engine_create(const struct policy *policies, uint32_t count,
			     const struct engine_limits *limits, const void *secret, uint64_t seed)
	__attribute__((warn_unused_result));

/* It begins to serve: what others have built before under other policies changes over from now on
   (core/keyspace.h). */
void engine_begin(struct engine *engine, int64_t now_us);

/* Takes other policies and limits, from now on. Keyspaces go by name:
 *
 *   added     is served
 *   changed   its new builds are as the new policy says; values that live longer than it allows, or
 *             that another query brought, are no longer fresh, one after the other
 *             (keyspace_spread_us), and are served stale as long as they may
 *   removed   takes no requests; flights under way end as they would, entries go a few a turn, and
 *             engine_collect tells when nothing is left of it
 *
 * The limit of builds stays. */
enum reload_outcome engine_reload(struct engine *engine, const struct policy *policies,
				  uint32_t count, const struct engine_limits *limits,
				  int64_t now_us) __attribute__((warn_unused_result));

/* The index of a removed keyspace of which nothing is left: free for another. -1: none. To be asked
   after each TICK. */
int engine_collect(struct engine *engine);

/* Nothing may wait or be under way any more. */
void engine_free(struct engine *engine);

/* The keyspace of that name, if it is served, or NULL. */
struct keyspace *engine_keyspace(const struct engine *engine, const char *name, size_t len);

/* Fills `ret_key` for canonical key bytes of a keyspace; borrows both. */
void engine_key(const struct engine *engine, struct keyspace *keyspace, const char *bytes,
		size_t len, struct key *ret_key);

/* The hot path: what the near cache has to say. No event, no allocation. */
enum engine_lookup {
	ENGINE_HIT,         /* ret_answer is the answer */
	ENGINE_HIT_REFRESH, /* likewise, stale: a refresh is due */
	ENGINE_HIT_CROWD,   /* likewise, and many will miss it before a refresh can end */
	ENGINE_HIT_EARLY,   /* likewise, fresh: an early refresh is due */
	ENGINE_MISS,        /* the near cache has no answer */
};
enum engine_lookup engine_lookup(struct engine *engine, const struct query *query, int64_t now_us,
				 struct answer *ret_answer);

/* The hottest of it: a plain get. `hash` is engine_hash() of the key as it came. Its entry, if it
   is plainly fresh and has a value, counted as ENGINE_HIT; NULL: nothing is changed, ask
   engine_lookup(). Only a canonical key can be found like that, which is why it need not be parsed.
   The entry is borrowed until the next call of the engine. */
const struct entry *engine_hit(struct engine *engine, uint64_t hash, const char *bytes, size_t len,
			       int64_t now_us);

/* The same for a key of several: with one caller each both are inlined there, which is worth a
   fifteenth of a hit's instructions. */
const struct entry *engine_hit_of_many(struct engine *engine, uint64_t hash, const char *bytes,
				       size_t len, int64_t now_us);
uint64_t engine_hash(const struct engine *engine, const char *bytes, size_t len);

/* One event. Replaces what is in `effects`. */
void engine_step(struct engine *engine, const struct event *event, struct effects *effects);

/* Decides on one more request that is ready or whose flight is done. The pump calls it again until
   WAKE_NOTHING, some times a turn. On WAKE_ANSWER the request is out of the engine and the answer's
   pointers hold until the next call of the engine; WAKE_MOVED: it waits on another flight now. */
enum engine_wake { WAKE_NOTHING, WAKE_ANSWER, WAKE_MOVED };
enum engine_wake engine_wake(struct engine *engine, int64_t now_us, struct request **ret_request,
			     struct answer *ret_answer, struct effects *effects);

/* The next warming that is over, its owner's again; or NULL. */
struct warming *engine_warmed(struct engine *engine);

/* When engine_wake or a TICK has something to do: a moment, 0 for at once, INT64_MAX for never. */
int64_t engine_next_at(const struct engine *engine);

/* Whether nothing waits and nothing is under way. */
bool engine_is_idle(const struct engine *engine);

/* The near cache's entry of this key, its times as its keyspace has them by now, or NULL. */
struct near_entry *engine_near(struct engine *engine, const struct key *key);

/* The flight of this key that is not DONE, or NULL. */
struct flight *engine_flight(const struct engine *engine, const struct key *key);

/* Walks all invariants; a breach fails a CHECK. For tests: O(everything). */
void engine_check(const struct engine *engine);
