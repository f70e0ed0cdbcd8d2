/* A batch: flights of one keyspace that go to the origin together. It takes one place in the
 * bulkhead, one permit and one statement for all its members; leases, results and failures are each
 * flight's own. Where the keyspace has no batch query, or a flight must go alone, it has one
 * member.
 *
 *                                ┌────── MISSED <─────────┐
 *                                v            ^           │
 *   QUEUED ──> GATHERING ──> PERMITTING ──> BOOKED ──> BUILDING ──> OVER
 *      │           │           │  └─────────────────────^            ^
 *      └───────────┴───────────┴──── (no member is left) ────────────┘
 *
 * A warming's (core/warming.h) is PERMITTING first, without members, and then GATHERING: from there
 * it is BOOKED, and starts at once. It does not ask anew for what it MISSED.
 *
 *   QUEUED      waits for room in the bulkhead
 *   GATHERING   waits for its members' leases, and for company until it is closed: it is full, or
 *               the keyspace's `linger` has passed since it was opened
 *   PERMITTING  waits for its turn to ask for a permit, and for the store's answer
 *   BOOKED      holds a slot; waits for its moment
 *   BUILDING    waits for the origin; who is in it stays in it
 *   MISSED      its moment was over before the build was sent: gives the slot back, and asks anew
 *   OVER        has given back its room and its slot; waits until its members have gone on, one
 *               after the other, and its calls are back
 *
 * Its flights move along: QUEUED and LEASING up to GATHERING, then PERMITTING, BOOKED, BUILDING.
 * The engine owns a batch from the boarding of its first member (core/boarding.h) until it is OVER
 * and empty, and without calls.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/list.h"
#include "core/bulkhead.h"
#include "core/keyspace.h"
#include "core/store.h"

/* X(NAME, name, states it may go to) */
#define BATCH_STATE_MAP(X)                                                                         \
	X(QUEUED, queued, TO(GATHERING) | TO(OVER))                                                \
	X(GATHERING, gathering, TO(PERMITTING) | TO(BOOKED) | TO(OVER))                            \
	X(PERMITTING, permitting, TO(BOOKED) | TO(BUILDING) | TO(GATHERING) | TO(OVER))            \
	X(BOOKED, booked, TO(BUILDING) | TO(MISSED) | TO(OVER))                                    \
	X(BUILDING, building, TO(MISSED) | TO(OVER))                                               \
	X(MISSED, missed, TO(PERMITTING) | TO(OVER))                                               \
	X(OVER, over, 0)

enum batch_state {
#define X(NAME, name, next) BATCH_##NAME,
	BATCH_STATE_MAP(X)
#undef X
};
const char *batch_state_name(enum batch_state state);

struct build;
struct flight;
struct pump;
struct warming;

struct batch {
	struct list_node all;  /* in the engine's list of all batches */
	struct list_node link; /* in a permit line */
	struct bulkhead_ticket ticket;
	struct heap_node timer; /* GATHERING: it closes; BOOKED: it starts */
	int64_t start_us;       /* BOOKED: the moment of its permit */
	struct keyspace *keyspace;
	enum batch_state state;
	enum priority priority; /* the most urgent that any member had */
	struct list members;    /* of struct flight */
	uint32_t seats;
	uint32_t leasing; /* members that have no lease yet */
	bool closed;      /* nobody boards any more */
	bool is_probe;    /* of the breaker: must report */
	bool cancelled;
	int64_t closes_at_us;
	struct warming *warming; /* borrowed; whose it is; NULL: nobody's, or it is over */
	uint64_t token;          /* names its slot in the store */
	bool has_slot;
	int slot;

	/* Calls under way: at most one of `op` and the build at a time, `free_op` beside them. */
	uint32_t calls;
	struct store_op op;
	struct store_op free_op;
	struct build *build; /* the first member's: the head of the chain; BUILDING */

	struct pump *pump; /* borrowed; the pump's own way back from a call */
};

/* A new batch, QUEUED, a user of the keyspace; or NULL when memory is missing. */
struct batch *batch_create(struct keyspace *keyspace, uint32_t seats, enum priority priority,
			   uint64_t token) __attribute__((warn_unused_result));

/* Frees the batch. It must be in no list, have no members, room, slot or calls. */
void batch_free(struct batch *batch);

/* The only writer of batch->state: checks that the move is allowed. */
void batch_move(struct batch *batch, enum batch_state to);

/* The least time that any member's lease allows its build: a reload can change that between one and
   the next. At least one. */
int64_t batch_timeout_us(const struct batch *batch);

/* All members are background (flight_is_background). */
bool batch_is_background(const struct batch *batch, int64_t now_us);
