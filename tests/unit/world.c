#include "world.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"

/* ---- the clock --------------------------------------------------------------------------- */

static int64_t host_now(void *impl)
{
	return ((struct world *)impl)->now_us;
}

static void host_wake_at(void *impl, int64_t at_us)
{
	((struct world *)impl)->wake_at_us = at_us;
}

static void host_stopped(void *impl)
{
	((struct world *)impl)->stopped = true;
}

static void host_want_turn(void *impl)
{
	((struct world *)impl)->store_turn = true;
}

/* ---- the origin -------------------------------------------------------------------------- */

static void origin_build(void *impl, struct build *build)
{
	struct world *world = impl;
	struct origin_build *run = NULL;
	for (int i = 0; i < WORLD_RUNNING_MAX && !run; i++)
		if (!world->running[i].build)
			run = &world->running[i];
	cr_assert(run && world->builds < WORLD_BUILDS_MAX);
	run->build = build;
	run->script = world->script;
	run->number = world->keys + 1;
	run->cancelled = false;
	world->began_us[world->builds++] = world->now_us;
	for (; build; build = build->next) {
		world->keys++;
		world->key_locks += build->lock_key;
	}
	if (++world->building > world->building_most)
		world->building_most = world->building;
	heap_insert(&world->ends, &run->end, world->now_us + world->script.takes_us);
}

static void origin_cancel(void *impl, struct build *build)
{
	struct world *world = impl;
	for (int i = 0; i < WORLD_RUNNING_MAX; i++) {
		struct origin_build *run = &world->running[i];
		if (run->build != build)
			continue;
		run->cancelled = true;
		heap_remove(&world->ends, &run->end);
		heap_insert(&world->ends, &run->end, world->now_us);
	}
}

static bool is_for(const struct build *build, const char *arg)
{
	return arg && build->key.len == 2 + strlen(arg) &&
	       memcmp(build->key.bytes + 2, arg, strlen(arg)) == 0;
}

static void answer(const struct script *script, struct build *build, int number)
{
	char text[32];
	build->outcome = script->outcome;
	build->status = script->status;
	if (is_for(build, script->bad)) {
		build->outcome = BUILD_FAILED;
		build->status = STATUS_ORIGIN_ERROR;
	} else if (is_for(build, script->held)) {
		build->outcome = BUILD_KEY_HELD;
	} else if (build->outcome == BUILD_ROW) {
		snprintf(text, sizeof(text), "v%d", number);
		const char *value = script->value ? script->value : text;
		build->value = script->null ? NULL : value_create(value, strlen(value));
		build->has_version = script->version != 0;
		build->version = script->version;
		build->history = script->history;
	}
	bool brings = build->outcome == BUILD_ROW || build->outcome == BUILD_NO_ROW;
	if (script->text && !brings)
		build->text = value_create(script->text, strlen(script->text));
}

static bool is_spoilt(const struct origin_build *run)
{
	bool spoilt = false;
	for (const struct build *build = run->build; build; build = build->next)
		spoilt |= is_for(build, run->script.bad);
	return spoilt && run->build->next;
}

static void origin_end(struct world *world, struct origin_build *run)
{
	struct build *first = run->build;
	bool spoilt = is_spoilt(run);
	int number = run->number;
	heap_remove(&world->ends, &run->end);
	world->building--;
	for (struct build *build = first; build; build = build->next) {
		if (run->cancelled)
			build->outcome = BUILD_CANCELLED;
		else if (spoilt)
			build->outcome = BUILD_APART;
		else
			answer(&run->script, build, number++);
	}
	run->build = NULL;
	first->done(first);
}

/* ---- the store --------------------------------------------------------------------------- */

/* What others have stored satisfies who asks for the lease. */
static bool is_enough(const struct world *world, const struct store_op *op)
{
	const struct entry *entry = &world->shared;
	return world->has_shared && !world->away && entry->fence > op->want.fence_after &&
	       entry_phase(entry, world->now_us) == ENTRY_FRESH;
}

