/* Warm-ups' statements and looks, in virtual time: what they take, and from whom they take nothing.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "core/warming.h"
#include "world.h"

static struct world world;
static struct client herd[64];

/* A warm-up's statement, with its keys. */
struct batchful {
	struct warming warming;
	char bytes[BATCH_KEYS_MAX][16];
	int told;
	int64_t told_at_us;
};
static struct batchful first, second;

static void open_world(void)
{
	world_defaults(&world);
	world.policy.batch =
		(struct batch_policy){ .query = (char *)"q", .linger_us = 2 * MS, .max = 64 };
	world_open(&world);
}

static void close_world(void)
{
	world_close(&world);
}

TestSuite(warming, .init = open_world, .fini = close_world);

static void on_done(struct warming *warming)
{
	struct batchful *batchful = container_of(warming, struct batchful, warming);
	batchful->told++;
	batchful->told_at_us = world.now_us;
	engine_check(world.engine);
	for (uint32_t i = 0; i < warming->count; i++) {
		cr_assert_neq(warming->later, warming->keys[i].result != WARM_PENDING);
		value_unref(warming->keys[i].failure.text);
		warming->keys[i].failure.text = NULL;
	}
}

/* Wants the keys k<from> and on. */
static void warm(struct batchful *batchful, int from, uint32_t count)
{
	struct keyspace *keyspace = engine_keyspace(world.engine, "k", 1);
	struct pace pace = batchful->warming.pace;
	*batchful =
		(struct batchful){ .warming = { .count = count, .pace = pace, .done = on_done } };
	for (uint32_t i = 0; i < count; i++) {
		int len = snprintf(batchful->bytes[i], 16, "k:k%d", from + (int)i);
		engine_key(world.engine, keyspace, batchful->bytes[i], (size_t)len,
			   &batchful->warming.keys[i].key);
	}
	pump_warm(&world.pump, &batchful->warming);
	cr_assert_eq(batchful->told, 0, "told inside the call");
}

static int count_of(const struct batchful *batchful, enum warm_result result)
{
	int count = 0;
	for (uint32_t i = 0; i < batchful->warming.count; i++)
		count += batchful->warming.keys[i].result == result;
	return count;
}

Test(warming, a_batchful_is_one_statement_and_one_permit)
{
	warm(&first, 0, 64);
	world_run(&world, 50 * MS);
	cr_assert_eq(world.builds, 1);
	cr_assert_eq(world.engine->slots, 1);
	cr_assert_eq(world.engine->leases, 64);
	world_run(&world, SECOND);
	cr_assert_eq(first.told, 1);
	cr_assert_eq(count_of(&first, WARM_BUILT), 64);
	cr_assert_eq(world.builds, 1);
	cr_assert_eq(world.keys, 64);
	cr_assert_eq(first.warming.took_us, 100 * MS);
	world_get(&world, &herd[0], "k63");
	cr_assert_eq(herd[0].answer.state, ANSWER_FRESH);
	cr_assert_eq(herd[0].answer.source, SOURCE_NEAR);
}

Test(warming, without_a_free_permit_no_key_is_leased)
{
	warm(&second, 100, 1); /* the next token is there in a ms */
	world_run(&world, 0);
	uint64_t leases = world.engine->counters.leases_asked;
	warm(&first, 0, 64);
	while (!first.told)
		world_run(&world, 0);
	cr_assert(first.warming.later);
	cr_assert_eq(first.warming.retry_us, 1111);
	cr_assert_eq(world.engine->counters.leases_asked, leases);
	world_run(&world, SECOND);
	cr_assert_eq(count_of(&second, WARM_BUILT), 1);
	cr_assert_eq(world.builds, 1);
}

