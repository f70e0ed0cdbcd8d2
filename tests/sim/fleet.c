#include "fleet.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"

enum {
	REST_US = 40 * SECOND, /* by then all is at rest */
	ASIDE_US = SECOND,     /* what is on the way arrives */
	LINE_BYTES = 512,
	STEPS_MAX = 200 * 1000 * 1000,
};

void fleet_trace(struct fleet *fleet, const char *format, ...)
{
	char line[LINE_BYTES];
	va_list args;
	int len = snprintf(line, sizeof(line), "t=%.6f ", (double)fleet->vtime.now_us / SECOND);
	va_start(args, format);
	vsnprintf(line + len, sizeof(line) - (size_t)len, format, args);
	va_end(args);
	for (const char *at = line; *at; at++) /* FNV-1a */
		fleet->trace_sum = (fleet->trace_sum ^ (unsigned char)*at) * 0x100000001b3u;
	if (fleet->tracing == TRACE_PRINT)
		puts(line);
}

void fleet_tell(struct fleet *fleet, const struct tiding *tiding)
{
	for (int i = 0; i < fleet->scene.nodes; i++)
		post_tell(&fleet->nodes[i].post, tiding);
}

void fleet_start_node(struct node *node)
{
	if (node->state != NODE_DOWN)
		return;
	node_start(node);
}

/* What the scene is made of, as the trace's first lines. */
static void trace_scene(struct fleet *fleet)
{
	const struct scene *scene = &fleet->scene;
	trace(fleet,
	      "seed=%" PRIu64 " nodes=%d keys=%u concurrency=%d budget=%.0f ample=%d build=%" PRId64
	      " trust=%" PRId64 " near=%zu queue=%u asks=%.0f hot=%.0f commits=%.0f",
	      scene->seed, scene->nodes, scene->keys_count, scene->concurrency, scene->budget_per_s,
	      scene->ample, scene->build_mean_us, scene->trust_us, scene->near_bytes,
	      scene->queue_max, scene->asks_per_s, scene->hot_per_s, scene->commits_per_s);
	for (int i = 0; i < KEYSPACES; i++) {
		const struct policy *policy = &scene->policies[i];
		trace(fleet,
		      "keyspace=%s fresh=%" PRId64 " stale=%" PRId64
		      " jitter=%.1f negative=%" PRId64 " error=%" PRId64 " wait=%" PRId64
		      " timeout=%" PRId64 " lease=%" PRId64,
		      policy->name, policy->fresh_us, policy->stale_us, policy->jitter,
		      policy->negative_us, policy->error_us, policy->wait_us,
		      policy->build_timeout_us, policy->lease_us);
	}
	for (int i = 0; i < TROUBLE_COUNT; i++)
		if (scene_has(scene, (enum trouble_kind)i))
			trace(fleet, "trouble=%s", trouble_name((enum trouble_kind)i));
}

/* ---- the play ---------------------------------------------------------------------------- */

static void open_fleet(struct fleet *fleet)
{
	weather_init(&fleet->weather, &fleet->scene, &fleet->vtime);
	judge_init(&fleet->judge, fleet);
	shared_init(&fleet->shared, fleet);
	database_init(&fleet->database, fleet);
	server_init(&fleet->server, fleet);
	crowd_init(&fleet->crowd, fleet);
	fleet->nodes = calloc((size_t)fleet->scene.nodes, sizeof(*fleet->nodes));
	CHECK(fleet->nodes);
	for (int i = 0; i < fleet->scene.nodes; i++) {
		node_init(&fleet->nodes[i], fleet, i);
		fleet_start_node(&fleet->nodes[i]);
	}
	troubles_init(&fleet->troubles, fleet);
}

static void run_until(struct fleet *fleet, int64_t until_us)
{
	while (vtime_step(&fleet->vtime, until_us))
		CHECK(fleet->vtime.steps < STEPS_MAX);
}

/* The last transaction has ended, and its changes are applied: they begin refreshes. */
static bool is_log_read(const struct fleet *fleet)
{
	return !fleet->scene.follows ||
	       (fleet->database.open == 0 && fleet->judge.unapplied == fleet->database.log.count);
}

static bool is_at_rest(const struct fleet *fleet)
{
	for (int i = 0; i < fleet->scene.nodes; i++)
		if (!fleet->nodes[i].engine || !engine_is_idle(fleet->nodes[i].engine))
			return false;
	return fleet->crowd.calls == 0 && is_log_read(fleet);
}

/* Nobody asks any more: everything comes to rest, and nothing is left over. */
static void come_to_rest(struct fleet *fleet)
{
	int64_t rest_us = fleet->scene.rest_us;
	run_until(fleet, rest_us);
	for (int i = 0; i < 2; i++) {
		while (!is_at_rest(fleet) && fleet->vtime.now_us < rest_us + REST_US) {
			run_until(fleet, fleet->vtime.now_us + 100 * MS);
			judge_check_log(&fleet->judge);
		}
		run_until(fleet, fleet->vtime.now_us + ASIDE_US);
	}
	judge_on_rest(&fleet->judge);
	for (int i = 0; i < fleet->scene.nodes; i++)
		node_stop(&fleet->nodes[i]);
	run_until(fleet, fleet->vtime.now_us + ASIDE_US);
	for (int i = 0; i < fleet->scene.nodes; i++)
		if (fleet->nodes[i].state != NODE_DOWN)
			judge_fail(&fleet->judge, "clean ends", "node=%d does not stop", i);
}

static void close_fleet(struct fleet *fleet)
{
	troubles_close(&fleet->troubles);
	crowd_close(&fleet->crowd);
	database_close(&fleet->database);
	shared_close(&fleet->shared);
	judge_close(&fleet->judge);
	scene_close(&fleet->scene);
	free(fleet->nodes);
}

void fleet_study(const struct scene *scene, int64_t warm_us, fleet_study_cb study, void *arg)
{
	struct fleet *fleet = calloc(1, sizeof(*fleet));
	CHECK(fleet);
	fleet->scene = *scene;
	open_fleet(fleet);
	run_until(fleet, warm_us);
	study(fleet, arg);
	run_until(fleet, scene->length_us);
	study(fleet, arg);
	come_to_rest(fleet);
	close_fleet(fleet);
	free(fleet);
}

struct outcome fleet_play(uint64_t seed, const struct scene_options *options, enum tracing tracing)
{
	struct fleet *fleet = calloc(1, sizeof(*fleet));
	CHECK(fleet);
	fleet->tracing = tracing;
	scene_draw(&fleet->scene, seed, options);
	trace_scene(fleet);
	open_fleet(fleet);
	run_until(fleet, fleet->scene.length_us);
	come_to_rest(fleet);
	struct outcome outcome = { .digest = fleet->judge.digest,
				   .trace = fleet->trace_sum,
				   .steps = fleet->vtime.steps,
				   .builds = fleet->judge.builds_count - 1,
				   .replies = fleet->judge.replies,
				   .batches = fleet->judge.batches,
				   .errors = fleet->judge.errors };
	for (int i = 0; i < fleet->scene.nodes; i++)
		outcome.hits += fleet->nodes[i].hot.hits;
	close_fleet(fleet);
	free(fleet);
	return outcome;
}
