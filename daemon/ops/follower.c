#include "ops/follower.h"

#include "base/log.h"

static int64_t now_us(void *arg)
{
	return stores_now_us(((struct follower *)arg)->stores);
}

static struct change_store own_store(struct follower *follower)
{
	struct own_changes *own = &follower->own_changes;
	own->engine = follower->pump->engine;
	own->memory = follower->stores->memory;
	own->listener = pump_listener(follower->pump);
	own->now_us = now_us;
	own->arg = follower;
	if (!follower->has_own_changes)
		own_changes_open(own, follower->loop);
	follower->has_own_changes = true;
	return own_changes_iface(own);
}

bool follower_open(struct follower *follower)
{
	const struct config *config = *follower->config, *first = follower->first;
	struct redis_store *redis = follower->stores->redis;
	if (!feed_is_wanted(config->keyspaces, config->keyspaces_count))
		return true;
	const struct feed_options options = {
		.dsn = first->feed.dsn ? first->feed.dsn : first->origin.dsn,
		.fleet = redis ? first->store_prefix : NULL,
		.policies = config->keyspaces,
		.policies_count = config->keyspaces_count,
		.poll_us = config->feed.poll_us,
		.retention_us = config->feed.retention_us,
		.standby = first->origin.standby,
		.seed = follower->seed++,
		.store = redis ? redis_store_changes(redis) : own_store(follower),
	};
	if (feed_create(follower->loop, &options, &follower->feed) != 0)
		return false;
	follower->policy = policy_ref(&config->keyspaces[0]);
	return true;
}

static void open_or_complain(struct follower *follower)
{
	if (!follower_open(follower))
		log_error("daemon.feed", LOG_TEXT("why", "there is too little memory"));
}

static void on_closed(void *arg)
{
	struct follower *follower = arg;
	follower->feed = NULL;
	follower->ends = false;
	policy_unref(follower->policy);
	follower->policy = NULL;
	if (follower->over)
		follower->gone(follower->arg);
	else
		open_or_complain(follower);
}

static void end_feed(struct follower *follower)
{
	if (!follower->ends)
		feed_close(follower->feed, on_closed, follower);
	follower->ends = true;
}

void follower_renew(struct follower *follower)
{
	/* It follows the keyspaces that it was opened with. */
	if (follower->feed)
		end_feed(follower);
	else
		open_or_complain(follower);
}

void follower_end(struct follower *follower)
{
	follower->over = true;
	if (follower->feed)
		end_feed(follower);
}

void follower_close(struct follower *follower)
{
	if (follower->has_own_changes)
		own_changes_close(&follower->own_changes);
	follower->has_own_changes = false;
}