Test(warming, it_comes_again_later_while_anyone_waits_for_room)
{
	char arg[16];
	for (int i = 0; i < 10; i++) { /* each alone, since a full batch departs at once */
		snprintf(arg, sizeof(arg), "w%d", i);
		world_get(&world, &herd[i], arg);
		world_run(&world, 5 * MS);
	}
	cr_assert_eq(world.building, 8);
	cr_assert(world.engine->bulkhead.queued > 0);
	uint64_t asked = world.engine->counters.leases_asked;
	warm(&first, 0, 64);
	world_run(&world, MS);
	cr_assert(first.told && first.warming.later);
	cr_assert_eq(world.engine->counters.leases_asked, asked);
	world_run(&world, SECOND);
	for (int i = 0; i < 10; i++)
		cr_assert_eq(herd[i].answer.state, ANSWER_FRESH);
}

Test(warming, half_of_the_slots_are_left_to_others)
{
	static struct batchful batchfuls[8];
	for (int i = 0; i < 8; i++) {
		warm(&batchfuls[i], i * 10, 10);
		world_run(&world, 5 * MS);
	}
	cr_assert_eq(world.building, 4);
	int64_t asked_us = world.now_us;
	world_get(&world, &herd[0], "other");
	world_run(&world, SECOND);
	cr_assert_eq(herd[0].answered_at_us - asked_us, 102 * MS, "it waits for nothing of theirs");
}

Test(warming, who_asks_meanwhile_is_answered_by_its_build)
{
	warm(&first, 0, 10);
	world_run(&world, 50 * MS);
	world_get(&world, &herd[0], "k3");
	world_run(&world, SECOND);
	cr_assert_eq(herd[0].answer.state, ANSWER_FRESH);
	cr_assert_eq(herd[0].answered_at_us - herd[0].asked_at_us, 50 * MS);
	cr_assert_eq(world.keys, 10);
	cr_assert_eq(count_of(&first, WARM_BUILT), 10);
}

Test(warming, a_key_that_is_under_way_is_left_to_that)
{
	world_get(&world, &herd[0], "k3");
	world_run(&world, 50 * MS);
	warm(&first, 0, 10);
	world_run(&world, SECOND);
	cr_assert_eq(count_of(&first, WARM_AGAIN), 1);
	cr_assert_eq(first.warming.keys[3].result, WARM_AGAIN);
	cr_assert_eq(count_of(&first, WARM_BUILT), 9);
	cr_assert_eq(world.keys, 10);
}

Test(warming, a_key_leased_elsewhere_is_left_to_that)
{
	world_rival_leases(&world, "k3");
	warm(&first, 0, 10);
	world_run(&world, SECOND);
	cr_assert_eq(first.warming.keys[3].result, WARM_AGAIN);
	cr_assert_eq(count_of(&first, WARM_BUILT), 9);
	warm(&first, 3, 1); /* the permit was taken for nothing: it is given back */
	world_run(&world, 50 * MS);
	cr_assert_eq(world.engine->slots, 0);
	cr_assert_eq(world.builds, 1);
	cr_assert_eq(count_of(&first, WARM_AGAIN), 1);
}

Test(warming, what_others_have_built_is_found)
{
	world_share(&world, "theirs", world.now_us - SECOND, 7);
	warm(&first, 0, 1);
	world_run(&world, SECOND);
	cr_assert_eq(first.warming.keys[0].result, WARM_FRESH);
	cr_assert_eq(world.builds, 0);
	cr_assert_eq(world.engine->slots, 0);
}

Test(warming, its_pace_holds_whatever_the_budget_leaves)
{
	int64_t began_us = world.now_us;
	int statements = 0;
	first.warming.pace = (struct pace){ 9, 50 * MS };
	world.script.takes_us = MS;
	while (world.now_us < began_us + 2 * SECOND) {
		warm(&first, statements, 1);
		while (!first.told)
			world_run(&world, MS);
		statements += !first.warming.later;
		if (first.warming.later)
			world_run(&world, first.warming.retry_us);
	}
	cr_assert(statements >= 40 && statements <= 44, "statements=%d", statements);
	cr_assert_leq(world_most_builds(&world, 500 * MS), 13);
}

