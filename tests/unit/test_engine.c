/* Requests through the core in virtual time: events in, answers out. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "world.h"

static struct world world;
enum { HERD = 1000 };
static struct client herd[HERD];

static void open_world(void)
{
	world_defaults(&world);
	world_open(&world);
}

static void close_world(void)
{
	world_close(&world);
}

TestSuite(engine, .init = open_world, .fini = close_world);

#define ASSERT_VALUE(client, at_state, at_value)                                                   \
	do {                                                                                       \
		cr_assert((client)->answered, "no answer yet");                                    \
		cr_assert_eq((client)->answer.status, STATUS_OK, "%s",                             \
			     status_name((client)->answer.status));                                \
		cr_assert_str_eq(answer_state_name((client)->answer.state), at_state);             \
		cr_assert_str_eq((client)->value, at_value);                                       \
	} while (0)

#define ASSERT_ERROR(client, at_status)                                                            \
	do {                                                                                       \
		cr_assert((client)->answered, "no answer yet");                                    \
		cr_assert_str_eq(status_name((client)->answer.status), at_status);                 \
	} while (0)

/* ---- one build ---------------------------------------------------------------------------- */

Test(engine, a_thousand_cold_gets_are_one_build)
{
	for (int i = 0; i < HERD; i++)
		world_get(&world, &herd[i], "a");
	world_run(&world, SECOND);
	for (int i = 0; i < HERD; i++)
		ASSERT_VALUE(&herd[i], "fresh", "v1");
	cr_assert_eq(world.builds, 1);
}

Test(engine, a_get_during_the_build_joins_it)
{
	world_get(&world, &herd[0], "a");
	world_run(&world, 99 * MS);
	world_get(&world, &herd[1], "a");
	world_run(&world, 2 * MS);
	ASSERT_VALUE(&herd[0], "fresh", "v1");
	ASSERT_VALUE(&herd[1], "fresh", "v1");
	cr_assert_eq(world.builds, 1);
}

Test(engine, a_hit_asks_nobody)
{
	world_get(&world, &herd[0], "a");
	world_run(&world, SECOND);
	world_get(&world, &herd[1], "a");
	ASSERT_VALUE(&herd[1], "fresh", "v1");
	cr_assert_eq(herd[1].answer.source, SOURCE_NEAR);
	cr_assert_eq(herd[1].answer.age_us, SECOND);
	cr_assert_eq(herd[1].answer.ttl_us, 9 * SECOND);
	cr_assert_eq(world.builds, 1);
}

Test(engine, the_first_ones_leaving_does_not_hurt_the_rest)
{
	world_get(&world, &herd[0], "a");
	world_get(&world, &herd[1], "a");
	world_leave(&world, &herd[0]);
	world_run(&world, SECOND);
	ASSERT_VALUE(&herd[1], "fresh", "v1");
	cr_assert_eq(herd[0].answers, 0);
	cr_assert_eq(world.builds, 1);
}

Test(engine, a_build_whose_only_waiter_left_still_fills_the_cache)
{
	world_get(&world, &herd[0], "a");
	world_run(&world, 10 * MS);
	world_leave(&world, &herd[0]);
	world_run(&world, SECOND);
	world_get(&world, &herd[1], "a");
	ASSERT_VALUE(&herd[1], "fresh", "v1");
	cr_assert_eq(world.builds, 1);
}

/* ---- deadlines ---------------------------------------------------------------------------- */

Test(engine, each_waiter_has_its_own_deadline)
{
	for (int i = 0; i < 3; i++) {
		herd[i] = (struct client){ 0 };
		herd[i].request.query.wait_us = (30 + 30 * i) * MS;
		world_ask(&world, &herd[i], "a");
	}
	world_get(&world, &herd[3], "a");
	world_run(&world, SECOND);
	for (int i = 0; i < 3; i++) {
		ASSERT_ERROR(&herd[i], "timeout");
		cr_assert_eq(herd[i].answered_at_us - herd[i].asked_at_us, (30 + 30 * i) * MS);
	}
	ASSERT_VALUE(&herd[3], "fresh", "v1");
	cr_assert_eq(world.builds, 1);
}

Test(engine, no_wait_answers_at_once_and_starts_the_build)
{
	herd[0] = (struct client){ 0 };
	world_ask(&world, &herd[0], "a");
	ASSERT_ERROR(&herd[0], "timeout");
	world_run(&world, SECOND);
	world_get(&world, &herd[1], "a");
	ASSERT_VALUE(&herd[1], "fresh", "v1");
}

