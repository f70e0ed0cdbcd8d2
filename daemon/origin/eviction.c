#include "origin/eviction.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "origin/chain.h"
#include "origin/guard.h"

enum {
	/* The server ends a statement at its timeout; one that runs so much longer does not hear
	   it. */
	GRACE_MS = 2000,
	ARRAY_MAX = BATCH_KEYS_MAX * 11 + 2, /* of 32-bit numbers, as text */
};

/* The locks that were held, in the two halves that pg_locks shows. */
struct held {
	char class[ARRAY_MAX];
	char object[ARRAY_MAX];
	size_t class_len, object_len;
};

bool eviction_is_due(const struct build *first)
{
	return chain_has(first, BUILD_KEY_HELD) || chain_has(first, BUILD_SLOT_HELD);
}

static void held_add(struct held *held, uint64_t lock)
{
	char comma = held->class_len == 0 ? '{' : ',';

	held->class_len +=
		(size_t)snprintf(held->class + held->class_len, ARRAY_MAX - held->class_len,
				 "%c%" PRIu32, comma, (uint32_t)(lock >> 32));
	held->object_len +=
		(size_t)snprintf(held->object + held->object_len, ARRAY_MAX - held->object_len,
				 "%c%" PRIu32, comma, (uint32_t)lock);
}

static void held_end(struct held *held)
{
	memcpy(held->class + held->class_len, "}", 2);
	memcpy(held->object + held->object_len, "}", 2);
}

/* A slot may rightly be held by a daemon out of touch, for another keyspace, and that be slow to
 * read. A key not: we have its lease. */
int eviction_send(PGconn *pg, const struct build *first, const struct exchange_locks *locks,
		  int64_t timeout_ms)
{
	bool is_key = chain_has(first, BUILD_KEY_HELD);
	struct held held = { .class_len = 0 };
	char limit[24];
	const char *values[GUARD_EVICT_PARAMS] = {
		[GUARD_EVICT_CLASS] = held.class,
		[GUARD_EVICT_OBJECT] = held.object,
		[GUARD_EVICT_KIND] = is_key ? "1" : "2",
		[GUARD_EVICT_LIMIT] = limit,
		[GUARD_EVICT_STUCK] = is_key ? "true" : "false",
	};

	if (!is_key)
		held_add(&held,
			 (uint64_t)(uint32_t)locks->slot_class << 32 | (uint32_t)first->slot);
	for (const struct build *build = first; build; build = build->next)
		if (build->outcome == BUILD_KEY_HELD)
			held_add(&held,
				 (uint64_t)guard_key_lock(locks->lock_namespace, &build->key));
	held_end(&held);
	snprintf(limit, sizeof(limit), "%" PRId64,
		 (is_key ? timeout_ms : locks->longest_ms) + GRACE_MS);
	return PQsendQueryParams(pg, GUARD_EVICT_SQL, GUARD_EVICT_PARAMS, NULL, values, NULL, NULL,
				 1);
}
