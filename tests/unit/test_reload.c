/* What a reload does in the core, in virtual time. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "core/schedule.h"
#include "world.h"

static struct world world;
static struct client a, b;
static struct policy next[3];

static void set_up(void)
{
	world_defaults(&world);
	world.policy.query = (char *)"SELECT 1";
	world.policy.changeover_us = 4 * SECOND;
	world_open(&world);
	pump_begin(&world.pump);
	next[0] = world.policy;
	next[1] = next[2] = world.policy;
	next[1].name = (char *)"other";
}

static void tear_down(void)
{
	world_close(&world);
}

TestSuite(reload, .init = set_up, .fini = tear_down);

static enum reload_outcome reload(uint32_t count)
{
	enum reload_outcome outcome = pump_reload(&world.pump, next, count, &world.limits);
	engine_check(world.engine);
	return outcome;
}

static struct keyspace *keyspace_of(const char *name)
{
	return engine_keyspace(world.engine, name, strlen(name));
}

static void get(struct client *client, const char *arg, const char *state, const char *value)
{
	world_get(&world, client, arg);
	for (int i = 0; i < 200 && !client->answered; i++)
		world_run(&world, 10 * MS);
	cr_assert(client->answered && client->answer.status == STATUS_OK, "%s", client->text);
	cr_assert_str_eq(answer_state_name(client->answer.state), state);
	cr_assert_str_eq(client->value, value);
}

Test(reload, the_same_policy_changes_nothing)
{
	get(&a, "a", "fresh", "v1");
	uint32_t generation = keyspace_of("k")->generation;
	cr_assert_eq(reload(1), RELOAD_OK);
	cr_assert_eq(keyspace_of("k")->generation, generation, "hits stay on the hot path");
	get(&a, "a", "fresh", "v1");
	cr_assert_eq(world.builds, 1);
}

Test(reload, shorter_times_come_over_the_entries_one_after_the_other)
{
	static struct client clients[40];
	char arg[8];
	next[0].fresh_us = SECOND;
	next[0].stale_us = 0;
	for (int i = 0; i < 40; i++) {
		snprintf(arg, sizeof(arg), "%d", i % 100);
		get(&clients[i], arg, "fresh", world.builds < 40 ? clients[i].value : "");
	}
	int64_t began = world.now_us;
	reload(1);
	int builds = world.builds, over = 0;
	for (int step = 0; step <= 4; step++) {
		over = 0;
		for (int i = 0; i < 40; i++) {
			struct answer answer;
			over += pump_lookup(&world.pump, &clients[i].request.query, world.now_us,
					    &answer) == LOOKUP_WAIT;
		}
		if (step == 2)
			cr_assert(over > 0 && over < 40, "%d of 40 after half of the time", over);
		world_run(&world, SECOND);
	}
	cr_assert_eq(over, 40, "all by %lld s", (long long)(world.now_us - began) / SECOND);
	cr_assert_eq(world.builds, builds);
}

Test(reload, a_value_is_bounded_by_the_new_times_wherever_it_comes_from)
{
	next[0].fresh_us = 2 * SECOND;
	reload(1);
	world_run(&world, SECOND);
	world_share(&world, "theirs", world.now_us, 7); /* by the old times of another daemon */
	get(&a, "a", "fresh", "theirs");
	cr_assert_leq(a.answer.ttl_us, 2 * SECOND);
}

Test(reload, rows_with_times_of_their_own_keep_them)
{
	world_share(&world, "theirs", world.now_us, 7);
	world.shared.own_times = true;
	next[0].fresh_us = SECOND;
	reload(1);
	world_run(&world, 5 * SECOND);
	get(&a, "a", "fresh", "theirs");
}

Test(reload, longer_times_are_for_new_builds)
{
	get(&a, "a", "fresh", "v1");
	next[0].fresh_us = 100 * SECOND;
	reload(1);
	get(&a, "a", "fresh", "v1");
	cr_assert_leq(a.answer.ttl_us, 10 * SECOND);
	get(&b, "b", "fresh", "v2");
	cr_assert_gt(b.answer.ttl_us, 90 * SECOND);
}

Test(reload, another_query_comes_over_its_values_while_they_are_served_stale)
{
	get(&a, "a", "fresh", "v1");
	next[0].query = (char *)"SELECT 2";
	reload(1);
	get(&a, "a", "fresh", "v1");
	world_run(&world, 4 * SECOND);
	get(&a, "a", "stale", "v1");
	cr_assert_eq(a.answer.reason, REASON_CHANGED);
	world_run(&world, SECOND);
	get(&a, "a", "fresh", "v2");
	cr_assert_eq(world.builds, 2);
}

Test(reload, a_build_of_the_old_query_answers_only_who_came_before)
{
	next[0].query = (char *)"SELECT 2";
	next[0].changeover_us = 1;
	next[0].stale_us = 0;
	world_get(&world, &a, "a");
	world_run(&world, 50 * MS);
	cr_assert_eq(world.building, 1);
	reload(1);
	world_get(&world, &b, "a");
	world_run(&world, SECOND);
	cr_assert_str_eq(a.value, "v1");
	cr_assert_str_eq(b.value, "v2");
	cr_assert_eq(b.answer.state, ANSWER_FRESH);
	cr_assert_eq(world.builds, 2);
}

Test(reload, versions_of_two_queries_are_not_compared)
{
	next[0].single_row = world.policy.single_row = true;
	world.script.version = 9;
	get(&a, "a", "fresh", "v1");
	next[0].query = (char *)"SELECT 2";
	next[0].changeover_us = 1;
	reload(1);
	world.script.version = 3;
	world_run(&world, MS);
	get(&a, "a", "stale", "v1");
	world_run(&world, SECOND);
	get(&a, "a", "fresh", "v2");
	cr_assert_eq(a.answer.version, 3);
}