/* The memory store's answer, with what others have stored. */
static void on_routed_done(struct store_op *op)
{
	struct world *world = op->route;
	op->done = op->route_done;
	if (op->verb == STORE_SAVE && world->refuses_saves)
		op->outcome = STORE_REFUSED;
	if (op->verb != STORE_SAVE)
		op->away = world->away || (op->verb == STORE_LEASE && world->refuses_leases);
	if (op->verb == STORE_LEASE && op->outcome == STORE_DONE && is_enough(world, op)) {
		op->outcome = STORE_ENOUGH;
		op->has_entry = op->has_value = true;
		op->entry = world->shared;
		value_ref(op->entry.value);
	}
	if (op->verb == STORE_SAVE && op->given && op->outcome == STORE_DONE) {
		world->given++;
		world_share(world, op->entry.value->bytes, op->entry.generated_at_us,
			    op->entry.fence);
	}
	op->is_whole = !world->is_maimed;
	if (op->verb != STORE_LOAD) {
		op->done(op);
		return;
	}
	op->floor = world->away ? 0 : world->floor;
	op->has_entry = world->has_shared && !world->away;
	if (op->has_entry) {
		op->entry = world->shared;
		op->has_value = world->shared.fence > op->known_fence;
		op->entry.value = op->has_value ? value_ref(world->shared.value) : NULL;
		world->values_loaded += op->has_value;
	}
	world->loads++;
	op->done(op);
}

static void store_submit(void *impl, struct store_op *op)
{
	struct world *world = impl;
	struct store memory = memory_store_iface(world->memory);
	world->renewals += op->verb == STORE_RENEW;
	if (op->verb == STORE_RENEW && world->holds_renewals) {
		world->renewal = op;
		return;
	}
	if ((op->verb == STORE_SAVE || op->verb == STORE_RELEASE) && world->hold_saves) {
		world->held_save = op;
		return;
	}
	if (op->verb == STORE_LOAD || op->verb == STORE_LEASE || op->verb == STORE_PERMIT ||
	    op->verb == STORE_SAVE) {
		op->route = world;
		op->route_done = op->done;
		op->done = on_routed_done;
	}
	memory.submit(memory.impl, op);
}

void world_answer_renewal(struct world *world)
{
	struct store memory = memory_store_iface(world->memory);
	memory.submit(memory.impl, world->renewal);
	world->renewal = NULL;
}

void world_share(struct world *world, const char *value, int64_t generated_at_us, uint64_t fence)
{
	value_unref(world->shared.value);
	world->has_shared = true;
	world->shared = (struct entry){
		.value = value_create(value, strlen(value)),
		.fence = fence,
		.definition = engine_keyspace(world->engine, "k", 1)->definition,
		.generated_at_us = generated_at_us,
		.fresh_until_us = generated_at_us + world->policy.fresh_us,
		.stale_until_us = generated_at_us + world->policy.fresh_us + world->policy.stale_us,
	};
}

void world_release_save(struct world *world)
{
	struct store memory = memory_store_iface(world->memory);
	world->hold_saves = false;
	memory.submit(memory.impl, world->held_save);
}

static void on_rival_done(struct store_op *op)
{
	*(bool *)op->route = true;
}

static void rival(struct world *world, enum store_verb verb, const char *arg)
{
	char bytes[64];
	struct store memory = memory_store_iface(world->memory);
	struct store_op op = { .verb = verb, .token = 4711, .length_us = 3 * SECOND };
	bool done = false;
	op.route = &done;
	op.done = on_rival_done;
	snprintf(bytes, sizeof(bytes), "k:%s", arg);
	engine_key(world->engine, engine_keyspace(world->engine, "k", 1), bytes, strlen(bytes),
		   &op.key);
	memory.submit(memory.impl, &op);
	while (!done)
		world_run(world, 0);
	cr_assert_eq(op.outcome, STORE_DONE);
}