Test(engine, the_default_stands_in_with_the_reason)
{
	world.policy.default_value = value_create("dflt", 4);
	world.script.takes_us = 3 * SECOND;
	world_get(&world, &herd[0], "a");
	world_run(&world, 2 * SECOND);
	ASSERT_VALUE(&herd[0], "default", "dflt");
	cr_assert_eq(herd[0].answer.reason, REASON_TIMEOUT);
	cr_assert_eq(herd[0].answer.source, SOURCE_NONE);
	value_unref(world.policy.default_value);
	world.policy.default_value = NULL;
}

/* ---- freshness ---------------------------------------------------------------------------- */

Test(engine, a_stale_value_is_served_at_once_while_one_build_refreshes_it)
{
	world_get(&world, &herd[0], "a");
	world_run(&world, 11 * SECOND);
	for (int i = 0; i < 10; i++) {
		world_get(&world, &herd[i], "a");
		ASSERT_VALUE(&herd[i], "stale", "v1");
		cr_assert_eq(herd[i].answer.reason, REASON_REFRESHING);
		cr_assert_eq(herd[i].answer.stale_us, SECOND);
	}
	world_run(&world, SECOND);
	world_get(&world, &herd[0], "a");
	ASSERT_VALUE(&herd[0], "fresh", "v2");
	cr_assert_eq(world.builds, 2);
}

Test(engine, a_hot_entry_is_refreshed_before_it_expires_by_one_build)
{
	world.policy.early = 1;
	world_get(&world, &herd[0], "a");
	world_run(&world, SECOND);
	int stale = 0;
	for (int round = 0; round < 100; round++) {
		for (int i = 0; i < 1000; i++) {
			world_get(&world, &herd[1], "a");
			stale += herd[1].answer.state != ANSWER_FRESH;
			world_run(&world, 5 * MS);
		}
	}
	/* 500 s in lives of 10 s less what is early: a build each, and hardly ever a stale reply.
	 */
	cr_assert(world.builds >= 50 && world.builds <= 60, "%d builds", world.builds);
	cr_assert_lt(stale, 5);
}

Test(engine, an_entry_that_is_hardly_read_is_not_refreshed_early)
{
	world.policy.early = 1;
	world_get(&world, &herd[0], "a");
	world_run(&world, SECOND);
	for (int i = 0; i < 8; i++) {
		world_get(&world, &herd[1], "a");
		world_run(&world, SECOND);
	}
	cr_assert_eq(world.builds, 1);
}

Test(engine, a_stale_hit_while_a_refresh_is_under_way_is_a_plain_one)
{
	world_get(&world, &herd[0], "a");
	world_run(&world, 11 * SECOND);
	world_get(&world, &herd[1], "a");
	int64_t wake_at_us = world.wake_at_us;
	world.wake_at_us = -1;
	world_get(&world, &herd[2], "a");
	cr_assert_eq(world.wake_at_us, -1, "the pump did more than to answer");
	world.wake_at_us = wake_at_us;
	ASSERT_VALUE(&herd[2], "stale", "v1");
	world_run(&world, SECOND);
	cr_assert_eq(world.builds, 2);
}

Test(engine, past_stale_until_nothing_old_is_served)
{
	world_get(&world, &herd[0], "a");
	world_run(&world, 15 * SECOND);
	world.script = (struct script){ .outcome = BUILD_FAILED, .status = STATUS_ORIGIN_ERROR };
	world_get(&world, &herd[1], "a");
	world_run(&world, SECOND);
	ASSERT_ERROR(&herd[1], "origin_error");
}

Test(engine, a_failed_refresh_does_not_move_the_bound)
{
	world_get(&world, &herd[0], "a");
	world_run(&world, 11 * SECOND);
	world.script = (struct script){ .outcome = BUILD_FAILED, .status = STATUS_ORIGIN_ERROR };
	world_get(&world, &herd[1], "a");
	ASSERT_VALUE(&herd[1], "stale", "v1");
	world_run(&world, SECOND);
	world_get(&world, &herd[2], "a");
	ASSERT_VALUE(&herd[2], "stale", "v1");
	cr_assert_eq(herd[2].answer.reason, REASON_ORIGIN_ERROR);
	cr_assert_eq(world.builds, 2, "tried again within the error time");
	world_run(&world, 3 * SECOND);
	world_get(&world, &herd[3], "a");
	world_run(&world, SECOND);
	ASSERT_ERROR(&herd[3], "origin_error");
}

