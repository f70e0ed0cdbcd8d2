/* A warm-up by a whole fleet under live load, in virtual time: the daemons' own engine, pump and
 * warmer; a store of their keys, leases, permits and jobs (store/job_book.h); an origin that
 * counts. One daemon is killed on the way. What must hold:
 *   - each key is built once, but for what the killed daemon had under way,
 *   - in as few statements as go, but for the last ones of each daemon,
 *   - no second has more statements than the budget, nor more of the warm-up's than its rate,
 *   - no request waits for a permit longer than it would without the warm-up and a token's time,
 *   - and the warm-up takes about as long as its rate asks for.
 *
 * Usage: warm KEYS DAEMONS. Exits with 0 if all hold. Seeds are fixed: two runs say the same.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "core/pump.h"
#include "core/warmer.h"
#include "store/job_book.h"
#include "store/share.h"
#include "vtime.h"

enum {
	RATE = 50, /* of the warm-up, statements a second */
	BUDGET = 200,
	CONCURRENCY = 40,
	BATCH = 64,
	LIVE_PER_S = 80, /* requests for keys that nobody warms, over the fleet */
	BUILD_US = 40 * MS,
	LEASE_KEPT_US = 2 * SECOND,
	FEED_US = 5 * MS,
	BEGIN_US = 10 * SECOND,
	MORE_US = 30 * SECOND, /* after the warm-up */
};

/* A key in the store: of the warm-up by its number, of live load above. */
struct item {
	uint64_t token;
	int64_t lease_until_us;
	uint64_t fence;
	int64_t generated_us; /* 0: there is none */
	uint32_t builds;
};

struct slot {
	uint64_t token;
	bool background;
};

struct node {
	struct world *world;
	struct engine *engine;
	struct pump pump;
	struct warmer warmer;
	struct timer turn, warm_turn, ask;
	uint64_t live; /* requests */
	bool dead;
};

/* An operation, a job's call, or a build, on its way there and back. */
struct errand {
	struct timer timer;
	struct node *node;
	struct store_op *op;
	struct job_call *call;
	struct build *build;
};

struct world {
	struct vtime vtime;
	struct rng rng;
	uint32_t keys, live_keys, nodes_count;
	struct item *items; /* owned; keys, then live_keys */
	struct node *nodes; /* owned */
	struct policy policies[2];
	struct job_book book;
	struct slot slots[CONCURRENCY];
	int64_t next_us, interval_us; /* the budget's */
	int64_t shadow_us;            /* what it would be without the warm-up */
	int64_t pace_next_us;
	struct timer feeder, killer;
	uint32_t fed, feed_at;
	int64_t *starts, *warm_starts; /* owned; moments of statements */
	uint32_t starts_count, warm_starts_count;
	uint64_t answered, refused, lost_keys;
	int64_t delayed_most_us;
	int64_t done_us;
	struct timer watch;
};

static struct world world;

/* ---- the store ---------------------------------------------------------------------------- */

static int64_t now(void)
{
	return world.vtime.now_us;
}

static int64_t latency(void)
{
	return rng_between(&world.rng, 100, 1500);
}

static struct item *item_of(const struct key *key)
{
	uint32_t number = 0;
	for (uint32_t i = 2; i < key->len; i++)
		number = number * 10 + (uint32_t)(key->bytes[i] - '0');
	return &world.items[key->bytes[0] == 'w' ? number : world.keys + number];
}

static void do_load(struct store_op *op)
{
	const struct item *item = item_of(&op->key);
	op->fence = item->fence;
	op->has_claim = item->fence != 0;
	if (item->generated_us == 0)
		return;
	op->has_entry = true;
	op->entry = (struct entry){
		.fence = item->fence,
		.definition = op->key.keyspace->definition,
		.generated_at_us = item->generated_us,
		.fresh_until_us = item->generated_us + op->key.keyspace->policy->fresh_us,
		.stale_until_us = item->generated_us + op->key.keyspace->policy->fresh_us + SECOND
	};
	op->has_value = op->entry.fence > op->known_fence;
	if (op->has_value)
		op->entry.value = value_create("v", 1);
}

