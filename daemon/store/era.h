/* The era: changes when the store's clock jumps, as after a failover to a server with another one.
 *
 * Entries carry the era whose clock their moments are by. One of the era before is translated by
 * the jump and counts as expired when the new era began: stale replies end at most `stale` after
 * that. Of other eras, also of one that is news to us, nobody here knows the clock: their entries
 * are dead.
 *
 * From a jump that is seen up to the new era, an entry of this era may be by either clock, and
 * whether it was the store's that jumped is not settled: it is taken, and written, as being by the
 * one by which it is older. Pure. One owner.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/entry.h"

struct era {
	uint32_t number;       /* 0: not known yet */
	int64_t since_us;      /* when it began, by its own clock */
	int64_t jump_us;       /* its clock less that of the era before */
	int64_t behind_us;     /* by so much its clock has been ahead, as far as we saw */
	int64_t seen_us;       /* a jump that we saw, and that is not yet this era's; 0: none */
	int64_t seen_until_us; /* local: then nobody else saw it, and it was our own clock's */
};

/* A jump has been seen at this local moment; it adds to one that is not this era's yet. */
void era_saw_jump(struct era *era, int64_t jump_us, int64_t local_us);

/* The jump that is to be told to the store, or 0. */
int64_t era_jump_to_tell(const struct era *era, int64_t local_us);

/* Takes what the store says the era is, in the reply whose time was sampled just now. True if that
   is news (not so the first time). Where we saw another jump than it has, the rest is to be told.
 */
bool era_adopt(struct era *era, uint32_t number, int64_t since_us, int64_t jump_us,
	       int64_t local_us);

/* Makes an entry's moments ones of this era's clock, by which it is now `now_us`. Clamps them, too:
   nothing lives longer from now than the policy allows, and what was changed is not fresh. */
void era_translate(const struct era *era, struct entry *entry, const struct policy *policy,
		   int64_t now_us, int64_t local_us);

/* What a new fence must be above, so that fences grow though the store's clock, which says
   `now_us`, has gone back since we know it: else 0. */
uint64_t era_fence(const struct era *era, int64_t now_us);

/* Makes an entry, whose moments are by the store's clock, one of this era. */
void era_mark(const struct era *era, struct entry *entry, int64_t local_us);
