#include "store/alone.h"

#include "base/check.h"
#include "base/mem.h"
#include "store/share.h"

enum {
	LATE_MOST_US = 5 * 1000,     /* a moment may be used so long after it */
	AHEAD_MOST_US = 1000 * 1000, /* no permit reaches further */
	BOOKED_MOST_US = 200 * 1000, /* no request for one does; beyond is a clock put right */
	OWED_US = 1000 * 1000,       /* the second that the budget is for */
	SLOTS_RETRY_US = 20 * 1000,  /* no slot: they come back unannounced */
};

int alone_init(struct alone *alone, double rate_per_s, uint32_t concurrency, uint32_t fleet)
{
	*alone = (struct alone){ .rate_per_s = rate_per_s,
				 .concurrency = concurrency,
				 .in_use_max = share_slots(concurrency, fleet, 0) };
	alone->slots = mem_zalloc(alone->in_use_max * sizeof(*alone->slots));
	return alone->slots ? 0 : -1;
}

void alone_close(struct alone *alone)
{
	mem_free(alone->slots);
	alone->slots = NULL;
}

/* The first free one of the place's slots, or -1. */
static int find_free(const struct alone *alone, uint32_t place, uint32_t of, int64_t now_us)
{
	uint32_t count = share_slots(alone->concurrency, of, place);
	CHECK(count <= alone->in_use_max);
	for (uint32_t i = 0; i < count; i++)
		if (alone->slots[i].until_us <= now_us)
			return (int)i;
	return -1;
}

void alone_permit(struct alone *alone, struct store_op *op, uint32_t place, uint32_t of,
		  int64_t now_us)
{
	int64_t from_us = now_us - LATE_MOST_US;
	if (alone->used_us > now_us + AHEAD_MOST_US)
		alone->used_us = 0; /* by a clock that has been put right since */
	if (from_us <= alone->used_us)
		from_us = alone->used_us + 1;
	int64_t start_us = share_next_us(alone->rate_per_s, of, place, from_us);
	int64_t wait_us = start_us > now_us ? start_us - now_us : 0;
	int nth = find_free(alone, place, of, now_us);
	op->outcome = STORE_RETRY;
	if (wait_us > op->reach_us) {
		op->left_us = wait_us - op->reach_us;
	} else if (nth < 0) {
		op->left_us = SLOTS_RETRY_US;
	} else {
		alone->used_us = start_us;
		alone->slots[nth] =
			(struct alone_slot){ .token = op->token,
					     .until_us = now_us + wait_us + op->length_us };
		op->outcome = STORE_DONE;
		op->slot = (int)share_slot(alone->concurrency, of, place, (uint32_t)nth);
		op->left_us = wait_us;
	}
}

bool alone_answer(struct alone *alone, const struct place *place, struct store_op *op,
		  int64_t store_us, int64_t local_us)
{
	uint32_t number, of;
	op->away = true;
	if (place->full)
		return false;
	if (place_is_alone(place, local_us, &number, &of)) {
		alone_permit(alone, op, number, of, store_us);
	} else {
		op->outcome = STORE_RETRY;
		op->left_us = place->gone_at_us - local_us;
	}
	return true;
}

bool alone_owes(const struct alone *alone, int64_t now_us)
{
	int64_t ago_us = now_us - alone->used_us;
	return ago_us > -AHEAD_MOST_US && ago_us < OWED_US;
}

int64_t alone_booked_us(const struct alone *alone, int64_t now_us)
{
	int64_t left_us = alone->used_us - now_us;
	return left_us > 0 && left_us <= BOOKED_MOST_US ? left_us : 0;
}

bool alone_free(struct alone *alone, uint64_t token)
{
	for (uint32_t i = 0; i < alone->in_use_max; i++) {
		if (alone->slots[i].until_us != 0 && alone->slots[i].token == token) {
			alone->slots[i] = (struct alone_slot){ 0 };
			return true;
		}
	}
	return false;
}
