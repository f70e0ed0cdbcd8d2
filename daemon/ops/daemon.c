#include "ops/daemon.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "ops/check.h"
#include "ops/daemon_state.h"
#include "ops/regeneration.h"
#include "ops/service.h"
#include "ops/takeover.h"

enum {
	STATUS_MS = 2000, /* between two looks at the status line */
	WHY_MAX = 512,
	DESCRIPTORS_USUAL = 1024,
};

/* ---- the pump's host --------------------------------------------------------------------- */

static int64_t host_now_us(void *impl)
{
	return stores_now_us(&((struct daemon *)impl)->stores);
}

static void host_regenerated(void *impl, const struct regeneration *regeneration)
{
	struct daemon *daemon = impl;
	regeneration_log(impl, regeneration);
	spans_end_build(&daemon->spans, regeneration, stores_now_us(&daemon->stores));
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

/* ---- reload -------------------------------------------------------------------------------- */

static void compose_status(const struct daemon *daemon, char *ret_line)
{
	status_line(daemon->engine, daemon->pool, daemon->stores.redis, ret_line);
	if (daemon->reload.why[0])
		snprintf(ret_line + strlen(ret_line), STATUS_LINE_MAX - strlen(ret_line),
			 ", the last reload was refused");
	if (daemon->lacks_metrics)
		snprintf(ret_line + strlen(ret_line), STATUS_LINE_MAX - strlen(ret_line),
			 ", no metrics");
}

static void say_status(struct daemon *daemon, void (*say)(const char *status))
{
	compose_status(daemon, daemon->status);
	say(daemon->status);
}

static const struct config *current_config(void *impl)
{
	return ((struct daemon *)impl)->config;
}

static const char *take_config(void *impl, struct config *next, struct server_reload *ret_counts)
{
	struct daemon *daemon = impl;
	const struct takeover parts = { .pump = &daemon->pump,
					.pool = daemon->pool,
					.stores = &daemon->stores,
					.server = &daemon->server,
					.limits = &daemon->limits,
					.descriptors = daemon->descriptors };
	const char *why = takeover_do(&parts, daemon->config, next, ret_counts);
	if (why)
		return why;
	config_free(daemon->later);
	daemon->config = daemon->later = next;
	spans_take(&daemon->spans, next);
	follower_renew(&daemon->follower);
	daemon->loaded_at_s = time(NULL);
	log_info("config.taken", LOG_TEXT("path", next->path),
		 LOG_UINT("keyspaces", ret_counts->keyspaces), LOG_UINT("added", ret_counts->added),
		 LOG_UINT("changed", ret_counts->changed),
		 LOG_UINT("removed", ret_counts->removed));
	return NULL;
}

static void reload_begins(void *impl)
{
	if (((struct daemon *)impl)->warmup.is_ready)
		service_reloading();
}

static void reload_ended(void *impl, const char *why)
{
	struct daemon *daemon = impl;
	daemon->reloads += !why;
	daemon->reloads_refused += why != NULL;
	if (daemon->warmup.is_ready)
		say_status(daemon, service_ready);
}

static void open_reload(struct daemon *daemon)
{
	reload_init(&daemon->reload, &daemon->loop,
		    &(struct reload_host){ .impl = daemon,
					   .check = check_config,
					   .current = current_config,
					   .take = take_config,
					   .begins = reload_begins,
					   .ended = reload_ended });
}

/* Before it serves, what a reload could change is still being made. */
static void on_hangup(struct daemon *daemon)
{
	if (daemon->serving && !daemon->stopping)
		reload_ask(&daemon->reload, NULL);
	else
		log_warning("config.refused",
			    LOG_TEXT("why", "the daemon is starting or stopping"));
}

static void on_signal(uv_signal_t *handle, int number)
{
	if (number == SIGHUP)
		on_hangup(handle->data);
	else
		ending_begin(handle->data, number);
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

/* Values and passwords would be in it. (Where the system hands dumps to a program, it is told so.)
 */
static void forbid_core_dumps(void)
{
	const struct rlimit none = { 0 };
	setrlimit(RLIMIT_CORE, &none);
}

static void open_loop(struct daemon *daemon)
{
	CHECK(uv_loop_init(&daemon->loop) == 0);
	uv_timer_init(&daemon->loop, &daemon->timer);
	uv_timer_init(&daemon->loop, &daemon->drain);
	uv_timer_init(&daemon->loop, &daemon->status_timer);
	daemon->timer.data = daemon->drain.data = daemon->status_timer.data = daemon;
	service_watch(&daemon->loop, &daemon->watchdog);
	open_reload(daemon);
	examination_init(&daemon->examination, &daemon->loop, daemon->config->path);
	hot_keys_init(&daemon->hot_keys, &daemon->loop, daemon->config);
	static const int numbers[DAEMON_SIGNALS] = { SIGTERM, SIGINT, SIGHUP };
	for (int i = 0; i < DAEMON_SIGNALS; i++) {
		uv_signal_init(&daemon->loop, &daemon->signals[i]);
		daemon->signals[i].data = daemon;
		uv_signal_start(&daemon->signals[i], on_signal, numbers[i]);
	}
}

/* The engine and the pump, on the stores and the pool. */
static bool open_core(struct daemon *daemon, const uint8_t *secret, uint64_t seed)
{
	const struct config *config = daemon->config;
	const struct engine_limits limits = takeover_engine_limits(config);
	daemon->engine = engine_create(config->keyspaces, (uint32_t)config->keyspaces_count,
				       &limits, secret, seed);
	if (!daemon->engine)
		return false;
	struct store store = stores_iface(&daemon->stores);
	struct origin pool = pool_origin(daemon->pool);
	pump_init(&daemon->pump, daemon->engine, &store, &pool,
		  &(struct pump_host){ daemon, host_now_us, host_wake_at, ending_pump_stopped,
				       host_regenerated });
	struct store_listener listener = pump_listener(&daemon->pump);
	stores_listen(&daemon->stores, &listener);
	stores_define(&daemon->stores, config, false);
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
		.about = daemon_about(daemon),
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

/* Without them it serves all the same, and tries again. */
static void open_metrics(struct daemon *daemon)
{
	char why[WHY_MAX];
	const bool again = daemon->lacks_metrics;
	const struct family_sources sources = {
		.config = &daemon->config,
		.server = &daemon->server,
		.pool = daemon->pool,
		.redis = daemon->stores.redis,
		.feed = &daemon->follower.feed,
		.hot = &daemon->hot_keys,
		.warmer = &daemon->warmup.warmer,
		.spans = &daemon->spans.file.counters,
	};
	daemon->lacks_metrics =
		!metrics_open(&daemon->metrics, &daemon->loop, &sources, why, sizeof(why));
	if (daemon->lacks_metrics && !again)
		log_error("daemon.metrics", LOG_TEXT("why", why));
	else if (!daemon->lacks_metrics && again)
		log_info("daemon.metrics", LOG_TEXT("listen", daemon->config->metrics_listen));
}

static void on_status(uv_timer_t *timer)
{
	struct daemon *daemon = timer->data;
	char line[STATUS_LINE_MAX];
	if (daemon->lacks_metrics)
		open_metrics(daemon);
	compose_status(daemon, line);
	if (strcmp(line, daemon->status) == 0)
		return;
	memcpy(daemon->status, line, sizeof(line));
	service_status(line);
}

static void say_ready(struct daemon *daemon)
{
	if (daemon->warmup.is_ready)
		say_status(daemon, service_ready);
	uv_timer_start(&daemon->status_timer, on_status, STATUS_MS, STATUS_MS);
	log_info("daemon.start", LOG_TEXT("version", SEGAR_VERSION), LOG_INT("pid", getpid()),
		 LOG_TEXT("socket", daemon->config->listen.socket),
		 LOG_UINT("keyspaces", daemon->config->keyspaces_count));
}

static void refuse_to_start(const char *why)
{
	log_error("daemon.start", LOG_TEXT("why", why));
}

static bool open_follower(struct daemon *daemon)
{
	daemon->follower = (struct follower){
		.loop = &daemon->loop,
		.pump = &daemon->pump,
		.stores = &daemon->stores,
		.first = daemon->first,
		.config = &daemon->config,
		.seed = daemon->follower.seed,
		.gone = ending_follower_gone,
		.arg = daemon,
	};
	return follower_open(&daemon->follower);
}

static void on_warm(void *arg)
{
	say_status(arg, service_ready);
}

static void open_warmup(struct daemon *daemon)
{
	warmup_open(&daemon->warmup, &(struct warmup_options){ .loop = &daemon->loop,
							       .pump = &daemon->pump,
							       .stores = &daemon->stores,
							       .config = &daemon->config,
							       .token = daemon->warm_token,
							       .ready = on_warm,
							       .over = ending_warmup_over,
							       .arg = daemon });
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
	open_metrics(daemon);
	pump_begin(&daemon->pump);
	pool_probe(daemon->pool, NULL, NULL);
	if (!open_follower(daemon)) {
		refuse_to_start("there is too little memory");
		daemon->code = EXIT_CONFIG;
		ending_begin(daemon, 0);
		return;
	}
	hot_keys_open(&daemon->hot_keys, &daemon->pump);
	open_warmup(daemon);
	say_ready(daemon);
}

static void open_parts(struct daemon *daemon)
{
	uint8_t secret[KEY_SECRET_LEN];
	uint64_t seeds[5];
	char text[WHY_MAX];
	const char *why = "the system has no randomness";
	daemon->code = EXIT_CONFIG;
	if (!service_take_socket(&daemon->listen_fd, text, sizeof(text))) {
		refuse_to_start(text);
		ending_close_handles(daemon);
	} else if (getrandom(secret, sizeof(secret), 0) != sizeof(secret) ||
		   getrandom(seeds, sizeof(seeds), 0) != sizeof(seeds) ||
		   stores_open(&daemon->stores, &daemon->loop, daemon->config, seeds[0],
			       on_stores_opened, daemon, &why) != 0) {
		refuse_to_start(why);
		ending_close_handles(daemon);
	} else if (spans_open(&daemon->spans, &daemon->loop, daemon->config, seeds[4]) != 0) {
		refuse_to_start("there is too little memory");
		stores_close(&daemon->stores, ending_stores_closed);
	} else if (!check_open_pool(&daemon->loop, daemon->config, &daemon->pool)) {
		stores_close(&daemon->stores, ending_stores_closed);
	} else if (!open_core(daemon, secret, seeds[1])) {
		refuse_to_start("there is too little memory");
		pool_close(daemon->pool, ending_pool_closed, daemon);
	} else {
		daemon->follower.seed = seeds[2];
		daemon->warm_token = seeds[3] | 1;
		daemon->code = EXIT_OK;
	}
}

int daemon_run(const struct config *config)
{
	static struct daemon daemon;
	daemon = (struct daemon){
		.first = config, .config = config, .loaded_at_s = time(NULL), .listen_fd = -1
	};
	list_init(&daemon.warmup.warmer.jobs);
	signal(SIGPIPE, SIG_IGN);
	forbid_core_dumps();
	daemon.descriptors = raise_descriptor_limit();
	daemon.limits = takeover_server_limits(config, daemon.descriptors);
	open_loop(&daemon);
	open_parts(&daemon);
	uv_run(&daemon.loop, UV_RUN_DEFAULT);
	engine_free(daemon.engine);
	config_free(daemon.later);
	CHECK(uv_loop_close(&daemon.loop) == 0);
	log_flush();
	return daemon.code;
}
