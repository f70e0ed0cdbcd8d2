#include "hot.h"

#include "base/check.h"
#include "fleet.h"

enum { HORIZON_US = SECOND };

/* What one arrival is told, without what differs by its time alone. */
struct told {
	enum engine_lookup lookup;
	bool draws;   /* a number: the moment of the early refresh, or its chance */
	bool trusted; /* so far: who sees trust end, ends it */
	bool flying;
	enum entry_phase phase; /* there is a miss before it, where trust is lost, and one after */
	enum answer_state state;
	enum answer_reason reason;
	const struct value *value;
};

void hot_init(struct hot *hot, struct node *node)
{
	double per_s = node->fleet->scene.hot_per_s;
	*hot = (struct hot){ .node = node };
	if (per_s > 0)
		hot->period_us = (int64_t)(1e6 / per_s);
	/* Not all daemons' readers in step. */
	hot->next_us = 1 + node->number * hot->period_us / node->fleet->scene.nodes;
}

static void hot_query(struct node *node, struct query *ret_query)
{
	const struct subject *key = &node->fleet->scene.keys[HOT_KEY];
	struct keyspace *keyspace = node->engine->keyspaces.at[key->keyspace];
	*ret_query = (struct query){ .kind = QUERY_GET, .wait_us = keyspace->policy->wait_us };
	engine_key(node->engine, keyspace, key->bytes, key->len, &ret_query->key);
}

/* What an arrival at that moment would be told, leaving no trace in the engine. */
static struct told probe(struct node *node, const struct query *query, int64_t true_us)
{
	struct engine *engine = node->engine;
	struct near_entry *ne = near_find(&engine->near, &query->key), before;
	struct engine_counters counters = engine->counters;
	struct rng rng = engine->rng;
	struct answer answer = { 0 };
	struct told told = { 0 };
	int64_t clock_us = node_now_at(node, true_us);
	if (ne)
		before = *ne;
	told.lookup = engine_lookup(engine, query, clock_us, &answer);
	told.draws = memcmp(&rng, &engine->rng, sizeof(rng)) != 0;
	told.trusted = !engine->trusted || clock_us < engine->trusted_until_us;
	told.phase = ne ? entry_phase(&ne->entry, clock_us) : ENTRY_DEAD;
	told.flying = engine_flight(engine, &query->key) != NULL;
	told.state = answer.state;
	told.reason = answer.reason;
	told.value = answer.value;
	engine->counters = counters;
	engine->rng = rng;
	if (ne)
		memcpy(ne, &before, sizeof(before));
	return told;
}

static bool is_same(const struct told *a, const struct told *b)
{
	return a->lookup == b->lookup && a->draws == b->draws && a->trusted == b->trusted &&
	       a->flying == b->flying && a->phase == b->phase && a->state == b->state &&
	       a->reason == b->reason && a->value == b->value;
}

/* Whether nothing comes of it but the answer: a refresh that is under way is not started again, and
   where all readers wait none asks. */
static bool is_plain(const struct hot *hot, const struct told *told)
{
	if (told->draws || !told->trusted)
		return false;
	switch (told->lookup) {
	case ENGINE_HIT:
		return true;
	case ENGINE_HIT_REFRESH:
		return told->flying;
	case ENGINE_HIT_EARLY:
	case ENGINE_HIT_CROWD:
		return false;
	case ENGINE_MISS:
		return hot->waiting >= HOT_WAITING_MAX;
	}
	return false;
}

/* ---- counting ---------------------------------------------------------------------------- */

static void look_up(struct node *node, const struct query *query, int64_t true_us)
{
	struct answer answer;
	int64_t clock_us = node_now_at(node, true_us);
	CHECK(engine_lookup(node->engine, query, clock_us, &answer) != ENGINE_MISS);
	judge_on_hit(&node->fleet->judge, node, query, &answer, true_us, clock_us);
}