Test(engine, a_request_can_forbid_stale)
{
	world_get(&world, &herd[0], "a");
	world_run(&world, 11 * SECOND);
	herd[1] = (struct client){ 0 };
	herd[1].request.query.wait_us = SECOND;
	herd[1].request.query.has_max_stale = true;
	world_ask(&world, &herd[1], "a");
	cr_assert_not(herd[1].answered);
	world_run(&world, SECOND);
	ASSERT_VALUE(&herd[1], "fresh", "v2");
}

Test(engine, no_such_row_is_told_and_ends_by_its_own_time)
{
	world.script.outcome = BUILD_NO_ROW;
	world_get(&world, &herd[0], "a");
	world_run(&world, SECOND);
	ASSERT_VALUE(&herd[0], "absent", "");
	world.script.outcome = BUILD_ROW;
	world_get(&world, &herd[1], "a");
	ASSERT_VALUE(&herd[1], "absent", "");
	cr_assert_eq(world.builds, 1);
	world_refresh(&world, &herd[2], "a");
	world_run(&world, SECOND);
	world_get(&world, &herd[3], "a");
	ASSERT_VALUE(&herd[3], "fresh", "v2");
}

Test(engine, a_null_is_a_value)
{
	world.script.null = true;
	world_get(&world, &herd[0], "a");
	world_run(&world, SECOND);
	ASSERT_VALUE(&herd[0], "fresh", "");
	cr_assert_null(herd[0].answer.value);
}

/* ---- failures ----------------------------------------------------------------------------- */

Test(engine, all_waiters_get_the_same_failure_and_it_is_remembered)
{
	world.script = (struct script){ .outcome = BUILD_FAILED,
					.takes_us = 10 * MS,
					.status = STATUS_ORIGIN_ERROR,
					.text = "division by zero" };
	for (int i = 0; i < 100; i++)
		world_get(&world, &herd[i], "a");
	world_run(&world, 20 * MS);
	for (int i = 0; i < 100; i++) {
		ASSERT_ERROR(&herd[i], "origin_error");
		cr_assert_str_eq(herd[i].text, "division by zero");
	}
	world_run(&world, SECOND);
	world_get(&world, &herd[0], "a");
	world_run(&world, 0);
	ASSERT_ERROR(&herd[0], "origin_error");
	cr_assert_str_eq(herd[0].text, "division by zero");
	cr_assert_gt(herd[0].answer.retry_after_us, 0);
	cr_assert_eq(world.builds, 1, "a retry within the error time");

	world_run(&world, SECOND + 200 * MS);
	world.script = (struct script){ .outcome = BUILD_ROW };
	world_get(&world, &herd[0], "a");
	world_run(&world, SECOND);
	ASSERT_VALUE(&herd[0], "fresh", "v2");
}

Test(engine, what_fails_again_and_again_is_tried_ever_less_often)
{
	world.script = (struct script){ .outcome = BUILD_FAILED, .status = STATUS_ORIGIN_ERROR };
	int builds_at[4];
	for (int i = 0; i < 4; i++) {
		for (int s = 0; s < 100; s++) {
			world_get(&world, &herd[0], "a");
			world_run(&world, 100 * MS);
			ASSERT_ERROR(&herd[0], "origin_error");
		}
		builds_at[i] = world.builds;
	}
	/* 2 s, 4 s, 8 s, 16 s, 32 s … */
	cr_assert(builds_at[0] >= 2 && builds_at[0] <= 3, "%d in 10 s", builds_at[0]);
	cr_assert_leq(builds_at[3], 5, "%d in 40 s", builds_at[3]);
	world.script = (struct script){ .outcome = BUILD_ROW };
	for (int s = 0; s < 500; s++) {
		world_get(&world, &herd[0], "a");
		world_run(&world, 100 * MS);
	}
	cr_assert_eq(herd[0].answer.status, STATUS_OK);
}

