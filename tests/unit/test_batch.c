/* Flights that go to the origin together, in virtual time: events in, statements and answers out.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "world.h"

static struct world world;
enum { HERD = 200 };
static struct client herd[HERD];

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

TestSuite(batch, .init = open_world, .fini = close_world);

#define ASSERT_BUILT(at_statements, at_keys)                                                       \
	do {                                                                                       \
		cr_assert_eq(world.builds, at_statements, "statements=%d", world.builds);          \
		cr_assert_eq(world.keys, at_keys, "keys=%d", world.keys);                          \
	} while (0)

#define ASSERT_FRESH(client)                                                                       \
	do {                                                                                       \
		cr_assert((client)->answered, "no answer yet");                                    \
		cr_assert_eq((client)->answer.status, STATUS_OK, "%s: %s", (client)->key,          \
			     status_name((client)->answer.status));                                \
		cr_assert_eq((client)->answer.state, ANSWER_FRESH);                                \
	} while (0)

#define ASSERT_ERROR(client, at_status)                                                            \
	do {                                                                                       \
		cr_assert((client)->answered, "no answer yet");                                    \
		cr_assert_str_eq(status_name((client)->answer.status), at_status);                 \
	} while (0)

/* Asks for so many keys, from k0 on, in one turn. */
static void get_many(int from, int count)
{
	char arg[16];
	for (int i = from; i < from + count; i++) {
		snprintf(arg, sizeof(arg), "k%d", i);
		world_get(&world, &herd[i], arg);
	}
}

static void assert_fresh(int from, int count)
{
	for (int i = from; i < from + count; i++)
		ASSERT_FRESH(&herd[i]);
}

/* ---- company ------------------------------------------------------------------------------ */

Test(batch, misses_of_one_turn_are_one_statement_and_one_permit)
{
	get_many(0, 10);
	world_run(&world, 50 * MS);
	ASSERT_BUILT(1, 10);
	cr_assert_eq(world.engine->slots, 1);
	cr_assert_eq(world.engine->bulkhead.inside, 1);
	cr_assert_eq(world.engine->leases, 10);
	cr_assert_eq(world.key_locks, 10);
	world_run(&world, SECOND);
	assert_fresh(0, 10);
	ASSERT_BUILT(1, 10);
	for (int i = 0; i < 10; i++)
		for (int j = 0; j < i; j++)
			cr_assert_str_neq(herd[i].value, herd[j].value);
	cr_assert_eq(world.engine->counters.batches, 1);
	cr_assert_eq(world.engine->counters.builds, 10);
}

Test(batch, misses_within_linger_go_together_and_later_ones_do_not)
{
	get_many(0, 1);
	world_run(&world, MS);
	get_many(1, 1);
	world_run(&world, 3 * MS);
	get_many(2, 1);
	world_run(&world, SECOND);
	assert_fresh(0, 3);
	ASSERT_BUILT(2, 3);
}

Test(batch, one_alone_waits_no_longer_than_linger)
{
	get_many(0, 1);
	world_run(&world, 2 * MS - 1);
	ASSERT_BUILT(0, 0);
	world_run(&world, MS);
	ASSERT_BUILT(1, 1);
	world_run(&world, SECOND);
	cr_assert_eq(herd[0].answered_at_us - herd[0].asked_at_us, 102 * MS);
	cr_assert_eq(world.engine->counters.batches, 0);
}

Test(batch, without_linger_those_of_one_turn_go_together)
{
	world.policy.batch.linger_us = 0;
	get_many(0, 5);
	world_run(&world, 0);
	ASSERT_BUILT(1, 5);
	get_many(5, 2);
	world_run(&world, SECOND);
	assert_fresh(0, 7);
	ASSERT_BUILT(2, 7);
}

