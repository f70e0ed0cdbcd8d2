/* What the store tells by itself, and what follows from it for the near cache and the flights.
 * engine.c calls these.
 */
#pragma once

#include <stdint.h>

#include "core/engine.h"

/* The key has a new floor: what was built under a fence up to it is not fresh any more; `hard`: nor
   may it be served stale. */
void told_changed(struct engine *engine, const struct key *key, uint64_t floor, bool hard,
		  int64_t now_us);

/* Another daemon stored an entry under this fence, or gave its lease of the key back. */
void told_settled(struct engine *engine, const struct key *key, uint64_t fence, int64_t now_us,
		  struct effects *effects);

/* Until that moment no change can have gone untold; in the past: trust is lost. */
void told_trusted(struct engine *engine, int64_t until_us, int64_t now_us);
