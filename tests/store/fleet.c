#include "fleet.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void on_tick(uv_timer_t *timer)
{
	(void)timer;
}

void fleet_open(struct fleet *fleet, const char *option, ...)
{
	const char *options[8] = { option };
	va_list rest;
	if (!server_is_possible())
		cr_skip_test("redis-server is not installed");
	signal(SIGPIPE, SIG_IGN);
	memset(fleet, 0, sizeof(*fleet));
	va_start(rest, option);
	for (int i = 1; i < 7 && options[i - 1]; i++)
		options[i] = va_arg(rest, const char *);
	va_end(rest);
	server_create(&fleet->server);
	server_start(&fleet->server, options[0], options[1], options[2], options[3], options[4],
		     options[5], NULL);
	cr_assert_null(store_url_parse(fleet->server.url, &fleet->url));
	fleet->options = (struct redis_options){ .url = &fleet->url,
						 .prefix = "t:",
						 .concurrency = 40,
						 .budget_per_s = 1000,
						 .fleet = 1,
						 .trust_us = 2 * SECOND };
	cr_assert_eq(uv_loop_init(&fleet->loop), 0);
	uv_timer_init(&fleet->loop, &fleet->tick);
	uv_timer_start(&fleet->tick, on_tick, 5, 5);
}

void fleet_close(struct fleet *fleet)
{
	for (unsigned i = 0; i < fleet->daemons_count; i++)
		if (fleet->daemons[i].redis)
			daemon_close(&fleet->daemons[i]);
	uv_close((uv_handle_t *)&fleet->tick, NULL);
	uv_run(&fleet->loop, UV_RUN_DEFAULT);
	cr_assert_eq(uv_loop_close(&fleet->loop), 0);
	server_remove(&fleet->server);
}

/* ---- daemons ----------------------------------------------------------------------------- */

static void tell(void *impl, bool changed, const char *key, size_t len, uint64_t fence, bool hard)
{
	struct daemon *daemon = impl;
	cr_assert_lt(daemon->told_count, TOLD_MAX);
	struct told *told = &daemon->told[daemon->told_count++];
	*told = (struct told){ .changed = changed, .fence = fence, .hard = hard };
	snprintf(told->key, sizeof(told->key), "%.*s", (int)len, key);
}

static void on_settled(void *impl, const char *key, size_t len, uint64_t fence)
{
	tell(impl, false, key, len, fence, false);
}

static void on_changed(void *impl, const char *key, size_t len, uint64_t floor, bool hard)
{
	tell(impl, true, key, len, floor, hard);
}

static void on_epoch(void *impl, const char *keyspace, size_t len, int64_t moment_us,
		     int64_t spread_us)
{
	struct daemon *daemon = impl;
	if (len != 4 || memcmp(keyspace, "rows", 4) != 0)
		return;
	daemon->epochs_count++;
	daemon->epoch_us = moment_us;
	daemon->epoch_spread_us = spread_us;
}

static void on_defined(void *impl, const char *keyspace, size_t len, uint64_t definition,
		       int64_t moment_us, int64_t spread_us)
{
	struct daemon *daemon = impl;
	cr_assert(len == 4 && memcmp(keyspace, "rows", 4) == 0);
	daemon->ruling = definition;
	daemon->ruling_since_us = moment_us;
	daemon->ruling_spread_us = spread_us;
	daemon->ruling_told++;
}

static void on_emptied(void *impl)
{
	((struct daemon *)impl)->emptied++;
}

static void on_trusted(void *impl, int64_t until_us)
{
	struct daemon *daemon = impl;
	if (until_us == 0 && daemon->trusted_until_us != 0)
		daemon->trust_losses++;
	daemon->trusted_until_us = until_us;
}

static void on_opened(void *arg)
{
	struct daemon *daemon = arg;
	cr_assert(!daemon->opened);
	daemon->opened = true;
}

static void on_closed(void *arg)
{
	struct daemon *daemon = arg;
	cr_assert(!daemon->closed);
	daemon->closed = true;
}

struct daemon *fleet_start(struct fleet *fleet)
{
	static char rows[] = "rows", views[] = "views";
	cr_assert_lt(fleet->daemons_count, DAEMONS_MAX);
	struct daemon *daemon = &fleet->daemons[fleet->daemons_count++];
	struct redis_options options = fleet->options;
	*daemon = (struct daemon){ .fleet = fleet };
	daemon->rows_policy = (struct policy){ .name = rows,
					       .single_row = true,
					       .fresh_us = 600 * SECOND,
					       .stale_us = 30 * SECOND,
					       .negative_us = 5 * SECOND,
					       .build_timeout_us = 30 * SECOND };
	daemon->views_policy = daemon->rows_policy;
	daemon->views_policy.name = views;
	daemon->views_policy.single_row = false;
	daemon->rows = (struct keyspace){ .policy = &daemon->rows_policy };
	daemon->views = (struct keyspace){ .policy = &daemon->views_policy, .index = 1 };
	options.seed = ++fleet->seed;
	options.opened = on_opened;
	options.arg = daemon;
	cr_assert_eq(redis_store_create(&fleet->loop, &options, &daemon->redis), 0);
	daemon->listener = (struct store_listener){ .impl = daemon,
						    .settled = on_settled,
						    .changed = on_changed,
						    .epoch = on_epoch,
						    .defined = on_defined,
						    .emptied = on_emptied,
						    .trusted = on_trusted };
	redis_store_listen(daemon->redis, &daemon->listener);
	daemon->rows_policy.query = (char *)fleet->query;
	if (fleet->query)
		redis_store_define(daemon->redis, &daemon->rows_policy, 1, false);
	daemon->store = redis_store_iface(daemon->redis);
	return daemon;
}

