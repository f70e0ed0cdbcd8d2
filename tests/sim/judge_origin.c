/* What the origin is asked: builds and their statements. */
#include <stdio.h>

#include "base/check.h"
#include "fleet.h"

const struct build_record *judge_record(const struct judge *judge, uint32_t number)
{
	CHECK(number > 0 && number < judge->builds_count);
	return &judge->builds[number];
}

/* A build under the fleet's leases: one for each. */
static void check_lease(struct judge *judge, const struct build_record *record)
{
	struct lease *lease = judge_lease_of(&judge->keys[record->key], record->token);
	if (!lease || lease->built)
		judge_fail(judge, "one build", "key=%s node=%d builds %s",
			   judge->fleet->scene.keys[record->key].bytes, record->node,
			   lease ? "twice under one lease" : "without a lease");
	lease->built = true;
}

/* A build of a daemon for itself: the store must be away, and what failed lately is not retried. */
static void check_alone(struct judge *judge, const struct build_record *record)
{
	const struct fleet *fleet = judge->fleet;
	const struct key_history *history = &judge->keys[record->key];
	const char *key = fleet->scene.keys[record->key].bytes;
	int64_t now_us = fleet->vtime.now_us;
	if (!judge_is_astray(history, record->token))
		judge_fail(judge, "one build", "key=%s node=%d builds alone, with the store there",
			   key, record->node);
	int64_t error_us = fleet->scene.policies[fleet->scene.keys[record->key].keyspace].error_us;
	for (uint32_t i = history->builds_count; i-- > 0;) {
		const struct build_record *other = &judge->builds[history->builds[i]];
		if (other->life != record->life || !other->away || !other->over)
			continue;
		bool invalidated = history->changes_count > 0 &&
				   history->changes[history->changes_count - 1].at_us >=
					   other->ended_us - POST_VALUES_US;
		/* A pause may have cost it the lease, under which its failure is remembered. */
		if (fleet->nodes[record->node].resumed_us >= other->leased_us - CLOCKS_US)
			return;
		if (other->outcome == BUILD_FAILED && now_us - other->ended_us < error_us - MS &&
		    !invalidated &&
		    fleet->nodes[record->node].invalidated_us[record->key] <
			    other->ended_us - POST_VALUES_US)
			judge_fail(judge, "one build", "key=%s node=%d retries what failed alone",
				   key, record->node);
		return;
	}
}

static void check_not_fresh(struct judge *judge, struct node *node, const struct build *build,
			    const struct flight *flight)
{
	const struct near_entry *ne = near_find(&node->engine->near, &build->key);
	int64_t now_us = node_clock(node);
	bool served = ne && ne->generation == build->key.keyspace->generation;
	struct store_op op = { .key = build->key, .token = flight->token };
	int key = scene_find(&node->fleet->scene, build->key.bytes, build->key.len);
	if (served && !judge_is_demanded(node, key, &op) &&
	    entry_phase(&ne->entry, now_us) == ENTRY_FRESH && !flight->want_newer &&
	    !flight->want_min_version &&
	    !judge_is_early(&node->fleet->judge, node, key, &ne->entry, flight->newer_than,
			    now_us) &&
	    !judge_knew_better(&node->fleet->judge, key, flight->newer_than, &ne->entry))
		judge_fail(judge, "one build", "key=%.*s node=%d has it, fresh, and builds",
			   (int)build->key.len, build->key.bytes, node->number);
}

