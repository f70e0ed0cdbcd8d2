/* A flight: the one refresh of a key under way in this daemon, with the requests that wait on it.
 *
 *   LOADING ──> QUEUED ──> LEASING ──> PERMITTING ──> BOOKED ──> BUILDING ──> SETTLING ──> DONE
 *      ^   └──────────────────^  │           └───────────┴───────────^  ^          │
 *      │                         │  (no permit in time, nobody waits: ──┼─────────>│)
 *      └───────── HELD <─────────┴─────── (a lock at the origin is held) ┴─────────┘
 *
 * A flight that gives an entry back goes LOADING ──> LEASING ──> GIVING ──> SETTLING, on no batch;
 * a beat that was too early takes it back to GIVING. BOOKED and BUILDING go back to PERMITTING
 * where the permit's moment was missed.
 *
 *   LOADING     waits for the store: the key's entry and claim
 *   QUEUED      waits for room in the bulkhead
 *   LEASING     waits for the store: the lease
 *   HELD        waits for another's build to end; then loads again
 *   GIVING      holds the lease; waits for a beat, to give the near entry back (core/giving.h)
 *   PERMITTING  holds the lease; waits for company, for its turn to ask, and for the store's answer
 *   BOOKED      holds the lease; waits for its moment
 *   BUILDING    waits for the origin
 *   SETTLING    waits for the store: save the result, or give the lease back with the failure
 *   DONE        out of the engine's table; waits until its waiters are woken and its calls are back
 *
 * From QUEUED to BUILDING it is on a batch (core/batch.h), alone or with others of its keyspace.
 *
 * The engine owns a flight from creation until it is DONE, without waiters and without calls under
 * way. In every state up to DONE, any request for its key joins it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/list.h"
#include "base/table.h"
#include "core/batch.h"
#include "core/bulkhead.h"
#include "core/entry.h"
#include "core/failure.h"
#include "core/keyspace.h"
#include "core/origin.h"
#include "core/request.h"
#include "core/store.h"

/* X(NAME, name, states it may go to) */
#define FLIGHT_STATE_MAP(X)                                                                        \
	X(LOADING, loading, TO(QUEUED) | TO(LEASING) | TO(HELD) | TO(DONE))                        \
	X(QUEUED, queued, TO(LEASING) | TO(DONE))                                                  \
	X(LEASING, leasing, TO(PERMITTING) | TO(GIVING) | TO(HELD) | TO(SETTLING) | TO(DONE))      \
	X(GIVING, giving, TO(SETTLING))                                                            \
	X(HELD, held, TO(LOADING) | TO(DONE))                                                      \
	X(PERMITTING, permitting, TO(BOOKED) | TO(BUILDING) | TO(SETTLING))                        \
	X(BOOKED, booked, TO(BUILDING) | TO(PERMITTING) | TO(SETTLING))                            \
	X(BUILDING, building, TO(PERMITTING) | TO(SETTLING))                                       \
	X(SETTLING, settling, TO(GIVING) | TO(HELD) | TO(DONE))                                    \
	X(DONE, done, 0)

enum flight_state {
#define X(NAME, name, next) FLIGHT_##NAME,
	FLIGHT_STATE_MAP(X)
#undef X
};
const char *flight_state_name(enum flight_state state);

struct flight {
	struct table_node node;   /* in the engine's flights, until DONE */
	struct list_node link;    /* among its batch's members, or those to wake */
	struct list_node step;    /* among those to be moved on */
	struct batch *batch;      /* borrowed; NULL: on none */
	uint32_t client;          /* who asked first: its place in the queue is that one's */
	struct list_node looking; /* in the engine's list of those whose waiters look again */
	uint32_t looks;           /* so many, from the front of `waiters` */
	struct list_node all;     /* in the engine's list of all flights, DONE ones included */
	struct heap_node renewal; /* among the leases to be renewed */
	struct heap_node timer;   /* HELD: load again; QUEUED, HELD: patience ends; SETTLING: the
				    store is slow to save */
	struct key key;           /* bytes: its own, below */
	enum flight_state state;
	enum priority priority;
	enum refresh_cause cause; /* why it was begun */
	bool has_trace;           /* it was for a request that has a trace: `trace` */
	struct trace trace;
	struct warming *warming;  /* borrowed; what it was begun for; NULL: nothing, or told */
	uint32_t warming_index;   /* its key there */
	bool warming_boards;      /* it is to take its seat on the warming's batch */
	bool awaited;             /* a get waits for its value, or has */
	struct list waiters;      /* of struct request */
	int64_t patient_until_us; /* without waiters it goes on so long; in the past: background */
	int64_t last_deadline_us; /* no waiter's deadline is later */
	int64_t created_at_us;
	int64_t wanted_at_us; /* when it was known that it has to build */
	int64_t leased_at_us, lease_took_us;
	int64_t begun_at_us; /* its build; 0: none since it last settled */
	uint32_t holds;      /* times it was HELD: the intervals grow */
	bool alone;          /* its batch failed, perhaps by another's fault: on no other */
	bool stop;           /* the engine stops: take every early way out */
	bool looks_only;     /* not to build, as long as nobody waits */
	bool is_postponed;   /* HELD, since what its waiter asks for was not there lately */
	/* … until then, also where it has looked meanwhile what another has brought; 0: not */
	int64_t postponed_until_us;