Test(engine, one_broken_connection_is_nobodys_trouble)
{
	world.script = (struct script){ .outcome = BUILD_LOST, .status = STATUS_UNAVAILABLE };
	world_get(&world, &herd[0], "a");
	world_run(&world, 0);
	cr_assert_eq(world.builds, 1);
	world.script = (struct script){ .outcome = BUILD_ROW, .value = "after all" };
	world_get(&world, &herd[1], "b");
	world_run(&world, 100 * MS);
	ASSERT_VALUE(&herd[0], "fresh", "after all");
	ASSERT_VALUE(&herd[1], "fresh", "after all");
}

Test(engine, a_lost_origin_is_probed_by_one)
{
	world.script = (struct script){ .outcome = BUILD_LOST, .status = STATUS_UNAVAILABLE };
	for (int i = 0; i < 100; i++) {
		char arg[16];
		snprintf(arg, sizeof(arg), "%d", i);
		world_get(&world, &herd[i], arg);
	}
	world_run(&world, 30 * MS);
	for (int i = 0; i < 100; i++)
		ASSERT_ERROR(&herd[i], "unavailable");
	cr_assert_leq(world.builds, 8 + 1, "%d builds after the second was lost", world.builds);
	int before = world.builds;
	world.script = (struct script){ .outcome = BUILD_ROW, .takes_us = 100 * MS };
	world_run(&world, SECOND);
	world_get(&world, &herd[0], "0");
	world_get(&world, &herd[1], "1");
	world_run(&world, 50 * MS);
	cr_assert_eq(world.builds, before + 1);
	ASSERT_ERROR(&herd[1], "unavailable");
	world_run(&world, 100 * MS);
	ASSERT_VALUE(&herd[0], "fresh", world.engine->counters.builds == 1 ? "v1" : herd[0].value);
	world_get(&world, &herd[1], "1");
	world_run(&world, SECOND);
	cr_assert_eq(herd[1].answer.status, STATUS_OK);
}

Test(engine, a_key_that_does_not_fit_is_not_remembered)
{
	world.script = (struct script){ .outcome = BUILD_BAD_KEY, .text = "argument 1" };
	world_get(&world, &herd[0], "x");
	world_run(&world, SECOND);
	ASSERT_ERROR(&herd[0], "bad_request");
	cr_assert_str_eq(herd[0].text, "argument 1");
	cr_assert_eq(memory_store_claims(world.memory), 0);
}

Test(engine, a_build_that_was_too_late_to_be_sent_asks_for_another_permit)
{
	world.script = (struct script){ .outcome = BUILD_LATE, .takes_us = 100 * MS };
	world_get(&world, &herd[0], "a");
	world_run(&world, 150 * MS);
	cr_assert_not(herd[0].answered);
	cr_assert_eq(world.builds, 2);
	world.script = (struct script){ .outcome = BUILD_ROW, .value = "at last" };
	world_run(&world, SECOND);
	ASSERT_VALUE(&herd[0], "fresh", "at last");
	cr_assert_eq(world.engine->counters.leases_asked, 1, "the lease was kept");
	cr_assert_eq(world.engine->counters.retries_late, 2);
	cr_assert_eq(world.engine->slots, 0);
}

Test(engine, a_lock_held_at_the_origin_is_waited_for)
{
	world.script = (struct script){ .outcome = BUILD_KEY_HELD };
	world_get(&world, &herd[0], "a");
	world_run(&world, 200 * MS);
	cr_assert_not(herd[0].answered);
	cr_assert_geq(world.builds, 2);
	world.script = (struct script){ .outcome = BUILD_ROW, .value = "at last" };
	world_run(&world, SECOND);
	ASSERT_VALUE(&herd[0], "fresh", "at last");
}

/* ---- refresh, min_version, invalidate ----------------------------------------------------- */

Test(engine, a_refresh_is_not_answered_by_a_build_that_began_before_it)
{
	world_get(&world, &herd[0], "a");
	world_run(&world, 50 * MS);
	world_refresh(&world, &herd[1], "a");
	world_run(&world, 51 * MS);
	ASSERT_VALUE(&herd[0], "fresh", "v1");
	cr_assert_not(herd[1].answered, "answered by the build under way");
	world_run(&world, SECOND);
	cr_assert(herd[1].answered && herd[1].answer.built && herd[1].answer.joined);
	cr_assert_eq(world.builds, 2);
}

