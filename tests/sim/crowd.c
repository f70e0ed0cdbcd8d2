#include "crowd.h"

#include <stdlib.h>

#include "base/check.h"
#include "fleet.h"

enum { GRAVES_MAX = 1000 };

/* The clients of one daemon. */
struct visitor {
	struct rng rng;
	struct errand next;
};

/* ---- asking ------------------------------------------------------------------------------ */

static void bury(struct call *call)
{
	struct node *node = call->node;
	struct crowd *crowd = &node->fleet->crowd;
	node_cancel(&call->leave);
	list_remove(&node->calls, &call->link);
	node->hot.waiting -= call->hot;
	crowd->calls--;
	call->over = true;
	list_push_back(&crowd->graves, &call->link);
	if (crowd->graves.count > GRAVES_MAX)
		free(container_of(list_pop_front(&crowd->graves), struct call, link));
}

static void on_answer(struct request *request, const struct answer *answer)
{
	struct call *call = container_of(request, struct call, request);
	if (call->over)
		judge_fail(&call->node->fleet->judge, "exactly one reply", "node=%d key=%s",
			   call->node->number, call->node->fleet->scene.keys[call->key].bytes);
	if (!call->gone)
		judge_on_reply(&call->node->fleet->judge, call, answer);
	bury(call);
}

static void on_leave(struct errand *errand)
{
	struct call *call = container_of(errand, struct call, leave);
	pump_abandon(&errand->node->pump, &call->request);
	bury(call);
}

void crowd_wait(struct node *node, const struct query *query, int key, bool hot)
{
	struct crowd *crowd = &node->fleet->crowd;
	struct visitor *visitor = &crowd->visitors[node->number];
	struct call *call = calloc(1, sizeof(*call));
	CHECK(call);
	*call = (struct call){
		.request = { .query = *query, .answer = on_answer },
		.node = node,
		.key = key,
		.connection = hot ? 0 : (int)rng_between(&visitor->rng, 0, CONNECTIONS - 1),
		.asked_us = node->fleet->vtime.now_us,
		.asked_clock_us = node_now(node),
		.hot = hot
	};
	list_push_back(&node->calls, &call->link);
	node->hot.waiting += hot;
	crowd->calls++;
	if (crowd->leaves && draw_chance(&visitor->rng, 0.3))
		node_at(node, &call->leave,
			node->fleet->vtime.now_us + draw_exponential(&visitor->rng, 50 * MS),
			on_leave, NULL);
	call->request.query.client = (uint32_t)call->connection + 1;
	pump_submit(&node->pump, &call->request);
}

static void query_init(struct node *node, int key, struct query *ret_query)
{
	const struct subject *subject = &node->fleet->scene.keys[key];
	struct keyspace *keyspace = node->engine->keyspaces.at[subject->keyspace];
	*ret_query = (struct query){ .kind = QUERY_GET, .wait_us = keyspace->policy->wait_us };
	engine_key(node->engine, keyspace, subject->bytes, subject->len, &ret_query->key);
}

static void ask(struct node *node, const struct query *query, int key)
{
	struct answer answer;
	if (query->kind == QUERY_REFRESH || query->has_min_version)
		node->demanded_us[key] = node->fleet->vtime.now_us;
	int64_t now_us = pump_now_us(&node->pump);
	if (pump_lookup(&node->pump, query, now_us, &answer) == LOOKUP_WAIT)
		crowd_wait(node, query, key, false);
	else
		judge_on_hit(&node->fleet->judge, node, query, &answer, node->fleet->vtime.now_us,
			     now_us);
}

void crowd_get(struct node *node, int key)
{
	struct query query;
	node_enter(node);
	query_init(node, key, &query);
	ask(node, &query, key);
	node_leave(node);
}

struct wish {
	struct invalidation invalidation;
	struct node *node;
};

static void on_invalidated(struct invalidation *invalidation)
{
	struct wish *wish = container_of(invalidation, struct wish, invalidation);
	wish->node->fleet->crowd.calls--;
	free(wish);
}

static void invalidate(struct node *node, int key, bool hard)
{
	struct wish *wish = calloc(1, sizeof(*wish));
	struct query query;
	CHECK(wish);
	query_init(node, key, &query);
	wish->node = node;
	wish->invalidation =
		(struct invalidation){ .key = query.key, .hard = hard, .done = on_invalidated };
	node->invalidated_us[key] = node->fleet->vtime.now_us;
	node->fleet->crowd.calls++;
	trace(node->fleet, "node=%d ev=invalidate key=%s hard=%d", node->number,
	      node->fleet->scene.keys[key].bytes, hard);
	pump_invalidate(&node->pump, &wish->invalidation);
}

void crowd_invalidate_keyspace(struct node *node, int number, int64_t spread_us)
{
	struct keyspace *keyspace = node->engine->keyspaces.at[number];
	const char *name = keyspace->policy->name;
	struct wish *wish = calloc(1, sizeof(*wish));
	CHECK(wish);
	wish->node = node;
	wish->invalidation =
		(struct invalidation){ .spread_us = spread_us, .done = on_invalidated };
	node->fleet->crowd.calls++;
	trace(node->fleet, "node=%d ev=invalidate keyspace=%s spread=%" PRId64, node->number, name,
	      spread_us);
	node_enter(node);
	engine_key(node->engine, keyspace, name, strlen(name), &wish->invalidation.key);
	pump_invalidate_keyspace(&node->pump, &wish->invalidation);
	node_leave(node);
}

/* ---- what they want ---------------------------------------------------------------------- */

