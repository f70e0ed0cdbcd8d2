#include "ops/takeover.h"

#include <string.h>
#include <unistd.h>

#include "base/log.h"

enum { DESCRIPTORS_OWN = 96 }; /* the store's, the log's, clients that are told there is no room */

struct engine_limits takeover_engine_limits(const struct config *config)
{
	return (struct engine_limits){
		.requests_max = (uint32_t)config->limits.requests,
		.queue_max = (uint32_t)config->limits.queue,
		.concurrency = (uint32_t)config->origin.concurrency,
		.key_bytes_max = KEYS_ALL_MAX,
		.near_bytes_max = config->near.memory,
		.hot_keys = (uint32_t)config->near.hot,
		.answer_old_us = config->near.trust_us > ANSWER_OLD_LEAST_US ? config->near.trust_us
									     : ANSWER_OLD_LEAST_US,
	};
}

struct limits_policy takeover_server_limits(const struct config *config, long descriptors)
{
	struct limits_policy limits = config->limits;
	long own = config->origin.concurrency + DESCRIPTORS_OWN;
	long left = descriptors > 2 * own ? descriptors - own : descriptors / 2;
	if (left >= limits.connections)
		return limits;
	limits.connections = left > 1 ? (int)left : 1;
	log_warning("daemon.limits", LOG_INT("connections", limits.connections),
		    LOG_INT("descriptors", descriptors),
		    LOG_TEXT("why", "the limit of open files allows no more than these"));
	return limits;
}

static const struct policy *find(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->keyspaces_count; i++)
		if (strcmp(config->keyspaces[i].name, name) == 0)
			return &config->keyspaces[i];
	return NULL;
}

static bool is_same(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Keyspaces with queries that the origin has not had. */
static uint32_t count_new_queries(const struct config *before, const struct config *next)
{
	uint32_t count = 0;
	for (size_t i = 0; i < next->keyspaces_count; i++) {
		const struct policy *policy = &next->keyspaces[i];
		const struct policy *old = find(before, policy->name);
		count += !old || !is_same(old->query, policy->query) ||
			 !is_same(old->batch.query, policy->batch.query);
	}
	return count;
}

static void report(const struct config *before, const struct config *next,
		   struct server_reload *ret_counts)
{
	ret_counts->keyspaces = (uint32_t)next->keyspaces_count;
	for (size_t i = 0; i < next->keyspaces_count; i++) {
		const struct policy *policy = &next->keyspaces[i];
		const struct policy *old = find(before, policy->name);
		if (!old) {
			ret_counts->added++;
			log_info("keyspace.added", LOG_TEXT("keyspace", policy->name));
		} else if (!config_same_keyspace(old, policy)) {
			ret_counts->changed++;
			log_info("keyspace.changed", LOG_TEXT("keyspace", policy->name));
		}
	}
	for (size_t i = 0; i < before->keyspaces_count; i++) {
		if (find(next, before->keyspaces[i].name))
			continue;
		ret_counts->removed++;
		log_info("keyspace.removed", LOG_TEXT("keyspace", before->keyspaces[i].name));
	}
}

/* Nothing of this can fail. */
static void take_rest(const struct takeover *parts, const struct config *next)
{
	const struct keyspace *keyspace;
	const struct roster *roster = &parts->pump->engine->keyspaces;
	for (uint32_t at = 0; (keyspace = roster_next(roster, &at));)
		pool_set(parts->pool, keyspace->index, keyspace->policy);
	pool_retime(parts->pool, &next->origin);
	pool_probe(parts->pool, NULL, NULL);
	stores_set_budget(parts->stores, next);
	stores_define(parts->stores, next, true);
	server_set_access(parts->server,
			  &(struct access_rules){ next->access, next->access_count });
	*parts->limits = takeover_server_limits(next, parts->descriptors);
	log_open(STDERR_FILENO, next->log_level, next->log_format);
	log_hide_keys(next->log_keys == LOG_KEYS_HASHED, next->log_salt);
}

const char *takeover_do(const struct takeover *parts, const struct config *before,
			const struct config *next, struct server_reload *ret_counts)
{
	const struct engine_limits limits = takeover_engine_limits(next);
	if (pool_reserve(parts->pool, count_new_queries(before, next)) != 0)
		return "there is too little memory";
	switch (pump_reload(parts->pump, next->keyspaces, (uint32_t)next->keyspaces_count,
			    &limits)) {
	case RELOAD_OK:
		break;
	case RELOAD_NO_MEMORY:
		return "there is too little memory";
	case RELOAD_NO_PLACE:
		return "too many keyspaces that were removed are still in use: try again later";
	case RELOAD_NEAR:
		return "near.memory: is less than an eighth of the most that it was, which takes a "
		       "restart";
	}
	take_rest(parts, next);
	report(before, next, ret_counts);
	return NULL;
}
