/* Rolling invalidation: a keyspace's epochs, each of which ends the freshness of all that was
 * generated before it, spread over a time.
 *
 * Key k expires at moment + hash(k) % spread, by a hash that all daemons agree on: a million keys
 * by one write, nothing deleted, and their refreshes come one after the other. Stale bounds stay as
 * they are, but where no change may be served stale (ON_CHANGE_INVALIDATE) and the epoch has no
 * spread: TRUNCATE has ended all values, or somebody wants them ended at once. The last EPOCHS_MAX
 * are kept; an older one lives on in the oldest kept, which then spares nothing before its own
 * moment. Pure; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/entry.h"

enum { EPOCHS_MAX = 8 };

struct epoch {
	int64_t moment_us;
	int64_t spread_us;
	uint64_t history; /* spares what was built in this history of the origin, or later; 0: none
			   */
};

struct epochs {
	struct epoch at[EPOCHS_MAX]; /* by moment */
	uint32_t count;
};

/* False if it was there already. */
bool epochs_add(struct epochs *epochs, struct epoch epoch);

/* Ends the entry's freshness at its moment in the first epoch after it was generated, if that is
   earlier than its own; `hard`: without a spread its stale time, too. True if it was changed. */
bool epochs_apply(const struct epochs *epochs, struct entry *entry, uint64_t public_hash,
		  bool hard);