Test(engine, refreshes_that_wait_behind_a_build_share_the_next_one)
{
	world_get(&world, &herd[0], "a");
	world_run(&world, 50 * MS);
	for (int i = 1; i < 100; i++)
		world_refresh(&world, &herd[i], "a");
	world_run(&world, SECOND);
	for (int i = 1; i < 100; i++)
		cr_assert(herd[i].answered && herd[i].answer.status == STATUS_OK);
	cr_assert_eq(world.builds, 2);
}

Test(engine, a_refresh_call_that_does_not_wait_is_not_lost_behind_a_build)
{
	world_get(&world, &herd[0], "a");
	world_run(&world, 50 * MS);
	herd[1] = (struct client){ 0 };
	herd[1].request.query.kind = QUERY_REFRESH;
	world_ask(&world, &herd[1], "a");
	cr_assert(herd[1].answer.queued && !herd[1].answer.joined);
	world_run(&world, SECOND);
	cr_assert_eq(world.builds, 2);
}

Test(engine, a_refresh_with_if_older_builds_only_what_is_older)
{
	world_get(&world, &herd[0], "a");
	world_run(&world, 2 * SECOND);
	for (int older = 1; older <= 3; older += 2) {
		herd[1] = (struct client){ 0 };
		struct query *query = &herd[1].request.query;
		query->kind = QUERY_REFRESH;
		query->wait_us = SECOND;
		query->has_if_older = true;
		query->if_older_us = older * SECOND;
		world_ask(&world, &herd[1], "a");
		world_run(&world, 200 * MS);
		cr_assert(herd[1].answered);
		cr_assert_eq(herd[1].answer.built, older == 1);
	}
	cr_assert_eq(world.builds, 2);
}

static void ask_min_version(struct client *client, enum query_kind kind, int64_t version)
{
	*client = (struct client){ 0 };
	client->request.query.kind = kind;
	client->request.query.wait_us = SECOND;
	client->request.query.has_min_version = true;
	client->request.query.min_version = version;
	world_ask(&world, client, "a");
}

Test(engine, min_version_waits_for_a_build_that_began_after)
{
	world.policy.single_row = true;
	world.script.version = 7;
	world_get(&world, &herd[0], "a");
	world_run(&world, SECOND);
	ask_min_version(&herd[1], QUERY_GET, 7);
	ASSERT_VALUE(&herd[1], "fresh", "v1");
	world.script.version = 9;
	ask_min_version(&herd[2], QUERY_GET, 8);
	cr_assert_not(herd[2].answered);
	world_run(&world, SECOND);
	ASSERT_VALUE(&herd[2], "fresh", "v2");
	cr_assert_eq(herd[2].answer.version, 9);
}

Test(engine, a_version_that_is_not_there_yet_is_waited_for)
{
	world.policy.single_row = true;
	world.script.version = 7;
	world.script.takes_us = 10 * MS;
	ask_min_version(&herd[0], QUERY_GET, 8);
	world_run(&world, 300 * MS);
	cr_assert_not(herd[0].answered, "answered with version 7");
	cr_assert(world.builds >= 3 && world.builds <= 8, "%d builds", world.builds);
	world_get(&world, &herd[1], "a");
	cr_assert(herd[1].answered && herd[1].answer.version == 7);
	world.script.version = 8;
	world_run(&world, 700 * MS);
	cr_assert(herd[0].answered && herd[0].answer.version == 8);

	ask_min_version(&herd[0], QUERY_GET, 9);
	world_run(&world, 2 * SECOND);
	ASSERT_ERROR(&herd[0], "timeout");
	ask_min_version(&herd[0], QUERY_REFRESH, 9);
	world_run(&world, 2 * SECOND);
	cr_assert(herd[0].answered && herd[0].answer.built && herd[0].answer.version == 8);
}

/* As where an application's versions begin anew: stale is served, and the origin asked now and
 * then. */
Test(engine, a_version_that_goes_back_is_not_built_with_every_read)
{
	world.policy.single_row = true;
	world.script.version = 7;
	world.script.takes_us = 10 * MS;
	world_get(&world, &herd[0], "a");
	world_run(&world, 10 * SECOND + 20 * MS);
	world.script.version = 1;
	for (int i = 0; i < 100; i++) {
		world_get(&world, &herd[i], "a");
		ASSERT_VALUE(&herd[i], "stale", "v1");
		world_run(&world, 30 * MS);
	}
	cr_assert_geq(world.builds, 1 + 3);
	cr_assert_leq(world.builds, 1 + 4, "%d builds in 3 s", world.builds);
}

