/* From the lease to the result: the permit, the build, and what came of it.
 *
 * The middle of a flight's course; course.c calls it and is called back by nothing here.
 */
#pragma once

#include <stdint.h>

#include "core/engine.h"

/* Asks the store for a permit: the flight is at the head of its line. */
void building_ask(struct flight *flight, int64_t now_us, struct effects *effects);

/* The answer: the build begins, is booked, or won't be; or the flight stays at the head. */
void building_on_permitted(struct engine *engine, struct flight *flight, int64_t now_us,
			   struct effects *effects);

/* BUILDING. The flight holds a lease and a slot. */
void building_begin(struct engine *engine, struct flight *flight, int64_t now_us,
		    struct effects *effects);

/* The origin's answer: the slot goes back, and the result or the failure is to be SETTLING. */
void building_on_built(struct engine *engine, struct flight *flight, int64_t now_us,
		       struct effects *effects);