Test(batch, a_full_batch_goes_at_once)
{
	world.policy.batch.linger_us = 500 * MS;
	get_many(0, 64);
	world_run(&world, 5 * MS);
	ASSERT_BUILT(1, 64);
	get_many(64, 1);
	world_run(&world, 5 * MS);
	ASSERT_BUILT(1, 64);
	world_run(&world, SECOND);
	ASSERT_BUILT(2, 65);
	assert_fresh(0, 65);
}

Test(batch, more_than_fit_are_several)
{
	world.policy.batch.max = 10;
	get_many(0, 35);
	world_run(&world, SECOND);
	assert_fresh(0, 35);
	ASSERT_BUILT(4, 35);
}

Test(batch, many_gets_of_a_key_are_one_part_of_it)
{
	char arg[16];
	for (int i = 0; i < 60; i++) {
		snprintf(arg, sizeof(arg), "k%d", i % 20);
		world_get(&world, &herd[i], arg);
	}
	world_run(&world, 50 * MS);
	world_get(&world, &herd[60], "k7");
	world_run(&world, SECOND);
	assert_fresh(0, 61);
	ASSERT_BUILT(1, 20);
}

/* ---- who is not in it --------------------------------------------------------------------- */

Test(batch, a_key_leased_elsewhere_is_not_in_it)
{
	world_rival_leases(&world, "k1");
	get_many(0, 3);
	world_run(&world, 300 * MS);
	ASSERT_BUILT(1, 2);
	ASSERT_FRESH(&herd[0]);
	ASSERT_FRESH(&herd[2]);
	cr_assert_not(herd[1].answered);
	world_rival_releases(&world, "k1");
	world_run(&world, 2 * SECOND);
	ASSERT_BUILT(2, 3);
}

Test(batch, a_key_that_the_store_has_is_not_in_it)
{
	world_share(&world, "shared", world.now_us, 1);
	get_many(0, 3);
	world_run(&world, SECOND);
	assert_fresh(0, 3);
	ASSERT_BUILT(0, 0);
}

Test(batch, a_flight_whose_waiters_have_gone_while_it_lingers_goes_on_with_it)
{
	get_many(0, 3);
	world_run(&world, MS);
	world_leave(&world, &herd[1]);
	world_run(&world, SECOND);
	ASSERT_FRESH(&herd[0]);
	ASSERT_FRESH(&herd[2]);
	ASSERT_BUILT(1, 3);
}

Test(batch, all_leave_and_it_is_built_for_the_next)
{
	get_many(0, 3);
	world_run(&world, MS);
	for (int i = 0; i < 3; i++)
		world_leave(&world, &herd[i]);
	world_run(&world, SECOND);
	ASSERT_BUILT(1, 3);
	cr_assert(engine_is_idle(world.engine));
	get_many(0, 3);
	assert_fresh(0, 3);
}

Test(batch, who_waits_no_longer_than_linger_is_told_so_and_it_is_built_for_the_next)
{
	world.policy.wait_us = MS;
	get_many(0, 2);
	world_run(&world, MS);
	ASSERT_ERROR(&herd[0], "timeout");
	cr_assert_eq(herd[1].answered_at_us - herd[1].asked_at_us, MS);
	cr_assert_str_eq(herd[1].text, "the batch was waiting for others still");
	ASSERT_BUILT(0, 0);
	world_run(&world, MS);
	ASSERT_BUILT(1, 2);
	world_run(&world, 100 * MS);
	get_many(0, 2);
	assert_fresh(0, 2);
}

Test(batch, all_leave_in_line_and_nothing_is_built)
{
	world.engine->permits.retry_at_us = world.now_us + 300 * MS;
	get_many(0, 3);
	world_run(&world, 10 * MS);
	for (int i = 0; i < 3; i++)
		world_leave(&world, &herd[i]);
	world_run(&world, SECOND);
	ASSERT_BUILT(0, 0);
	cr_assert_eq(world.engine->bulkhead.inside, 0);
	cr_assert(engine_is_idle(world.engine));
}