static void do_lease(struct store_op *op)
{
	struct item *item = item_of(&op->key);
	if (item->lease_until_us > now() && item->token != op->token) {
		op->outcome = STORE_HELD;
		op->left_us = item->lease_until_us - now();
		return;
	}
	if (item->generated_us != 0 && item->fence > op->want.fence_after) {
		do_load(op);
		op->outcome = STORE_ENOUGH;
		return;
	}
	item->token = op->token;
	item->lease_until_us = now() + op->length_us;
	item->fence++;
	op->fence = item->fence;
}

static bool is_ours(const struct item *item, const struct store_op *op)
{
	return item->token == op->token && item->lease_until_us > now();
}

static void do_save(struct store_op *op)
{
	struct item *item = item_of(&op->key);
	if (!is_ours(item, op)) {
		op->outcome = STORE_REFUSED;
		return;
	}
	item->generated_us = op->entry.generated_at_us;
	item->lease_until_us = 0;
}

static void note_delay(int64_t start_us)
{
	int64_t alone_us = world.shadow_us > now() ? world.shadow_us : now();
	world.shadow_us = alone_us + world.interval_us;
	if (start_us - alone_us > world.delayed_most_us)
		world.delayed_most_us = start_us - alone_us;
}

static void retry(struct store_op *op, int64_t left_us, int64_t spread_us)
{
	op->outcome = STORE_RETRY;
	op->left_us = left_us + rng_between(&world.rng, 0, spread_us);
}

static void do_permit(struct store_op *op)
{
	int free_slot = -1, background = 0;
	for (int i = 0; i < CONCURRENCY; i++) {
		background += world.slots[i].token != 0 && world.slots[i].background;
		if (world.slots[i].token == 0)
			free_slot = i;
	}
	int64_t start_us = world.next_us > now() ? world.next_us : now();
	int64_t pace_us = op->pace.interval_us;
	int64_t paced_us = pace_us > 0 ? share_pace(world.pace_next_us, pace_us, now()) : now();
	int64_t spread_us =
		pace_us * world.nodes_count < 2 * SECOND ? pace_us * world.nodes_count : 2 * SECOND;
	if (start_us - now() > op->reach_us) {
		retry(op, start_us - now() - op->reach_us, 100 * MS);
	} else if (free_slot < 0 || (op->background && background >= CONCURRENCY / 2)) {
		retry(op, 50 * MS, 100 * MS);
	} else if (paced_us > now()) {
		retry(op, paced_us - now(), spread_us);
	} else {
		if (pace_us > 0)
			world.pace_next_us = paced_us + pace_us;
		else
			note_delay(start_us);
		world.next_us = start_us + world.interval_us;
		world.slots[free_slot] = (struct slot){ op->token, op->background };
		op->slot = free_slot;
		op->left_us = start_us - now();
	}
}

static void do_free(const struct store_op *op)
{
	if (world.slots[op->slot].token == op->token)
		world.slots[op->slot] = (struct slot){ 0 };
}

static void carry_out(struct store_op *op)
{
	struct item *item =
		op->verb == STORE_PERMIT || op->verb == STORE_FREE ? NULL : item_of(&op->key);
	op->outcome = STORE_DONE;
	switch (op->verb) {
	case STORE_LOAD:
		do_load(op);
		return;
	case STORE_LEASE:
		do_lease(op);
		return;
	case STORE_RENEW:
		if (is_ours(item, op))
			item->lease_until_us = now() + op->length_us;
		else
			op->outcome = STORE_REFUSED;
		return;
	case STORE_PERMIT:
		do_permit(op);
		return;
	case STORE_FREE:
		do_free(op);
		return;
	case STORE_SAVE:
		do_save(op);
		return;
	case STORE_RELEASE:
		if (is_ours(item, op))
			item->lease_until_us = 0;
		return;
	case STORE_INVALIDATE:
	case STORE_EPOCH:
		break;
	}
	check_failed("verb", __FILE__, __LINE__, "%s", store_verb_name(op->verb));
}

