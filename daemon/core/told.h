/* What the store tells by itself but of changes (changing.h), and what follows from it for the near
 * cache and the flights. engine.c calls these.
 */
#pragma once

#include <stdint.h>

#include "core/engine.h"

/* Another daemon stored an entry under this fence, or gave its lease of the key back. */
void told_settled(struct engine *engine, const struct key *key, uint64_t fence, int64_t now_us,
		  struct effects *effects);

/* Until that moment no change can have gone untold; in the past: trust is lost. */
void told_trusted(struct engine *engine, int64_t until_us, int64_t now_us);