/* What the engine itself counts, for `n` more like the last one looked up. */
static void add_hits(struct engine *engine, const struct query *query,
		     const struct engine_counters *before, uint64_t n)
{
	struct near_entry *ne = near_find(&engine->near, &query->key);
	engine->counters.hits_fresh += (engine->counters.hits_fresh - before->hits_fresh) * n;
	engine->counters.hits_stale += (engine->counters.hits_stale - before->hits_stale) * n;
	if (ne)
		ne->hits += n;
}

void hot_settle(struct node *node)
{
	struct hot *hot = &node->hot;
	int64_t now_us = node->fleet->vtime.now_us, end_us = node->fleet->scene.length_us;
	if (now_us > end_us)
		now_us = end_us;
	if (!hot->on || hot->next_us >= now_us)
		return;
	CHECK_MSG(!node->fleet->scene.one_by_one, "an arrival was passed over");
	uint64_t n = (uint64_t)((now_us - hot->next_us - 1) / hot->period_us) + 1;
	int64_t last_us = hot->next_us + (int64_t)(n - 1) * hot->period_us;
	struct query query;
	hot_query(node, &query);
	/* Where all readers wait already the others do not ask. */
	if (probe(node, &query, last_us).lookup != ENGINE_MISS) {
		struct engine_counters before = node->engine->counters;
		look_up(node, &query, hot->next_us);
		if (n > 1) {
			before = node->engine->counters;
			look_up(node, &query, last_us);
			add_hits(node->engine, &query, &before, n - 2);
		}
		hot->hits += n;
	}
	hot->next_us = last_us + hot->period_us;
}

/* ---- running ----------------------------------------------------------------------------- */

static void on_ask(struct errand *errand)
{
	struct node *node = errand->node;
	struct hot *hot = &node->hot;
	struct query query;
	struct answer answer;
	CHECK(hot->next_us == node->fleet->vtime.now_us);
	hot->next_us += hot->period_us;
	hot_query(node, &query);
	int64_t now_us = pump_now_us(&node->pump);
	if (hot->waiting >= HOT_WAITING_MAX &&
	    probe(node, &query, node->fleet->vtime.now_us).lookup == ENGINE_MISS)
		return;
	if (pump_lookup(&node->pump, &query, now_us, &answer) == LOOKUP_ANSWER) {
		hot->hits++;
		judge_on_hit(&node->fleet->judge, node, &query, &answer, node->fleet->vtime.now_us,
			     now_us);
	} else {
		crowd_wait(node, &query, HOT_KEY, true);
	}
}

/* How many arrivals from the next one on are told the same as that, up to the horizon. */
static int64_t count_same(struct hot *hot, const struct query *query)
{
	struct told first = probe(hot->node, query, hot->next_us);
	int64_t same = 1, other = HORIZON_US / hot->period_us + 1;
	if (hot->node->fleet->scene.one_by_one || !is_plain(hot, &first))
		return 0;
	/* The last one first: mostly all are the same. */
	for (int64_t at = other - 1; same < other; at = (same + other) / 2) {
		struct told told = probe(hot->node, query, hot->next_us + at * hot->period_us);
		if (is_same(&first, &told))
			same = at + 1;
		else
			other = at;
	}
	return same;
}

void hot_plan(struct node *node)
{
	struct hot *hot = &node->hot;
	int64_t now_us = node->fleet->vtime.now_us;
	node_cancel(&hot->ask);
	hot->on = hot->period_us > 0 && node->open && node->state == NODE_UP && !node->paused;
	if (hot->on && hot->next_us < now_us)
		hot->next_us += (now_us - hot->next_us + hot->period_us - 1) / hot->period_us *
				hot->period_us;
	hot->on = hot->on && hot->next_us < node->fleet->scene.length_us;
	if (!hot->on)
		return;
	struct query query;
	hot_query(node, &query);
	int64_t same = count_same(hot, &query);
	int64_t ask_us = hot->next_us + same * hot->period_us;
	if (ask_us < node->fleet->scene.length_us)
		node_at_late(node, &hot->ask, ask_us, on_ask);
}

void hot_pause(struct node *node)
{
	node_cancel(&node->hot.ask);
	node->hot.on = false;
}