/* It is background work then: it takes a permit that is free, and waits for none. */
Test(batch, all_leave_while_it_lingers_and_without_a_free_permit_nothing_is_built)
{
	world_close(&world);
	world.store_limits.budget_per_s = 5;
	world_open(&world);
	get_many(0, 1);
	world_run(&world, 20 * MS);
	get_many(1, 3);
	world_run(&world, MS);
	for (int i = 1; i < 4; i++)
		world_leave(&world, &herd[i]);
	world_run(&world, SECOND);
	ASSERT_BUILT(1, 1);
	cr_assert_eq(world.engine->leases + world.engine->slots, 0);
	cr_assert(engine_is_idle(world.engine));
}

Test(batch, who_leaves_while_it_builds_leaves_the_result)
{
	get_many(0, 3);
	world_run(&world, 50 * MS);
	world_leave(&world, &herd[1]);
	world_run(&world, SECOND);
	ASSERT_BUILT(1, 3);
	world_get(&world, &herd[1], "k1");
	ASSERT_FRESH(&herd[1]);
}

/* ---- room, permits, priorities ------------------------------------------------------------- */

Test(batch, those_that_queue_for_room_go_together)
{
	world_close(&world);
	world_defaults(&world);
	world.limits.concurrency = world.store_limits.concurrency = 1;
	world.policy.batch =
		(struct batch_policy){ .query = (char *)"q", .linger_us = 2 * MS, .max = 8 };
	world_open(&world);
	get_many(0, 1);
	world_run(&world, 50 * MS);
	get_many(1, 20);
	world_run(&world, 10 * MS);
	cr_assert_eq(world.engine->bulkhead.inside, 1);
	cr_assert_eq(world.engine->bulkhead.queued, 3);
	world_run(&world, SECOND);
	assert_fresh(0, 21);
	ASSERT_BUILT(4, 21);
	cr_assert_eq(world.building_most, 1);
}

Test(batch, a_client_with_one_key_is_not_behind_one_with_many)
{
	world_close(&world);
	world_defaults(&world);
	world.limits.concurrency = world.store_limits.concurrency = 1;
	world.policy.batch =
		(struct batch_policy){ .query = (char *)"q", .linger_us = 0, .max = 8 };
	world_open(&world);
	get_many(0, 1);
	world_run(&world, 50 * MS);
	get_many(1, 81); /* the last of them has room for one more */
	world_run(&world, MS);
	herd[90] = (struct client){ 0 };
	herd[90].request.query.client = 7;
	herd[90].request.query.wait_us = SECOND;
	world_ask(&world, &herd[90], "other");
	world_run(&world, 350 * MS);
	ASSERT_FRESH(&herd[90]); /* the third statement, not the twelfth */
}

Test(batch, a_background_refresh_rides_with_a_miss)
{
	get_many(0, 1);
	world_run(&world, 11 * SECOND);
	get_many(0, 1); /* stale: a refresh behind it */
	cr_assert_eq(herd[0].answer.state, ANSWER_STALE);
	get_many(1, 1);
	world_run(&world, SECOND);
	ASSERT_FRESH(&herd[1]);
	ASSERT_BUILT(2, 3);
}

Test(batch, a_batch_is_as_urgent_as_its_most_urgent_member)
{
	get_many(0, 1);
	world_run(&world, 11 * SECOND);
	get_many(0, 1);
	world_run(&world, MS);
	cr_assert_eq(engine_keyspace(world.engine, "k", 1)->open->priority, PRIORITY_REFRESH);
	get_many(1, 1);
	world_run(&world, 0);
	cr_assert_eq(engine_keyspace(world.engine, "k", 1)->open->priority, PRIORITY_MISS);
	world_run(&world, SECOND);
	ASSERT_BUILT(2, 3);
}