static void come_back(struct timer *timer)
{
	struct errand *errand = container_of(timer, struct errand, timer);
	struct errand its = *errand;
	mem_free(errand);
	if (its.op)
		its.op->done(its.op);
	else
		its.call->done(its.call);
}

/* Half of the way there, half of it back. */
static void arrive(struct timer *timer)
{
	struct errand *errand = container_of(timer, struct errand, timer);
	if (errand->op && !errand->node->dead)
		carry_out(errand->op);
	else if (errand->op)
		errand->op->outcome = STORE_AWAY;
	/* What a book answers is borrowed until its next call: the way back takes no time. */
	if (errand->call) {
		if (errand->node->dead)
			errand->call->outcome = JOB_AWAY;
		else
			job_book_do(&world.book, errand->call, now());
		come_back(timer);
		return;
	}
	vtime_set(&world.vtime, timer, now() + latency() / 2, come_back);
}

static struct errand *send(struct node *node)
{
	struct errand *errand = mem_zalloc(sizeof(*errand));
	CHECK(errand);
	errand->node = node;
	vtime_set(&world.vtime, &errand->timer, now() + latency() / 2, arrive);
	return errand;
}

static void submit_op(void *impl, struct store_op *op)
{
	op->has_entry = op->has_value = op->has_claim = op->has_failure = false;
	op->floor = 0;
	op->left_us = 0;
	send(impl)->op = op;
}

static void submit_call(void *impl, struct job_call *call)
{
	send(impl)->call = call;
}

/* ---- the origin --------------------------------------------------------------------------- */

static void on_built(struct timer *timer)
{
	struct errand *errand = container_of(timer, struct errand, timer);
	struct build *first = errand->build;
	for (struct build *build = first; build; build = build->next) {
		build->outcome = errand->node->dead ? BUILD_CANCELLED : BUILD_ROW;
		build->value = errand->node->dead ? NULL : value_create("v", 1);
	}
	mem_free(errand);
	first->done(first);
}

static void origin_build(void *impl, struct build *build)
{
	struct errand *errand = mem_zalloc(sizeof(*errand));
	bool warm = build->key.bytes[0] == 'w';
	CHECK(errand);
	errand->node = impl;
	errand->build = build;
	world.starts[world.starts_count++] = now();
	if (warm)
		world.warm_starts[world.warm_starts_count++] = now();
	for (const struct build *each = build; each; each = each->next)
		item_of(&each->key)->builds++;
	vtime_set(&world.vtime, &errand->timer,
		  now() + rng_between(&world.rng, BUILD_US / 2, 3 * BUILD_US / 2), on_built);
}

static void origin_cancel(void *impl, struct build *build)
{
	(void)impl;
	(void)build; /* it ends by itself, soon */
}

/* ---- a daemon ----------------------------------------------------------------------------- */

static int64_t host_now(void *impl)
{
	(void)impl;
	return now();
}

static void on_turn(struct timer *timer)
{
	pump_turn(&container_of(timer, struct node, turn)->pump);
}

static void wake_pump_at(void *impl, int64_t at_us)
{
	struct node *node = impl;
	vtime_cancel(&world.vtime, &node->turn);
	if (at_us != INT64_MAX)
		vtime_set(&world.vtime, &node->turn, at_us, on_turn);
}

static void on_warm_turn(struct timer *timer)
{
	warmer_turn(&container_of(timer, struct node, warm_turn)->warmer);
}

