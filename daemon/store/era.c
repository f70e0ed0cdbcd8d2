#include "store/era.h"

enum {
	WITNESS_US = 10 * 1000 * 1000,
	JUMP_US = 1000 * 1000, /* as in fleet_clock.c: less is none */
};

void era_saw_jump(struct era *era, int64_t jump_us, int64_t local_us)
{
	era->behind_us = jump_us > era->behind_us ? 0 : era->behind_us - jump_us;
	era->seen_us = era_jump_to_tell(era, local_us) + jump_us;
	era->seen_until_us = local_us + WITNESS_US;
}

int64_t era_jump_to_tell(const struct era *era, int64_t local_us)
{
	return local_us < era->seen_until_us ? era->seen_us : 0;
}

bool era_adopt(struct era *era, uint32_t number, int64_t since_us, int64_t jump_us,
	       int64_t local_us)
{
	if (number == era->number)
		return false;
	struct era before = *era;
	int64_t left_us = before.seen_us - jump_us;
	*era = (struct era){ .number = number,
			     .since_us = since_us,
			     .jump_us = jump_us,
			     .behind_us = before.behind_us };
	if (before.seen_us != 0 && jump_us != 0 && number == before.number + 1 &&
	    (left_us > JUMP_US || left_us < -JUMP_US)) {
		era->seen_us = left_us;
		era->seen_until_us = local_us + WITNESS_US;
	}
	return before.number != 0;
}

uint64_t era_fence(const struct era *era, int64_t now_us)
{
	return era->behind_us > 0 ? (uint64_t)(now_us + era->behind_us) : 0;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static void clamp(struct entry *entry, const struct policy *policy, bool hard, int64_t now_us)
{
	int64_t fresh = entry->absent ? policy->negative_us : policy->fresh_us;
	int64_t fresh_most = now_us + fresh + (int64_t)((double)fresh * policy->jitter);
	entry->generated_at_us = least(entry->generated_at_us, now_us);
	if (entry->changed) {
		/* Whoever changed it has ended it: where our clock is late, it has no time left. */
		entry->fresh_until_us = least(entry->fresh_until_us, now_us);
		if (hard)
			entry->stale_until_us = entry->fresh_until_us;
	}
	entry->fresh_until_us = least(entry->fresh_until_us, fresh_most);
	entry->stale_until_us = least(entry->stale_until_us, fresh_most + policy->stale_us);
}

static void shift(struct entry *entry, int64_t by_us)
{
	entry->generated_at_us += by_us;
	entry->fresh_until_us += by_us;
	entry->stale_until_us += by_us;
}

void era_translate(const struct era *era, struct entry *entry, const struct policy *policy,
		   int64_t now_us, int64_t local_us)
{
	bool hard = entry->changed && entry->stale_until_us <= entry->fresh_until_us;
	if (entry->era + 1 == era->number && entry->era != 0) {
		shift(entry, era->jump_us);
		entry_soft_expire(entry, era->since_us, policy->stale_us);
	} else if (entry->era != era->number) {
		entry_soft_expire(entry, least(entry->generated_at_us, now_us), 0);
		entry_soft_expire(entry, era->since_us, 0);
	}
	shift(entry, least(era_jump_to_tell(era, local_us), 0));
	clamp(entry, policy, hard, now_us);
}

void era_mark(const struct era *era, struct entry *entry, int64_t local_us)
{
	entry->era = era->number;
	shift(entry, least(-era_jump_to_tell(era, local_us), 0));
}
