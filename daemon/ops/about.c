/* What the server tells of the parts of the daemon that it does not know. */
#include <stdio.h>

#include "ops/daemon_state.h"
#include "ops/stats.h"

static void about_stats(void *impl, struct stat_sink *sink)
{
	struct daemon *daemon = impl;
	sink->put(sink, "reloads", (int64_t)daemon->reloads);
	sink->put(sink, "reloads_refused", (int64_t)daemon->reloads_refused);
	stats_put_origin(&daemon->config->origin, daemon->pool, sink);
	stats_put_stores(&daemon->stores, sink);
	stats_put_hot(&daemon->hot_keys, sink);
	stats_put_spans(&daemon->spans, sink);
	warmup_put_stats(&daemon->warmup, sink);
	if (daemon->follower.feed)
		stats_put_feed(daemon->follower.feed, sink);
}

static void about_span_begin(void *impl, struct trace *trace)
{
	spans_begin(&((struct daemon *)impl)->spans, trace);
}

static void about_span_end(void *impl, const struct server_span *span)
{
	struct daemon *daemon = impl;
	spans_end_request(&daemon->spans, span, stores_now_us(&daemon->stores));
}

static bool is_served(const struct statement *statement, char *text, size_t size)
{
	if (statement->state == STATEMENT_REFUSED)
		snprintf(text, size, "%s", statement->error);
	return statement->state != STATEMENT_REFUSED;
}

static bool about_keyspace(void *impl, const struct keyspace *keyspace, char *text, size_t size)
{
	struct daemon *daemon = impl;
	return is_served(pool_statement(daemon->pool, keyspace->index), text, size);
}

static bool about_batch(void *impl, const struct keyspace *keyspace, char *text, size_t size)
{
	struct daemon *daemon = impl;
	return is_served(pool_batch_statement(daemon->pool, keyspace->index), text, size);
}

static void about_config(void *impl, struct server_config *ret_config)
{
	struct daemon *daemon = impl;
	const char *refused = daemon->reload.why;
	*ret_config = (struct server_config){ .path = daemon->config->path,
					      .digest = daemon->config->digest,
					      .loaded_at_ms = daemon->loaded_at_s * 1000,
					      .refused = *refused ? refused : NULL };
}

static bool about_ready(void *impl)
{
	return ((struct daemon *)impl)->warmup.is_ready;
}

static void about_warm(void *impl, struct server_warm *warm)
{
	warmup_ask(&((struct daemon *)impl)->warmup, warm);
}

static bool about_job(void *impl, uint32_t n, struct server_job *ret_job)
{
	return warmup_job(&((struct daemon *)impl)->warmup, n, ret_job);
}

static void about_reload(void *impl, struct server_reload *asker)
{
	reload_ask(&((struct daemon *)impl)->reload, asker);
}

static void about_examine(void *impl, struct server_examination *asker)
{
	examination_ask(&((struct daemon *)impl)->examination, asker);
}

struct server_about daemon_about(struct daemon *daemon)
{
	return (struct server_about){ .impl = daemon,
				      .ready = about_ready,
				      .warm = about_warm,
				      .job = about_job,
				      .reload = about_reload,
				      .examine = about_examine,
				      .config = about_config,
				      .span_begin = about_span_begin,
				      .span_end = about_span_end,
				      .stats = about_stats,
				      .keyspace = about_keyspace,
				      .batch = about_batch };
}
