#include "ops/status.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void count_keyspaces(const struct engine *engine, const struct pool *pool,
			    uint32_t *ret_count, uint32_t *ret_refused)
{
	const struct keyspace *keyspace;
	*ret_count = *ret_refused = 0;
	for (uint32_t at = 0; (keyspace = roster_next(&engine->keyspaces, &at));) {
		++*ret_count;
		*ret_refused += pool_statement(pool, keyspace->index)->state == STATEMENT_REFUSED;
	}
}

static const char *store_state(struct redis_store *redis)
{
	struct redis_stats stats;
	if (!redis)
		return "none";
	redis_store_stats(redis, &stats);
	return strcmp(stats.state, "up") == 0 ? "up" : store_error_name(stats.error);
}

void status_line(const struct engine *engine, const struct pool *pool, struct redis_store *redis,
		 char *ret_line)
{
	const struct engine_counters *counters = &engine->counters;
	const uint64_t hits = counters->hits_fresh + counters->hits_stale;
	const uint64_t asked = hits + counters->misses;
	uint32_t count, refused;
	const char *trouble = pool_trouble(pool);
	char shares[32] = "no requests yet", refusals[32] = "";

	count_keyspaces(engine, pool, &count, &refused);
	if (asked > 0)
		snprintf(shares, sizeof(shares), "%.1f %% hits",
			 (double)hits * 100 / (double)asked);
	if (refused > 0)
		snprintf(refusals, sizeof(refusals), " (%" PRIu32 " refused)", refused);
	snprintf(ret_line, STATUS_LINE_MAX, "%" PRIu32 " keyspace%s%s, %s, store %s, origin %s",
		 count, count == 1 ? "" : "s", refusals, shares, store_state(redis),
		 trouble ? trouble : "up");
	for (char *c = ret_line; *c; c++)
		if (*c == '\n')
			*c = ' ';
}