struct daemon *fleet_add(struct fleet *fleet)
{
	struct daemon *daemon = fleet_start(fleet);
	AWAIT(fleet, daemon->opened);
	return daemon;
}

void daemon_close(struct daemon *daemon)
{
	redis_store_close(daemon->redis, on_closed, daemon);
	AWAIT(daemon->fleet, daemon->closed);
	daemon->redis = NULL;
}

bool daemon_is_up(struct daemon *daemon)
{
	return strcmp(daemon_stats(daemon).state, "up") == 0;
}

static bool all_are(struct fleet *fleet, bool up)
{
	for (unsigned i = 0; i < fleet->daemons_count; i++)
		if (fleet->daemons[i].redis && daemon_is_up(&fleet->daemons[i]) != up)
			return false;
	return true;
}

void fleet_restart(struct fleet *fleet)
{
	server_kill(&fleet->server);
	AWAIT(fleet, all_are(fleet, false));
	server_start(&fleet->server, NULL);
	AWAIT(fleet, all_are(fleet, true));
}

struct redis_stats daemon_stats(struct daemon *daemon)
{
	struct redis_stats stats;
	redis_store_stats(daemon->redis, &stats);
	return stats;
}

uint64_t daemon_errors(struct daemon *daemon, enum store_error error)
{
	return daemon_stats(daemon).errors[error];
}

/* ---- operations -------------------------------------------------------------------------- */

static void on_done(struct store_op *op)
{
	struct doing *doing = container_of(op, struct doing, op);
	doing->done++;
}

void doing_init(struct doing *doing, struct daemon *daemon, enum store_verb verb, const char *key,
		uint64_t token)
{
	bool rows = strncmp(key, "rows", 4) == 0;
	*doing = (struct doing){ .op = { .verb = verb,
					 .token = token,
					 .length_us = 10 * SECOND,
					 .longest_us = 90 * SECOND,
					 .done = on_done } };
	snprintf(doing->key, sizeof(doing->key), "%s", key);
	doing->op.key = (struct key){ .keyspace = rows ? &daemon->rows : &daemon->views,
				      .bytes = doing->key,
				      .len = (uint32_t)strlen(doing->key) };
}

void doing_start(struct doing *doing, struct daemon *daemon)
{
	daemon->store.submit(daemon->store.impl, &doing->op);
	cr_assert_eq(doing->done, 0, "done fired inside submit");
}

enum store_outcome doing_wait(struct doing *doing, struct daemon *daemon)
{
	if (!doing->op.work && doing->done == 0 && !doing->op.node.next)
		doing_start(doing, daemon);
	AWAIT(daemon->fleet, doing->done > 0);
	cr_assert_eq(doing->done, 1);
	return doing->op.outcome;
}

enum store_outcome do_load(struct doing *doing, struct daemon *daemon, const char *key)
{
	doing_init(doing, daemon, STORE_LOAD, key, 0);
	return doing_wait(doing, daemon);
}

enum store_outcome do_lease(struct doing *doing, struct daemon *daemon, const char *key,
			    uint64_t token)
{
	doing_init(doing, daemon, STORE_LEASE, key, token);
	doing->op.want.fresh = true;
	return doing_wait(doing, daemon);
}

enum store_outcome do_save(struct doing *doing, struct daemon *daemon, const char *key,
			   uint64_t token, uint64_t fence, int64_t version, const char *value)
{
	doing_init(doing, daemon, STORE_SAVE, key, token);
	int64_t now_us = redis_store_now_us(daemon->redis);
	doing->op.entry = (struct entry){ .value = value_create(value, strlen(value)),
					  .version = version,
					  .has_version = true,
					  .fence = fence,
					  .generated_at_us = now_us,
					  .fresh_until_us = now_us + 600 * SECOND,
					  .stale_until_us = now_us + 630 * SECOND };
	struct value *borrowed = doing->op.entry.value;
	enum store_outcome outcome = doing_wait(doing, daemon);
	value_unref(borrowed);
	if (doing->op.entry.value == borrowed)
		doing->op.entry.value = NULL;
	return outcome;
}

enum store_outcome do_release(struct doing *doing, struct daemon *daemon, const char *key,
			      uint64_t token)
{
	doing_init(doing, daemon, STORE_RELEASE, key, token);
	return doing_wait(doing, daemon);
}

enum store_outcome do_permit(struct doing *doing, struct daemon *daemon, uint64_t token,
			     int64_t reach_us)
{
	doing_init(doing, daemon, STORE_PERMIT, "rows:1", token);
	doing->op.reach_us = reach_us;
	return doing_wait(doing, daemon);
}

void await_bucket(struct doing *doing, struct daemon *daemon)
{
	while (do_permit(doing, daemon, 1, 0) == STORE_RETRY)
		;
	cr_assert_eq(free_slot(doing, daemon, 1, -1), STORE_DONE);
}

int take(struct doing *doing, struct daemon *daemon, uint64_t token)
{
	while (do_permit(doing, daemon, token, 200000) == STORE_RETRY)
		;
	cr_assert_eq(doing->op.outcome, STORE_DONE);
	return doing->op.slot;
}

enum store_outcome free_slot(struct doing *doing, struct daemon *daemon, uint64_t token, int slot)
{
	doing_init(doing, daemon, STORE_FREE, "rows:1", token);
	doing->op.slot = slot;
	return doing_wait(doing, daemon);
}

void doing_free(struct doing *doing)
{
	value_unref(doing->op.entry.value);
	value_unref(doing->op.failure.text);
	doing->op.entry.value = NULL;
	doing->op.failure.text = NULL;
}
