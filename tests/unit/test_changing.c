/* Changes of rows, as the store tells of them, in a daemon's core. */
#include <criterion/criterion.h>
#include <string.h>

#include "core/change.h"
#include "world.h"

static struct world world;
static struct client herd[4];

static void setup(void)
{
	memset(herd, 0, sizeof(herd));
	world_defaults(&world);
	world.policy.single_row = true;
	world.policy.on_change = ON_CHANGE_REFRESH;
	world.script.version = 1;
	world_open(&world);
}

static void teardown(void)
{
	world_close(&world);
}

TestSuite(changing, .init = setup, .fini = teardown);

/* The store tells that the row of key a has changed: to this version, or one that nobody knows. */
static void tell(int64_t version, bool hard)
{
	static const char bytes[] = "k:a";
	struct store_listener listener = pump_listener(&world.pump);
	struct key key;
	engine_key(world.engine, engine_keyspace(world.engine, "k", 1), bytes, 3, &key);
	const struct row_change change = { .floor = memory_store_change(world.memory, &key),
					   .hard = hard,
					   .has_version = version != 0,
					   .version = version };
	listener.row_changed(listener.impl, bytes, 3, &change);
}

#define ASSERT_VALUE(client, at_state, at_value)                                                   \
	do {                                                                                       \
		cr_assert((client)->answered, "no answer yet");                                    \
		cr_assert_eq((client)->answer.status, STATUS_OK);                                  \
		cr_assert_str_eq(answer_state_name((client)->answer.state), at_state);             \
		cr_assert_str_eq((client)->value, at_value);                                       \
	} while (0)

/* Asked for in vain five times, it is not built for 5 s: but for who asks for less, or when there
 * is news. */
Test(changing, who_asks_for_less_does_not_wait_with_who_asks_for_what_is_not_there)
{
	world.policy.fresh_us = world.policy.stale_us = 100 * MS;
	world.script.version = 7;
	herd[0].request.query =
		(struct query){ .wait_us = 30 * SECOND, .has_min_version = true, .min_version = 8 };
	world_ask(&world, &herd[0], "a");
	world_run(&world, 3 * SECOND);
	cr_assert_eq(world.builds, 5);
	world_get(&world, &herd[1], "a");
	world_run(&world, 100 * MS);
	ASSERT_VALUE(&herd[1], "fresh", "v6");
	world_run(&world, 50 * MS);
	cr_assert_not(herd[0].answered);
	cr_assert_eq(world.builds, 6);
	world.script.version = 8;
	tell(8, false);
	world_run(&world, 100 * MS);
	ASSERT_VALUE(&herd[0], "fresh", "v7");
	cr_assert_eq(world.builds, 7);
}

Test(changing, a_hot_key_is_refreshed_at_once)
{
	world_get(&world, &herd[0], "a");
	world_run(&world, 2 * SECOND);
	world_get(&world, &herd[1], "a");
	world.script.version = 2;
	tell(2, false);
	world_run(&world, SECOND);
	cr_assert_eq(world.builds, 2);
	world_get(&world, &herd[2], "a");
	ASSERT_VALUE(&herd[2], "fresh", "v2");
}

Test(changing, a_key_that_nobody_reads_waits_for_a_reader)
{
	world_get(&world, &herd[0], "a");
	world_run(&world, 2 * SECOND);
	tell(2, false);
	world_run(&world, SECOND);
	cr_assert_eq(world.builds, 1);
	world_get(&world, &herd[1], "a");
	ASSERT_VALUE(&herd[1], "stale", "v1");
	cr_assert_eq(herd[1].answer.reason, REASON_CHANGED);
}

Test(changing, what_contains_the_change_stays_fresh)
{
	world.script.version = 7;
	world_get(&world, &herd[0], "a");
	world_run(&world, 2 * SECOND);
	tell(7, false);
	tell(6, false);
	world_get(&world, &herd[1], "a");
	ASSERT_VALUE(&herd[1], "fresh", "v1");
	tell(0, false);
	world_get(&world, &herd[2], "a");
	ASSERT_VALUE(&herd[2], "stale", "v1");
}