/* Golden: builds of 100 ms from 0 on, and between them 20, 80, 320 and 1,280 ms. */
Test(engine, a_version_that_never_comes_costs_few_builds_and_says_so)
{
	static const int64_t moments[] = { 0, 120 * MS, 300 * MS, 720 * MS, 2100 * MS };
	world.policy.single_row = true;
	world.policy.fresh_us = 10 * SECOND;
	world.script.version = 7;
	herd[0].request.query =
		(struct query){ .wait_us = 4 * SECOND, .has_min_version = true, .min_version = 8 };
	world_ask(&world, &herd[0], "a");
	world_run(&world, 5 * SECOND);
	ASSERT_ERROR(&herd[0], "timeout");
	cr_assert_str_eq(herd[0].text, "the origin had no such version before the deadline");
	cr_assert_eq(world.builds, 5);
	for (int i = 0; i < 5; i++)
		cr_assert_eq(world.began_us[i] - world.began_us[0], moments[i]);
}

Test(engine, min_version_is_idempotent_also_where_versions_order_nothing)
{
	world.script.version = 7;
	world_get(&world, &herd[0], "a");
	world_run(&world, SECOND);
	for (int i = 0; i < 5; i++) {
		ask_min_version(&herd[1], QUERY_REFRESH, 6);
		world_run(&world, SECOND);
		cr_assert(herd[1].answered);
		cr_assert_eq(herd[1].answer.built, i == 0);
	}
	cr_assert_eq(world.builds, 2);
}

Test(engine, an_invalidated_value_is_stale_and_refreshed)
{
	world_get(&world, &herd[0], "a");
	world_run(&world, SECOND);
	world_invalidate(&world, "a", false);
	world_get(&world, &herd[1], "a");
	ASSERT_VALUE(&herd[1], "stale", "v1");
	cr_assert_eq(herd[1].answer.reason, REASON_CHANGED);
	world_run(&world, SECOND);
	world_get(&world, &herd[2], "a");
	ASSERT_VALUE(&herd[2], "fresh", "v2");
}

Test(engine, a_stale_answer_from_an_overtaken_build_starts_the_next)
{
	world_get(&world, &herd[0], "a");
	world_run(&world, 50 * MS);
	world_invalidate(&world, "a", false);
	world_get(&world, &herd[1], "a");
	world_run(&world, 60 * MS);
	ASSERT_VALUE(&herd[1], "stale", "v1");
	world_run(&world, SECOND);
	cr_assert_eq(world.builds, 2);
	world_get(&world, &herd[2], "a");
	ASSERT_VALUE(&herd[2], "fresh", "v2");
}

Test(engine, a_hard_invalidated_value_is_gone)
{
	world_get(&world, &herd[0], "a");
	world_run(&world, SECOND);
	world_invalidate(&world, "a", true);
	world_get(&world, &herd[1], "a");
	cr_assert_not(herd[1].answered);
	world_run(&world, SECOND);
	ASSERT_VALUE(&herd[1], "fresh", "v2");
}

Test(engine, a_build_overtaken_by_an_invalidation_is_fresh_for_nobody_after_it)
{
	for (int hard = 0; hard <= 1; hard++) {
		const char *arg = hard ? "hard" : "soft";
		int before = world.builds;
		world_get(&world, &herd[0], arg);
		world_run(&world, 50 * MS);
		world_invalidate(&world, arg, hard);
		herd[1] = (struct client){ 0 };
		herd[1].request.query.wait_us = SECOND;
		herd[1].request.query.has_max_stale = true;
		world_ask(&world, &herd[1], arg);
		world_run(&world, 60 * MS);
		cr_assert(herd[0].answered);
		cr_assert_eq(herd[0].answer.ttl_us, 0);
		cr_assert_not(herd[1].answered);
		world_run(&world, SECOND);
		cr_assert(herd[1].answered);
		cr_assert_eq(herd[1].answer.ttl_us > 0, true);
		cr_assert_eq(world.builds, before + 2);
	}
}

