/* What is counted: each get by what it was told, each refresh by its cause and its outcome. */
#include "core/account.h"

#include <criterion/criterion.h>
#include <string.h>

#include "world.h"

static struct world world;
static struct client client;

static void open_world(void)
{
	world_defaults(&world);
	world.limits.concurrency = 1;
	world_open(&world);
}

static void close_world(void)
{
	world_close(&world);
}

TestSuite(account, .init = open_world, .fini = close_world);

static struct account *account(void)
{
	return &world.engine->keyspaces.at[0]->account;
}

static uint64_t refreshes(enum refresh_cause cause, enum refresh_outcome outcome)
{
	return account()->refreshes[cause][outcome];
}

static uint64_t refreshes_in_all(void)
{
	uint64_t sum = 0;
	for (int cause = 0; cause < REFRESH_CAUSES; cause++)
		for (int outcome = 0; outcome < REFRESH_OUTCOMES; outcome++)
			sum += account()->refreshes[cause][outcome];
	return sum;
}

static void get(const char *arg)
{
	world_get(&world, &client, arg);
	world_run(&world, 200 * MS);
	cr_assert(client.answered);
}

Test(account, gets_are_counted_by_what_they_were_told)
{
	get("a");
	get("a");
	world_run(&world, 11 * SECOND);
	get("a");
	world_run(&world, 10 * MS);
	world.script.outcome = BUILD_NO_ROW;
	get("b");
	world.script = (struct script){ .outcome = BUILD_FAILED, .status = STATUS_ORIGIN_ERROR };
	get("c");
	cr_assert_eq(account()->gets[ANSWER_FRESH][SOURCE_ORIGIN][REASON_NONE], 1);
	cr_assert_eq(account()->gets[ANSWER_FRESH][SOURCE_NEAR][REASON_NONE], 1);
	cr_assert_eq(account()->gets[ANSWER_STALE][SOURCE_NEAR][REASON_REFRESHING], 1);
	cr_assert_eq(account()->gets[ANSWER_ABSENT][SOURCE_ORIGIN][REASON_NONE], 1);
	cr_assert_eq(account()->errors[STATUS_ORIGIN_ERROR], 1);
	cr_assert_eq(account_gets(account()), 5);
	cr_assert_eq(account()->stale_ages.count, 1);
	cr_assert_eq(account()->waiting, 0);
}

Test(account, who_waits_is_counted_until_he_is_answered_or_gone)
{
	struct client other;
	world_get(&world, &client, "a");
	world_get(&world, &other, "a");
	cr_assert_eq(account()->waiting, 2);
	world_leave(&world, &other);
	cr_assert_eq(account()->waiting, 1);
	world_run(&world, SECOND);
	cr_assert_eq(account()->waiting, 0);
	cr_assert_eq(account()->counters.joined, 1);
	cr_assert_eq(account_gets(account()), 1, "who has gone was told nothing");
}

Test(account, a_miss_builds_the_first_value)
{
	get("a");
	cr_assert_eq(refreshes(CAUSE_MISS, OUTCOME_CHANGED), 1);
	cr_assert_eq(refreshes_in_all(), 1);
	cr_assert_eq(account()->counters.builds, 1);
	cr_assert_eq(account()->counters.leases_acquired, 1);
	cr_assert_eq(account()->build_times.count, 1);
	cr_assert_eq(account()->build_times.sum_us, 100 * MS);
}

Test(account, a_stale_refresh_brings_the_same_or_another_value)
{
	world.script.value = "same";
	get("a");
	world_run(&world, 10 * SECOND);
	get("a");
	cr_assert_eq(refreshes(CAUSE_STALE, OUTCOME_UNCHANGED), 1);
	world_run(&world, 10 * SECOND);
	world.script.value = "else";
	get("a");
	cr_assert_eq(refreshes(CAUSE_STALE, OUTCOME_CHANGED), 1);
	cr_assert_eq(refreshes_in_all(), 3);
}

Test(account, one_version_of_a_row_is_one_value_but_not_of_several_rows)
{
	world.policy.single_row = true;
	world.script.version = 7;
	get("a");
	world_run(&world, 10 * SECOND);
	get("a");
	cr_assert_eq(refreshes(CAUSE_STALE, OUTCOME_UNCHANGED), 1);
	world.policy.single_row = false;
	world_run(&world, 10 * SECOND);
	get("a");
	cr_assert_eq(refreshes(CAUSE_STALE, OUTCOME_CHANGED), 1);
}

Test(account, a_refresh_after_a_change_and_one_by_hand_say_so)
{
	get("a");
	world_invalidate(&world, "a", false);
	get("a");
	cr_assert_str_eq(answer_reason_name(client.answer.reason), "changed");
	cr_assert_eq(refreshes(CAUSE_CHANGE, OUTCOME_CHANGED), 1);
	world_refresh(&world, &client, "a");
	world_run(&world, SECOND);
	cr_assert_eq(refreshes(CAUSE_MANUAL, OUTCOME_CHANGED), 1);
	cr_assert_eq(refreshes_in_all(), 3);
}