/* A loop's timers count in ms. */
static void wake_warmer_at(void *impl, int64_t at_us)
{
	struct node *node = impl;
	vtime_cancel(&world.vtime, &node->warm_turn);
	if (at_us == INT64_MAX)
		return;
	int64_t in_ms = at_us > now() ? (at_us - now() + MS - 1) / MS : 0;
	vtime_set(&world.vtime, &node->warm_turn, now() + in_ms * MS, on_warm_turn);
}

static void on_stopped(void *impl)
{
	(void)impl;
}

static bool read_key(char *bytes, uint32_t *len, uint32_t *ret_keyspace_len, const char **ret_why)
{
	(void)bytes;
	(void)len;
	(void)ret_why;
	*ret_keyspace_len = 1;
	return true;
}

/* A request for a key that was never asked for. */
struct live {
	struct request request;
	const struct node *node;
	char bytes[24];
};

static void on_answer(struct request *request, const struct answer *answer)
{
	struct live *live = container_of(request, struct live, request);
	world.answered += answer->status == STATUS_OK;
	world.refused += answer->status != STATUS_OK && !live->node->dead;
	mem_free(live);
}

static void on_ask(struct timer *timer)
{
	struct node *node = container_of(timer, struct node, ask);
	struct live *live = mem_zalloc(sizeof(*live));
	struct query *query = &live->request.query;
	struct answer answer;
	if (node->dead || world.done_us != 0) {
		mem_free(live);
		return;
	}
	int len = snprintf(live->bytes, sizeof(live->bytes), "l:%u", world.live_keys++);
	*query = (struct query){ .kind = QUERY_GET, .wait_us = 3 * SECOND };
	engine_key(node->engine, engine_keyspace(node->engine, "l", 1), live->bytes, (size_t)len,
		   &query->key);
	live->request.answer = on_answer;
	live->node = node;
	CHECK(pump_lookup(&node->pump, query, now(), &answer) == LOOKUP_WAIT);
	pump_submit(&node->pump, &live->request);
	vtime_set(&world.vtime, &node->ask,
		  now() + rng_between(&world.rng, 1, 2 * SECOND / LIVE_PER_S * world.nodes_count),
		  on_ask);
}

static void open_node(struct node *node, uint32_t number)
{
	unsigned char secret[KEY_SECRET_LEN];
	const struct engine_limits limits = { .requests_max = 10000,
					      .queue_max = 1000,
					      .concurrency = CONCURRENCY,
					      .key_bytes_max = 1 << 20,
					      .near_bytes_max = 1 << 20 };
	memset(secret, 42, sizeof(secret));
	node->engine = engine_create(world.policies, 2, &limits, secret, number + 1);
	CHECK(node->engine);
	struct store store = { node, submit_op };
	struct origin origin = { .impl = node, .build = origin_build, .cancel = origin_cancel };
	pump_init(&node->pump, node->engine, &store, &origin,
		  &(struct pump_host){ .impl = node,
				       .now_us = host_now,
				       .wake_at = wake_pump_at,
				       .stopped = on_stopped });
	warmer_init(&node->warmer, &(struct warmer_options){
					   .pump = &node->pump,
					   .read_key = read_key,
					   .jobs = { node, submit_call },
					   .host = { node, host_now, wake_warmer_at, on_stopped },
					   .concurrency = CONCURRENCY,
					   .fleet = world.nodes_count,
					   .token = number + 1 });
	warmer_turn(&node->warmer);
	vtime_set(&world.vtime, &node->ask, now() + rng_between(&world.rng, 1, SECOND), on_ask);
}

static void stop_node(struct node *node)
{
	warmer_stop(&node->warmer);
	pump_stop(&node->pump);
	vtime_cancel(&world.vtime, &node->ask);
}

