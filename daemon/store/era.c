#include "store/era.h"

enum { WITNESS_US = 10 * 1000 * 1000 };

void era_saw_jump(struct era *era, int64_t jump_us, int64_t local_us)
{
	era->seen_us = jump_us;
	era->seen_until_us = local_us + WITNESS_US;
}

int64_t era_jump_to_tell(const struct era *era, int64_t local_us)
{
	return local_us < era->seen_until_us ? era->seen_us : 0;
}

bool era_adopt(struct era *era, uint32_t number, int64_t since_us, int64_t jump_us)
{
	if (number == era->number)
		return false;
	bool first = era->number == 0;
	*era = (struct era){ .number = number, .since_us = since_us, .jump_us = jump_us };
	return !first;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static void clamp(struct entry *entry, const struct policy *policy, int64_t now_us)
{
	int64_t fresh = entry->absent ? policy->negative_us : policy->fresh_us;
	int64_t fresh_most = now_us + fresh + (int64_t)((double)fresh * policy->jitter);
	entry->generated_at_us = least(entry->generated_at_us, now_us);
	if (entry->changed) {
		/* Whoever changed it has ended it: where our clock is late, it has no time left. */
		bool hard = entry->stale_until_us <= entry->fresh_until_us;
		entry->fresh_until_us = least(entry->fresh_until_us, now_us);
		if (hard)
			entry->stale_until_us = least(entry->stale_until_us, now_us);
	}
	entry->fresh_until_us = least(entry->fresh_until_us, fresh_most);
	entry->stale_until_us = least(entry->stale_until_us, fresh_most + policy->stale_us);
}

void era_translate(const struct era *era, struct entry *entry, const struct policy *policy,
		   int64_t now_us)
{
	if (entry->era + 1 == era->number && entry->era != 0) {
		entry->generated_at_us += era->jump_us;
		entry->fresh_until_us += era->jump_us;
		entry->stale_until_us += era->jump_us;
		entry_soft_expire(entry, era->since_us, policy->stale_us);
	} else if (entry->era == era->number + 1) {
		/* Of an era that we have not heard of yet. */
		entry_soft_expire(entry, now_us, policy->stale_us);
	} else if (entry->era != era->number) {
		entry_soft_expire(entry, least(entry->generated_at_us, now_us), 0);
		entry_soft_expire(entry, era->since_us, 0);
	}
	clamp(entry, policy, now_us);
}
