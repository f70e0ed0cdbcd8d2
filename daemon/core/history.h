/* The origin's history: what this daemon knows of its failovers, and what it does about them.
 *
 * After a failover the origin can continue at lower versions, and may have lost what was cached.
 * The first build or entry of a later history shows it: all that was generated before then expires,
 * spread over HISTORY_SPREAD_US, and loses every comparison. Builds of an earlier history (an old
 * primary that some host still reaches) answer who waited for them and are kept by nobody. Of two
 * systems neither is later: there our own builds tell, and for the fleet the store decides.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/engine.h"

enum {
	HISTORY_SPREAD_US = 30 * 1000 * 1000,
	HISTORY_SILENCE_US = 10 * 1000 * 1000, /* as in store/lua/save.lua */
};

/* A build of ours, or an entry that the store has, is of this history; generated then. False: it is
   of an earlier one than is known, or an entry of another system than we build from: such a one
   counts only if it was generated HISTORY_SILENCE_US after our last build. 0 is unknown, and always
   goes. */
bool history_see_build(struct engine *engine, uint64_t history, int64_t generated_us);
bool history_see_entry(struct engine *engine, uint64_t history, int64_t generated_us);