static int draw_key(const struct crowd *crowd, struct rng *rng)
{
	double at = rng_unit(rng) * crowd->zipf[crowd->fleet->scene.keys_count - 1];
	int key = 0;
	while (crowd->zipf[key] <= at)
		key++;
	/* The ranks go over the keyspaces in turn. */
	int each = (int)crowd->fleet->scene.keys_each;
	return key % KEYSPACES * each + key / KEYSPACES;
}

static int64_t last_version(const struct fleet *fleet, int row)
{
	const struct row *its = &fleet->database.rows[row];
	return its->commits[its->count - 1].version;
}

static void draw_options(const struct fleet *fleet, struct rng *rng, int key, struct query *query)
{
	const struct scene *scene = &fleet->scene;
	int draw = (int)rng_between(rng, 0, 999);
	if (draw_chance(rng, 0.2))
		query->wait_us = rng_between(rng, 50 * MS, WAIT_MOST_US);
	if ((draw -= scene->refreshes) < 0) {
		query->kind = QUERY_REFRESH;
		query->has_if_older = draw_chance(rng, 0.3);
		query->if_older_us = rng_between(rng, 0, 3 * SECOND);
		if (draw_chance(rng, 0.3))
			query->wait_us = 0;
	} else if ((draw -= scene->min_versions) < 0) {
		query->has_min_version = true;
		query->min_version = last_version(fleet, key);
	} else if ((draw -= scene->immediates) < 0) {
		query->wait_us = 0;
	} else if ((draw -= scene->unstales) < 0) {
		query->has_max_stale = true;
		query->max_stale_us = draw_chance(rng, 0.5) ? 0 : rng_between(rng, 0, SECOND);
	}
}

/* Some of its neighbours too, at once. */
static void ask_neighbours(struct node *node, struct rng *rng, const struct query *query, int key)
{
	const struct scene *scene = &node->fleet->scene;
	int each = (int)scene->keys_each, first = (int)scene->keys[key].keyspace * each;
	int count = (int)rng_between(rng, 1, each - 1);
	for (int i = 1; i <= count; i++) {
		int other = first + (key - first + i) % each;
		struct query its;
		query_init(node, other, &its);
		its.wait_us = query->wait_us;
		ask(node, &its, other);
	}
}

static void on_next(struct errand *errand)
{
	struct node *node = errand->node;
	struct fleet *fleet = node->fleet;
	struct visitor *visitor = &fleet->crowd.visitors[node->number];
	if (node->state != NODE_UP || fleet->vtime.now_us >= fleet->scene.length_us)
		return;
	int key = draw_key(&fleet->crowd, &visitor->rng);
	if (rng_between(&visitor->rng, 0, 999) < fleet->scene.invalidations) {
		invalidate(node, key, draw_chance(&visitor->rng, 0.3));
	} else {
		struct query query;
		query_init(node, key, &query);
		draw_options(fleet, &visitor->rng, key, &query);
		ask(node, &query, key);
		if (query.key.keyspace->policy->batch.query &&
		    rng_between(&visitor->rng, 0, 999) < fleet->scene.mgets)
			ask_neighbours(node, &visitor->rng, &query, key);
	}
	node_at(node, &visitor->next,
		fleet->vtime.now_us +
			draw_exponential(&visitor->rng, 1e6 / fleet->scene.asks_per_s),
		on_next, NULL);
}

void crowd_on_commit(struct crowd *crowd, int row, int64_t version)
{
	struct fleet *fleet = crowd->fleet;
	struct node *node = &fleet->nodes[rng_between(&crowd->rng, 0, fleet->scene.nodes - 1)];
	struct query query;
	bool asks = draw_chance(&crowd->rng, 0.3), invalidates = draw_chance(&crowd->rng, 0.3);
	bool refreshes = draw_chance(&crowd->rng, 0.3);
	if (!asks || !node->open || node->state != NODE_UP || node->paused ||
	    fleet->vtime.now_us >= fleet->scene.length_us)
		return;
	node_enter(node);
	query_init(node, row, &query);
	query.has_min_version = true;
	query.min_version = version;
	if (refreshes)
		query.kind = QUERY_REFRESH;
	if (invalidates && fleet->scene.invalidations > 0)
		invalidate(node, row, false);
	else
		ask(node, &query, row);
	node_leave(node);
}

/* ---- coming and going -------------------------------------------------------------------- */

void crowd_connect(struct node *node)
{
	struct fleet *fleet = node->fleet;
	struct visitor *visitor = &fleet->crowd.visitors[node->number];
	if (fleet->scene.asks_per_s <= 0)
		return;
	node_at(node, &visitor->next,
		fleet->vtime.now_us +
			draw_exponential(&visitor->rng, 1e6 / fleet->scene.asks_per_s),
		on_next, NULL);
}

void crowd_disconnect(struct node *node)
{
	list_foreach (&node->calls, link)
		container_of(link, struct call, link)->gone = true;
}

void crowd_init(struct crowd *crowd, struct fleet *fleet)
{
	*crowd = (struct crowd){ .fleet = fleet };
	list_init(&crowd->graves);
	scene_stream(&fleet->scene, STREAM_CLIENTS, UINT32_MAX, &crowd->rng);
	crowd->visitors = calloc((size_t)fleet->scene.nodes, sizeof(*crowd->visitors));
	CHECK(crowd->visitors);
	for (int i = 0; i < fleet->scene.nodes; i++)
		scene_stream(&fleet->scene, STREAM_CLIENTS, (uint32_t)i, &crowd->visitors[i].rng);
	double sum = 0;
	for (uint32_t i = 0; i < fleet->scene.keys_count; i++)
		crowd->zipf[i] = sum += 1.0 / (i + 1);
}

void crowd_close(struct crowd *crowd)
{
	struct list_node *grave;
	while ((grave = list_pop_front(&crowd->graves)))
		free(container_of(grave, struct call, link));
	free(crowd->visitors);
}
