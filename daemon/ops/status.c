#include "ops/status.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static uint32_t count_refused(const struct engine *engine, const struct pool *pool)
{
	uint32_t refused = 0;
	for (uint32_t i = 0; i < engine->keyspaces_count; i++)
		refused += pool_statement(pool, i)->state == STATEMENT_REFUSED;
	return refused;
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
	const uint32_t refused = count_refused(engine, pool);
	const char *trouble = pool_trouble(pool);
	char shares[32] = "no requests yet", refusals[32] = "";

	if (asked > 0)
		snprintf(shares, sizeof(shares), "%.1f %% hits",
			 (double)hits * 100 / (double)asked);
	if (refused > 0)
		snprintf(refusals, sizeof(refusals), " (%" PRIu32 " refused)", refused);
	snprintf(ret_line, STATUS_LINE_MAX, "%" PRIu32 " keyspace%s%s, %s, store %s, origin %s",
		 engine->keyspaces_count, engine->keyspaces_count == 1 ? "" : "s", refusals, shares,
		 store_state(redis), trouble ? trouble : "up");
	for (char *c = ret_line; *c; c++)
		if (*c == '\n')
			*c = ' ';
}
