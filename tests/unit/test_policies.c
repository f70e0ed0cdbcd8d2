/* The policies at their edges, as a daemon's clients see them: golden traces in virtual time, and
 * the sums of docs/POLICIES.md. What each module does by itself stands in its own test. */
#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "world.h"

static struct world world;
static int64_t began_us;
static char trace[8192];

static void open_world(void)
{
	world_defaults(&world);
	trace[0] = '\0';
}

TestSuite(policies, .init = open_world);

static void begin(void)
{
	world_open(&world);
	began_us = world.now_us;
}

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...)
{
	size_t len = strlen(trace);
	va_list args;
	va_start(args, format);
	vsnprintf(trace + len, sizeof(trace) - len, format, args);
	va_end(args);
}

/* At `ms` someone asks; notes when and what is told, and how many builds were begun by then. */
static void ask_at(int64_t ms, const char *arg, struct client *client)
{
	world_run(&world, began_us + ms * MS - world.now_us);
	world_ask(&world, client, arg);
	for (int i = 0; i < 100000 && !client->answered; i++)
		world_run(&world, MS);
	const struct answer *answer = &client->answer;
	note("%ld", (long)ms);
	if (client->answered_at_us > client->asked_at_us)
		note("-%ld", (long)(client->answered_at_us - began_us) / MS);
	if (answer->status == STATUS_OK)
		note(" %s %s %s", answer_state_name(answer->state),
		     *client->value ? client->value : "-", answer_source_name(answer->source));
	else
		note(" %s", status_name(answer->status));
	if (answer->status == STATUS_OK && answer->reason != REASON_NONE)
		note(" %s", answer_reason_name(answer->reason));
	note(", builds %d\n", world.builds);
}

static void get_at(int64_t ms, const char *arg)
{
	struct client client = { .request.query.wait_us = world.policy.wait_us };
	ask_at(ms, arg, &client);
}

static void end(const char *golden)
{
	cr_assert_str_eq(trace, golden, "\n%s\ninstead of\n%s", trace, golden);
	world_run(&world, 10 * SECOND);
	world_close(&world);
}

Test(policies, a_value_is_fresh_then_stale_while_it_is_refreshed_then_gone)
{
	begin();
	get_at(0, "a");
	get_at(9999, "a");
	get_at(10000, "a");
	get_at(10001, "a");
	get_at(10150, "a");
	world.script.outcome = BUILD_LOST; /* of here on no refresh succeeds */
	get_at(20000, "a");
	get_at(24999, "a");
	get_at(25000, "a");
	end("0-100 fresh v1 origin, builds 1\n"
	    "9999 fresh v1 near, builds 1\n"
	    "10000 stale v1 near refreshing, builds 1\n"
	    "10001 stale v1 near refreshing, builds 2\n"
	    "10150 fresh v2 near, builds 2\n"
	    "20000 stale v2 near refreshing, builds 2\n"
	    "24999 stale v2 near unavailable, builds 3\n"
	    "25000-25099 unavailable, builds 4\n");
}

Test(policies, stale_0_lets_the_first_one_after_expiry_wait)
{
	world.policy.stale_us = 0;
	begin();
	get_at(0, "a");
	get_at(9999, "a");
	get_at(10000, "a");
	get_at(10101, "a");
	end("0-100 fresh v1 origin, builds 1\n"
	    "9999 fresh v1 near, builds 1\n"
	    "10000-10100 fresh v2 origin, builds 2\n"
	    "10101 fresh v2 near, builds 2\n");
}

Test(policies, max_stale_counts_from_the_end_of_freshness)
{
	begin();
	get_at(0, "a");
	struct client client = { .request.query = { .wait_us = SECOND,
						    .has_max_stale = true,
						    .max_stale_us = 300 * MS } };
	ask_at(10299, "a", &client);
	ask_at(10300, "a", &client);
	client.request.query.max_stale_us = 0;
	ask_at(20400, "a", &client);
	end("0-100 fresh v1 origin, builds 1\n"
	    "10299 stale v1 near refreshing, builds 1\n"
	    "10300-10399 fresh v2 origin, builds 2\n"
	    "20400-20500 fresh v3 origin, builds 3\n");
}