Test(changing, a_hard_change_leaves_nothing_to_serve)
{
	world_get(&world, &herd[0], "a");
	world_run(&world, 2 * SECOND);
	tell(2, true);
	world_get(&world, &herd[1], "a");
	cr_assert_not(herd[1].answered);
	world_run(&world, SECOND);
	ASSERT_VALUE(&herd[1], "fresh", "v2");
}

Test(changing, an_overtaken_build_answers_only_who_came_before)
{
	world_get(&world, &herd[0], "a");
	world_run(&world, 50 * MS);
	tell(2, false);
	world.script.version = 2;
	herd[1].request.query.has_max_stale = true; /* 0: only a fresh value will do */
	herd[1].request.query.wait_us = 3 * SECOND;
	world_ask(&world, &herd[1], "a");
	world_run(&world, 60 * MS);
	ASSERT_VALUE(&herd[0], "fresh", "v1");
	cr_assert_eq(herd[0].answer.ttl_us, 0);
	cr_assert_not(herd[1].answered);
	world_run(&world, 2 * SECOND);
	ASSERT_VALUE(&herd[1], "fresh", "v2");
	cr_assert_eq(world.builds, 2);
}

Test(changing, a_build_under_way_that_contains_the_change_is_kept)
{
	world.script.version = 2;
	world_get(&world, &herd[0], "a");
	world_run(&world, 50 * MS);
	tell(2, false);
	world_run(&world, SECOND);
	world_get(&world, &herd[1], "a");
	ASSERT_VALUE(&herd[1], "fresh", "v1");
	cr_assert_eq(world.builds, 1);
}

Test(changing, a_row_that_changes_all_the_time_is_built_once_a_second)
{
	static struct client readers[1000];
	memset(readers, 0, sizeof(readers));
	world_get(&world, &herd[0], "a");
	world_run(&world, 200 * MS);
	for (int i = 0; i < 1000; i++) {
		tell(2 + i, false);
		world_get(&world, &readers[i], "a");
		cr_assert(readers[i].answered, "%d", i);
		world_run(&world, 10 * MS);
	}
	cr_assert_geq(world.builds, 9);
	/* The second follows the first change at once. */
	for (int i = 2; i < world.builds; i++)
		cr_assert_geq(world.began_us[i] - world.began_us[i - 1], SECOND);
}

/* ---- what contains what ------------------------------------------------------------------- */

static struct entry row(uint64_t fence, int64_t version)
{
	return (struct entry){ .fence = fence, .has_version = true, .version = version };
}

Test(changing, only_a_row_of_that_version_surely_contains_the_change)
{
	const struct row_change change = { .floor = 10, .has_version = true, .version = 5 };
	const struct row_change blind = { .floor = 10 };
	struct entry same = row(9, 5), later = row(9, 6), earlier = row(9, 4), above = row(11, 1);
	struct entry gone = row(9, 5);
	gone.absent = true;
	for (int single_row = 0; single_row < 2; single_row++) {
		cr_assert(row_change_is_in(&change, &same, single_row));
		cr_assert_eq(row_change_is_in(&change, &later, single_row), single_row);
		cr_assert_not(row_change_is_in(&change, &earlier, single_row));
		cr_assert_not(row_change_is_in(&change, &gone, single_row));
		cr_assert_not(row_change_is_in(&blind, &same, single_row));
		cr_assert(row_change_is_in(&change, &above, single_row));
	}
}

Test(changing, of_two_changes_both_must_be_contained)
{
	const struct row_change first = { .floor = 10, .has_version = true, .version = 5 };
	const struct row_change second = { .floor = 11, .has_version = true, .version = 4 };
	struct row_change single = { 0 }, several = { 0 };
	row_change_join(&single, &first, true);
	row_change_join(&single, &second, true);
	cr_assert(single.floor == 11 && single.has_version && single.version == 5);
	row_change_join(&several, &first, false);
	cr_assert(several.has_version);
	row_change_join(&several, &second, false);
	cr_assert(several.floor == 11 && !several.has_version);
}
