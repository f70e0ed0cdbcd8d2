#include "rpc/about.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "proto/method.h"
#include "rpc/server.h"

enum { PROTOCOL = 1 }; /* the version that PROTOCOL.md describes */

static void put_bool(struct wire_buf *b, const char *name, bool value)
{
	wire_buf_str(b, name);
	wire_buf_bool(b, value);
}

static void put_int(struct wire_buf *b, const char *name, int64_t number)
{
	wire_buf_str(b, name);
	wire_buf_int(b, number);
}

static void put_str(struct wire_buf *b, const char *name, const char *text)
{
	wire_buf_str(b, name);
	wire_buf_str(b, text);
}

static void put_config(const struct server_about *about, struct wire_buf *b)
{
	struct server_config config;
	char digest[17];

	if (!about->config) {
		wire_buf_nil(b);
		return;
	}
	about->config(about->impl, &config);
	snprintf(digest, sizeof(digest), "%016" PRIx64, config.digest);
	wire_buf_map(b, 4);
	put_str(b, "path", config.path);
	put_str(b, "digest", digest);
	put_int(b, "loaded_at_ms", config.loaded_at_ms);
	wire_buf_str(b, "refused");
	if (config.refused)
		wire_buf_str(b, config.refused);
	else
		wire_buf_nil(b);
}

void about_hello(struct server *server, struct wire_buf *b)
{
	const struct server_about *about = &server->about;

	wire_buf_map(b, 7);
	put_str(b, "name", "segard");
	put_str(b, "version", SEGAR_VERSION);
	put_int(b, "protocol", PROTOCOL);
	put_int(b, "pid", getpid());
	put_bool(b, "ready", !server->closing && (!about->ready || about->ready(about->impl)));
	wire_buf_str(b, "config");
	put_config(about, b);
	wire_buf_str(b, "methods");
	wire_buf_array(b, METHOD_COUNT);
	for (int i = 0; i < METHOD_COUNT; i++)
		wire_buf_str(b, method_name((enum method)i));
}

/* Numbers on their way into a map, whose count of pairs is known only at the end. */
struct stats_sink {
	struct stat_sink sink;
	struct wire_buf *b;
	uint32_t count;
};

static void put_number(struct stat_sink *sink, const char *name, int64_t number)
{
	struct stats_sink *stats = container_of(sink, struct stats_sink, sink);

	stats->count++;
	put_int(stats->b, name, number);
}

/* What goes up and down: all of it is 0 when nothing goes on, but for what is cached, and the
 * connection that asks. */
static void put_gauges(const struct server *server, struct stat_sink *sink)
{
	const struct engine *engine = server->pump->engine;

	sink->put(sink, "flights", (int64_t)engine->all.count);
	sink->put(sink, "waiters", engine->requests);
	sink->put(sink, "leases", engine->leases);
	sink->put(sink, "permits", engine->slots);
	sink->put(sink, "inside", engine->bulkhead.inside);
	sink->put(sink, "queued", engine->bulkhead.queued);
	sink->put(sink, "breaker", engine->breaker.state);
	sink->put(sink, "near_bytes", (int64_t)near_cost(&engine->near));
	sink->put(sink, "near_entries", (int64_t)engine->near.table.count);
	sink->put(sink, "connections", (int64_t)server->peers.count);
	sink->put(sink, "requests", server->weight);
	sink->put(sink, "key_bytes", (int64_t)server->key_bytes);
	sink->put(sink, "input_bytes", (int64_t)server->input_bytes);
	sink->put(sink, "output_bytes", (int64_t)server->output_bytes);
	sink->put(sink, "held_bytes", (int64_t)server->held_bytes);
}

static void put_counters(const struct server *server, struct stat_sink *sink)
{
	const struct engine *engine = server->pump->engine;

#define X(name, text) sink->put(sink, #name, (int64_t)engine->counters.name);
	ENGINE_COUNTER_MAP(X)
	ACCOUNT_COUNTER_MAP(X)
#undef X
	sink->put(sink, "breaker_opened", (int64_t)engine->breaker.opened);
	sink->put(sink, "near_evictions", (int64_t)engine->near.evictions);
	sink->put(sink, "near_refused", (int64_t)engine->near.refused);
#define X(name, text) sink->put(sink, #name, (int64_t)server->counters.name);
	SERVER_COUNTER_MAP(X)
#undef X
}

void about_stats(struct server *server, struct wire_buf *b)
{
	const struct server_about *about = &server->about;
	struct stats_sink stats = { .sink.put = put_number, .b = b };
	uint8_t *head = wire_buf_reserve(b, 3);
	size_t at = b->len;

	if (!head)
		return;
	b->len += 3;
	put_gauges(server, &stats.sink);
	put_counters(server, &stats.sink);
	if (about->stats)
		about->stats(about->impl, &stats.sink);
	if (wire_buf_failed(b))
		return;
	CHECK(stats.count <= UINT16_MAX);
	b->data[at++] = 0xde; /* map 16 */
	b->data[at++] = (uint8_t)(stats.count >> 8);
	b->data[at++] = (uint8_t)stats.count;
}

static void put_state(struct wire_buf *b, bool served, const char *why)
{
	put_str(b, "state", served ? "serving" : "refused");
	wire_buf_str(b, "error");
	if (served)
		wire_buf_nil(b);
	else
		wire_buf_str(b, why);
}

static void put_batch(struct server *server, struct wire_buf *b, const struct keyspace *keyspace)
{
	const struct server_about *about = &server->about;
	const struct batch_policy *policy = &keyspace->policy->batch;
	char why[ERROR_TEXT_MAX] = "";

	wire_buf_str(b, "batch");
	if (!policy->query) {
		wire_buf_nil(b);
		return;
	}
	wire_buf_map(b, 5);
	put_str(b, "query", policy->query);
	put_state(b, !about->batch || about->batch(about->impl, keyspace, why, sizeof(why)), why);
	put_int(b, "linger_ms", policy->linger_us / 1000);
	put_int(b, "max", policy->max);
}

static void put_keyspace(struct server *server, struct wire_buf *b, const struct keyspace *keyspace)
{
	const struct server_about *about = &server->about;
	const struct policy *policy = keyspace->policy;
	char why[ERROR_TEXT_MAX] = "";
	const bool served =
		!about->keyspace || about->keyspace(about->impl, keyspace, why, sizeof(why));

	wire_buf_map(b, 11);
	put_str(b, "name", policy->name);
	put_str(b, "query", policy->query);
	put_state(b, served, why);
	put_bool(b, "superseded", keyspace->superseded);
	put_bool(b, "single_row", policy->single_row);
	put_int(b, "fresh_ms", policy->fresh_us / 1000);
	put_int(b, "stale_ms", policy->stale_us / 1000);
	put_int(b, "negative_ms", policy->negative_us / 1000);
	put_int(b, "wait_ms", policy->wait_us / 1000);
	put_batch(server, b, keyspace);
}

void about_keyspaces(struct server *server, struct wire_buf *b)
{
	const struct roster *roster = &server->pump->engine->keyspaces;
	struct keyspace *keyspace;
	uint32_t count = 0;

	for (uint32_t at = 0; roster_next(roster, &at);)
		count++;
	wire_buf_array(b, count);
	for (uint32_t at = 0; (keyspace = roster_next(roster, &at));)
		put_keyspace(server, b, keyspace);
}