Test(warming, another_pace_is_its_own)
{
	first.warming.pace = (struct pace){ 9, 60 * (int64_t)SECOND };
	second.warming.pace = (struct pace){ 10, 60 * (int64_t)SECOND };
	for (int i = 0; i < 2; i++) {
		warm(i ? &second : &first, i, 1);
		world_run(&world, SECOND);
		cr_assert_eq((i ? &second : &first)->warming.keys[0].result, WARM_BUILT);
	}
	warm(&first, 2, 1);
	world_run(&world, SECOND);
	cr_assert(first.warming.later);
}

Test(warming, one_bad_key_sets_the_batch_apart_and_then_fails_alone)
{
	world.script.bad = "k3";
	warm(&first, 0, 10);
	world_run(&world, SECOND);
	cr_assert_eq(count_of(&first, WARM_APART), 10);
	cr_assert_eq(world.builds, 1, "they go on at the warm-up's pace");
	warm(&first, 3, 1);
	world_run(&world, SECOND);
	cr_assert_eq(first.warming.keys[0].result, WARM_FAILED);
	cr_assert_eq(first.warming.keys[0].failure.status, STATUS_ORIGIN_ERROR);
	warm(&first, 4, 1);
	world_run(&world, SECOND);
	cr_assert_eq(first.warming.keys[0].result, WARM_BUILT);
}

Test(warming, a_permit_that_comes_too_late_is_given_back)
{
	warm(&first, 0, 10);
	while (world.engine->slots == 0)
		memory_store_turn(world.memory); /* and no further */
	world.now_us += SECOND;                  /* the daemon was paused */
	world_run(&world, SECOND);
	cr_assert_eq(world.builds, 0);
	cr_assert_eq(world.engine->slots, 0);
	cr_assert_eq(count_of(&first, WARM_AGAIN), 10);
}

Test(warming, who_waits_for_a_key_of_a_late_permit_has_one_of_its_own)
{
	warm(&first, 0, 10);
	while (world.engine->slots == 0)
		memory_store_turn(world.memory); /* and no further */
	world.now_us += SECOND;
	world_get(&world, &herd[0], "k3");
	world_run(&world, 2 * SECOND);
	cr_assert_eq(herd[0].answer.state, ANSWER_FRESH);
	cr_assert_eq(world.keys, 1);
	cr_assert_eq(first.told, 1);
}

Test(warming, what_found_no_connection_in_time_is_not_tried_under_its_leases)
{
	world.script.outcome = BUILD_LATE;
	warm(&first, 0, 10);
	world_run(&world, SECOND);
	cr_assert_eq(count_of(&first, WARM_AGAIN), 10);
	cr_assert_eq(world.builds, 1);
	cr_assert_eq(world.engine->leases + world.engine->slots, 0);
}

Test(warming, where_the_store_goes_away_after_the_permit_nothing_is_built)
{
	warm(&first, 0, 10);
	while (world.engine->slots == 0)
		memory_store_turn(world.memory);
	world.away = true;
	world_run(&world, SECOND);
	cr_assert_eq(count_of(&first, WARM_AGAIN), 10);
	cr_assert_eq(world.builds, 0);
	cr_assert_eq(world.engine->leases + world.engine->slots, 0);
}

Test(warming, with_the_store_away_it_waits)
{
	world.away = true;
	warm(&first, 0, 1);
	world_run(&world, SECOND);
	cr_assert(first.warming.later);
	cr_assert_eq(world.builds, 0);
	cr_assert_eq(world.engine->slots, 0);
}

Test(warming, stopping_ends_it_wherever_it_stands)
{
	for (int steps = 0; steps < 12; steps++) {
		struct world again;
		close_world();
		world_defaults(&again);
		world = again;
		world.policy.batch = (struct batch_policy){ .query = (char *)"q", .max = 64 };
		world_open(&world);
		warm(&first, 0, 10);
		for (int i = 0; i < steps; i++)
			world_run(&world, i < 10 ? 0 : 20 * MS);
		pump_stop(&world.pump);
		for (int i = 0; i < 100 && !world.stopped; i++)
			world_run(&world, 10 * MS);
		cr_assert(world.stopped);
		cr_assert_eq(first.told, 1);
	}
}