Test(account, what_the_store_has_is_found)
{
	world_share(&world, "theirs", world.now_us, 5);
	get("a");
	cr_assert_eq(refreshes(CAUSE_MISS, OUTCOME_FOUND), 1);
	cr_assert_eq(account()->counters.builds, 0);
}

Test(account, a_stale_refresh_that_others_are_at_is_elsewhere)
{
	get("a");
	world_run(&world, 10 * SECOND);
	world_rival_leases(&world, "a");
	get("a");
	cr_assert_eq(refreshes(CAUSE_STALE, OUTCOME_ELSEWHERE), 1);
	cr_assert_eq(account()->counters.leases_elsewhere, 1);
	world_rival_releases(&world, "a");
}

Test(account, failures_are_counted_when_they_are_built_and_when_they_are_remembered)
{
	world.script = (struct script){ .outcome = BUILD_FAILED, .status = STATUS_ORIGIN_ERROR };
	get("a");
	get("a");
	cr_assert_eq(refreshes(CAUSE_MISS, OUTCOME_FAILED), 2);
	cr_assert_eq(account()->counters.build_failures, 1);
	cr_assert_eq(account()->counters.failures_remembered, 1);
	cr_assert_eq(account()->build_times.count, 1, "the origin has answered");
}

Test(account, background_work_without_room_is_dropped)
{
	struct client slow;
	get("a");
	world_run(&world, 10 * SECOND);
	world.script.takes_us = 800 * MS;
	world_get(&world, &slow, "b");
	world_run(&world, 10 * MS);
	get("a");
	cr_assert_eq(refreshes(CAUSE_STALE, OUTCOME_DROPPED), 1);
	cr_assert_eq(account()->counters.background_dropped, 1);
	world_run(&world, SECOND);
}

Test(account, who_waits_in_vain_for_room_is_refused)
{
	struct client slow;
	world.script.takes_us = 3 * SECOND;
	world_get(&world, &slow, "b");
	world_run(&world, 10 * MS);
	world_get(&world, &client, "a");
	world_run(&world, 4 * SECOND);
	cr_assert_eq(client.answer.status, STATUS_OVERLOADED);
	cr_assert_eq(refreshes(CAUSE_MISS, OUTCOME_REFUSED), 1);
	cr_assert_eq(account()->counters.overloaded, 1);
}

Test(account, the_wait_for_room_is_measured)
{
	struct client first;
	world_get(&world, &first, "a");
	world_get(&world, &client, "b");
	world_run(&world, SECOND);
	cr_assert_eq(account()->queue_times.count, 2);
	cr_assert_geq(account()->queue_times.sum_us, 100 * MS);
}

/* The value of a refresh that nobody waited for. */
static void refresh_behind(const char *arg)
{
	client = (struct client){ .request.query.kind = QUERY_REFRESH };
	world_ask(&world, &client, arg);
	world_run(&world, 200 * MS);
}

Test(account, a_value_that_nobody_waited_for_and_nobody_reads_is_wasted)
{
	refresh_behind("a");
	cr_assert_eq(account()->wasted[CAUSE_MANUAL], 0, "it may still be read");
	refresh_behind("a");
	cr_assert_eq(account()->wasted[CAUSE_MANUAL], 1, "replaced");
	world_run(&world, 16 * SECOND);
	get("a");
	cr_assert_eq(account()->wasted[CAUSE_MANUAL], 2, "dead at its first read");
	cr_assert_eq(account()->wasted[CAUSE_MISS], 0);
}

Test(account, a_value_that_is_read_once_is_not_wasted)
{
	refresh_behind("a");
	get("a");
	world_run(&world, 16 * SECOND);
	get("a");
	get("a");
	refresh_behind("a");
	cr_assert_eq(account()->wasted[CAUSE_MANUAL], 0);
	cr_assert_eq(account()->wasted[CAUSE_MISS], 0, "whoever waited has read it");
}

Test(account, an_evicted_value_that_nobody_read_is_wasted)
{
	refresh_behind("a");
	struct near *near = &world.engine->near;
	near_drop(near, container_of(list_first(&near->rows.queue), struct near_entry, link),
		  world.now_us);
	cr_assert_eq(account()->wasted[CAUSE_MANUAL], 1);
}

Test(account, a_lock_at_the_origin_is_a_retry_with_its_reason)
{
	world.script.outcome = BUILD_KEY_HELD;
	world_get(&world, &client, "a");
	world_run(&world, 150 * MS);
	world.script.outcome = BUILD_ROW;
	world_run(&world, SECOND);
	cr_assert_str_eq(answer_state_name(client.answer.state), "fresh");
	cr_assert_geq(account()->counters.retries_lock, 1);
	cr_assert_eq(account()->counters.retries_lost, 0);
	cr_assert_eq(account()->counters.locks_held, account()->counters.retries_lock);
	cr_assert_eq(refreshes_in_all(), 1, "one refresh, however many tries");
}

Test(account, the_daemon_has_the_sum_of_its_keyspaces)
{
	get("a");
	get("b");
	world_run(&world, 10 * SECOND);
	get("a");
	const struct account_counters *mine = &account()->counters;
#define X(name, text) cr_assert_eq(world.engine->counters.name, mine->name, #name);
	ACCOUNT_COUNTER_MAP(X)
#undef X
}