Test(policies, min_version_passes_what_is_old_by_also_while_it_is_fresh)
{
	world.policy.single_row = true;
	world.script.version = 7;
	begin();
	get_at(0, "a");
	struct client client = {
		.request.query = { .wait_us = SECOND, .has_min_version = true, .min_version = 7 }
	};
	ask_at(1000, "a", &client);
	client.request.query.min_version = 8;
	world.script.version = 8;
	ask_at(2000, "a", &client);
	ask_at(3000, "a", &client);
	end("0-100 fresh v1 origin, builds 1\n"
	    "1000 fresh v1 near, builds 1\n"
	    "2000-2100 fresh v2 origin, builds 2\n"
	    "3000 fresh v2 near, builds 2\n");
}

Test(policies, without_a_wait_the_answer_is_what_is_there)
{
	begin();
	struct client now = { .request.query.wait_us = 0 };
	ask_at(0, "a", &now);
	ask_at(150, "a", &now);
	ask_at(10100, "a", &now);
	ask_at(10300, "a", &now);
	end("0 timeout, builds 0\n"
	    "150 fresh v1 near, builds 1\n"
	    "10100 stale v1 near refreshing, builds 1\n"
	    "10300 fresh v2 near, builds 2\n");
}

Test(policies, no_such_row_and_failures_end_by_their_own_times)
{
	world.script.outcome = BUILD_NO_ROW;
	begin();
	get_at(0, "a");
	get_at(2999, "a");
	world.policy.stale_us = 0;
	world.script = (struct script){ .outcome = BUILD_FAILED,
					.status = STATUS_ORIGIN_ERROR,
					.takes_us = 100 * MS };
	get_at(9000, "a");
	get_at(11000, "a");
	world.script.outcome = BUILD_ROW;
	get_at(11400, "a");
	end("0-100 absent - origin, builds 1\n"
	    "2999 absent - near, builds 1\n"
	    "9000-9100 origin_error, builds 2\n"
	    "11000 origin_error, builds 2\n"
	    "11400-11500 fresh v3 origin, builds 3\n");
}

/* One client after another asks for keys that nobody has; 10,000 a second over 100 s. */
Test(policies, a_million_made_up_keys_evict_no_real_entry_and_cost_the_budget, .timeout = 120)
{
	enum { ASKERS = 4096, REAL = 100, STEPS = 100000, PER_STEP = 10 };
	static struct client askers[ASKERS], real[REAL];
	char arg[32];
	world.policy.fresh_us = 1000 * SECOND;
	world.limits.requests_max = 50;
	world.limits.queue_max = 20;
	world.limits.near_bytes_max = 1 << 20;
	world.store_limits.budget_per_s = 100;
	world.script.takes_us = 10 * MS;
	begin();
	for (int i = 0; i < REAL; i++) {
		snprintf(arg, sizeof(arg), "real%d", i);
		world_get(&world, &real[i], arg);
		world_run(&world, 20 * MS);
		cr_assert_eq(real[i].answer.status, STATUS_OK);
	}
	int before = world.builds;
	world.policy.wait_us = 100 * MS;
	world.script.outcome = BUILD_NO_ROW;
	for (int i = 0; i < STEPS * PER_STEP; i++) {
		struct client *asker = &askers[i % ASKERS];
		cr_assert(i < ASKERS || asker->answered);
		snprintf(arg, sizeof(arg), "made-up%d", i);
		world_get(&world, asker, arg);
		if (i % PER_STEP == 0)
			world_run(&world, MS);
	}
	world_run(&world, SECOND);
	cr_assert_leq(world_most_builds(&world, SECOND), 100);
	cr_assert_gt(world.builds - before, 8000, "the budget is used: %d", world.builds - before);
	cr_assert_lt(world.engine->counters.permits_denied, 40000,
		     "nor is the store asked without end");
	for (int i = 0; i < REAL; i++) {
		snprintf(arg, sizeof(arg), "real%d", i);
		world_get(&world, &real[i], arg);
		cr_assert(real[i].answered && real[i].answer.source == SOURCE_NEAR, "%s", arg);
	}
	cr_assert_leq(world.engine->near.absent.bytes, ((size_t)1 << 20) / NEAR_ABSENT_SHARE);
	end("");
}

