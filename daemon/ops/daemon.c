#include "ops/daemon.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

#include "base/check.h"
#include "base/log.h"
#include "core/pump.h"
#include "ops/metrics.h"
#include "ops/own_changes.h"
#include "ops/service.h"
#include "ops/status.h"
#include "ops/stores.h"
#include "origin/feed.h"
#include "origin/pool.h"
#include "rpc/server.h"
#include "store/changes.h"

enum {
	DRAIN_MS = 5000,  /* for waiting requests, after SIGTERM */
	SEND_MS = 1000,   /* then for the refusals of those that still wait */
	STATUS_MS = 2000, /* between two looks at the status line */
	SIGNALS = 3,
	WHY_MAX = 512,
	DESCRIPTORS_USUAL = 1024,
	DESCRIPTORS_OWN = 96, /* the store's, the log's, clients that are told there is no room */
};

struct daemon {
	const struct config *config;
	uv_loop_t loop;
	uv_timer_t timer; /* pump_turn */
	uv_timer_t drain; /* then what still waits is told that the daemon stops */
	uv_timer_t watchdog;
	uv_timer_t status_timer; /* say_status */
	uv_signal_t signals[SIGNALS];
	struct stores stores;
	struct pool *pool;
	struct engine *engine;
	struct pump pump;
	struct feed *feed; /* NULL: no keyspace follows changes, or it has ended */
	uint64_t feed_seed;
	bool has_own_changes; /* for the feed, where nothing is shared: */
	struct own_changes own_changes;
	struct server server;
	int listen_fd; /* the service manager's socket, until the server has it; -1: none */
	struct metrics metrics;
	bool serving; /* the server is open */
	bool pump_stopped;
	char status[STATUS_LINE_MAX]; /* as last told */
	struct limits_policy limits;  /* the configuration's, as far as the system allows */
	bool stopping;
	int code; /* to exit with */
};

/* ---- the pump's host --------------------------------------------------------------------- */

static int64_t host_now_us(void *impl)
{
	return stores_now_us(&((struct daemon *)impl)->stores);
}

static void on_timer(uv_timer_t *timer)
{
	pump_turn(&((struct daemon *)timer->data)->pump);
}

static void host_wake_at(void *impl, int64_t at_us)
{
	struct daemon *daemon = impl;
	if (at_us == INT64_MAX) {
		uv_timer_stop(&daemon->timer);
		return;
	}
	int64_t in_us = at_us - stores_now_us(&daemon->stores);
	/* Rounded up: a moment too early would only make another turn. The loop's own idea of now
	   may be old, and the timer counts from it. */
	uint64_t in_ms = in_us > 0 ? (uint64_t)(in_us + 999) / 1000 : 0;
	if (in_ms > 0)
		uv_update_time(&daemon->loop);
	uv_timer_start(&daemon->timer, on_timer, in_ms, 0);
}

static void on_pool_closed(struct pool *pool, void *arg);

/* Once nothing can ask it for anything any more. */
static void close_pool(struct daemon *daemon)
{
	if (daemon->pump_stopped && !daemon->serving)
		pool_close(daemon->pool, on_pool_closed, daemon);
}

static void host_stopped(void *impl)
{
	struct daemon *daemon = impl;
	daemon->pump_stopped = true;
	close_pool(daemon);
}

/* ---- what the server tells of us ---------------------------------------------------------- */

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

static void put_feed_stats(const struct feed *feed, struct stat_sink *sink)
{
	struct feed_stats stats;
	feed_get_stats(feed, &stats);
	sink->put(sink, "feed_following", stats.following);
#define X(name) sink->put(sink, "feed_" #name, (int64_t)stats.name);
	FEED_STAT_MAP(X)
#undef X
}

