#include "scene.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

enum { LAPSE_US = 24 * SECOND }; /* no lease or slot lives longer without its daemon */

const char *trouble_name(enum trouble_kind trouble)
{
	static const char *const names[] = {
#define X(NAME, name, text) #name,
		TROUBLE_MAP(X)
#undef X
	};
	return names[trouble];
}

const char *trouble_text(enum trouble_kind trouble)
{
	static const char *const texts[] = {
#define X(NAME, name, text) text,
		TROUBLE_MAP(X)
#undef X
	};
	return texts[trouble];
}

int64_t draw_exponential(struct rng *rng, double mean)
{
	return 1 + (int64_t)(-mean * log(1 - rng_unit(rng)));
}

bool draw_chance(struct rng *rng, double probability)
{
	return rng_unit(rng) < probability;
}

void scene_stream(const struct scene *scene, enum stream stream, uint32_t n, struct rng *ret_rng)
{
	rng_seed(ret_rng, scene->seed * 0x9e3779b97f4a7c15u + ((uint64_t)stream << 32) + n);
}

bool scene_has(const struct scene *scene, enum trouble_kind trouble)
{
	return scene->troubles & (1u << trouble);
}

int scene_find(const struct scene *scene, const char *bytes, size_t len)
{
	for (uint32_t i = 0; i < KEYSPACES; i++) {
		size_t name_len = strlen(scene->policies[i].name);
		if (len <= name_len || bytes[name_len] != ':' ||
		    memcmp(bytes, scene->policies[i].name, name_len) != 0)
			continue;
		/* A key ends with its length, not with a NUL. */
		int number = 0;
		for (size_t at = name_len + 1; at < len; at++)
			number = number * 10 + bytes[at] - '0';
		return (int)(i * scene->keys_each) + number;
	}
	return -1;
}

/* ---- drawing ----------------------------------------------------------------------------- */

static void draw_policy(struct policy *policy, struct rng *rng)
{
	static const double jitters[] = { 0, 0.1, 0.3 };
	policy->fresh_us = rng_between(rng, 500 * MS, 8 * SECOND);
	policy->stale_us = draw_chance(rng, 0.3) ? 0 : rng_between(rng, 100 * MS, 4 * SECOND);
	policy->jitter = jitters[rng_between(rng, 0, 2)];
	policy->negative_us = rng_between(rng, 300 * MS, 2 * SECOND);
	policy->error_us = rng_between(rng, 200 * MS, 2 * SECOND);
	policy->wait_us = rng_between(rng, 300 * MS, WAIT_MOST_US);
	policy->build_timeout_us = rng_between(rng, SECOND, 4 * SECOND);
	policy->lease_us = draw_chance(rng, 0.5) ? 0 : rng_between(rng, 600 * MS, 3 * SECOND);
	policy->early = draw_chance(rng, 0.3) ? 0 : 1;
}

static void draw_keyspaces(struct scene *scene, struct rng *rng)
{
	static char *const names[] = { (char *)"row", (char *)"sum", (char *)"def" };
	scene->keys_each = (uint32_t)rng_between(rng, 3, KEYS_EACH_MAX);
	for (uint32_t i = 0; i < KEYSPACES; i++) {
		struct policy *policy = &scene->policies[i];
		draw_policy(policy, rng);
		policy->name = names[i];
		policy->single_row = i != KEYSPACE_SUM;
		if (i == KEYSPACE_DEF)
			policy->default_value = value_create("default", strlen("default"));
		for (uint32_t k = 0; k < scene->keys_each; k++) {
			struct subject *key = &scene->keys[scene->keys_count++];
			key->keyspace = i;
			key->len = (uint32_t)snprintf(key->bytes, sizeof(key->bytes), "%s:%u",
						      names[i], k);
		}
	}
}

/* In half of the scenes some keyspaces build several keys at once. */
static void draw_batches(struct scene *scene)
{
	struct rng rng;
	scene_stream(scene, STREAM_BATCHES, 0, &rng);
	if (draw_chance(&rng, 0.5))
		return;
	scene->mgets = (int)rng_between(&rng, 50, 300);
	for (uint32_t i = 0; i < KEYSPACES; i++)
		if (draw_chance(&rng, 0.6))
			scene->policies[i].batch = (struct batch_policy){
				.query = (char *)"batch",
				.linger_us =
					draw_chance(&rng, 0.3) ? 0 : rng_between(&rng, 0, 10 * MS),
				.max = (int)rng_between(&rng, 2, 20),
			};
}

/* Builds from a standby are no part of it: the daemons do not support that yet (docs/POLICIES.md).
 */
