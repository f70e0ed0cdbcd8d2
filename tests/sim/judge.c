#include "judge.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "fleet.h"

/* Room for one more in an array of `count`, which grows at powers of two. */
static void *grow(void *array, uint32_t count, size_t size)
{
	if ((count & (count - 1)) != 0)
		return array;
	array = realloc(array, (count ? 2 * (size_t)count : 1) * size);
	CHECK(array);
	return array;
}

void judge_fail(const struct judge *judge, const char *promise, const char *format, ...)
{
	char text[512];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	printf("t=%.6f broken=\"%s\" %s\n", (double)judge->fleet->vtime.now_us / SECOND, promise,
	       text);
	fflush(stdout);
	_Exit(1);
}

void judge_mix(struct judge *judge, uint64_t number)
{
	judge->digest = (judge->digest ^ number) * 0x100000001b3u;
	judge->digest ^= judge->digest >> 29;
}

void judge_init(struct judge *judge, struct fleet *fleet)
{
	*judge = (struct judge){ .fleet = fleet,
				 .store_trouble_us = INT64_MIN / 2,
				 .origin_trouble_us = INT64_MIN / 2 };
	judge->builds = grow(NULL, 0, sizeof(*judge->builds));
	judge->builds[0] = (struct build_record){ 0 };
	judge->builds_count = 1;
}

void judge_close(struct judge *judge)
{
	for (int i = 0; i < KEYS_MAX; i++) {
		free(judge->keys[i].saves);
		free(judge->keys[i].changes);
		free(judge->keys[i].leases);
		free(judge->keys[i].builds);
	}
	free(judge->builds);
	free(judge->starts);
}

/* ---- causes ------------------------------------------------------------------------------ */

bool judge_store_troubled(const struct judge *judge, int64_t since_us)
{
	return judge->store_troubles > 0 || judge->store_trouble_us >= since_us;
}

bool judge_origin_troubled(const struct judge *judge, int64_t since_us)
{
	return judge->origin_troubles > 0 || judge->origin_trouble_us >= since_us;
}

bool judge_node_troubled(const struct judge *judge, int node, int64_t since_us)
{
	const struct node *its = &judge->fleet->nodes[node];
	return its->state != NODE_UP || its->paused || its->trouble_us >= since_us;
}

/* ---- the store --------------------------------------------------------------------------- */

static struct lease *last_lease(struct key_history *history)
{
	return history->leases_count ? &history->leases[history->leases_count - 1] : NULL;
}

/* A lease is given while the last one has not come back: it lapsed, which needs a cause. */
static void check_lost_lease(struct judge *judge, int key, const struct lease *last)
{
	int64_t since_us = last->at_us - POST_VALUES_US;
	if (last->settled || last->lost || judge_store_troubled(judge, since_us) ||
	    judge_node_troubled(judge, last->node, since_us))
		return;
	judge_fail(judge, "one build: each lease comes back", "key=%s node=%d leased=%.6f",
		   judge->fleet->scene.keys[key].bytes, last->node, (double)last->at_us / SECOND);
}

/* An early refresh is one of this very entry, and does not come before half of its fresh time. */
static bool is_early(const struct entry *entry, uint64_t newer_than, int64_t now_us)
{
	int64_t half_us = (entry->fresh_until_us - entry->generated_at_us) / 2;
	return newer_than == entry->fence && now_us >= entry->generated_at_us + half_us - 100 * MS;
}

/* A client has asked for a newer value, and may have waited for it when the flight began; of a
   flight that is gone (its lease was asked for twice, or late) when any did that can have sent it.
 */
static bool is_demanded(struct node *node, int key, const struct store_op *op)
{
	struct key its = op->key;
	its.bytes = node->fleet->scene.keys[key].bytes;
	const struct flight *flight = node->engine ? engine_flight(node->engine, &its) : NULL;
	int64_t since_us = node->fleet->vtime.now_us - POST_VALUES_US;
	if (flight && flight->token == op->token)
		since_us = node->fleet->vtime.now_us - (node_clock(node) - flight->created_at_us);
	/* An invalidation whose answer was lost is one too, until it is given up and built after.
	 */
	return node->demanded_us[key] >= since_us - WAIT_MOST_US ||
	       node->invalidated_us[key] >= since_us - WAIT_MOST_US - POST_CONTROL_US;
}

/* When the flight asked the store it knew of a newer one, which it had built while the store was
   away. It may have died here since. */