/* In the midst of it: what it has under way comes to nothing, and what it holds lapses. */
static void on_kill(struct timer *timer)
{
	struct node *node = &world.nodes[0];
	(void)timer;
	node->dead = true;
	list_foreach (&node->engine->all, at)
		world.lost_keys += container_of(at, struct flight, all)->build_seq != 0;
	for (int i = 0; i < CONCURRENCY; i++)
		list_foreach (&node->engine->batches, at)
			if (container_of(at, struct batch, all)->token == world.slots[i].token)
				world.slots[i] = (struct slot){ 0 };
	stop_node(node);
}

/* ---- the job ------------------------------------------------------------------------------ */

static void on_feed(struct timer *timer)
{
	static char bytes[CHUNK_BYTES_MAX];
	struct job_call call = { .verb = JOB_FEED,
				 .name = "plan",
				 .id = 5,
				 .token = 1,
				 .length_us = SECOND,
				 .from = world.fed,
				 .total = -1,
				 .ahead_max = 2 * world.nodes_count };
	for (uint32_t i = world.feed_at; i < world.keys && call.keys < CHUNK_KEYS_MAX; i++) {
		char key[24];
		int len = snprintf(key, sizeof(key), "w:%u", i);
		call.len += (uint32_t)chunk_put(bytes + call.len, sizeof(bytes) - call.len, key,
						(uint32_t)len);
		call.keys++;
	}
	call.bytes = bytes;
	call.to = call.from + call.len;
	call.last = world.feed_at + call.keys == world.keys;
	job_book_do(&world.book, &call, now());
	CHECK(call.outcome == JOB_OK || call.outcome == JOB_FULL);
	if (call.outcome == JOB_OK) {
		world.fed = (uint32_t)call.to;
		world.feed_at += call.keys;
	}
	if (world.feed_at < world.keys)
		vtime_set(&world.vtime, timer, now() + (call.outcome == JOB_OK ? 0 : FEED_US),
			  on_feed);
}

static void on_begin(struct timer *timer)
{
	struct job_call call = {
		.verb = JOB_OPEN, .name = "plan", .id = 5, .interval_us = SECOND / RATE
	};
	strcpy(call.spec, "plan 2");
	job_book_do(&world.book, &call, now());
	on_feed(timer);
}

static void on_watch(struct timer *timer)
{
	struct job_call call = { .verb = JOB_LOOK, .name = "plan" };
	job_book_do(&world.book, &call, now());
	if (call.outcome == JOB_OK && call.job.state == JOB_DONE && world.done_us == 0)
		world.done_us = now();
	vtime_set(&world.vtime, timer, now() + 100 * MS, on_watch);
}

/* ---- what must hold ----------------------------------------------------------------------- */

static uint32_t most_in_a_second(const int64_t *starts, uint32_t count)
{
	uint32_t most = 0;
	for (uint32_t first = 0, last = 0; last < count; last++) {
		while (starts[last] - starts[first] >= SECOND)
			first++;
		if (last - first + 1 > most)
			most = last - first + 1;
	}
	return most;
}

static bool holds(const char *what, bool good)
{
	if (!good)
		printf("BROKEN: %s\n", what);
	return good;
}