void world_rival_leases(struct world *world, const char *arg)
{
	rival(world, STORE_LEASE, arg);
}

void world_rival_releases(struct world *world, const char *arg)
{
	rival(world, STORE_RELEASE, arg);
}

void world_rival_permits(struct world *world, int64_t reach_us)
{
	struct store memory = memory_store_iface(world->memory);
	struct store_op op = { .outcome = STORE_DONE };
	static uint64_t token = 1 << 20;
	while (op.outcome == STORE_DONE) {
		bool done = false;
		op = (struct store_op){ .verb = STORE_PERMIT,
					.token = ++token,
					.length_us = SECOND,
					.reach_us = reach_us,
					.route = &done,
					.done = on_rival_done };
		memory.submit(memory.impl, &op);
		while (!done)
			world_run(world, 0);
	}
}

/* ---- life -------------------------------------------------------------------------------- */

void world_defaults(struct world *world)
{
	*world = (struct world){ .now_us = 1000000 * (int64_t)SECOND, .wake_at_us = INT64_MAX };
	world->policy = (struct policy){ .name = (char *)"k",
					 .fresh_us = 10 * SECOND,
					 .stale_us = 5 * SECOND,
					 .negative_us = 3 * SECOND,
					 .error_us = 2 * SECOND,
					 .wait_us = SECOND,
					 .build_timeout_us = 30 * SECOND };
	world->limits = (struct engine_limits){ .requests_max = 5000,
						.queue_max = 1000,
						.concurrency = 8,
						.key_bytes_max = 1 << 20,
						.near_bytes_max = 4 << 20 };
	world->store_limits = (struct memory_store_limits){
		.concurrency = 8, .budget_per_s = 1000, .fleet = 1, .failures_max = 100
	};
	world->script = (struct script){ .outcome = BUILD_ROW, .takes_us = 100 * MS };
}

void world_open(struct world *world)
{
	unsigned char secret[KEY_SECRET_LEN];
	memset(secret, 42, sizeof(secret));
	struct memory_store_host host = { world, host_now, host_want_turn, NULL };
	world->memory = memory_store_create(&world->store_limits, &host);
	world->engine = engine_create(&world->policy, 1, &world->limits, secret, 1);
	cr_assert(world->memory && world->engine);
	struct store store = { world, store_submit };
	struct origin origin = { .impl = world, .build = origin_build, .cancel = origin_cancel };
	pump_init(&world->pump, world->engine, &store, &origin,
		  &(struct pump_host){ world, host_now, host_wake_at, host_stopped, NULL });
}

void world_close(struct world *world)
{
	mem_fail_at(0);
	pump_stop(&world->pump);
	for (int i = 0; i < 1000 && !world->stopped; i++)
		world_run(world, 10 * MS);
	cr_assert(world->stopped, "the pump does not come to its end");
	cr_assert_eq(world->engine->leases + world->engine->slots + world->engine->requests, 0);
	cr_assert_eq(world->building, 0);
	engine_free(world->engine);
	memory_store_free(world->memory);
	value_unref(world->shared.value);
}

/* ---- clients ----------------------------------------------------------------------------- */

static void client_take(struct client *client, const struct answer *answer)
{
	client->answers++;
	client->answered = true;
	client->answered_at_us = client->world->now_us;
	client->answer = *answer;
	cr_assert(!answer->value || answer->value->len < sizeof(client->value));
	client->value[0] = client->text[0] = '\0';
	if (answer->value)
		memcpy(client->value, answer->value->bytes, answer->value->len + 1);
	if (answer->text)
		snprintf(client->text, sizeof(client->text), "%.*s", (int)answer->text_len,
			 answer->text);
}

static void client_on_answer(struct request *request, const struct answer *answer)
{
	client_take(container_of(request, struct client, request), answer);
}