static bool knew_better(const struct judge *judge, uint64_t newer_than, const struct entry *entry)
{
	return newer_than == entry->fence &&
	       judge_store_troubled(judge, judge->fleet->vtime.now_us - CAUSE_US);
}

/* The daemon knows better: of a newer one, built while the store was away or lost by it, or that
   this very one has changed. */
static bool is_outdated(struct node *node, const struct store_op *op, const struct entry *entry)
{
	if (!node->engine || knew_better(&node->fleet->judge, op->want.fence_after, entry))
		return true;
	struct near *near = &node->engine->near;
	const struct near_entry *ne = near_find(near, &op->key);
	const struct scene *scene = &node->fleet->scene;
	int key = scene_find(scene, op->key.bytes, op->key.len);
	bool single_row = scene->policies[scene->keys[key].keyspace].single_row;
	if (ne && (entry_supersedes(&ne->entry, entry, single_row) ||
		   (ne->entry.fence == entry->fence && ne->entry.changed)))
		return true;
	return single_row && entry->has_version &&
	       ghosts_know_better(&near->ghosts, op->key.hash, entry->version, node_clock(node));
}

/* A lease is given over a fresh entry only to who wants a newer one. */
static void check_wanted(struct judge *judge, int key, int node, const struct store_op *op)
{
	struct fleet *fleet = judge->fleet;
	const struct shared_key *its = &fleet->shared.data.keys[key];
	int64_t now_us = shared_now(&fleet->shared);
	if (!its->has_entry || entry_phase(&its->entry, now_us) != ENTRY_FRESH ||
	    is_early(&its->entry, op->want.fence_after, now_us))
		return;
	if (!is_demanded(&fleet->nodes[node], key, op) &&
	    !is_outdated(&fleet->nodes[node], op, &its->entry))
		judge_fail(judge, "one build",
			   "key=%s node=%d is leased with a fresh entry there, fence=%" PRIu64
			   " fence_after=%" PRIu64 " min_version=%" PRId64 " demanded=%.6f",
			   fleet->scene.keys[key].bytes, node, its->entry.fence,
			   op->want.fence_after,
			   op->want.has_min_version ? op->want.min_version : 0,
			   (double)fleet->nodes[node].demanded_us[key] / SECOND);
}

void judge_on_leased(struct judge *judge, int key, int node, const struct store_op *op)
{
	struct key_history *history = &judge->keys[key];
	struct lease *last = last_lease(history);
	if (last)
		check_lost_lease(judge, key, last);
	check_wanted(judge, key, node, op);
	history->leases = grow(history->leases, history->leases_count, sizeof(*history->leases));
	history->leases[history->leases_count++] = (struct lease){
		.token = op->token, .node = node, .at_us = judge->fleet->vtime.now_us
	};
}

static struct lease *lease_of(struct key_history *history, uint64_t token)
{
	for (uint32_t i = history->leases_count; i-- > 0;)
		if (history->leases[i].token == token)
			return &history->leases[i];
	return NULL;
}

void judge_on_settled(struct judge *judge, int key, uint64_t token)
{
	struct lease *lease = lease_of(&judge->keys[key], token);
	CHECK(lease);
	lease->settled = true;
}

void judge_on_saved(struct judge *judge, int key, const struct entry *entry)
{
	struct key_history *history = &judge->keys[key];
	uint32_t number = 0;
	for (uint32_t i = history->builds_count; i-- > 0 && !number;)
		if (judge->builds[history->builds[i]].fence == entry->fence)
			number = history->builds[i];
	if (!number)
		judge_fail(judge, "no rollback", "key=%s: an entry that nobody built is stored",
			   judge->fleet->scene.keys[key].bytes);
	history->saves = grow(history->saves, history->saves_count, sizeof(*history->saves));
	history->saves[history->saves_count++] =
		(struct saved){ .at_us = judge->fleet->vtime.now_us, .build = number };
}

void judge_on_changed(struct judge *judge, int key, uint64_t floor, bool hard)
{
	struct key_history *history = &judge->keys[key];
	history->changes =
		grow(history->changes, history->changes_count, sizeof(*history->changes));
	history->changes[history->changes_count++] = (struct change){
		.at_us = judge->fleet->vtime.now_us, .floor = floor, .hard = hard
	};
}

void judge_on_forgotten(struct judge *judge, int key)
{
	for (int i = 0; i < (int)judge->fleet->scene.keys_count; i++) {
		struct key_history *history = &judge->keys[i];
		if ((key < 0 || key == i) && last_lease(history))
			last_lease(history)->lost = true;
	}
}