static void about_stats(void *impl, struct stat_sink *sink)
{
	struct daemon *daemon = impl;
	const struct pool_counters *counters = pool_counters(daemon->pool);
#define X(name, text) sink->put(sink, "origin_" #name, (int64_t)counters->name);
	POOL_GAUGE_MAP(X)
	POOL_COUNTER_MAP(X)
#undef X
	const struct origin_policy *origin = &daemon->config->origin;
	sink->put(sink, "origin_fleet", origin->fleet);
	sink->put(sink, "origin_concurrency", origin->concurrency);
	sink->put(sink, "origin_budget_per_min", (int64_t)(origin->budget_per_s * 60 + 0.5));
	sink->put(sink, "claims", memory_store_claims(daemon->stores.memory));
	if (daemon->feed)
		put_feed_stats(daemon->feed, sink);
	if (daemon->stores.redis)
		put_redis_stats(daemon->stores.redis, sink);
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

/* ---- the end ------------------------------------------------------------------------------ */

static void close_handles(struct daemon *daemon)
{
	uv_close((uv_handle_t *)&daemon->timer, NULL);
	uv_close((uv_handle_t *)&daemon->drain, NULL);
	uv_close((uv_handle_t *)&daemon->watchdog, NULL);
	uv_close((uv_handle_t *)&daemon->status_timer, NULL);
	for (int i = 0; i < SIGNALS; i++)
		uv_close((uv_handle_t *)&daemon->signals[i], NULL);
}

static void on_stores_closed(void *arg)
{
	close_handles(arg);
}

/* Once neither the pump nor the feed asks them for anything any more. */
static void close_stores(struct daemon *daemon)
{
	if (daemon->pool || daemon->feed)
		return;
	if (daemon->has_own_changes)
		own_changes_close(&daemon->own_changes);
	stores_close(&daemon->stores, on_stores_closed);
}

static void on_pool_closed(struct pool *pool, void *arg)
{
	struct daemon *daemon = arg;
	(void)pool;
	daemon->pool = NULL;
	close_stores(daemon);
}

static void on_feed_closed(void *arg)
{
	struct daemon *daemon = arg;
	daemon->feed = NULL;
	close_stores(daemon);
}

static void on_server_closed(struct server *server)
{
	struct daemon *daemon = server->data;
	daemon->serving = false;
	uv_timer_stop(&daemon->drain);
	if (!daemon->pump.stopping)
		pump_stop(&daemon->pump);
	close_pool(daemon);
}

/* What has not been answered by now is told why: there is still time to send that. */
static void on_drained(uv_timer_t *timer)
{
	pump_stop(&((struct daemon *)timer->data)->pump);
}

static void stop(struct daemon *daemon, int number)
{
	if (daemon->stopping)
		return;
	daemon->stopping = true;
	log_info("daemon.stop", LOG_INT("signal", number));
	uv_timer_stop(&daemon->status_timer);
	metrics_close(&daemon->metrics);
	service_stopping();
	if (daemon->feed)
		feed_close(daemon->feed, on_feed_closed,
			   daemon); /* another may take over at once */
	if (!daemon->serving) {
		pump_stop(&daemon->pump);
		return;
	}
	uv_timer_start(&daemon->drain, on_drained, DRAIN_MS, 0);
	server_close(&daemon->server, DRAIN_MS + SEND_MS, on_server_closed);
}

static void on_signal(uv_signal_t *handle, int number)
{
	if (number == SIGHUP)
		log_warning("daemon.reload",
			    LOG_TEXT("why", "not served yet: restart to read the configuration"));
	else
		stop(handle->data, number);
}

/* ---- the start ---------------------------------------------------------------------------- */

/* As many descriptors as the system lets us have. */
static long raise_descriptor_limit(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return DESCRIPTORS_USUAL;
	if (limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	return limit.rlim_cur < INT_MAX ? (long)limit.rlim_cur : INT_MAX;
}

/* Clients may not take the descriptors that the origin and the store need. */
static void limit_connections(struct daemon *daemon, long descriptors)
{
	long own = daemon->config->origin.concurrency + DESCRIPTORS_OWN;
	long left = descriptors > 2 * own ? descriptors - own : descriptors / 2;
	daemon->limits = daemon->config->limits;
	if (left >= daemon->limits.connections)
		return;
	daemon->limits.connections = left > 1 ? (int)left : 1;
	log_warning("daemon.limits", LOG_INT("connections", daemon->limits.connections),
		    LOG_INT("descriptors", descriptors),
		    LOG_TEXT("why", "the limit of open files allows no more than these"));
}

static void open_loop(struct daemon *daemon)
{
	CHECK(uv_loop_init(&daemon->loop) == 0);
	uv_timer_init(&daemon->loop, &daemon->timer);
	uv_timer_init(&daemon->loop, &daemon->drain);
	uv_timer_init(&daemon->loop, &daemon->status_timer);
	daemon->timer.data = daemon->drain.data = daemon->status_timer.data = daemon;
	service_watch(&daemon->loop, &daemon->watchdog);
	static const int numbers[SIGNALS] = { SIGTERM, SIGINT, SIGHUP };
	for (int i = 0; i < SIGNALS; i++) {
		uv_signal_init(&daemon->loop, &daemon->signals[i]);
		daemon->signals[i].data = daemon;
		uv_signal_start(&daemon->signals[i], on_signal, numbers[i]);
	}
}

/* The engine and the pump, on the stores and the pool. */
static bool open_core(struct daemon *daemon, const uint8_t *secret, uint64_t seed)
{
	const struct config *config = daemon->config;
	const struct engine_limits limits = {
		.requests_max = (uint32_t)config->limits.requests,
		.queue_max = (uint32_t)config->limits.queue,
		.concurrency = (uint32_t)config->origin.concurrency,
		.key_bytes_max = KEYS_ALL_MAX,
		.near_bytes_max = config->near.memory,
		.answer_old_us = config->near.trust_us > ANSWER_OLD_LEAST_US ? config->near.trust_us
									     : ANSWER_OLD_LEAST_US,
	};
	daemon->engine = engine_create(config->keyspaces, (uint32_t)config->keyspaces_count,
				       &limits, secret, seed);
	if (!daemon->engine)
		return false;
	struct store store = stores_iface(&daemon->stores);
	struct origin pool = pool_origin(daemon->pool);
	pump_init(&daemon->pump, daemon->engine, &store, &pool,
		  &(struct pump_host){ daemon, host_now_us, host_wake_at, host_stopped });
	struct store_listener listener = pump_listener(&daemon->pump);
	stores_listen(&daemon->stores, &listener);
	return true;
}

static int open_server(struct daemon *daemon)
{
	char why[WHY_MAX];
	const struct server_options options = {
		.loop = &daemon->loop,
		.pump = &daemon->pump,
		.listen = &daemon->config->listen,
		.listen_fd = daemon->listen_fd,
		.limits = &daemon->limits,
		.access = { daemon->config->access, daemon->config->access_count },
		.about = { .impl = daemon,
			   .stats = about_stats,
			   .keyspace = about_keyspace,
			   .batch = about_batch },
	};
	enum listener_outcome outcome = server_open(&daemon->server, &options, why, sizeof(why));
	daemon->server.data = daemon;
	daemon->listen_fd = -1;
	if (outcome != LISTENER_OK)
		log_error("daemon.listen", LOG_TEXT("why", why));
	switch (outcome) {
	case LISTENER_OK:
		return EXIT_OK;
	case LISTENER_IN_USE:
		return EXIT_IN_USE;
	case LISTENER_FAILED:
		return EXIT_CONFIG;
	}
	return EXIT_CONFIG;
}

static void compose_status(const struct daemon *daemon, char *ret_line)
{
	status_line(daemon->engine, daemon->pool, daemon->stores.redis, ret_line);
}

static void on_status(uv_timer_t *timer)
{
	struct daemon *daemon = timer->data;
	char line[STATUS_LINE_MAX];
	compose_status(daemon, line);
	if (strcmp(line, daemon->status) == 0)
		return;
	memcpy(daemon->status, line, sizeof(line));
	service_status(line);
}

static void say_ready(struct daemon *daemon)
{
	compose_status(daemon, daemon->status);
	service_ready(daemon->status);
	uv_timer_start(&daemon->status_timer, on_status, STATUS_MS, STATUS_MS);
	log_info("daemon.start", LOG_TEXT("version", SEGAR_VERSION), LOG_INT("pid", getpid()),
		 LOG_TEXT("socket", daemon->config->listen.socket),
		 LOG_UINT("keyspaces", daemon->config->keyspaces_count));
}

static bool open_pool(uv_loop_t *loop, const struct config *config, struct pool **ret_pool)
{
	int r = pool_create(loop, &config->origin, config->keyspaces, config->keyspaces_count,
			    config->store_prefix, ret_pool);
	if (r < 0)
		log_error("daemon.origin",
			  LOG_TEXT("why", r == -EINVAL ? "origin.dsn is no connection string"
						       : uv_strerror(r)));
	return r == 0;
}

static void refuse_to_start(const char *why)
{
	log_error("daemon.start", LOG_TEXT("why", why));
}

static bool open_metrics(struct daemon *daemon)
{
	char why[WHY_MAX];
	const struct exposition_sources sources = {
		.config = daemon->config,
		.server = &daemon->server,
		.pool = daemon->pool,
		.redis = daemon->stores.redis,
	};
	if (metrics_open(&daemon->metrics, &daemon->loop, &sources, why, sizeof(why)))
		return true;
	log_error("daemon.metrics", LOG_TEXT("why", why));
	return false;
}

/* The reader of the log of changes, if any keyspace follows it. */
static bool open_feed(struct daemon *daemon)
{
	const struct config *config = daemon->config;
	struct redis_store *redis = daemon->stores.redis;
	struct feed_options options = {
		.dsn = config->feed.dsn ? config->feed.dsn : config->origin.dsn,
		.fleet = redis ? config->store_prefix : NULL,
		.policies = config->keyspaces,
		.policies_count = config->keyspaces_count,
		.poll_us = config->feed.poll_us,
		.retention_us = config->feed.retention_us,
		.seed = daemon->feed_seed,
	};
	if (!feed_is_wanted(config->keyspaces, config->keyspaces_count))
		return true;
	if (redis) {
		options.store = redis_store_changes(redis);
	} else {
		daemon->own_changes.engine = daemon->engine;
		daemon->own_changes.memory = daemon->stores.memory;
		daemon->own_changes.listener = pump_listener(&daemon->pump);
		daemon->own_changes.now_us = host_now_us;
		daemon->own_changes.arg = daemon;
		own_changes_open(&daemon->own_changes, &daemon->loop);
		daemon->has_own_changes = true;
		options.store = own_changes_iface(&daemon->own_changes);
	}
	return feed_create(&daemon->loop, &options, &daemon->feed) == 0;
}

/* The stores are in touch, or won't be for now: requests can be served. */
static void on_stores_opened(void *arg)
{
	struct daemon *daemon = arg;
	if (daemon->stopping)
		return;
	daemon->code = open_server(daemon);
	daemon->serving = daemon->code == EXIT_OK;
	if (!daemon->serving) {
		pump_stop(&daemon->pump);
		return;
	}
	if (!open_metrics(daemon)) {
		daemon->code = EXIT_CONFIG;
		server_close(&daemon->server, 0, on_server_closed);
		return;
	}
	pool_probe(daemon->pool, NULL, NULL);
	if (!open_feed(daemon)) {
		refuse_to_start("there is too little memory");
		daemon->code = EXIT_CONFIG;
		stop(daemon, 0);
		return;
	}
	say_ready(daemon);
}

static void open_parts(struct daemon *daemon)
{
	uint8_t secret[KEY_SECRET_LEN];
	uint64_t seeds[3];
	char text[WHY_MAX];
	const char *why = "the system has no randomness";
	daemon->code = EXIT_CONFIG;
	if (!service_take_socket(&daemon->listen_fd, text, sizeof(text))) {
		refuse_to_start(text);
		close_handles(daemon);
	} else if (getrandom(secret, sizeof(secret), 0) != sizeof(secret) ||
		   getrandom(seeds, sizeof(seeds), 0) != sizeof(seeds) ||
		   stores_open(&daemon->stores, &daemon->loop, daemon->config, seeds[0],
			       on_stores_opened, daemon, &why) != 0) {
		refuse_to_start(why);
		close_handles(daemon);
	} else if (!open_pool(&daemon->loop, daemon->config, &daemon->pool)) {
		stores_close(&daemon->stores, on_stores_closed);
	} else if (!open_core(daemon, secret, seeds[1])) {
		refuse_to_start("there is too little memory");
		pool_close(daemon->pool, on_pool_closed, daemon);
	} else {
		daemon->feed_seed = seeds[2];
		daemon->code = EXIT_OK;
	}
}

int daemon_run(const struct config *config)
{
	static struct daemon daemon;
	daemon = (struct daemon){ .config = config, .listen_fd = -1 };
	signal(SIGPIPE, SIG_IGN);
	long descriptors = raise_descriptor_limit();
	limit_connections(&daemon, descriptors);
	open_loop(&daemon);
	open_parts(&daemon);
	uv_run(&daemon.loop, UV_RUN_DEFAULT);
	engine_free(daemon.engine);
	CHECK(uv_loop_close(&daemon.loop) == 0);
	log_flush();
	return daemon.code;
}

/* ---- segard --check ------------------------------------------------------------------------ */

const char *daemon_check(const struct config *config)
{
	struct store_url url;
	/* Only the service itself sees its credentials: who checks the file from a shell does not.
	 */
	const bool hidden = config->store_password_file &&
			    !strchr(config->store_password_file, '/') &&
			    !getenv("CREDENTIALS_DIRECTORY");
	const char *why =
		hidden ? store_url_parse(config->store_url, &url) : stores_read_url(config, &url);
	if (!why && pool_check_dsn(config->origin.dsn) != 0)
		why = "origin.dsn is no connection string that libpq can read";
	if (!why && config->feed.dsn && pool_check_dsn(config->feed.dsn) != 0)
		why = "feed.dsn is no connection string that libpq can read";
	return why;
}

/* ---- segard --check --origin --------------------------------------------------------------- */

struct origin_check {
	const struct config *config;
	int code;
};

static void tell_statement(struct origin_check *check, const struct statement *statement)
{
	const struct policy *policy = statement->policy;
	if (statement->state == STATEMENT_REFUSED) {
		printf("%s:%d: %s: %s\n", check->config->path, policy->line, policy->name,
		       statement->error);
		check->code = EXIT_CONFIG;
	} else if (statement->state == STATEMENT_OK && statement->single) {
		printf("%s: batch: ok, up to %d keys\n", policy->name, policy->batch.max);
	} else if (statement->state == STATEMENT_OK) {
		printf("%s: ok, %u argument%s%s\n", policy->name, statement->params_count,
		       statement->params_count == 1 ? "" : "s",
		       statement->columns & GUARD_HAS_VERSION ? ", versioned" : "");
	}
}

static void on_probed(struct pool *pool, void *arg)
{
	struct origin_check *check = arg;
	const char *trouble = pool_trouble(pool);
	check->code = trouble ? EXIT_CONFIG : EXIT_OK;
	if (trouble)
		printf("origin: %s\n", trouble);
	for (uint32_t i = 0; i < check->config->keyspaces_count; i++) {
		const struct statement *batch = pool_batch_statement(pool, i);
		tell_statement(check, pool_statement(pool, i));
		if (batch)
			tell_statement(check, batch);
	}
	pool_close(pool, NULL, NULL);
}

int daemon_check_origin(const struct config *config)
{
	uv_loop_t loop;
	struct pool *pool;
	struct origin_check check = { .config = config, .code = EXIT_CONFIG };
	signal(SIGPIPE, SIG_IGN);
	CHECK(uv_loop_init(&loop) == 0);
	if (open_pool(&loop, config, &pool))
		pool_probe(pool, on_probed, &check);
	uv_run(&loop, UV_RUN_DEFAULT);
	CHECK(uv_loop_close(&loop) == 0);
	return check.code;
}
