/* Faults one by one: call n of the store, or build n, comes to nothing in each way that there is,
 * for every n of a scenario. Each request is answered once, nothing is left over, and it works
 * again. (Allocation n: test_engine_limits, test_rpc_peer, test_config, test_segar_memory, and for
 * Redis and PostgreSQL test_redis_links and test_conn.)
 */
#include <criterion/criterion.h>
#include <stdio.h>

#include "world.h"

enum {
	CLIENTS = 16,
	ROUNDS = 4,
	STEP_US = 20 * MS,
	CALLS_MAX = 1000,
	TIMEOUT_STEPS = 50, /* 1 s: what a daemon waits for the store */
};

/* X(name, what the daemon hears, and when) */
#define STORE_FAULT_MAP(X)                                                                         \
	X(unavailable, "no answer, at once: it was not carried out")                               \
	X(timeout, "no answer, after its time: it was not carried out")                            \
	X(lost, "no answer, after its time: it was carried out")                                   \
	X(refused, "held, failed, nothing free, not ours: as the verb has it")

enum store_fault {
#define X(name, text) FAULT_##name,
	STORE_FAULT_MAP(X)
#undef X
};
static const char *const store_faults[] = {
#define X(name, text) #name,
	STORE_FAULT_MAP(X)
#undef X
};
enum { STORE_FAULTS = sizeof(store_faults) / sizeof(*store_faults) };

/* Stands between the pump and the world's store and origin. */
struct sweep {
	struct world *world;
	struct store store;
	struct origin origin;
	int store_calls, builds;
	int fail_store, fail_build; /* which; 0: none */
	enum store_fault fault;
	enum build_outcome outcome;

	/* Held back, answered by sweep_step. */
	struct store_op *op;
	store_done_cb op_done;
	int op_steps;
	struct build *build;
};

static struct sweep sweep;
static struct world world;
static struct client clients[CLIENTS];

static void forget_answer(struct store_op *op)
{
	/* What it brought is nobody's: only LOAD and LEASE bring something that is counted. */
	if (op->verb == STORE_LOAD || op->verb == STORE_LEASE) {
		value_unref(op->entry.value);
		value_unref(op->failure.text);
		op->entry.value = op->failure.text = NULL;
	}
	op->has_entry = op->has_value = op->has_claim = op->has_failure = false;
	op->outcome = STORE_AWAY;
}

/* Carried out, but the answer does not get through. */
static void on_carried_out(struct store_op *op)
{
	op->done = sweep.op_done;
	forget_answer(op);
	sweep.op = op;
}

static void refuse(struct store_op *op)
{
	op->left_us = 50 * MS;
	switch (op->verb) {
	case STORE_LEASE:
		op->outcome = sweep.fail_store % 2 ? STORE_HELD : STORE_FAILED;
		op->has_failure = op->outcome == STORE_FAILED;
		op->failure = (struct failure){ .status = STATUS_ORIGIN_ERROR,
						.until_us = world.now_us + 50 * MS,
						.retry_in_us = 50 * MS };
		return;
	case STORE_PERMIT:
		op->outcome = STORE_RETRY;
		return;
	case STORE_RENEW:
	case STORE_SAVE:
		op->outcome = STORE_REFUSED;
		return;
	case STORE_LOAD:
	case STORE_FREE:
	case STORE_RELEASE:
	case STORE_INVALIDATE:
	case STORE_EPOCH:
		op->outcome = STORE_AWAY;
		return;
	}
}

static void sweep_submit(void *impl, struct store_op *op)
{
	(void)impl;
	if (++sweep.store_calls != sweep.fail_store) {
		sweep.store.submit(sweep.store.impl, op);
		return;
	}
	sweep.op_steps =
		sweep.fault == FAULT_timeout || sweep.fault == FAULT_lost ? TIMEOUT_STEPS : 1;
	if (sweep.fault == FAULT_lost) {
		sweep.op_done = op->done;
		op->done = on_carried_out;
		sweep.store.submit(sweep.store.impl, op);
		return;
	}
	op->has_entry = op->has_value = op->has_claim = op->has_failure = false;
	op->outcome = STORE_AWAY;
	if (sweep.fault == FAULT_refused)
		refuse(op);
	sweep.op = op;
}

static void sweep_build(void *impl, struct build *build)
{
	(void)impl;
	if (++sweep.builds == sweep.fail_build)
		sweep.build = build;
	else
		sweep.origin.build(sweep.origin.impl, build);
}

static void sweep_cancel(void *impl, struct build *build)
{
	(void)impl;
	if (build == sweep.build)
		sweep.outcome = BUILD_CANCELLED;
	else
		sweep.origin.cancel(sweep.origin.impl, build);
}

