/* What a daemon makes of entries and builds of several origins, and of an origin that failed over.
 */
#include "core/history.h"

#include <criterion/criterion.h>

#include "world.h"

static struct world world;
static struct client a;

static void open_world(void)
{
	world_defaults(&world);
	world_open(&world);
}

static void close_world(void)
{
	world_close(&world);
}

TestSuite(history, .init = open_world, .fini = close_world);

enum { OURS = 4711, THEIRS = 4712 };

/* What the store has of key "b", of that history, generated so long after our build of key "a". */
static const char *read_after(uint64_t history, int64_t later_us)
{
	world.policy.fresh_us = 60 * SECOND;
	world.script.history = history_of(OURS, 2);
	world_get(&world, &a, "a");
	world_run(&world, SECOND);
	int64_t built_us = world.engine->history_built_us;
	cr_assert(built_us > 0 && built_us <= world.now_us);
	world_run(&world, 20 * SECOND);
	world_share(&world, "theirs", built_us + later_us, 7);
	world.shared.history = history;
	world_get(&world, &a, "b");
	world_run(&world, SECOND);
	cr_assert(a.answered && a.answer.status == STATUS_OK);
	return a.value;
}

Test(history, an_entry_of_another_origin_from_before_our_build_is_none)
{
	cr_assert_str_eq(read_after(history_of(THEIRS, 9), HISTORY_SILENCE_US - 1), "v2");
	cr_assert_eq(world.engine->counters.other_histories, 1);
	cr_assert_eq(world.engine->counters.histories, 0, "ours is what counts");
}

Test(history, an_entry_of_another_origin_counts_when_we_have_not_built_for_a_while)
{
	cr_assert_str_eq(read_after(history_of(THEIRS, 1), HISTORY_SILENCE_US), "theirs");
	cr_assert_eq(world.engine->counters.histories, 1);
	cr_assert_eq(world.builds, 1);
}

Test(history, an_entry_of_a_later_timeline_counts_at_once)
{
	cr_assert_str_eq(read_after(history_of(OURS, 3), 1), "theirs");
	cr_assert_eq(world.engine->counters.histories, 1);
}

Test(history, an_entry_of_an_earlier_timeline_never_counts)
{
	cr_assert_str_eq(read_after(history_of(OURS, 1), HISTORY_SILENCE_US), "v2");
	cr_assert_eq(world.engine->counters.older_histories, 1);
}

Test(history, an_unknown_one_always_counts)
{
	cr_assert_str_eq(read_after(0, 1), "theirs");
}
