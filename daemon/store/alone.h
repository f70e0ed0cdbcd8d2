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
#include "store/place.h"

struct alone_slot {
	uint64_t token;
	int64_t until_us; /* free when passed */
};

struct alone {
	double rate_per_s;
	uint32_t concurrency;
	int64_t used_us; /* the last moment that was given out */
	uint32_t in_use_max;
	struct alone_slot *slots; /* owned; as many as a place can have */
};

/* `fleet`: the least that a place is one of. 0, or -1 when memory is missing. */
int alone_init(struct alone *alone, double rate_per_s, uint32_t concurrency, uint32_t fleet)
	__attribute__((warn_unused_result));
void alone_close(struct alone *alone); /* accepts a zeroed one */

/* Answers a PERMIT of the share that place `place` has among `of`, the fleet or more: DONE or
 * RETRY.
 */
void alone_permit(struct alone *alone, struct store_op *op, uint32_t place, uint32_t of,
		  int64_t now_us);

/* Answers a PERMIT that the store did not answer. Until the place's heartbeat has surely ended:
   RETRY then. False, and the outcome is left as it is, where this daemon will have no share. Says
   `away`. */
bool alone_answer(struct alone *alone, const struct place *place, struct store_op *op,
		  int64_t store_us, int64_t local_us);

/* Whether its last moment is less than a second ago, or is to come. */
bool alone_owes(const struct alone *alone, int64_t now_us);

/* How long until its last moment has come, or 0: until then it is not to share in the fleet's. */
int64_t alone_booked_us(const struct alone *alone, int64_t now_us);

/* Takes a slot back; false where the token holds none of these. */
bool alone_free(struct alone *alone, uint64_t token);
