/* The event cache_regeneration: one line of the log for each build of a key, when the store has
 * been told what came of it.
 */
#pragma once

#include "core/pump.h"

/* Logs it, if the keyspace's level allows: info, or warning where the build brought nothing. As
   struct pump_host has it. */
void regeneration_log(void *impl, const struct regeneration *regeneration);