static void open_narrow(int max)
{
	world_close(&world);
	world_defaults(&world);
	world.limits.concurrency = world.store_limits.concurrency = 1;
	world.policy.batch =
		(struct batch_policy){ .query = (char *)"q", .linger_us = 50 * MS, .max = max };
	world_open(&world);
}

Test(batch, a_queued_one_rises_with_its_member_and_does_not_linger_again)
{
	const struct bulkhead *bulkhead = &world.engine->bulkhead;
	open_narrow(3);
	bulkhead = &world.engine->bulkhead;
	get_many(0, 1);
	world_run(&world, 60 * MS);
	world_refresh(&world, &herd[1], "k1");
	world_refresh(&world, &herd[2], "k2");
	world_run(&world, MS);
	cr_assert_eq(bulkhead->queues[PRIORITY_REFRESH].tickets.count, 1);
	world_get(&world, &herd[3], "k1");
	cr_assert_eq(bulkhead->queues[PRIORITY_REFRESH].tickets.count, 0);
	cr_assert_eq(bulkhead->queues[PRIORITY_MISS].tickets.count, 1);
	world_run(&world, 95 * MS); /* it got its room 10 ms ago, and had its time before */
	ASSERT_BUILT(2, 3);
}

Test(batch, one_in_the_permit_line_rises_with_its_member)
{
	open_narrow(3);
	get_many(0, 1);
	world_run(&world, SECOND);
	world.engine->permits.retry_at_us = world.now_us + 300 * MS;
	world_refresh(&world, &herd[1], "k1");
	world_refresh(&world, &herd[2], "k2");
	world_run(&world, 60 * MS);
	cr_assert_eq(world.engine->permits.lines[PRIORITY_REFRESH].count, 1);
	world_get(&world, &herd[3], "k2");
	cr_assert_eq(world.engine->permits.lines[PRIORITY_MISS].count, 1);
	world_run(&world, SECOND);
	ASSERT_BUILT(2, 3);
}

Test(batch, background_work_does_not_queue_with_those_who_wait)
{
	open_narrow(3);
	get_many(0, 1);
	world_run(&world, 11 * SECOND);
	get_many(1, 1);
	world_run(&world, 60 * MS);
	get_many(2, 1); /* it queues: the one place is taken */
	world_run(&world, MS);
	get_many(0, 1); /* stale, with a refresh behind it */
	world_run(&world, SECOND);
	ASSERT_BUILT(3, 3);
	cr_assert_eq(world.engine->counters.background_dropped, 1);
}

Test(batch, all_are_refused_when_no_permit_comes_in_time)
{
	world_close(&world);
	world_defaults(&world);
	world.store_limits.budget_per_s = 0.1;
	world.policy.batch =
		(struct batch_policy){ .query = (char *)"q", .linger_us = 0, .max = 64 };
	world_open(&world);
	get_many(0, 1);
	world_run(&world, 2 * SECOND);
	get_many(1, 30);
	world_run(&world, 2 * SECOND);
	for (int i = 1; i < 31; i++)
		ASSERT_ERROR(&herd[i], "overloaded");
	ASSERT_BUILT(1, 1);
	cr_assert_eq(world.engine->leases, 0);
}

/* Golden: of nine permits a second (0.9 of the budget) the second comes after 111,111 µs, when only
 * the patience of a refresh call is left of all that was waited for. */
Test(batch, one_is_booked_for_the_patience_of_a_member_that_nobody_waits_for)
{
	world_close(&world);
	world.store_limits.budget_per_s = 10;
	world_open(&world);
	int64_t from_us = world.now_us;
	get_many(0, 1);
	world_run(&world, 10 * MS);
	herd[1] = (struct client){ .request.query.kind = QUERY_REFRESH };
	world_ask(&world, &herd[1], "k1");
	cr_assert(herd[1].answered && herd[1].answer.queued);
	herd[2] = (struct client){ .request.query.wait_us = 20 * MS };
	world_ask(&world, &herd[2], "k2");
	world_run(&world, 30 * MS);
	ASSERT_ERROR(&herd[2], "overloaded");
	cr_assert_eq(herd[2].answered_at_us - from_us, 30 * MS);
	ASSERT_BUILT(1, 1);
	world_run(&world, SECOND);
	ASSERT_BUILT(2, 3);
	cr_assert_eq(world.began_us[1] - world.began_us[0], 111111);
	cr_assert_eq(world.engine->counters.permits_given_up, 0);
}

