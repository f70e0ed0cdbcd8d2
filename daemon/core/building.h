/* From the leases to the origin: the permit, and the build.
 *
 * The middle of a batch's course; core/built.h has what comes of it. course.c calls it and is
 * called back by nothing here.
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

/* The permit is void: nothing was sent in its time. The leases stay. */
void building_miss(struct engine *engine, struct batch *batch, int64_t now_us,
		   struct effects *effects);

/* OVER: room and slot go back, and the members are to be moved on. */
void building_end(struct engine *engine, struct batch *batch, struct effects *effects);

/* The slot is back: of a batch that is OVER, or MISSED its moment and asks for another. */
void building_on_freed(struct engine *engine, struct batch *batch);
