/* The core under pressure: budgets over time, races in one instant, missing memory. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "world.h"

static struct world world;
enum { CLIENTS = 400 };
static struct client clients[CLIENTS];

static void ask_key(int client, int key)
{
	char arg[16];
	snprintf(arg, sizeof(arg), "%d", key);
	world_get(&world, &clients[client], arg);
}

Test(engine_limits, no_second_has_more_builds_than_the_budget)
{
	world_defaults(&world);
	world.limits.concurrency = world.store_limits.concurrency = 40;
	world.store_limits.budget_per_s = 50;
	world.policy.wait_us = 20 * SECOND;
	world_open(&world);
	for (int i = 0; i < CLIENTS; i++)
		ask_key(i, i);
	world_run(&world, 20 * SECOND);
	for (int i = 0; i < CLIENTS; i++)
		cr_assert_eq(clients[i].answer.status, STATUS_OK);
	cr_assert_eq(world.builds, CLIENTS);
	cr_assert_leq(world_most_builds(&world, SECOND), 50);
	cr_assert_geq(world_most_builds(&world, SECOND), 40, "the budget is not used");
	world_close(&world);
}

/* The first permit comes at once, the moment of the next one 93 ms later. */
Test(engine_limits, after_a_pause_a_permit_whose_moment_is_over_is_not_used)
{
	world_defaults(&world);
	world.store_limits.budget_per_s = 12;
	world_open(&world);
	ask_key(0, 0);
	ask_key(1, 1);
	world_run(&world, 10 * MS);
	cr_assert_eq(world.builds, 1);
	cr_assert_eq(world.engine->slots, 2, "the second is booked");
	world.now_us += 160 * MS; /* paused */
	world_run(&world, 1);
	cr_assert_eq(world.builds, 1);
	world_run(&world, SECOND);
	cr_assert_eq(world.builds, 2);
	cr_assert_eq(clients[1].answer.status, STATUS_OK);
	cr_assert_eq(world.engine->counters.retries_late, 1);
	cr_assert_eq(world.engine->counters.leases_asked, 2, "the lease was kept");
	world_close(&world);
}

Test(engine_limits, who_has_lost_the_lease_while_waiting_asks_for_it_anew)
{
	world_defaults(&world);
	world.store_limits.budget_per_s = 1;
	world.policy.wait_us = 10 * SECOND;
	world_open(&world);
	world.holds_renewals = true;
	ask_key(0, 0);
	ask_key(1, 1);
	world_run(&world, SECOND);
	cr_assert_eq(world.builds, 1);
	cr_assert_eq(world.renewals, 1, "who waits renews");
	world.renewal->outcome = STORE_REFUSED;
	world.renewal->done(world.renewal);
	world.holds_renewals = false;
	world_run(&world, 9 * SECOND);
	cr_assert_eq(clients[1].answer.status, STATUS_OK);
	cr_assert_eq(world.engine->counters.leases_lost, 1);
	cr_assert_eq(world.engine->counters.leases_asked, 3, "built without a lease");
	world_close(&world);
}

enum { CROWD = 8 };

/* Of so many clients from `first` on, for the one key. */
static void ask_as_crowd(int first)
{
	for (int i = 0; i < CROWD; i++)
		world_get(&world, &clients[first + i], "hot");
}

Test(engine_limits, a_crowd_goes_before_those_who_wait_for_a_key_each)
{
	world_defaults(&world);
	world.limits.concurrency = world.store_limits.concurrency = 40;
	world.store_limits.budget_per_s = 10;
	world.policy.wait_us = 20 * SECOND;
	world_open(&world);
	for (int i = 0; i < 100; i++)
		ask_key(i, i);
	world_run(&world, 2 * SECOND);
	int builds = world.builds;
	ask_as_crowd(100);
	while (!clients[100].answered)
		world_run(&world, 10 * MS);
	cr_assert_eq(clients[100].answer.status, STATUS_OK);
	cr_assert_leq(world.builds - builds, 5, "after %d others", world.builds - builds);
	world_close(&world);
}

Test(engine_limits, a_crowd_books_ahead_of_what_other_hosts_take)
{
	world_defaults(&world);
	world.limits.concurrency = world.store_limits.concurrency = 1000;
	world.store_limits.budget_per_s = 200;
	world_open(&world);
	const int64_t ahead_us = 110 * MS; /* they are many: one always asks in time */
	world_rival_permits(&world, ahead_us);
	ask_as_crowd(0);
	ask_key(CROWD, 1);
	for (int i = 0; i < 500; i++) {
		world_rival_permits(&world, ahead_us);
		world_run(&world, MS);
	}
	cr_assert_eq(clients[0].answer.status, STATUS_OK);
	cr_assert(clients[0].answered);
	cr_assert_not(clients[CROWD].answered, "there was a permit left: the test shows nothing");
	world_run(&world, 2 * SECOND);
	world_close(&world);
}