	/* Order against requests: numbers of the engine's one sequence; 0: not yet. */
	uint64_t load_seq;   /* when the last load was sent */
	uint64_t build_seq;  /* when the build began */
	uint64_t settle_seq; /* when it was settled that it brings nothing */

	/* What was known when the store was last asked what it has, and what it told since. */
	bool asked_trusted;
	uint32_t asked_trusts;
	uint64_t told_fence; /* the greatest of an entry; 0: none */

	/* What the store said. */
	bool away;             /* the shared store is: all this is this daemon's own */
	int64_t asked_anew_us; /* when it last asked for a lease because the store gave a permit but
				  had given none; 0: never */
	uint64_t load_fence;   /* the claim's at load: a greater one was leased after that */
	uint64_t floor; /* the claim's: builds of no greater fence are not known to be after a
			   change */
	struct row_change told; /* the last change told, of all since it began; floor 0: none */
	bool told_of_row;       /* … one of them was a row's */
	uint64_t hard_floor;    /* of the last hard one: what is below is not served stale either */

	/* What the waiters want together. */
	bool want_newer;     /* built after they came */
	bool want_younger;   /* or built less long ago than `younger_us` */
	int64_t younger_us;  /* the least that anyone asks for */
	uint64_t newer_than; /* built under a greater fence: than an early refresh's, or what was
				not enough at load */
	bool want_min_version;
	int64_t min_version; /* the greatest asked for */

	/* The lease. */
	uint64_t token;
	bool has_lease;
	uint32_t streak;          /* failed builds in a row before this one */
	int64_t lease_ends_us;    /* it is renewed up to here, not beyond */
	int64_t build_timeout_us; /* the policy's, when the lease was given */
	uint64_t fence;

	/* The near entry that it gives back to the store. */
	bool gives;
	uint32_t give_tries;  /* saves of it; not 0: it gives nothing more */
	uint64_t gives_fence; /* of that entry; 0: none any more */

	/* A refresh call without a waiter that came too late for the build under way. */
	bool again;
	int64_t again_until_us;
	bool again_has_trace;
	struct trace again_trace;

	/* The result: an entry, a failure, or neither (dropped). */
	bool has_result;
	bool saved;          /* the store took it: it may be served to anyone */
	int64_t covers;      /* greatest min_version asked before the build began */
	uint64_t definition; /* the keyspace's, when the build began */
	struct entry result; /* value counted */
	enum answer_source source;
	enum answer_reason reason; /* why it is not as good as it looks; NONE: it is */
	struct failure failure;    /* text counted; status OK: none */
	bool hold_next;            /* SETTLING goes to HELD: nothing came of the build */
	bool goes_apart;           /* … which is to be built alone now, whoever waits */

	struct pump *pump; /* borrowed; the pump's own way back from a call */

	/* Calls under way, besides its batch's: `renew_op` may be beside `op`. */
	uint32_t calls;
	struct store_op op;
	struct store_op renew_op;
	bool renewing;
	struct build build; /* its part of what the batch builds */

	char bytes[]; /* the key */
};

/* A new flight in LOADING, or NULL when memory is missing. */
struct flight *flight_create(const struct key *key, enum priority priority, int64_t now_us)
	__attribute__((warn_unused_result));

/* Frees the flight. It must be in no list, have no waiters and no calls under way. */
void flight_free(struct flight *flight);

/* The only writer of flight->state: checks that the move is allowed. */
void flight_move(struct flight *flight, enum flight_state to);

/* Whether an entry, the result or one that the store has, is overtaken by a change told since. What
   the store knows of changes it has entered in what it answers. */
bool flight_is_told_of(const struct flight *flight, const struct entry *entry);

/* Whether the flight's result is overtaken by a change: its fence is not above the key's floor, and
   it does not contain the change. */
bool flight_is_dirty(const struct flight *flight);

/* Whether that change was a hard one. */
bool flight_is_forbidden(const struct flight *flight);

/* Whether the request arrived before the result's build began (on another host: was leased): then
   the result answers it, always. */
bool flight_built_after(const struct flight *flight, const struct request *request);

/* Whether someone who waits wants what was built less long ago than that entry. */
bool flight_wants_younger(const struct flight *flight, const struct entry *entry, int64_t now_us);

/* Nobody waits, and nobody asked for it to be done later: it takes what is free, or goes. */
bool flight_is_background(const struct flight *flight, int64_t now_us);

#define FLIGHT_STOPPING "the daemon is stopping"

/* Notes why the flight brings nothing, in static words. */
void flight_refuse(struct flight *flight, enum status status, const char *why, int64_t retry_in_us);

/* The same, in words of others; takes over the text's reference. */
void flight_fail(struct flight *flight, enum status status, struct value *text,
		 int64_t retry_in_us);
