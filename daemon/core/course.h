/* A flight's course: from each answer of the store and the origin to the next call, up to DONE.
 *
 * The engine's second half; engine.c and wake.c call it. Each function leaves the flight in a state
 * that waits for something, or DONE, or freed, and pushes a few effects at most, however many wait.
 */
#pragma once

#include <stdint.h>

#include "core/engine.h"

/* Starts a flight for the key: LOADING, or HELD for `delay_us` first. NULL when memory or a limit
   is missing. */
struct flight *course_start(struct engine *engine, const struct key *key, enum priority priority,
			    int64_t delay_us, int64_t now_us, struct effects *effects);

/* Starts one that only looks what the store has, if there is room. */
void course_look(struct engine *engine, const struct key *key, int64_t now_us,
		 struct effects *effects);

/* Answers of the calls. */
void course_on_store(struct engine *engine, struct flight *flight, int64_t now_us,
		     struct effects *effects);

/* The lease is to be renewed, and the renewal's answer. */
void course_on_renewal(struct engine *engine, struct flight *flight, int64_t now_us,
		       struct effects *effects);
void course_on_renewed(struct engine *engine, struct flight *flight, int64_t now_us);

/* The store tells that another's lease of the key has ended: HELD loads again at once. */
void course_on_told(struct engine *engine, struct flight *flight, int64_t now_us,
		    struct effects *effects);

/* One that is postponed loads now: there may be news, or one who asks for less. */
void course_hurry(struct engine *engine, struct flight *flight, int64_t now_us,
		  struct effects *effects);

/* The flight's timer has come: HELD loads again, QUEUED has lost its patience, the store is slow to
   save what SETTLING has. */
void course_on_timer(struct engine *engine, struct flight *flight, int64_t now_us,
		     struct effects *effects);

/* The batch's: it waits for company no longer, or its moment to start is there. */
void course_on_batch_timer(struct engine *engine, struct batch *batch, int64_t now_us,
			   struct effects *effects);

/* A waiter has left; without any, and without patience, a flight that stands in line goes too. */
void course_on_left(struct engine *engine, struct flight *flight, int64_t now_us,
		    struct effects *effects);

/* Raises the flight to a more urgent priority, wherever it stands in line. */
void course_raise(struct engine *engine, struct flight *flight, enum priority priority);

/* Lets queued batches into free room, moves on the flights that are to be, and has the head of the
   permit line ask: a few a call. */
void course_advance(struct engine *engine, int64_t now_us, struct effects *effects);

/* Whether course_advance has something to do at `now_us`. */
bool course_can_advance(const struct engine *engine, int64_t now_us);

/* The engine stops: the quickest way out from where the flight stands. */
void course_stop(struct engine *engine, struct flight *flight, int64_t now_us,
		 struct effects *effects);