/* Random keys take all there is of the budget, and more. */
Test(engine_limits, a_key_that_many_read_is_refreshed_before_it_is_dead_whatever_others_miss)
{
	enum { FLOOD = 300 };
	struct client *reader = &clients[FLOOD];
	world_defaults(&world);
	world.limits.concurrency = world.store_limits.concurrency = 40;
	world.store_limits.budget_per_s = 10;
	world.policy.fresh_us = 2 * SECOND;
	world.policy.stale_us = 3 * SECOND;
	world.policy.wait_us = 5 * SECOND;
	world_open(&world);
	world_get(&world, reader, "hot");
	world_run(&world, 2 * SECOND);
	for (int i = 0; i < 1000; i++) {
		if (i % 4 == 0 && i / 4 < FLOOD)
			ask_key(i / 4, i / 4);
		world_get(&world, reader, "hot");
		cr_assert(reader->answered, "dead after %d ms", i * 10);
		world_run(&world, 10 * MS);
	}
	int refused = 0;
	for (int i = 0; i < 250; i++)
		refused += clients[i].answered && clients[i].answer.status != STATUS_OK;
	cr_assert_gt(refused, 50, "there was room for all: the test shows nothing");
	world_run(&world, 6 * SECOND);
	world_close(&world);
}

/* A wish whose permit would come after its deadline is told so, and costs no permit. */
Test(engine_limits, a_permit_beyond_the_deadline_is_refused)
{
	world_defaults(&world);
	world.store_limits.budget_per_s = 2;
	world_open(&world);
	for (int i = 0; i < 10; i++)
		ask_key(i, i);
	world_run(&world, 5 * SECOND);
	int ok = 0;
	for (int i = 0; i < 10; i++) {
		cr_assert(clients[i].answered);
		ok += clients[i].answer.status == STATUS_OK;
		cr_assert(clients[i].answer.status == STATUS_OK ||
			  clients[i].answer.status == STATUS_OVERLOADED);
		cr_assert_leq(clients[i].answered_at_us - clients[i].asked_at_us, SECOND);
	}
	cr_assert_geq(ok, 1);
	cr_assert_eq(world.engine->leases + world.engine->slots, 0);
	world_close(&world);
}

/* A permit that is long in coming: the lease is kept until then, and the build is no build too
 * many. */
Test(engine_limits, a_lease_lasts_as_long_as_the_wait_for_a_permit)
{
	world_defaults(&world);
	world.policy.build_timeout_us = SECOND;
	world.store_limits.budget_per_s = 0.05;
	world_open(&world);
	ask_key(0, 0);
	for (int i = 1; i < 60; i++) {
		ask_key(i, 1);
		world_run(&world, SECOND / 2);
	}
	cr_assert_eq(world.builds, 2);
	cr_assert_eq(world.engine->counters.saves_refused, 0);
	cr_assert_eq(clients[59].answer.status, STATUS_OK);
	world_close(&world);
}

/* Background work that found no room is on its way out when somebody comes who waits. */
Test(engine_limits, who_joins_a_refresh_that_was_dropped_is_not_dropped_with_it)
{
	world_defaults(&world);
	world.store_limits.budget_per_s = 2;
	world.policy.wait_us = 5 * SECOND;
	world_open(&world);
	ask_key(0, 1);
	world_run(&world, 11 * SECOND);
	ask_key(1, 2);
	world_run(&world, 0); /* the permit of this moment is gone */
	world.hold_saves = true;
	ask_key(2, 1);
	cr_assert_eq(clients[2].answer.state, ANSWER_STALE);
	world_run(&world, 0);
	cr_assert_not_null(world.held_save, "the refresh was not dropped");
	clients[3] = (struct client){ 0 };
	clients[3].request.query.wait_us = 5 * SECOND;
	clients[3].request.query.has_max_stale = true;
	world_ask(&world, &clients[3], "1");
	world_release_save(&world);
	world_run(&world, 3 * SECOND);
	cr_assert(clients[3].answered);
	cr_assert_eq(clients[3].answer.status, STATUS_OK, "%s", clients[3].text);
	world_close(&world);
}

static void submit_one(int i)
{
	struct client *client = &clients[i];
	*client = (struct client){ 0 };
	struct query *query = &client->request.query;
	query->kind = rand() % 4 ? QUERY_GET : QUERY_REFRESH;
	query->wait_us = rand() % 8 ? rand() % (300 * MS) : 0;
	query->has_max_stale = rand() % 4 == 0;
	query->max_stale_us = rand() % 2 ? rand() % SECOND : 0;
	query->has_min_version = rand() % 8 == 0;
	query->min_version = 1 + rand() % 50;
	query->has_if_older = query->kind == QUERY_REFRESH && rand() % 2;
	query->if_older_us = rand() % SECOND;
	char arg[16];
	snprintf(arg, sizeof(arg), "%d", rand() % 6);
	world_ask(&world, client, arg);
}