/* ---- what comes of it ---------------------------------------------------------------------- */

Test(batch, a_lock_held_elsewhere_delays_only_its_key)
{
	world.script.held = "k1";
	get_many(0, 4);
	world_run(&world, 110 * MS);
	world.script.held = NULL;
	ASSERT_FRESH(&herd[0]);
	cr_assert_not(herd[1].answered);
	world_run(&world, SECOND);
	assert_fresh(0, 4);
	ASSERT_BUILT(2, 5);
	cr_assert_eq(world.engine->counters.locks_held, 1);
}

Test(batch, one_bad_argument_fails_alone)
{
	world.script.bad = "k2";
	get_many(0, 5);
	world_run(&world, SECOND);
	for (int i = 0; i < 5; i++)
		if (i != 2)
			ASSERT_FRESH(&herd[i]);
	ASSERT_ERROR(&herd[2], "origin_error");
	ASSERT_BUILT(6, 10); /* all, then each */
	/* It is remembered: the next batch is without it. */
	get_many(2, 1);
	get_many(5, 5);
	world_run(&world, SECOND);
	assert_fresh(5, 5);
	ASSERT_ERROR(&herd[2], "origin_error");
	ASSERT_BUILT(7, 15);
}

Test(batch, who_went_its_own_way_is_patient_with_a_held_lock)
{
	world.script.bad = "k0";
	world.script.held = "k1";
	world.script.takes_us = MS;
	get_many(0, 3);
	world_run(&world, 300 * MS);
	ASSERT_FRESH(&herd[2]);
	cr_assert_not(herd[1].answered);
	cr_assert_lt(world.builds, 12);
	world.script.held = NULL;
	world_run(&world, SECOND);
	ASSERT_FRESH(&herd[1]);
}

Test(batch, what_goes_apart_takes_a_permit_each)
{
	world_close(&world);
	world_defaults(&world);
	world.store_limits.budget_per_s = 20;
	world.policy.wait_us = 5 * SECOND;
	world.policy.batch =
		(struct batch_policy){ .query = (char *)"q", .linger_us = 0, .max = 64 };
	world.script.takes_us = MS;
	world_open(&world);
	world.script.bad = "k2";
	get_many(0, 30);
	world_run(&world, 5 * SECOND);
	ASSERT_BUILT(31, 60);
	cr_assert_leq(world_most_builds(&world, SECOND), 20);
	for (int i = 0; i < 30; i++)
		cr_assert(herd[i].answered);
}

Test(batch, a_refresh_behind_a_stale_value_survives_anothers_bad_argument)
{
	get_many(0, 1);
	world_run(&world, 11 * SECOND);
	world.script.bad = "k1";
	get_many(0, 2);
	world_run(&world, SECOND);
	get_many(0, 1);
	ASSERT_FRESH(&herd[0]);
}

Test(batch, a_query_that_never_does_is_left_out_for_a_while)
{
	world.script.outcome = BUILD_ROW;
	for (int round = 0; round < 2; round++) {
		char bad[16];
		snprintf(bad, sizeof(bad), "k%d", 10 * round);
		world.script.bad = bad;
		get_many(10 * round, 3);
		world_run(&world, 300 * MS);
	}
	world.script.bad = NULL;
	ASSERT_BUILT(8, 12);
	cr_assert_eq(world.engine->counters.batches_apart, 2);
	get_many(40, 3);
	world_run(&world, 300 * MS);
	assert_fresh(40, 3);
	ASSERT_BUILT(11, 15);
	world_run(&world, 2 * SECOND);
	get_many(50, 3);
	world_run(&world, 300 * MS);
	assert_fresh(50, 3);
	ASSERT_BUILT(12, 18);
}

