/* An entry: a key's value (or "no such row") and the moments and numbers that say how good it is.
 *
 *      generated_at          fresh_until            stale_until
 *   ────────┼─────── fresh ───────┼─────── stale ────────┼──── dead ────>
 *
 * Moments are µs of the fleet clock. Pure functions, any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/policy.h"
#include "base/rng.h"
#include "base/value.h"

struct entry {
	struct value *value; /* counted; NULL: SQL NULL, or absent */
	int64_t version;     /* the row's, if has_version */
	uint64_t fence;      /* of the lease it was built under: orders builds of a key */
	int64_t covers;      /* the highest min_version asked for before its build; 0: none */
	int64_t generated_at_us;
	int64_t fresh_until_us;
	int64_t stale_until_us;
	uint32_t build_us; /* how long the build took; UINT32_MAX: that or longer */
	uint32_t era;
	uint64_t history;    /* of the origin it was built at; 0: unknown */
	uint64_t definition; /* of the keyspace when it was built (core/keyspace.h); 0: unknown */
	bool has_version;
	bool absent;    /* there is no such row */
	bool changed;   /* expired early by a change or an invalidation */
	bool own_times; /* the row's own, not the policy's */
	bool own_fence; /* by this host's clock, for the store was away: it orders this host's
			   builds, and says nothing beside the store's floors. Never stored */
};

enum entry_phase { ENTRY_FRESH, ENTRY_STALE, ENTRY_DEAD };

/* The origin's incarnation as one number: its system, and the timeline that a failover or a restore
   begins. Versions and fences order builds of one history only. */
enum { HISTORY_TIMELINE_BITS = 24 };
uint64_t history_of(uint64_t system, uint32_t timeline);

bool history_is_one_system(uint64_t a, uint64_t b);

/* Whether `a` has come after `b`: a later timeline of the same system. Of two systems neither has.
 */
bool history_is_later(uint64_t a, uint64_t b);

/* The bounds of generated_at + fresh and + stale never overflow: policies are below ten years. */

/* Fills the moments after generated_at from the policy, or from the row's own times where these are
   not negative; "no such row" has the policy's time for it. Jitter is drawn evenly from
   ±policy->jitter. */
void entry_set_times(struct entry *entry, const struct policy *policy, int64_t fresh_us,
		     int64_t stale_us, struct rng *rng);

enum entry_phase entry_phase(const struct entry *entry, int64_t now_us);

/* Until when an older build of the key may be served somewhere: so long its version is remembered,
   also when the entry itself was expired early. */
int64_t entry_matters_until(const struct entry *entry, const struct policy *policy);

/* Whether `a` replaces `b`: in one history by version where both are rows of a single_row keyspace,
   by the same query, ties and all else by fence; the later of two histories; of another system the
   greater fence. */
bool entry_supersedes(const struct entry *a, const struct entry *b, bool single_row);

/* Whether both say the same: one version of a row, or the same bytes. */
bool entry_is_same(const struct entry *a, const struct entry *b, bool single_row);

/* Whether the entry surely contains version `min_version`: where versions order, by its own; else
   if its build began after someone had asked for that version. */
bool entry_covers(const struct entry *entry, int64_t min_version, bool single_row);

/* Ends the entry's freshness at `at_us`; it may then be stale for at most `stale_us`. */
void entry_soft_expire(struct entry *entry, int64_t at_us, int64_t stale_us);
