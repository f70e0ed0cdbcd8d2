#include "ops/stats.h"

#include <stdio.h>
#include <string.h>

static void put_redis_stats(struct redis_store *redis, struct stat_sink *sink)
{
	struct redis_stats stats;
	redis_store_stats(redis, &stats);
	sink->put(sink, "store_up", strcmp(stats.state, "up") == 0);
	sink->put(sink, "store_rtt_us", stats.rtt_us);
	sink->put(sink, "store_place", stats.place);
	sink->put(sink, "store_places_live", stats.places_live);
	sink->put(sink, "store_alone", stats.alone);
	sink->put(sink, "store_trusted", stats.trusted);
	sink->put(sink, "store_clock_apart_us", stats.clock_apart_us);
	sink->put(sink, "store_waiting", stats.waiting);
#define X(name, text) sink->put(sink, "store_" #name, (int64_t)stats.name);
	REDIS_COUNTER_MAP(X)
#undef X
	char name[64];
	for (int i = 0; i < STORE_ERRORS_COUNT; i++) {
		snprintf(name, sizeof(name), "store_error_%s",
			 store_error_name((enum store_error)i));
		sink->put(sink, name, (int64_t)stats.errors[i]);
	}
}

void stats_put_feed(const struct feed *feed, struct stat_sink *sink)
{
	struct feed_stats stats;
	feed_get_stats(feed, &stats);
	sink->put(sink, "feed_following", stats.following);
#define X(name, text) sink->put(sink, "feed_" #name, stats.name);
	FEED_COUNTER_MAP(X)
#undef X
#define X(name) sink->put(sink, "feed_" #name, stats.name);
	FEED_GAUGE_MAP(X)
#undef X
}

void stats_put_stores(const struct stores *stores, struct stat_sink *sink)
{
	sink->put(sink, "claims", memory_store_claims(stores->memory));
	if (stores->redis)
		put_redis_stats(stores->redis, sink);
}

void stats_put_hot(const struct hot_keys *hot, struct stat_sink *sink)
{
	sink->put(sink, "hot_listed", hot->listed);
	sink->put(sink, "hot_found", hot->found);
	sink->put(sink, "hot_built", hot->built);
	sink->put(sink, "hot_failed", hot->failed);
	sink->put(sink, "hot_done", hot->phase == HOT_DONE || hot->phase == HOT_IDLE);
	sink->put(sink, "hot_writes", (int64_t)hot->writes);
	sink->put(sink, "hot_write_errors", (int64_t)hot->write_errors);
}

void stats_put_origin(const struct origin_policy *policy, const struct pool *pool,
		      struct stat_sink *sink)
{
	const struct pool_counters *counters = pool_counters(pool);
#define X(name, text) sink->put(sink, "origin_" #name, (int64_t)counters->name);
	POOL_GAUGE_MAP(X)
	POOL_COUNTER_MAP(X)
#undef X
	sink->put(sink, "origin_fleet", policy->fleet);
	sink->put(sink, "origin_concurrency", policy->concurrency);
	sink->put(sink, "origin_budget_per_min", (int64_t)(policy->budget_per_s * 60 + 0.5));
}

void stats_put_spans(const struct spans *spans, struct stat_sink *sink)
{
#define X(name, text) sink->put(sink, #name, (int64_t)spans->file.counters.name);
	SPAN_COUNTER_MAP(X)
#undef X
}
