#include "core/entry.h"

#include <string.h>

#include "base/check.h"

void entry_set_times(struct entry *entry, const struct policy *policy, int64_t fresh_us,
		     int64_t stale_us, struct rng *rng)
{
	int64_t fresh = fresh_us >= 0 ? fresh_us : policy->fresh_us;
	int64_t stale = stale_us >= 0 ? stale_us : policy->stale_us;
	if (entry->absent)
		fresh = policy->negative_us;
	if (entry->absent && fresh == 0)
		stale = 0; /* not remembered at all */
	int64_t spread = (int64_t)((double)fresh * policy->jitter);
	CHECK(fresh >= 0 && spread >= 0 && spread <= fresh);
	entry->own_times = !entry->absent && (fresh_us >= 0 || stale_us >= 0);
	entry->fresh_until_us = entry->generated_at_us + fresh + rng_between(rng, -spread, spread);
	entry->stale_until_us = entry->fresh_until_us + stale;
}

enum entry_phase entry_phase(const struct entry *entry, int64_t now_us)
{
	if (now_us < entry->fresh_until_us)
		return ENTRY_FRESH;
	return now_us < entry->stale_until_us ? ENTRY_STALE : ENTRY_DEAD;
}

uint64_t history_of(uint64_t system, uint32_t timeline)
{
	/* The identifier's low bits are a process id and the microsecond of initdb; its high bits
	   the second. Mixed, so that cutting it loses neither (splitmix64's finaliser). */
	system = (system ^ (system >> 30)) * 0xbf58476d1ce4e5b9u;
	system ^= system >> 27;
	return system << HISTORY_TIMELINE_BITS | (timeline & ((1u << HISTORY_TIMELINE_BITS) - 1));
}

bool history_is_one_system(uint64_t a, uint64_t b)
{
	return a >> HISTORY_TIMELINE_BITS == b >> HISTORY_TIMELINE_BITS;
}

bool history_is_later(uint64_t a, uint64_t b)
{
	return history_is_one_system(a, b) && a > b;
}

bool entry_supersedes(const struct entry *a, const struct entry *b, bool single_row)
{
	if (history_is_later(a->history, b->history))
		return true;
	if (history_is_later(b->history, a->history))
		return false;
	bool by_version = a->history == b->history && a->definition == b->definition &&
			  single_row && a->has_version && b->has_version && !a->absent &&
			  !b->absent;
	if (by_version && a->version != b->version)
		return a->version > b->version;
	return a->fence > b->fence;
}

bool entry_is_same(const struct entry *a, const struct entry *b, bool single_row)
{
	if (a->absent || b->absent)
		return a->absent && b->absent;
	if (single_row && a->has_version && b->has_version && a->version == b->version)
		return true;
	if (!a->value || !b->value)
		return !a->value && !b->value;
	return a->value->len == b->value->len &&
	       memcmp(a->value->bytes, b->value->bytes, a->value->len) == 0;
}

bool entry_covers(const struct entry *entry, int64_t min_version, bool single_row)
{
	if (single_row && entry->has_version)
		return entry->version >= min_version;
	return entry->covers >= min_version;
}

int64_t entry_matters_until(const struct entry *entry, const struct policy *policy)
{
	int64_t fresh = policy->fresh_us + (int64_t)((double)policy->fresh_us * policy->jitter);
	int64_t until = entry->generated_at_us + fresh + policy->stale_us;
	return until > entry->stale_until_us ? until : entry->stale_until_us;
}

void entry_soft_expire(struct entry *entry, int64_t at_us, int64_t stale_us)
{
	entry->changed = true;
	if (entry->fresh_until_us > at_us)
		entry->fresh_until_us = at_us;
	if (entry->stale_until_us > at_us + stale_us)
		entry->stale_until_us = at_us + stale_us;
}
