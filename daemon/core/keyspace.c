#include "core/keyspace.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/sql_text.h"

enum { SPREAD_USUAL_US = 60 * 1000 * 1000 };

uint64_t key_hash(const void *secret, const char *bytes, size_t len)
{
	return XXH3_64bits_withSecret(bytes, len, secret, KEY_SECRET_LEN);
}

uint64_t key_public_hash(const char *bytes, size_t len)
{
	return XXH3_64bits(bytes, len);
}

/* ---- policies ----------------------------------------------------------------------------- */

/* Comments and white space count as one blank, and as nothing at either end. */
static uint64_t hash_query(const char *query, uint64_t seed)
{
	XXH3_state_t state = { 0 };
	XXH3_64bits_reset_withSeed(&state, seed);
	for (const char *at = sql_text_skip_blank(query), *end, *next; *at; at = next) {
		end = sql_text_skip(at);
		next = sql_text_skip_blank(end);
		XXH3_64bits_update(&state, at, (size_t)(end - at));
		if (next != end && *next)
			XXH3_64bits_update(&state, " ", 1);
	}
	return XXH3_64bits_digest(&state);
}

/* All daemons must agree on it, so it is part of what they share: as lasting as the store's
   layout. */
uint64_t keyspace_definition(const struct policy *policy)
{
	const char *query = policy->query ? policy->query : "";
	uint64_t definition = hash_query(query, policy->single_row);
	if (policy->batch.query)
		definition = hash_query(policy->batch.query, definition);
	return definition ? definition : 1;
}

int64_t keyspace_spread_us(const struct policy *policy)
{
	if (policy->changeover_us > 0)
		return policy->changeover_us;
	return policy->fresh_us < SPREAD_USUAL_US ? policy->fresh_us : SPREAD_USUAL_US;
}

static bool has_same_bounds(const struct policy *a, const struct policy *b)
{
	return a->fresh_us == b->fresh_us && a->jitter == b->jitter && a->stale_us == b->stale_us &&
	       a->negative_us == b->negative_us;
}

/* It is built at other costs from now on. */
static void redefine(struct keyspace *keyspace, uint64_t definition, const struct changeover *since)
{
	keyspace->definition = definition;
	keyspace->defined = *since;
	keyspace->superseded = false;
	keyspace->refresh_us = keyspace->slow_build_us = 0;
	keyspace->generation++;
}

void keyspace_begin(struct keyspace *keyspace, int64_t now_us)
{
	const struct changeover since = { now_us, keyspace_spread_us(keyspace->policy) };
	keyspace->bounded = since;
	if (keyspace->defined.moment_us == 0)
		keyspace->defined = since;
	keyspace->generation++;
}

void keyspace_take(struct keyspace *keyspace, const struct policy *policy, int64_t now_us)
{
	const struct policy *before = keyspace->policy;
	const struct changeover since = { now_us, keyspace_spread_us(policy) };
	uint64_t definition = keyspace_definition(policy);
	keyspace->policy = policy_ref(policy);
	keyspace->log_level = policy->log_level;
	if (!before || !has_same_bounds(before, policy) || before->early != policy->early) {
		keyspace->bounded = since;
		keyspace->generation++;
	}
	if (definition != keyspace->definition)
		redefine(keyspace, definition, &since);
	policy_unref(before);
}

bool keyspace_is_defined(struct keyspace *keyspace, uint64_t definition,
			 const struct changeover *since)
{
	bool superseded = definition != keyspace->definition;
	bool is_news = superseded != keyspace->superseded ||
		       (!superseded && (since->moment_us != keyspace->defined.moment_us ||
					since->spread_us != keyspace->defined.spread_us));
	if (!is_news)
		return false;
	keyspace->superseded = superseded;
	if (!superseded)
		keyspace->defined = *since;
	keyspace->generation++;
	return true;
}

/* ---- entries ------------------------------------------------------------------------------ */

/* Until when the changeover spares the entry. */
static int64_t spared_until(const struct changeover *changeover, const struct entry *entry,
			    uint64_t public_hash)
{
	if (entry->generated_at_us >= changeover->moment_us)
		return INT64_MIN;
	if (changeover->spread_us <= 0)
		return changeover->moment_us;
	return changeover->moment_us + (int64_t)(public_hash % (uint64_t)changeover->spread_us);
}

/* What another query brought is not fresh; the stale time that it has is left to it. */
static void judge_definition(const struct keyspace *keyspace, struct entry *entry,
			     uint64_t public_hash)
{
	if (keyspace->superseded || entry->definition == 0 ||
	    entry->definition == keyspace->definition)
		return;
	int64_t until = spared_until(&keyspace->defined, entry, public_hash);
	if (until < entry->generated_at_us)
		until = entry->generated_at_us;
	if (until >= entry->fresh_until_us)
		return;
	entry->fresh_until_us = until;
	entry->changed = true;
}

static int64_t later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* The policy's times may have shrunk since the entry got its own; so may another host's be longer.
 */
static void judge_bounds(const struct keyspace *keyspace, struct entry *entry, uint64_t public_hash)
{
	const struct policy *policy = keyspace->policy;
	if (entry->own_times)
		return;
	int64_t spared = spared_until(&keyspace->bounded, entry, public_hash);
	int64_t fresh = entry->absent ? policy->negative_us : policy->fresh_us;
	int64_t stale = fresh > 0 ? policy->stale_us : 0;
	int64_t until = entry->generated_at_us + fresh + (int64_t)((double)fresh * policy->jitter);
	int64_t fresh_most = later(until, spared), stale_most = later(until + stale, spared);
	if (entry->fresh_until_us > fresh_most)
		entry->fresh_until_us = fresh_most;
	if (stale == 0)
		stale_most =
			entry->fresh_until_us; /* what a change has ended is not served either */
	if (entry->stale_until_us > stale_most)
		entry->stale_until_us = stale_most;
}

void keyspace_judge(const struct keyspace *keyspace, struct entry *entry, uint64_t public_hash)
{
	epochs_apply(&keyspace->epochs, entry, public_hash,
		     keyspace->policy->on_change == ON_CHANGE_INVALIDATE);
	judge_definition(keyspace, entry, public_hash);
	judge_bounds(keyspace, entry, public_hash);
}
