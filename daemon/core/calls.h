/* The calls that flights and batches make: each fills in its operation and becomes an effect, which
 * the pump carries out; its answer comes back as an event. Below course.c and building.c.
 */
#pragma once

#include "core/engine.h"

/* Adds an order to the step's effects; there is always room (EFFECTS_MAX). */
void calls_push(struct effects *effects, enum effect_type type, struct flight *flight);
void calls_push_batch(struct effects *effects, enum effect_type type, struct batch *batch);

/* One store operation of the flight's own, in flight->op; the caller may fill in more of it. */
void calls_store(struct flight *flight, enum store_verb verb, struct effects *effects);

/* The same for a question about what the store has: its answer can be vouched for, or not. */
void calls_ask(const struct engine *engine, struct flight *flight, enum store_verb verb,
	       struct effects *effects);

/* Whether what the store has answered holds as long as trust does: nothing can have gone untold
   since it was asked, nor was it told of an entry with a greater fence than that of its answer. */
bool calls_are_vouched(const struct engine *engine, const struct flight *flight, uint64_t fence);

/* Whether the answer says nothing of now: it was under way for too long, and is not vouched for. */
bool calls_are_old(const struct engine *engine, const struct flight *flight, uint64_t fence,
		   int64_t now_us);

/* Gives the lease back, remembering the failure if that has a time: SETTLING. */
void calls_release(struct engine *engine, struct flight *flight, struct effects *effects);

/* Gives the slot back: its statement has ended, or was never sent. */
void calls_free(struct engine *engine, struct batch *batch, struct effects *effects);