static void draw_feed(struct scene *scene)
{
	static const enum on_change kinds[] = { ON_CHANGE_REFRESH, ON_CHANGE_REFRESH,
						ON_CHANGE_EXPIRE, ON_CHANGE_INVALIDATE,
						ON_CHANGE_IGNORE };
	struct rng rng;
	scene_stream(scene, STREAM_FEED, 0, &rng);
	scene->follows = true;
	scene->troubles &= ~(1u << TROUBLE_LAG);
	/* A replica that has entries, and not how far the log was applied, lacks changes for good.
	 */
	if (scene_has(scene, TROUBLE_FAILOVER))
		scene->troubles &= ~(1u << TROUBLE_FLUSH | 1u << TROUBLE_DOWN);
	scene->poll_us = rng_between(&rng, 100 * MS, SECOND);
	scene->retention_us = rng_between(&rng, 2 * SECOND, 15 * SECOND);
	scene->open_mean_us = draw_chance(&rng, 0.3) ? (double)(5 * SECOND) : (double)(500 * MS);
	scene->bells_lost = draw_chance(&rng, 0.3) ? 1 : 0.2 * rng_unit(&rng);
	scene->whole_changes = draw_chance(&rng, 0.7) ? 0 : 0.02 * rng_unit(&rng);
	scene->policies[KEYSPACE_ROW].on_change = kinds[rng_between(&rng, 0, 3)];
	scene->policies[KEYSPACE_SUM].on_change = kinds[rng_between(&rng, 0, 4)];
	scene->policies[KEYSPACE_DEF].on_change = kinds[rng_between(&rng, 0, 4)];
	if (scene->commits_per_s == 0)
		scene->commits_per_s = (double)rng_between(&rng, 1, 20);
	/* A row that changes many times while it is built. */
	if (draw_chance(&rng, 0.1))
		scene->commits_per_s = 100;
}

/* Calm scenes are checked for more: there nothing excuses an error or a build too many. */
static uint32_t draw_troubles(struct rng *rng)
{
	uint32_t troubles = 0;
	double share = draw_chance(rng, 0.15) ? 0 : 0.05 + 0.4 * rng_unit(rng);
	for (int i = 0; i < TROUBLE_COUNT; i++)
		if (draw_chance(rng, share))
			troubles |= 1u << i;
	return troubles;
}

static void draw_origin(struct scene *scene, struct rng *rng)
{
	scene->ample = draw_chance(rng, 0.6);
	scene->build_mean_us = rng_between(rng, 5 * MS, 200 * MS);
	if (scene->ample) {
		scene->concurrency = (int)rng_between(rng, 30, 60);
		scene->budget_per_s = (double)rng_between(rng, 200, 400);
	} else {
		scene->concurrency = (int)rng_between(rng, 1, 12);
		scene->budget_per_s = (double)rng_between(rng, 5, 100);
	}
}

static void draw_clients(struct scene *scene, struct rng *rng)
{
	scene->asks_per_s = (double)rng_between(rng, 2, 20);
	scene->hot_per_s = draw_chance(rng, 0.5) ? 0 : (double)rng_between(rng, 100, 5000);
	scene->commits_per_s = draw_chance(rng, 0.2) ? 0 : (double)rng_between(rng, 1, 20);
	scene->open_mean_us = 500 * MS;
	scene->refreshes = (int)rng_between(rng, 0, 40);
	scene->min_versions = (int)rng_between(rng, 0, 40);
	scene->invalidations = draw_chance(rng, 0.4) ? 0 : (int)rng_between(rng, 0, 30);
	scene->immediates = (int)rng_between(rng, 0, 50);
	scene->unstales = (int)rng_between(rng, 0, 100);
}

void scene_draw(struct scene *scene, uint64_t seed, const struct scene_options *options)
{
	struct rng rng;
	*scene = (struct scene){ .seed = seed, .one_by_one = options->one_by_one };
	scene_stream(scene, STREAM_SCENE, 0, &rng);
	scene->troubles = draw_troubles(&rng);
	draw_keyspaces(scene, &rng);
	draw_batches(scene);
	draw_origin(scene, &rng);
	draw_clients(scene, &rng);
	scene->trust_us = rng_between(&rng, 1500 * MS, 4 * SECOND);
	scene->near_bytes =
		(size_t)(draw_chance(&rng, 0.2) ? rng_between(&rng, 11000, 16000) : 1 << 20);
	scene->queue_max = draw_chance(&rng, 0.2) ? (uint32_t)rng_between(&rng, 1, 8) : 500;

	scene->nodes = options->nodes ? options->nodes : 10;
	CHECK(scene->nodes > 0 && scene->nodes <= NODES_MAX);
	scene->length_us = (options->seconds ? options->seconds : 60) * (int64_t)SECOND;
	scene->healed_us = scene->length_us * 3 / 5;
	scene->rest_us = scene->healed_us + LAPSE_US;
	if (scene->rest_us < scene->length_us)
		scene->rest_us = scene->length_us;
	scene->troubles &= ~options->without;
	if (options->only_set)
		scene->troubles = options->only;
	if (options->changes)
		draw_feed(scene);
	if (options->hot_per_s > 0)
		scene->hot_per_s = options->hot_per_s;
}

void scene_close(struct scene *scene)
{
	for (uint32_t i = 0; i < KEYSPACES; i++)
		value_unref(scene->policies[i].default_value);
}
