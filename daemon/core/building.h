/* From the leases to the results: the permit, the build, and what came of it.
 *
 * The middle of the course: a batch's up to the origin's answer, then again each flight's. course.c
 * calls it and is called back by nothing here.
 */
#pragma once

#include <stdint.h>

#include "core/engine.h"

/* Asks the store for a permit: the batch is at the head of its line. */
void building_ask(struct batch *batch, int64_t now_us, struct effects *effects);

/* The answer: the build begins, is booked, or won't be; or the batch stays at the head. */
void building_on_permitted(struct engine *engine, struct batch *batch, int64_t now_us,
			   struct effects *effects);

/* BUILDING. All members hold their leases, and the batch its slot. */
void building_begin(struct engine *engine, struct batch *batch, int64_t now_us,
		    struct effects *effects);

/* BOOKED: its moment has come, or nobody is left to wait for it. */
void building_on_timer(struct engine *engine, struct batch *batch, int64_t now_us,
		       struct effects *effects);

/* Asks the origin for an early end, once. */
void building_cancel(struct batch *batch, struct effects *effects);

/* The origin's answer: room and slot go back, and the members are to be moved on. */
void building_on_answered(struct engine *engine, struct batch *batch, int64_t now_us,
			  struct effects *effects);

/* The slot is back: of a batch that is OVER, or MISSED its moment and asks for another. */
void building_on_freed(struct engine *engine, struct batch *batch);

/* One member's turn: its result or failure is to be SETTLING. */
void building_on_built(struct engine *engine, struct flight *flight, int64_t now_us,
		       struct effects *effects);
