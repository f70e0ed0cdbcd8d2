/* A flight's lease: asked for, given, held elsewhere.
 *
 * Part of its course, between the look into the store and the batch; course.c calls it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/engine.h"

enum { LEASING_HELD_MOST_US = 1000 * 1000 };

/* LEASING. */
void leasing_ask(struct engine *engine, struct flight *flight, struct effects *effects);

/* The store's answer: on to the permit, HELD, or DONE. */
void leasing_on_answered(struct engine *engine, struct flight *flight, int64_t now_us,
			 struct effects *effects);

/* HELD: waits for another's build to end, which the store tells if all goes well; else looks again,
   at the latest when the lease lapses. `left_us` 0: unknown. */
void leasing_hold(struct engine *engine, struct flight *flight, int64_t left_us, int64_t now_us);

/* A warm-up is for the fleet: what only this daemon would have is not worth a build. */
bool leasing_is_in_vain(const struct flight *flight, int64_t now_us);
void leasing_refuse_away(struct flight *flight);