void world_ask(struct world *world, struct client *client, const char *arg)
{
	struct query *query = &client->request.query;
	struct keyspace *keyspace = engine_keyspace(world->engine, "k", 1);
	snprintf(client->key, sizeof(client->key), "k:%s", arg);
	engine_key(world->engine, keyspace, client->key, strlen(client->key), &query->key);
	client->world = world;
	client->asked_at_us = world->now_us;
	client->submitted = client->answered = client->left = false;
	client->answers = 0;
	client->request.answer = client_on_answer;
	struct answer answer;
	if (pump_lookup(&world->pump, query, world->now_us, &answer) == LOOKUP_ANSWER) {
		client_take(client, &answer);
	} else {
		client->submitted = true;
		pump_submit(&world->pump, &client->request);
		cr_assert(!client->answered, "answered inside pump_submit");
	}
	engine_check(world->engine);
}

void world_get(struct world *world, struct client *client, const char *arg)
{
	*client = (struct client){ 0 };
	client->request.query.wait_us = world->policy.wait_us;
	world_ask(world, client, arg);
}

void world_refresh(struct world *world, struct client *client, const char *arg)
{
	*client = (struct client){ 0 };
	client->request.query.kind = QUERY_REFRESH;
	client->request.query.wait_us = world->policy.wait_us;
	world_ask(world, client, arg);
}

void world_leave(struct world *world, struct client *client)
{
	cr_assert(client->submitted && !client->answered);
	client->left = true;
	pump_abandon(&world->pump, &client->request);
	engine_check(world->engine);
}

static void on_invalidated(struct invalidation *invalidation)
{
	invalidation->pump = NULL;
}

void world_invalidate(struct world *world, const char *arg, bool hard)
{
	char bytes[64];
	struct invalidation invalidation = { .hard = hard, .done = on_invalidated };
	snprintf(bytes, sizeof(bytes), "k:%s", arg);
	engine_key(world->engine, engine_keyspace(world->engine, "k", 1), bytes, strlen(bytes),
		   &invalidation.key);
	pump_invalidate(&world->pump, &invalidation);
	while (invalidation.pump)
		world_run(world, 0);
	cr_assert_eq(invalidation.status, STATUS_OK);
}

void world_invalidate_keyspace(struct world *world, int64_t spread_us)
{
	struct invalidation invalidation = { .spread_us = spread_us, .done = on_invalidated };
	engine_key(world->engine, engine_keyspace(world->engine, "k", 1), "k", 1,
		   &invalidation.key);
	pump_invalidate_keyspace(&world->pump, &invalidation);
	while (invalidation.pump)
		world_run(world, 0);
}

/* ---- time -------------------------------------------------------------------------------- */

/* One thing that is due by `until_us`, the store first; false if there is none. */
static bool world_step(struct world *world, int64_t until_us)
{
	struct heap_node *end = heap_first(&world->ends);
	if (world->store_turn) {
		world->store_turn = false;
		memory_store_turn(world->memory);
	} else if (end && end->at <= until_us && end->at <= world->wake_at_us) {
		if (world->now_us < end->at)
			world->now_us = end->at;
		origin_end(world, container_of(end, struct origin_build, end));
	} else if (world->wake_at_us <= until_us) {
		if (world->now_us < world->wake_at_us)
			world->now_us = world->wake_at_us;
		world->wake_at_us = INT64_MAX;
		pump_turn(&world->pump);
	} else {
		return false;
	}
	engine_check(world->engine);
	return true;
}

void world_run(struct world *world, int64_t for_us)
{
	int64_t until_us = world->now_us + for_us;
	for (int steps = 0; world_step(world, until_us); steps++)
		cr_assert(steps < 10000000, "the world goes round in a circle");
	world->now_us = until_us;
}

int world_most_builds(const struct world *world, int64_t window_us)
{
	int most = 0;
	for (int first = 0, last = 0; last < world->builds; last++) {
		while (world->began_us[last] - world->began_us[first] >= window_us)
			first++;
		if (last - first + 1 > most)
			most = last - first + 1;
	}
	return most;
}