uint32_t judge_on_build(struct judge *judge, struct node *node, int key, const struct build *build)
{
	const struct flight *flight = container_of(build, struct flight, build);
	struct key_history *history = &judge->keys[key];
	uint32_t number = judge->builds_count;
	judge->builds = judge_grow(judge->builds, judge->builds_count, sizeof(*judge->builds));
	judge->builds_count++;
	history->builds =
		judge_grow(history->builds, history->builds_count, sizeof(*history->builds));
	history->builds[history->builds_count++] = number;
	struct build_record *record = &judge->builds[number];
	int64_t now_us = judge->fleet->vtime.now_us;
	*record = (struct build_record){ .key = key,
					 .node = node->number,
					 .life = node->life,
					 .token = flight->token,
					 .fence = flight->fence,
					 .away = !build->lock_key,
					 .unsettled = node->unsettled,
					 .leased_us =
						 now_us - (node_clock(node) - flight->leased_at_us),
					 .began_us = now_us,
					 .error_us = node_measure(node) };
	trace(judge->fleet, "node=%d ev=build key=%s build=%u fence=%" PRIu64 " slot=%d away=%d",
	      node->number, judge->fleet->scene.keys[key].bytes, number, flight->fence, build->slot,
	      record->away);
	judge_mix(judge, (uint64_t)record->began_us * 1000 + (uint64_t)key);
	if (build->slot < 0 || build->slot >= judge->fleet->scene.concurrency)
		judge_fail(judge, "origin budget", "slot=%d does not exist", build->slot);
	if (record->away)
		check_alone(judge, record);
	else
		check_lease(judge, record);
	check_not_fresh(judge, node, build, flight);
	return number;
}

/* Daemons that have not been in touch with the store since they started, on hosts that show the
   wrong time of day: their own shares' moments do not interleave with the others', so in a second
   each may have one more (docs/PROMISES.md, known holes). */
static uint32_t count_lost(const struct judge *judge)
{
	const struct fleet *fleet = judge->fleet;
	uint32_t lost = 0;
	for (int i = 0; i < fleet->scene.nodes && scene_has(&fleet->scene, TROUBLE_SKEW); i++)
		lost += fleet->nodes[i].state != NODE_DOWN && !fleet->nodes[i].post.clock.in_touch;
	return lost;
}

void judge_on_statement(struct judge *judge, uint32_t keys, uint32_t free)
{
	const struct scene *scene = &judge->fleet->scene;
	int64_t now_us = judge->fleet->vtime.now_us;
	uint32_t most = (uint32_t)scene->budget_per_s + count_lost(judge);
	judge->batches += keys > 1;
	judge->starts = judge_grow(judge->starts, judge->starts_count, sizeof(*judge->starts));
	judge->starts[judge->starts_count++] = now_us;
	if (judge->starts_count > most &&
	    now_us - judge->starts[judge->starts_count - 1 - most] < SECOND)
		judge_fail(
			judge, "origin budget", "%u statements in %.3f s, budget=%.0f/s", most + 1,
			(double)(now_us - judge->starts[judge->starts_count - 1 - most]) / SECOND,
			scene->budget_per_s);
	if (free < keys && judge_is_calm(judge))
		judge_fail(judge, "origin budget", "a lock is held, without a cause");
	if (free == 0)
		return;
	if (++judge->running > scene->concurrency)
		judge_fail(judge, "origin budget", "%d statements run, concurrency=%d",
			   judge->running, scene->concurrency);
	if (judge->running > judge->running_most)
		judge->running_most = judge->running;
}

void judge_on_read(struct judge *judge, uint32_t record, const struct reading *read)
{
	const struct database *database = &judge->fleet->database;
	judge->builds[record].ran_us = judge->fleet->vtime.now_us;
	judge->builds[record].read_us = database_position(database, judge->fleet->vtime.now_us);
	judge->builds[record].history = database_history(database);
	judge->builds[record].read = *read;
}

void judge_on_statement_end(struct judge *judge)
{
	CHECK(judge->running > 0);
	judge->running--;
}

void judge_on_built(struct judge *judge, uint32_t record, enum build_outcome outcome)
{
	struct build_record *its = &judge->builds[record];
	its->over = true;
	its->ended_us = judge->fleet->vtime.now_us;
	its->outcome = outcome;
	trace(judge->fleet, "node=%d ev=built key=%s build=%u outcome=%s", its->node,
	      judge->fleet->scene.keys[its->key].bytes, record, build_outcome_name(outcome));
}