Test(engine, after_a_failover_what_was_built_before_expires_and_lower_versions_count)
{
	world.policy.single_row = true;
	world.policy.fresh_us = 600 * SECOND;
	world.policy.stale_us = 600 * SECOND;
	world.script.version = 100;
	world.script.history = history_of(4711, 1);
	world_get(&world, &herd[0], "a");
	world_get(&world, &herd[1], "b");
	world_run(&world, SECOND);
	world.script.version = 7; /* the standby had not got the last ones */
	world.script.history = history_of(4711, 2);
	world_refresh(&world, &herd[0], "a");
	world_run(&world, SECOND);
	world_get(&world, &herd[0], "a");
	ASSERT_VALUE(&herd[0], "fresh", "v3");
	cr_assert_eq(herd[0].answer.version, 7);
	int builds = world.builds;
	for (int i = 0; i < 320; i++) {
		world_get(&world, &herd[1], "b");
		world_run(&world, 100 * MS);
	}
	cr_assert_eq(world.builds, builds + 1, "the other key was not built anew");
	cr_assert_eq(herd[1].answer.version, 7);
}

Test(engine, what_an_old_primary_says_is_kept_by_nobody)
{
	world.policy.single_row = true;
	world.script.version = 7;
	world.script.history = history_of(4711, 2);
	world_get(&world, &herd[0], "a");
	world_run(&world, SECOND);
	world.script.history = history_of(4711, 1);
	world.script.value = "old primary";
	world.script.version = 100;
	world_refresh(&world, &herd[1], "a");
	world_run(&world, SECOND);
	cr_assert_eq(herd[1].answer.status, STATUS_OK);
	world_get(&world, &herd[2], "a");
	ASSERT_VALUE(&herd[2], "fresh", "v1");
	cr_assert_eq(world.engine->counters.older_histories, 1);
}

Test(engine, an_invalidated_keyspace_is_refreshed_key_by_key_over_its_time)
{
	world.policy.stale_us = 60 * SECOND;
	world.policy.fresh_us = 600 * SECOND;
	world.policy.wait_us = 30 * SECOND;
	for (int i = 0; i < 100; i++) {
		char arg[8];
		snprintf(arg, sizeof(arg), "%d", i);
		world_get(&world, &herd[i], arg);
	}
	world_run(&world, 10 * SECOND);
	cr_assert_eq(world.builds, 100);
	world_invalidate_keyspace(&world, 20 * SECOND);
	int at_once = 0, stale = 0;
	for (int s = 0; s < 30; s++) {
		for (int i = 0; i < 100; i++) {
			char arg[8];
			snprintf(arg, sizeof(arg), "%d", i);
			world_get(&world, &herd[i], arg);
			cr_assert(herd[i].answered);
			at_once += s == 0 && herd[i].answer.state == ANSWER_STALE;
			stale += herd[i].answer.state == ANSWER_STALE;
			world_run(&world, 10 * MS);
		}
	}
	cr_assert_lt(at_once, 20);
	cr_assert_geq(stale, 100);
	cr_assert_eq(world.builds, 200, "%d builds", world.builds);
}

Test(engine, where_no_change_may_be_served_stale_an_epoch_at_once_leaves_nothing)
{
	world.policy.stale_us = 60 * SECOND;
	world.policy.on_change = ON_CHANGE_INVALIDATE;
	world_get(&world, &herd[0], "1");
	world_run(&world, 2 * SECOND);
	world_invalidate_keyspace(&world, 0);
	world_run(&world, 10 * MS);
	world_get(&world, &herd[1], "1");
	cr_assert(!herd[1].answered, "it waits for the build");
	world_run(&world, 2 * SECOND);
	cr_assert_eq(herd[1].answer.state, ANSWER_FRESH);
	cr_assert_eq(world.builds, 2);
}

/* ---- the origin's protection -------------------------------------------------------------- */

Test(engine, at_the_end_of_a_drain_nothing_is_left)
{
	for (int i = 0; i < HERD; i++) {
		char arg[8];
		snprintf(arg, sizeof(arg), "%d", i);
		world_get(&world, &herd[i], arg);
	}
	world_run(&world, 50 * MS);
	pump_stop(&world.pump);
	world_run(&world, SECOND);
	cr_assert(world.stopped);
	for (int i = 0; i < HERD; i++)
		cr_assert_eq(herd[i].answers, 1);
}

static void flood_with_keys(int count)
{
	for (int i = 0; i < count; i++) {
		char arg[8];
		snprintf(arg, sizeof(arg), "%d", i);
		world_get(&world, &herd[i], arg);
	}
}

