#include "ops/stores.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

enum { FAILURES_REMEMBERED = 65536 }; /* by the memory store */

int64_t stores_now_us(struct stores *stores)
{
	return stores->redis ? redis_store_now_us(stores->redis) : clock_now_us(&stores->clock);
}

static int64_t memory_now_us(void *impl)
{
	return stores_now_us(impl);
}

static int64_t memory_fence_us(void *impl)
{
	const struct stores *stores = impl;
	return redis_store_passed_us(stores->redis);
}

static void on_turn(uv_idle_t *idle)
{
	struct stores *stores = idle->data;
	uv_idle_stop(idle);
	if (stores->opened) {
		stores_cb opened = stores->opened;
		stores->opened = NULL;
		opened(stores->arg);
	}
	memory_store_turn(stores->memory);
}

static void want_turn(void *impl)
{
	struct stores *stores = impl;
	uv_idle_start(&stores->turn, on_turn);
}

const char *stores_read_url(const struct config *config, struct store_url *ret_url)
{
	static char text[512];
	const char *why = store_url_parse(config->store_url, ret_url);
	if (why || !config->store_password_file)
		return why;
	why = store_url_read_password(ret_url, config->store_password_file,
				      getenv("CREDENTIALS_DIRECTORY"));
	if (!why)
		return NULL;
	snprintf(text, sizeof(text), "store.password_file: %.300s: %s", config->store_password_file,
		 why);
	return text;
}

static void on_redis_opened(void *arg)
{
	struct stores *stores = arg;
	stores_cb opened = stores->opened;
	stores->opened = NULL;
	if (opened)
		opened(stores->arg);
}

static int open_redis(struct stores *stores, uv_loop_t *loop, const struct config *config,
		      const struct store_url *url, uint64_t seed)
{
	const struct redis_options options = {
		.url = url,
		.prefix = config->store_prefix,
		.concurrency = (uint32_t)config->origin.concurrency,
		.budget_per_s = config->origin.budget_per_s,
		.fleet = (uint32_t)config->origin.fleet,
		.trust_us = config->near.trust_us,
		.standby = config->origin.standby,
		.state_dir = config->state_dir,
		.seed = seed,
		.opened = on_redis_opened,
		.arg = stores,
	};
	return redis_store_create(loop, &options, &stores->redis);
}

int stores_open(struct stores *stores, uv_loop_t *loop, const struct config *config, uint64_t seed,
		stores_cb opened, void *arg, const char **ret_why)
{
	struct store_url url;
	*stores = (struct stores){ .opened = opened, .arg = arg };
	*ret_why = stores_read_url(config, &url);
	if (*ret_why)
		return -1;
	clock_init(&stores->clock);
	const struct memory_store_limits limits = {
		.concurrency = (uint32_t)config->origin.concurrency,
		.budget_per_s = config->origin.budget_per_s,
		.fleet = (uint32_t)config->origin.fleet,
		.failures_max = FAILURES_REMEMBERED,
	};
	stores->memory = memory_store_create(
		&limits, &(struct memory_store_host){
				 stores, memory_now_us, want_turn,
				 url.scheme == STORE_URL_NONE ? NULL : memory_fence_us });
	*ret_why = "there is too little memory";
	if (!stores->memory)
		return -1;
	if (url.scheme != STORE_URL_NONE && open_redis(stores, loop, config, &url, seed) != 0) {
		memory_store_free(stores->memory);
		return -1;
	}
	*ret_why = NULL;
	uv_idle_init(loop, &stores->turn);
	stores->turn.data = stores;
	if (stores->redis) {
		struct store shared = redis_store_iface(stores->redis);
		struct store own = memory_store_iface(stores->memory);
		fallback_init(&stores->fallback, &shared, &own);
	} else {
		want_turn(stores); /* tells that it is opened */
	}
	return 0;
}

void stores_define(struct stores *stores, const struct config *config, bool insists)
{
	if (stores->redis)
		redis_store_define(stores->redis, config->keyspaces,
				   (uint32_t)config->keyspaces_count, insists);
}

void stores_set_budget(struct stores *stores, const struct config *config)
{
	memory_store_set_budget(stores->memory, config->origin.budget_per_s);
	if (stores->redis)
		redis_store_set_budget(stores->redis, config->origin.budget_per_s);
}

struct store stores_iface(struct stores *stores)
{
	return stores->redis ? fallback_iface(&stores->fallback)
			     : memory_store_iface(stores->memory);
}

void stores_listen(struct stores *stores, const struct store_listener *listener)
{
	if (!stores->redis)
		return;
	redis_store_listen(stores->redis, listener);
	listener->trusted(listener->impl, 0); /* until its first beat is heard */
}

static void on_turn_closed(uv_handle_t *handle)
{
	struct stores *stores = handle->data;
	memory_store_free(stores->memory);
	stores->memory = NULL;
	stores->closed(stores->arg);
}

static void on_redis_closed(void *arg)
{
	struct stores *stores = arg;
	stores->redis = NULL;
	uv_close((uv_handle_t *)&stores->turn, on_turn_closed);
}

void stores_close(struct stores *stores, stores_cb closed)
{
	stores->closed = closed;
	stores->opened = NULL;
	if (stores->redis)
		redis_store_close(stores->redis, on_redis_closed, stores);
	else
		on_redis_closed(stores);
}