/* Whoever waits for a queued refresh brings it before those that nobody waits for. */
Test(policies, a_queued_refresh_rises_when_someone_waits_for_it)
{
	static struct client refreshes[4], busy, waiter;
	char arg[8];
	world.limits.concurrency = 1;
	begin();
	world_get(&world, &busy, "busy");
	world_run(&world, 10 * MS);
	for (int i = 0; i < 4; i++) {
		snprintf(arg, sizeof(arg), "r%d", i);
		refreshes[i].request.query.kind = QUERY_REFRESH;
		world_ask(&world, &refreshes[i], arg);
		cr_assert(refreshes[i].answer.queued);
	}
	world_run(&world, 10 * MS);
	world_get(&world, &waiter, "r3");
	world_run(&world, 250 * MS);
	cr_assert(waiter.answered, "it comes right after the one under way");
	cr_assert_str_eq(waiter.value, "v2");
	end("");
}

/* docs/POLICIES.md: 200,000 keys at 300 s ± 10 % expire over 60 s instead of at once. */
Test(policies, jitter_spreads_two_hundred_thousand_keys_over_a_minute)
{
	enum { KEYS = 200000, FIRST_S = 270, SECONDS = 60 };
	static int expire[SECONDS];
	struct rng rng;
	rng_seed(&rng, 1);
	struct policy policy = { .fresh_us = 300 * (int64_t)SECOND, .jitter = 0.1 };
	for (int i = 0; i < KEYS; i++) {
		struct entry entry = { 0 };
		entry_set_times(&entry, &policy, -1, -1, &rng);
		int second = (int)(entry.fresh_until_us / SECOND) - FIRST_S;
		second -= second == SECONDS; /* the last moment of all */
		cr_assert(second >= 0 && second < SECONDS, "%d", second + FIRST_S);
		expire[second]++;
	}
	/* 3,333 a second on average; five deviations of a Poisson number are 289. */
	for (int i = 0; i < SECONDS; i++)
		cr_assert(expire[i] > 3333 - 289 && expire[i] < 3333 + 289, "%d in second %d",
			  expire[i], i + FIRST_S);
}

Test(policies, a_time_of_years_with_all_the_jitter_there_is_overflows_nothing)
{
	struct rng rng;
	rng_seed(&rng, 1);
	const int64_t years = (int64_t)3650 * 86400 * SECOND;
	struct policy policy = { .fresh_us = years, .stale_us = years, .jitter = 1 };
	for (int i = 0; i < 10000; i++) {
		struct entry entry = { .generated_at_us = 10 * years };
		entry_set_times(&entry, &policy, -1, -1, &rng);
		cr_assert(entry.fresh_until_us >= 10 * years);
		cr_assert(entry.fresh_until_us <= 12 * years);
		cr_assert_eq(entry.stale_until_us, entry.fresh_until_us + years);
		cr_assert_eq(entry_phase(&entry, entry.stale_until_us), ENTRY_DEAD);
	}
	policy.jitter = 0;
	struct entry entry = { 0 };
	entry_set_times(&entry, &policy, -1, -1, &rng);
	cr_assert_eq(entry.fresh_until_us, years, "0 is exact");
}