Test(engine, builds_stay_within_concurrency_and_the_rest_is_told_so)
{
	flood_with_keys(HERD);
	world_run(&world, 5 * SECOND);
	cr_assert_leq(world.building_most, 8);
	int ok = 0, overloaded = 0;
	for (int i = 0; i < HERD; i++) {
		cr_assert(herd[i].answered);
		ok += herd[i].answer.status == STATUS_OK;
		overloaded += herd[i].answer.status == STATUS_OVERLOADED;
		if (herd[i].answer.status == STATUS_OVERLOADED)
			cr_assert_gt(herd[i].answer.retry_after_us, 0);
	}
	cr_assert_gt(ok, 60);
	cr_assert_gt(overloaded, 0);
}

Test(engine, a_full_queue_is_an_error_at_once)
{
	world.engine->bulkhead.queue_max = 10;
	flood_with_keys(30);
	world_run(&world, 0);
	int overloaded = 0;
	for (int i = 0; i < 30; i++)
		overloaded += herd[i].answered && herd[i].answer.status == STATUS_OVERLOADED;
	cr_assert_eq(overloaded, 30 - 8 - 5, "one client takes half of the queue at most");
}

Test(engine, who_asks_for_a_thousand_keys_does_not_starve_who_asks_for_one)
{
	world.policy.wait_us = 10 * SECOND;
	flood_with_keys(500);
	world_run(&world, 150 * MS);
	herd[999] = (struct client){ 0 };
	herd[999].request.query.wait_us = 10 * SECOND;
	herd[999].request.query.client = 1;
	world_ask(&world, &herd[999], "mine");
	world_run(&world, 250 * MS);
	ASSERT_VALUE(&herd[999], "fresh", herd[999].value);
}

Test(engine, flights_hold_no_more_bytes_of_keys_than_they_may)
{
	world.engine->limits.key_bytes_max = 10; /* of "k:a" and so on: three */
	const char *args[] = { "a", "b", "c", "d" };
	for (int i = 0; i < 4; i++)
		world_get(&world, &herd[i], args[i]);
	world_run(&world, SECOND);
	for (int i = 0; i < 4; i++)
		cr_assert_eq(herd[i].answer.status, i < 3 ? STATUS_OK : STATUS_OVERLOADED);
	world_get(&world, &herd[4], "e");
	world_run(&world, SECOND);
	cr_assert_eq(herd[4].answer.status, STATUS_OK, "they come back");
}

Test(engine, too_many_requests_are_turned_away)
{
	world.engine->limits.requests_max = 10;
	for (int i = 0; i < 12; i++)
		world_get(&world, &herd[i], "a");
	world_run(&world, SECOND);
	for (int i = 0; i < 12; i++)
		cr_assert_eq(herd[i].answer.status, i < 10 ? STATUS_OK : STATUS_OVERLOADED);
}

Test(engine, background_work_is_dropped_where_there_is_no_room)
{
	world_get(&world, &herd[0], "old");
	world_run(&world, 11 * SECOND);
	world.script.takes_us = SECOND;
	flood_with_keys(8);
	world_run(&world, 50 * MS);
	int before = world.builds;
	world_get(&world, &herd[100], "old");
	ASSERT_VALUE(&herd[100], "stale", "v1");
	world_run(&world, 20 * MS);
	cr_assert_eq(world.builds, before);
	cr_assert_eq(world.engine->all.count, 8);
	world_get(&world, &herd[100], "old");
	cr_assert_eq(herd[100].answer.reason, REASON_OVERLOADED);
	world_run(&world, 2 * SECOND);
	world_get(&world, &herd[100], "old");
	world_run(&world, 2 * SECOND);
	world_get(&world, &herd[100], "old");
	cr_assert_eq(herd[100].answer.state, ANSWER_FRESH);
}

Test(engine, the_cache_keeps_within_its_bytes)
{
	static char arg[16];
	for (int i = 0; i < 30000; i++) {
		snprintf(arg, sizeof(arg), "%d", i);
		world.script = (struct script){ .outcome = BUILD_ROW };
		world.began_us[0] = 0;
		world.builds = 0;
		world.memory = world.memory;
		world_get(&world, &herd[0], arg);
		world_run(&world, 2 * MS);
		cr_assert_eq(herd[0].answer.status, STATUS_OK);
	}
	cr_assert_gt(world.engine->near.evictions, 0);
	cr_assert_leq(near_cost(&world.engine->near), world.limits.near_bytes_max);
}