Test(reload, values_of_the_fleets_later_query_are_taken_as_they_are)
{
	struct store_listener told = pump_listener(&world.pump);
	world_share(&world, "later", world.now_us, 7);
	world.shared.definition = 4711;
	told.defined(told.impl, "k", 1, 4711, world.now_us, 4 * SECOND);
	cr_assert(keyspace_of("k")->superseded);
	get(&a, "a", "fresh", "later");
	cr_assert_eq(world.builds, 0);
	told.defined(told.impl, "k", 1, keyspace_of("k")->definition, world.now_us + 1, 0);
	cr_assert_not(keyspace_of("k")->superseded);
	world_run(&world, MS);
	get(&a, "a", "stale", "later");
}

Test(reload, a_keyspace_that_goes_answers_who_waits)
{
	get(&a, "a", "fresh", "v1");
	world_get(&world, &b, "b");
	world_run(&world, 50 * MS);
	memmove(next, next + 1, sizeof(*next));
	cr_assert_eq(reload(1), RELOAD_OK);
	cr_assert_null(keyspace_of("k"));
	cr_assert_not_null(keyspace_of("other"));
	struct answer answer;
	cr_assert_neq(pump_lookup(&world.pump, &a.request.query, world.now_us, &answer),
		      LOOKUP_WAIT + 1);
	cr_assert_not(b.answered);
	world_run(&world, SECOND);
	cr_assert_str_eq(b.value, "v2");
	cr_assert_eq(world.engine->near.table.count, 0);
	cr_assert(list_empty(&world.engine->keyspaces.removed), "nothing is left of it");
}

Test(reload, its_entries_go_a_few_a_turn)
{
	char arg[16];
	world.store_limits.budget_per_s = 1e6;
	for (int i = 0; i < 300; i++) {
		snprintf(arg, sizeof(arg), "%d", i);
		world_get(&world, &a, arg);
		world_run(&world, 110 * MS);
	}
	size_t entries = world.engine->near.table.count;
	cr_assert_gt(entries, 80);
	memmove(next, next + 1, sizeof(*next));
	reload(1);
	struct effects effects;
	engine_step(world.engine, &(struct event){ .type = EVENT_TICK, .now_us = world.now_us },
		    &effects);
	size_t left = world.engine->near.table.count;
	cr_assert(left < entries && entries - left <= 16, "%zu of %zu", left, entries);
	world_run(&world, MS);
	cr_assert_eq(world.engine->near.table.count, 0);
}

Test(reload, one_that_comes_back_is_the_one_that_was_there)
{
	get(&a, "a", "fresh", "v1");
	world_get(&world, &b, "b");
	world_run(&world, 50 * MS);
	struct keyspace *keyspace = keyspace_of("k");
	memmove(next, next + 1, sizeof(*next));
	reload(1);
	next[0] = world.policy;
	reload(1);
	cr_assert_eq(keyspace_of("k"), keyspace);
	world_run(&world, SECOND);
	get(&b, "b", "fresh", "v2");
	cr_assert_null(keyspace_of("other"));
}

Test(reload, the_near_cache_shrinks_a_few_entries_a_turn)
{
	char arg[16];
	for (int i = 0; i < 300; i++) {
		snprintf(arg, sizeof(arg), "%d", i);
		world_get(&world, &a, arg);
		world_run(&world, 110 * MS);
	}
	size_t cost = near_cost(&world.engine->near), count = world.engine->near.table.count;
	world.limits.near_bytes_max = cost - cost / 10;
	if (world.limits.near_bytes_max < near_least(&world.engine->near))
		world.limits.near_bytes_max = near_least(&world.engine->near);
	cr_assert_eq(reload(1), RELOAD_OK);
	world_run(&world, MS);
	cr_assert_leq(near_cost(&world.engine->near), world.engine->near.bytes_max);
	cr_assert_leq(world.engine->near.table.count, count);
	cr_assert_eq(world.engine->near.bytes_max, world.limits.near_bytes_max);
	world.limits.near_bytes_max = 1;
	cr_assert_eq(reload(1), RELOAD_NEAR);
}

Test(reload, without_memory_nothing_has_changed)
{
	get(&a, "a", "fresh", "v1");
	struct keyspace *keyspace = keyspace_of("k");
	next[0].fresh_us = SECOND;
	next[0].name = (char *)"new";
	mem_fail_at(1);
	cr_assert_eq(reload(2), RELOAD_NO_MEMORY);
	mem_fail_at(2);
	cr_assert_eq(reload(2), RELOAD_NO_MEMORY);
	mem_fail_at(0);
	cr_assert_eq(keyspace_of("k"), keyspace);
	cr_assert_null(keyspace_of("new"));
	get(&a, "a", "fresh", "v1");
}

static int released;

static void release(struct policy_home *home)
{
	(void)home;
	released++;
}

Test(reload, a_policy_is_held_as_long_as_somebody_uses_it)
{
	static struct policy_home homes[2];
	homes[0] = homes[1] = (struct policy_home){ 1, release };
	next[0].home = &homes[0];
	reload(1);
	policy_unref(&next[0]);
	cr_assert_eq(released, 0);
	static struct policy later;
	later = next[0];
	later.home = &homes[1];
	cr_assert_eq(pump_reload(&world.pump, &later, 1, &world.limits), RELOAD_OK);
	cr_assert_eq(released, 1);
}
