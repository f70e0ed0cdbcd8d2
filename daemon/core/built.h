/* What came of a build: first for its batch, then for each of its keys.
 *
 * Called by course.c, after core/building.h.
 */
#pragma once

#include <stdint.h>

#include "core/engine.h"

/* The origin's answer: the batch is over, or asks for another permit; the breaker hears of it. */
void built_on_answered(struct engine *engine, struct batch *batch, int64_t now_us,
		       struct effects *effects);

/* One member's turn: its result or failure is to be SETTLING. */
void built_take(struct engine *engine, struct flight *flight, int64_t now_us,
		struct effects *effects);