Test(batch, a_bad_key_now_and_then_does_not_end_them)
{
	char bad[16];
	for (int round = 0; round < 3; round++) {
		snprintf(bad, sizeof(bad), "k%d", 10 * round);
		world.script.bad = bad;
		get_many(10 * round, 2);
		world_run(&world, 300 * MS);
		world.script.bad = NULL;
		get_many(10 * round + 2, 2);
		world_run(&world, 300 * MS);
	}
	ASSERT_BUILT(3 * (1 + 2 + 1), 3 * (2 + 2 + 2));
	cr_assert_eq(world.engine->counters.batches_apart, 3);
}

Test(batch, a_timeout_is_every_members)
{
	world.script.outcome = BUILD_FAILED;
	world.script.status = STATUS_ORIGIN_ERROR;
	get_many(0, 3);
	world_run(&world, 300 * MS);
	for (int i = 0; i < 3; i++)
		ASSERT_ERROR(&herd[i], "origin_error");
	ASSERT_BUILT(1, 3);
	get_many(0, 3);
	world_run(&world, 300 * MS);
	ASSERT_BUILT(1, 3);
}

Test(batch, a_lost_connection_is_one_loss_and_all_try_again)
{
	world.script.outcome = BUILD_LOST;
	world.script.status = STATUS_UNAVAILABLE;
	get_many(0, 20);
	world_run(&world, 110 * MS);
	cr_assert_eq(world.engine->breaker.losses, 1);
	world.script.outcome = BUILD_ROW;
	world_run(&world, SECOND);
	assert_fresh(0, 20);
}

Test(batch, a_member_whose_lease_is_lost_is_not_saved_and_does_no_harm)
{
	world.holds_renewals = true;
	world.policy.lease_us = 300 * MS;
	world.script.takes_us = 600 * MS;
	world.policy.wait_us = 2 * SECOND;
	get_many(0, 1);
	world_run(&world, 400 * MS); /* its lease has lapsed: nobody renewed it */
	cr_assert_not_null(world.renewal);
	world_answer_renewal(&world);
	world.holds_renewals = false;
	get_many(1, 2);
	world_run(&world, 2 * SECOND);
	assert_fresh(0, 3);
	cr_assert_eq(herd[0].answer.ttl_us, 0);
	cr_assert_gt(herd[1].answer.ttl_us, 0);
	cr_assert_eq(world.engine->counters.leases_lost, 1);
}

Test(batch, leases_are_renewed_while_it_waits_and_runs)
{
	world.policy.lease_us = 300 * MS;
	world.script.takes_us = 900 * MS;
	get_many(0, 5);
	world_run(&world, 800 * MS);
	cr_assert_geq(world.renewals, 5 * 7);
	world_run(&world, SECOND);
	for (int i = 0; i < 5; i++)
		cr_assert_gt(herd[i].answer.ttl_us, 0);
	ASSERT_BUILT(1, 5);
}

/* ---- the end ------------------------------------------------------------------------------- */

Test(batch, stopping_ends_one_in_every_state)
{
	static const int64_t moments_us[] = { 0, MS, 2 * MS, 10 * MS, 105 * MS };
	for (size_t i = 0; i < sizeof(moments_us) / sizeof(*moments_us); i++) {
		get_many(0, 70);
		world_run(&world, moments_us[i]);
		world_close(&world);
		for (int k = 0; k < 70; k++)
			cr_assert_eq(herd[k].answers, 1);
		world_defaults(&world);
		world.policy.batch = (struct batch_policy){ .query = (char *)"q",
							    .linger_us = 2 * MS,
							    .max = 64 };
		world_open(&world);
	}
}
