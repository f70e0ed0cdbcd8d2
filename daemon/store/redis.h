/* The store that a fleet shares: Redis.
 *
 * It does what core/store.h asks, one script a step, over three connections: control (small
 * scripts), values (loads and saves, which may be large) and news (what the fleet publishes).
 * Besides, it keeps
 *
 *   the fleet clock   redis_store_now_us: what all moments are by
 *   a place           a number in the fleet, by heartbeats; out of touch, permits come from the
 *                     place's own share
 *   trust             whether all changes are heard of
 *
 *   redis_store_create ──> opened (in touch, or the first attempt failed) ──> … ──>
 * redis_store_close
 *
 * All on the loop's thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/durations.h"
#include "base/store_url.h"
#include "core/store.h"
#include "store/store_error.h"

enum { REDIS_VALUES_WINDOW = 16 * 1024 * 1024 }; /* bytes of values under way to it, of saves */

struct redis_store;

struct redis_options {
	const struct store_url *url; /* TCP or UNIX; copied */
	const char *prefix;          /* 1 to 64 bytes; copied */
	uint32_t concurrency;        /* of these three: the whole fleet's */
	double budget_per_s;
	uint32_t fleet;
	bool standby;          /* builds read one: their snapshots tell what they have seen */
	int64_t trust_us;      /* how long a beat is trusted; 0: never */
	const char *state_dir; /* where the place is kept; copied; NULL: nowhere */
	uint64_t seed;         /* random: tokens and jitter come from it */

	/* Limits of time; 0: the usual ones. */
	uint32_t connect_timeout_ms; /* until a connection is of use: 1 s */
	uint32_t control_timeout_ms; /* for a small script's reply: 1 s */
	uint32_t values_timeout_ms;  /* for a load's or save's: 5 s */

	/* Fires once, later: the daemon may begin. */
	void (*opened)(void *arg);
	void *arg;
};

/* X(name, what it counts): they only grow */
#define REDIS_COUNTER_MAP(X)                                                                       \
	X(commands, "commands sent to the shared store")                                           \
	X(connects, "connections made to it")                                                      \
	X(permits_alone, "permits from this daemon's own share, for the store was out of reach")   \
	X(permits_late, "permits given back, for they came too late")                              \
	X(amends, "leases and slots given back once more, for it was not sure that they were")     \
	X(amends_dropped, "of these, given up: they end by themselves")                            \
	X(saves_foreign,                                                                           \
	  "values not stored, for they were built in another history of the origin")               \
	X(messages, "messages from other daemons")                                                 \
	X(messages_bad, "of these, not understood")                                                \
	X(emptied, "times that the shared store had lost what it had, with trust unbroken")        \
	X(trust_breaks, "gaps in the heartbeats")                                                  \
	X(clock_jumps, "jumps of the shared store's clock")                                        \
	X(changes, "changes of the origin's log that this daemon had applied")                     \
	X(changes_touched, "of these, where a value or a lease was touched")

struct redis_stats {
	const char *state; /* "up"; or "down", then `error` says why; static */
	enum store_error error;
	const char *error_text; /* valid until the loop goes on */
	int64_t rtt_us;         /* of the last clock sample */
	int place;              /* -1: none */
	uint32_t places_live;   /* as of the last permit; 0: not known */
	bool alone;             /* permits come from the place's own share */
	bool trusted;
	uint32_t era;
	int64_t clock_apart_us; /* the store's clock less ours */
	uint32_t waiting;       /* operations under way */
#define X(name, text) uint64_t name;
	REDIS_COUNTER_MAP(X)
#undef X
	uint64_t
		errors[STORE_ERRORS_COUNT]; /* of operations and connections, by enum store_error */
};

/* Starts to connect; never waits. 0 or -ENOMEM. */
int redis_store_create(uv_loop_t *loop, const struct redis_options *options,
		       struct redis_store **ret_redis) __attribute__((warn_unused_result));

/* Whom to tell what the store tells by itself. Without one, nobody; who comes later is told, on the
   next turn, what still holds: the epochs. */
void redis_store_listen(struct redis_store *redis, const struct store_listener *listener);

/* The keyspaces of this daemon from now on: their definitions are told to the fleet, and the
   fleet's to the listener. `insists`: those that are another than before are to be the fleet's,
   whatever others have. */
void redis_store_define(struct redis_store *redis, const struct policy *policies, uint32_t count,
			bool insists);

/* The budget is another from now on. */
void redis_store_set_budget(struct redis_store *redis, double budget_per_s);

/* The interface that the pump takes; valid until redis_store_close. Operations under way when it is
   closed are AWAY. */
struct store redis_store_iface(struct redis_store *redis);

/* The fleet clock, µs: does not go back. Before `opened` it may jump, once. */
int64_t redis_store_now_us(struct redis_store *redis);

/* A moment that the store's clock has surely passed; 0: it has never been heard of. */
int64_t redis_store_passed_us(const struct redis_store *redis);

void redis_store_stats(struct redis_store *redis, struct redis_stats *ret_stats);

/* How long operations of this kind took, from being asked for to their answer, or to none. */
const struct durations *redis_store_latencies(const struct redis_store *redis,
					      enum store_verb verb);

/* Answers what is under way and ends all connections. `closed` (may be NULL) fires once, later; the
   store is gone when it returns. */
void redis_store_close(struct redis_store *redis, void (*closed)(void *arg), void *arg);
