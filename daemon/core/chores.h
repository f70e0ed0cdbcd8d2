/* What a reload leaves to be done: a bit at a time, so that no request waits for it.
 *
 * The entries of removed keyspaces are dropped, and a near cache that was made smaller evicts down
 * to its new size. engine_reload itself looks at keyspaces only, never at entries.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/engine.h"

/* Whether there is something to do, or something gone to be collected. */
bool chores_are_due(const struct engine *engine);

/* A bit of it. */
void chores_do(struct engine *engine, int64_t now_us);