static bool judge(void)
{
	uint64_t built = 0, again = 0;
	for (uint32_t i = 0; i < world.keys; i++) {
		built += world.items[i].builds > 0;
		again += world.items[i].builds > 1 ? world.items[i].builds - 1 : 0;
	}
	uint32_t least = (world.keys + BATCH - 1) / BATCH;
	uint32_t budget = most_in_a_second(world.starts, world.starts_count);
	uint32_t rate = most_in_a_second(world.warm_starts, world.warm_starts_count);
	double took_s = (double)(world.done_us - BEGIN_US) / SECOND, asked_s = (double)least / RATE;
	printf("keys=%u daemons=%u built=%" PRIu64 " again=%" PRIu64 " lost=%" PRIu64
	       " statements=%u of_at_least=%u took=%.1f_s of_at_least=%.1f_s most_a_second=%u "
	       "most_of_the_plan=%u requests=%" PRIu64 " refused=%" PRIu64
	       " delayed_most=%.1f_ms\n",
	       world.keys, world.nodes_count, built, again, world.lost_keys,
	       world.warm_starts_count, least, took_s, asked_s, budget, rate, world.answered,
	       world.refused, (double)world.delayed_most_us / MS);
	bool all = holds("each key is built", built == world.keys);
	all &= holds("once", again <= world.lost_keys);
	all &= holds("in few statements", world.warm_starts_count <= least + 4 * world.nodes_count);
	all &= holds("within the budget", budget <= BUDGET);
	all &= holds("at its rate", rate <= RATE + 3);
	all &= holds("in its time", took_s <= 1.15 * asked_s + 20);
	all &= holds("requests are answered", world.answered > 0 && world.refused == 0);
	all &= holds("requests are delayed by a token at most",
		     world.delayed_most_us <= world.interval_us);
	return all;
}

static void set_up(uint32_t keys, uint32_t nodes)
{
	int64_t takes_us = (int64_t)(keys / BATCH + 1) * SECOND / RATE * 2 + 60 * SECOND;
	size_t live = (size_t)(takes_us / SECOND + 100) * LIVE_PER_S * 2;
	size_t statements = live + 2 * keys;
	world.keys = keys;
	world.nodes_count = nodes;
	world.interval_us = (int64_t)(1e6 / (0.9 * BUDGET));
	world.items = calloc(keys + live, sizeof(*world.items));
	world.nodes = calloc(nodes, sizeof(*world.nodes));
	world.starts = calloc(statements, sizeof(*world.starts));
	world.warm_starts = calloc(statements, sizeof(*world.warm_starts));
	CHECK(world.items && world.nodes && world.starts && world.warm_starts);
	rng_seed(&world.rng, 7);
	job_book_init(&world.book);
	world.policies[0] = (struct policy){
		.name = (char *)"w",
		.query = (char *)"q",
		.fresh_us = 3600 * (int64_t)SECOND,
		.stale_us = SECOND,
		.error_us = SECOND,
		.wait_us = SECOND,
		.build_timeout_us = 10 * SECOND,
		.batch = { .query = (char *)"b", .linger_us = 2 * MS, .max = BATCH }
	};
	world.policies[1] = world.policies[0];
	world.policies[1].name = (char *)"l";
	world.policies[1].batch.query = NULL;
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: warm KEYS DAEMONS\n");
		return 2;
	}
	set_up((uint32_t)strtoul(argv[1], NULL, 10), (uint32_t)strtoul(argv[2], NULL, 10));
	for (uint32_t i = 0; i < world.nodes_count; i++) {
		world.nodes[i].world = &world;
		open_node(&world.nodes[i], i);
	}
	int64_t half_us = (int64_t)(world.keys / BATCH / 2) * SECOND / RATE;
	vtime_set(&world.vtime, &world.feeder, BEGIN_US, on_begin);
	vtime_set(&world.vtime, &world.killer, BEGIN_US + half_us, on_kill);
	vtime_set(&world.vtime, &world.watch, BEGIN_US, on_watch);
	int64_t most_us = BEGIN_US + 4 * half_us + 60 * SECOND;
	while (world.done_us == 0 && now() < most_us)
		vtime_step(&world.vtime, now() + SECOND);
	bool good = holds("it ends", world.done_us != 0) && judge();
	for (uint32_t i = 1; i < world.nodes_count; i++)
		stop_node(&world.nodes[i]);
	vtime_cancel(&world.vtime, &world.watch);
	while (vtime_step(&world.vtime, now() + MORE_US))
		;
	for (uint32_t i = 0; i < world.nodes_count; i++)
		engine_free(world.nodes[i].engine);
	job_book_close(&world.book);
	free(world.items);
	free(world.nodes);
	free(world.starts);
	free(world.warm_starts);
	return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
