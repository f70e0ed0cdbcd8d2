/* Moments between a daemon and the store: they leave by the store's clock, and come back by the
 * daemon's; what store/verbs.c does with an operation's arguments and answers. Pure.
 */
#pragma once

#include <stdint.h>

#include "core/store.h"
#include "store/era.h"
#include "store/fleet_clock.h"

struct moments {
	struct fleet_clock *clock;
	const struct era *era;
	int64_t local_us;
};

/* A save or release sets out: its failure's end becomes a length. */
void moments_leave(const struct moments *moments, struct store_op *op);

/* The answer has come, in `from`: what it says is added to `op`, its counted parts once more. A
   granted permit's `left_us` is still a moment by the store's clock. */
void moments_come(const struct moments *moments, struct store_op *op, const struct store_op *from);
