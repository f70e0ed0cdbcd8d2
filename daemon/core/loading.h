/* What a load brings: the store's entry and claim, against what the near cache has and what those
 * who wait want. Called by course.c.
 */
#pragma once

#include <stdint.h>

#include "core/engine.h"

enum loading {
	LOADING_LATER,  /* the store may have lost what it had: that will be known in a moment */
	LOADING_GIVE,   /* the store has none, and the near entry is to be given back */
	LOADING_ENOUGH, /* flight->result is an answer to all who wait */
	LOADING_FAILED, /* flight->failure is, remembered or of the store itself */
	LOADING_AGAIN,  /* the value was left out and is not here, or the answer is too old */
	LOADING_BUILD,  /* neither: go on */
};

/* Takes flight->op's answer, its counted parts too. The near cache learns what is new; then, if
   there is still reason to build, waiters that the near cache can answer by now are asked anew. */
enum loading loading_take(struct engine *engine, struct flight *flight, int64_t now_us);

/* Whether an entry of the store is older than what was served of its key here: such as a store that
   failed over has kept, or another saved after this daemon, cut off, had built a newer one. */
bool loading_is_rollback(const struct engine *engine, const struct key *key,
			 const struct entry *entry, int64_t now_us);

/* The near entry is as the store has it, but for what its keyspace says of it: plainly fresh again,
   if that is vouched for, and no change can go untold. */
void loading_confirm(const struct engine *engine, struct near_entry *ne, bool vouched);

/* What near entries have for a trust that nobody has vouched for, or not any more: another one with
   trust than without. */
static inline uint32_t loading_no_trust(const struct engine *engine)
{
	return engine->trusts_broken - (engine->trusted ? 1 : 2);
}

/* The store answered the load, but gave no lease: the flight's result is what was built here the
   last time that it gave none, if that is enough. */
bool loading_keeps_own(struct engine *engine, struct flight *flight, int64_t now_us);

/* The store gives leases: what was built here while it did not is vouched for by nobody. */
void loading_end_own(struct engine *engine, struct flight *flight, int64_t now_us);

/* Those who wait now may be satisfied by what there is by now: engine_wake lets each look once. */
void loading_let_waiters_look(struct engine *engine, struct flight *flight);