static void roll_script(void)
{
	static const enum build_outcome outcomes[] = {
		BUILD_ROW,     BUILD_ROW,      BUILD_ROW,       BUILD_NO_ROW,
		BUILD_FAILED,  BUILD_KEY_HELD, BUILD_SLOT_HELD, BUILD_NO_ROOM,
		BUILD_BAD_KEY, BUILD_LOST,     BUILD_LATE,
	};
	world.script = (struct script){
		.outcome = outcomes[rand() % (sizeof(outcomes) / sizeof(*outcomes))],
		.takes_us = rand() % 3 ? rand() % (100 * MS) : 0,
		.version = rand() % 3 ? 1 + rand() % 50 : 0,
		.status = STATUS_ORIGIN_ERROR,
	};
	if (world.script.outcome == BUILD_LOST)
		world.script.status = STATUS_UNAVAILABLE;
}

static void check_client(const struct client *client)
{
	if (client->left) {
		cr_assert_eq(client->answers, 0);
		return;
	}
	cr_assert_eq(client->answers, 1, "%d answers to one request", client->answers);
	cr_assert_leq(client->answered_at_us - client->asked_at_us, client->request.query.wait_us);
	const struct answer *answer = &client->answer;
	int64_t fresh_us = world.policy.fresh_us > world.policy.negative_us
				   ? world.policy.fresh_us
				   : world.policy.negative_us;
	bool built_after = client->answered_at_us - answer->age_us >= client->asked_at_us;
	if (answer->source != SOURCE_NONE && !built_after)
		cr_assert_leq(answer->age_us, fresh_us * 3 / 2 + world.policy.stale_us);
	if (answer->state == ANSWER_STALE && client->request.query.has_max_stale)
		cr_assert_leq(answer->stale_us, client->request.query.max_stale_us);
}

/* Everything at once, in instants that collide: whoever asks gets one answer, in time. */
Test(engine_limits, whatever_happens_each_request_gets_one_answer_in_time, .timeout = 100)
{
	for (unsigned seed = 1; seed <= 300; seed++) {
		srand(seed);
		world_defaults(&world);
		world.policy.fresh_us = 1 + rand() % SECOND;
		world.policy.stale_us = rand() % 2 ? rand() % SECOND : 0;
		world.policy.error_us = 1 + rand() % (200 * MS);
		world.policy.negative_us = 1 + rand() % (200 * MS);
		world.policy.jitter = rand() % 2 ? 0.5 : 0;
		world.policy.single_row = rand() % 2;
		world.limits.concurrency = world.store_limits.concurrency = 1 + rand() % 3;
		world.limits.queue_max = rand() % 4;
		world_open(&world);
		for (int i = 0; i < CLIENTS; i++) {
			roll_script();
			submit_one(i);
			if (rand() % 8 == 0 && clients[i].submitted && !clients[i].answered)
				world_leave(&world, &clients[i]);
			if (rand() % 16 == 0)
				world_invalidate(&world, rand() % 2 ? "1" : "2", rand() % 2);
			if (rand() % 3)
				world_run(&world, rand() % (20 * MS));
		}
		if (rand() % 2)
			world_run(&world, 2 * SECOND);
		world_close(&world);
		for (int i = 0; i < CLIENTS; i++)
			check_client(&clients[i]);
		cr_assert_leq(world.building_most, (int)world.limits.concurrency);
	}
}

/* The instant in which a flight ends and a request comes: never a waiter without a flight. */
Test(engine_limits, a_request_in_the_instant_of_a_flights_end_is_answered)
{
	world_defaults(&world);
	world.policy.fresh_us = 1;
	world.policy.stale_us = 0;
	world.script.takes_us = 7 * MS;
	world.store_limits.budget_per_s = 100000;
	world_open(&world);
	for (int round = 0; round < 5000; round++) {
		ask_key(0, 1);
		world_run(&world, 7 * MS - 2 + round % 5);
		ask_key(1, 1);
		world_run(&world, 20 * MS);
		cr_assert_eq(clients[0].answers, 1);
		cr_assert_eq(clients[1].answers, 1);
		cr_assert_eq(clients[0].answer.status + clients[1].answer.status, STATUS_OK);
		cr_assert_eq(world.engine->all.count, 0);
	}
	world_close(&world);
}

/* Allocation n fails, for every n: all are answered, nothing leaks, service goes on. */
Test(engine_limits, every_allocation_may_fail)
{
	for (uint64_t n = 1; n < 200; n++) {
		world_defaults(&world);
		world_open(&world);
		uint64_t before = mem_calls();
		mem_fail_at(n);
		for (int i = 0; i < 10; i++)
			ask_key(i, i % 4);
		world_run(&world, 2 * SECOND);
		uint64_t used = mem_calls() - before;
		mem_fail_at(0);
		for (int i = 0; i < 10; i++)
			cr_assert_eq(clients[i].answers, 1, "allocation %d", (int)n);
		ask_key(0, 0);
		world_run(&world, 2 * SECOND);
		cr_assert_eq(clients[0].answer.status, STATUS_OK);
		world_close(&world);
		if (used < n)
			return;
	}
	cr_assert_fail("the sweep did not reach its end");
}