static void sweep_step(void)
{
	world_run(&world, STEP_US);
	if (sweep.op && --sweep.op_steps <= 0) {
		struct store_op *op = sweep.op;
		sweep.op = NULL;
		op->done(op);
	}
	if (sweep.build) {
		struct build *build = sweep.build;
		sweep.build = NULL;
		build->outcome = sweep.outcome;
		build->status = sweep.outcome == BUILD_BAD_KEY  ? STATUS_BAD_REQUEST
				: sweep.outcome == BUILD_FAILED ? STATUS_ORIGIN_ERROR
								: STATUS_UNAVAILABLE;
		build->done(build);
	}
}

static void sweep_open(int fail_store, enum store_fault fault, int fail_build,
		       enum build_outcome outcome)
{
	world_defaults(&world);
	world.policy.fresh_us = 300 * MS;
	world.policy.stale_us = 200 * MS;
	world.policy.error_us = 100 * MS;
	world.policy.early = 1;
	world.policy.build_timeout_us = SECOND;
	world.policy.lease_us = 150 * MS; /* builds of 100 ms renew it */
	world.policy.single_row = true;
	world.script.version = 1;
	world_open(&world);
	sweep = (struct sweep){ .world = &world,
				.store = world.pump.store,
				.origin = world.pump.origin,
				.fail_store = fail_store,
				.fault = fault,
				.fail_build = fail_build,
				.outcome = outcome };
	world.pump.store = (struct store){ &sweep, sweep_submit };
	world.pump.origin =
		(struct origin){ .impl = &sweep, .build = sweep_build, .cancel = sweep_cancel };
}

static struct client *next_client(int *count)
{
	struct client *client = &clients[(*count)++];
	cr_assert_leq(*count, CLIENTS);
	*client = (struct client){ 0 };
	client->request.query.wait_us = SECOND;
	return client;
}

static void on_invalidated(struct invalidation *invalidation)
{
	invalidation->pump = NULL;
}

/* Misses, joins, refreshes, stale and early ones, a version asked for, a change, one who leaves. */
static void play(void)
{
	struct client *client;
	for (int round = 0; round < ROUNDS; round++) {
		int count = 0;
		struct invalidation invalidation = { .done = on_invalidated };
		for (int i = 0; i < 8; i++)
			world_ask(&world, next_client(&count), i % 2 ? "a" : "b");
		client = next_client(&count);
		client->request.query.kind = QUERY_REFRESH;
		world_ask(&world, client, "a");
		client = next_client(&count);
		client->request.query.has_min_version = true;
		client->request.query.min_version = 1;
		world_ask(&world, client, "c");
		client = next_client(&count);
		client->request.query.wait_us = 0;
		world_ask(&world, client, "d");
		client = next_client(&count);
		world_ask(&world, client, "e");
		sweep_step();
		if (!client->answered)
			world_leave(&world, client);
		engine_key(world.engine, engine_keyspace(world.engine, "k", 1), "k:a", 3,
			   &invalidation.key);
		pump_invalidate(&world.pump, &invalidation);
		while (invalidation.pump)
			sweep_step();
		for (int i = 0; i < 100; i++)
			sweep_step();
		for (int i = 0; i < count - 1; i++)
			cr_assert_eq(clients[i].answers, 1, "client %d: %d answers", i,
				     clients[i].answers);
		cr_assert_leq(clients[count - 1].answers, 1);
	}
}

/* The fault is over: a get of a new key is answered, and all is at rest. */
static void sweep_close(const char *fault, int n)
{
	int count = 0;
	sweep.fail_store = sweep.fail_build = 0;
	world_ask(&world, next_client(&count), "after");
	for (int i = 0; i < 2 * TIMEOUT_STEPS; i++)
		sweep_step();
	cr_assert(clients[0].answered && clients[0].answer.status == STATUS_OK,
		  "%s, call %d: and then %s", fault, n, status_name(clients[0].answer.status));
	world_run(&world, 40 * SECOND);
	cr_assert_eq(world.engine->all.count, 0, "%s, call %d", fault, n);
	cr_assert_null(sweep.op);
	cr_assert_null(sweep.build);
	world_close(&world);
}

Test(sweep, any_call_of_the_store_may_come_to_nothing)
{
	for (int fault = 0; fault < STORE_FAULTS; fault++) {
		int n = 1, calls;
		do {
			sweep_open(n, (enum store_fault)fault, 0, BUILD_ROW);
			play();
			calls = sweep.store_calls;
			sweep_close(store_faults[fault], n);
			cr_assert_lt(n, CALLS_MAX);
		} while (n++ < calls);
		cr_assert_gt(n, 50, "the scenario has %d calls", n);
	}
}

Test(sweep, any_build_may_come_to_nothing)
{
	for (int outcome = BUILD_ROW + 1; outcome <= BUILD_CANCELLED; outcome++) {
		int n = 1, builds;
		do {
			sweep_open(0, FAULT_unavailable, n, (enum build_outcome)outcome);
			play();
			builds = sweep.builds;
			sweep_close(build_outcome_name((enum build_outcome)outcome), n);
			cr_assert_lt(n, CALLS_MAX);
		} while (n++ < builds);
		cr_assert_gt(n, 10, "the scenario has %d builds", n);
	}
}
