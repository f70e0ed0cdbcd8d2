/* What a change does here: to the near entry, to the flight under way, and whether the key is
 * refreshed at once. Called by engine.c.
 */
#pragma once

#include <stdint.h>

#include "core/engine.h"

/* A key whose row changes while it is built, again and again, is built once in so long (as
   store/lua/lease.lua has it for the fleet). */
enum { CHANGING_AGAIN_US = 1000 * 1000 };

/* The key was invalidated: what was built under a fence up to the floor is not fresh any more. */
void changing_on_invalidated(struct engine *engine, const struct key *key, uint64_t floor,
			     bool hard, int64_t now_us);

/* A row that the key is built from has changed: the same, but for what contains the change. Where
   the policy says so and the key is read a lot, it is refreshed, if there is room. */
void changing_on_row(struct engine *engine, const struct key *key, const struct row_change *change,
		     int64_t now_us, struct effects *effects);