void judge_on_rolled_back(struct judge *judge, int64_t to_us)
{
	for (uint32_t key = 0; key < judge->fleet->scene.keys_count; key++) {
		struct key_history *history = &judge->keys[key];
		for (uint32_t i = history->saves_count; i-- > 0 && history->saves[i].at_us > to_us;)
			history->saves[i].lost = true;
		for (uint32_t i = history->changes_count;
		     i-- > 0 && history->changes[i].at_us > to_us;)
			history->changes[i].lost = true;
	}
	judge_on_forgotten(judge, -1);
}

/* ---- builds ------------------------------------------------------------------------------ */

const struct build_record *judge_record(const struct judge *judge, uint32_t number)
{
	CHECK(number > 0 && number < judge->builds_count);
	return &judge->builds[number];
}

/* A build under the fleet's leases: one for each. */
static void check_lease(struct judge *judge, const struct build_record *record)
{
	struct lease *lease = lease_of(&judge->keys[record->key], record->token);
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
	if (!judge_store_troubled(judge, now_us - 20 * SECOND) &&
	    !judge_node_troubled(judge, record->node, now_us - 20 * SECOND))
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
	if (served && !is_demanded(node, key, &op) &&
	    entry_phase(&ne->entry, now_us) == ENTRY_FRESH && !flight->want_newer &&
	    !flight->want_min_version && !is_early(&ne->entry, flight->newer_than, now_us) &&
	    !knew_better(&node->fleet->judge, flight->newer_than, &ne->entry))
		judge_fail(judge, "one build", "key=%.*s node=%d has it, fresh, and builds",
			   (int)build->key.len, build->key.bytes, node->number);
}

uint32_t judge_on_build(struct judge *judge, struct node *node, int key, const struct build *build)
{
	const struct flight *flight = container_of(build, struct flight, build);
	struct key_history *history = &judge->keys[key];
	uint32_t number = judge->builds_count;
	judge->builds = grow(judge->builds, judge->builds_count, sizeof(*judge->builds));
	judge->builds_count++;
	history->builds = grow(history->builds, history->builds_count, sizeof(*history->builds));
	history->builds[history->builds_count++] = number;
	struct build_record *record = &judge->builds[number];
	*record = (struct build_record){ .key = key,
					 .node = node->number,
					 .life = node->life,
					 .token = flight->token,
					 .fence = flight->fence,
					 .away = !build->lock_key,
					 .began_us = judge->fleet->vtime.now_us,
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

void judge_on_statement(struct judge *judge, uint32_t keys, uint32_t free)
{
	const struct scene *scene = &judge->fleet->scene;
	int64_t now_us = judge->fleet->vtime.now_us;
	uint32_t most = (uint32_t)scene->budget_per_s;
	judge->batches += keys > 1;
	judge->starts = grow(judge->starts, judge->starts_count, sizeof(*judge->starts));
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
	judge->builds[record].read_us = judge->fleet->vtime.now_us;
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

/* ---- rest -------------------------------------------------------------------------------- */

/* No trouble in this scene, or the last is long over. */
bool judge_is_calm(const struct judge *judge)
{
	const struct scene *scene = &judge->fleet->scene;
	uint32_t harmful = scene->troubles & ~(1u << TROUBLE_LEAVE | 1u << TROUBLE_SKEW);
	int64_t now_us = judge->fleet->vtime.now_us;
	return now_us > START_US && (harmful == 0 || now_us > scene->healed_us + HEALING_US);
}

void judge_on_rest(struct judge *judge)
{
	const struct fleet *fleet = judge->fleet;
	if (fleet->crowd.calls > 0)
		judge_fail(judge, "bounded waiting", "%" PRIu64 " requests have no answer",
			   fleet->crowd.calls);
	if (shared_leases(&fleet->shared) > 0)
		judge_fail(judge, "one build: each lease comes back", "leases=%d at rest",
			   shared_leases(&fleet->shared));
	if (shared_slots(&fleet->shared) > 0)
		judge_fail(judge, "origin budget: each slot comes back", "slots=%d at rest",
			   shared_slots(&fleet->shared));
	if (judge->running > 0 || fleet->server.statements > 0)
		judge_fail(judge, "origin budget", "%d statements run at rest", judge->running);
	for (int i = 0; i < fleet->scene.nodes; i++) {
		const struct engine *engine = fleet->nodes[i].engine;
		if (!engine || !engine_is_idle(engine) || engine->leases + engine->slots > 0)
			judge_fail(judge, "bounded waiting", "node=%d finds no rest", i);
	}
}
