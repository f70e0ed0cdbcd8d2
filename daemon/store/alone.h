/* Permits without the store: a daemon's own share (share.h), while it is out of touch.
 *
 * Each of the place's moments gives one permit, and the place's slots bound how many builds run.
 * Moments are by the store's clock, as far as that is known. One owner, on the loop's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "core/store.h"

struct alone_slot {
	uint64_t token;
	int64_t until_us; /* free when passed */
};

struct alone {
	double rate_per_s;
	uint32_t concurrency;
	uint32_t fleet;
	int64_t used_us; /* the last moment that was given out */
	uint32_t in_use_max;
	struct alone_slot *slots; /* owned; as many as a place can have */
};

/* 0, or -1 when memory is missing. */
int alone_init(struct alone *alone, double rate_per_s, uint32_t concurrency, uint32_t fleet)
	__attribute__((warn_unused_result));
void alone_close(struct alone *alone); /* accepts a zeroed one */

/* Answers a PERMIT: DONE or RETRY. */
void alone_permit(struct alone *alone, struct store_op *op, uint32_t place, int64_t now_us);

/* Takes a slot back; false where the token holds none of these. */
bool alone_free(struct alone *alone, uint64_t token);