/* ---- looks -------------------------------------------------------------------------------- */

static struct look look;
static bool looked;

static void on_looked(struct look *its)
{
	(void)its;
	looked = true;
}

static enum look_outcome look_at(const char *key, bool alone)
{
	struct keyspace *keyspace = engine_keyspace(world.engine, "k", 1);
	look = (struct look){ .done = on_looked, .alone = alone };
	looked = false;
	engine_key(world.engine, keyspace, key, strlen(key), &look.key);
	pump_look(&world.pump, &look);
	cr_assert(!looked);
	while (!looked)
		world_run(&world, 0);
	value_unref(look.failure.text);
	return look.outcome;
}

Test(warming, a_look_sees_what_the_store_has_and_leaves_its_value_there)
{
	cr_assert_eq(look_at("k:a", false), LOOK_MISSING);
	world_share(&world, "theirs", world.now_us - SECOND, 7);
	cr_assert_eq(look_at("k:a", false), LOOK_FRESH);
	cr_assert_eq(world.values_loaded, 0);
	world_run(&world, 10 * SECOND);
	cr_assert_eq(look_at("k:a", false), LOOK_MISSING, "it is stale");
	cr_assert_eq(world.engine->near.table.count, 0);
}

Test(warming, a_look_knows_of_epochs)
{
	world_share(&world, "theirs", world.now_us - SECOND, 7);
	world_invalidate_keyspace(&world, 0);
	cr_assert_eq(look_at("k:a", false), LOOK_MISSING);
}

Test(warming, a_look_tells_of_a_failure_that_is_remembered)
{
	world.script.outcome = BUILD_FAILED;
	world.script.status = STATUS_ORIGIN_ERROR;
	world.script.text = "it is broken";
	world_get(&world, &herd[0], "a");
	world_run(&world, 500 * MS);
	cr_assert_eq(look_at("k:a", false), LOOK_FAILED);
	cr_assert_eq(look.failure.status, STATUS_ORIGIN_ERROR);
}

Test(warming, a_look_of_a_daemon_alone_is_at_its_own_memory)
{
	cr_assert_eq(look_at("k:a", true), LOOK_MISSING);
	world_get(&world, &herd[0], "a");
	world_run(&world, SECOND);
	cr_assert_eq(look_at("k:a", true), LOOK_FRESH);
	cr_assert_eq(look_at("k:a", false), LOOK_MISSING, "the store has lost it");
}

Test(warming, a_look_with_the_store_away_says_nothing)
{
	world.away = true;
	cr_assert_eq(look_at("k:a", false), LOOK_AWAY);
}

static void lose_origin(void)
{
	world.script.outcome = BUILD_LOST;
	world_get(&world, &herd[0], "x");
	world_run(&world, 2 * SECOND);
	cr_assert_eq(world.engine->breaker.state, BREAKER_OPEN);
	world_run(&world, BREAKER_MOST_US);
}

Test(warming, where_nobody_asks_it_finds_that_the_origin_is_back)
{
	lose_origin();
	world.script.outcome = BUILD_ROW;
	warm(&first, 0, 4);
	world_run(&world, SECOND);
	cr_assert_eq(first.told, 1);
	cr_assert_not(first.warming.later);
	for (int i = 0; i < 4; i++)
		cr_assert_eq(first.warming.keys[i].result, WARM_BUILT);
	cr_assert_eq(world.engine->breaker.state, BREAKER_CLOSED);
}

Test(warming, and_that_it_is_not)
{
	lose_origin();
	warm(&first, 0, 4);
	warm(&second, 10, 4);
	world_run(&world, SECOND);
	cr_assert_eq(first.told + second.told, 2);
	cr_assert(second.warming.later, "one probe at a time");
	cr_assert_eq(world.engine->breaker.state, BREAKER_OPEN);
}
