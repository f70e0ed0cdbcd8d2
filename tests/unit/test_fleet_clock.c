#include "store/fleet_clock.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/rng.h"

#define SECOND  INT64_C(1000000)
#define MINUTE  (60 * SECOND)
#define NOW     (INT64_C(1700000000) * SECOND) /* a time of day */
#define STARTED (1000 * SECOND)                /* the host is up for so long */

static struct fleet_clock clock_;

static void start(int64_t time_of_day_us)
{
	fleet_clock_init(&clock_, STARTED, time_of_day_us);
}

/* A sample whose answer was read in the middle of the round trip. */
static int64_t sample(int64_t local_us, int64_t rtt_us, int64_t store_less_local_us)
{
	return fleet_clock_sample(&clock_, local_us - rtt_us, local_us,
				  local_us - rtt_us / 2 + store_less_local_us);
}

Test(fleet_clock, without_a_store_it_is_the_host_s_time_of_day)
{
	start(NOW);
	cr_assert_eq(fleet_clock_now(&clock_, STARTED), NOW);
	cr_assert_eq(fleet_clock_now(&clock_, STARTED + MINUTE), NOW + MINUTE);
	cr_assert_not(clock_.in_touch);
}

Test(fleet_clock, the_first_sample_sets_it_whatever_the_host_believes)
{
	start(NOW + 600 * SECOND);
	cr_assert_eq(sample(STARTED + 10, 10, NOW - STARTED), 0);
	cr_assert(clock_.in_touch);
	cr_assert_eq(fleet_clock_now(&clock_, STARTED + 10), NOW + 10);
	cr_assert_eq(fleet_clock_store(&clock_, STARTED + 10), NOW + 10);
}

Test(fleet_clock, what_has_begun_by_the_host_s_time_does_not_jump_at_the_first_sample)
{
	start(NOW + 600 * SECOND);
	fleet_clock_begin(&clock_);
	cr_assert_eq(sample(STARTED + 10, 10, NOW - STARTED), 0);
	cr_assert_eq(fleet_clock_now(&clock_, STARTED + 10), NOW + 600 * SECOND + 10);
	cr_assert_eq(fleet_clock_store(&clock_, STARTED + 10), NOW + 10);
}

Test(fleet_clock, the_sample_with_the_least_round_trip_counts)
{
	start(NOW);
	sample(STARTED + SECOND, 100, NOW - STARTED);
	/* Slow answers, read by the server at one end of the round trip. */
	for (int i = 2; i < 30; i++)
		fleet_clock_sample(&clock_, STARTED + i * SECOND - 20000, STARTED + i * SECOND,
				   NOW + i * SECOND);
	cr_assert_eq(clock_.store_offset_us, NOW - STARTED);
}

Test(fleet_clock, an_old_sample_gives_way_in_the_end)
{
	start(NOW);
	sample(STARTED, 100, NOW - STARTED);
	for (int i = 1; i <= 120; i++)
		sample(STARTED + i * SECOND, 5000, NOW - STARTED + 300);
	cr_assert_eq(clock_.store_offset_us, NOW - STARTED + 300);
}

Test(fleet_clock, it_is_slewed_by_at_most_500_ppm)
{
	start(NOW);
	sample(STARTED, 100, NOW - STARTED);
	sample(STARTED + SECOND, 10, NOW - STARTED + 100000);
	int64_t before = fleet_clock_now(&clock_, STARTED + SECOND);
	int64_t after = fleet_clock_now(&clock_, STARTED + 11 * SECOND);
	cr_assert_eq(after - before, 10 * SECOND + 5000);
	after = fleet_clock_now(&clock_, STARTED + 1001 * SECOND);
	cr_assert_eq(after, NOW + 1001 * SECOND + 100000, "it arrives, and stays");
}

Test(fleet_clock, it_never_goes_back)
{
	struct rng rng;
	int64_t local = STARTED, last, store = NOW - STARTED;
	rng_seed(&rng, 1);
	start(NOW);
	sample(local, 100, store);
	last = fleet_clock_now(&clock_, local);
	for (int i = 0; i < 100000; i++) {
		local += rng_between(&rng, 0, 3000);
		if (i % 50 == 0) {
			int64_t rtt = rng_between(&rng, 10, 5000);
			store += rng_between(&rng, -400, 400);
			fleet_clock_sample(&clock_, local, local + rtt,
					   local + rng_between(&rng, 0, rtt) + store);
			local += rtt;
		}
		if (i % 20000 == 19999)
			store -= 10 * SECOND; /* failed over to a server that is late */
		int64_t now = fleet_clock_now(&clock_, local);
		cr_assert_geq(now, last);
		last = now;
	}
}

Test(fleet_clock, a_jump_of_the_store_s_clock_is_told_and_not_followed)
{
	for (int sign = -1; sign <= 1; sign += 2) {
		start(NOW);
		sample(STARTED, 100, NOW - STARTED);
		int64_t before = fleet_clock_now(&clock_, STARTED + SECOND);
		int64_t jump = sample(STARTED + SECOND, 100, NOW - STARTED + sign * 600 * SECOND);
		cr_assert_eq(jump, sign * 600 * SECOND);
		cr_assert_eq(fleet_clock_now(&clock_, STARTED + SECOND), before);
		cr_assert_eq(fleet_clock_store(&clock_, STARTED + SECOND), before + jump);
		cr_assert_eq(sample(STARTED + 2 * SECOND, 100, NOW - STARTED + sign * 600 * SECOND),
			     0, "once");
	}
}

Test(fleet_clock, what_a_slow_answer_may_explain_is_no_jump)
{
	start(NOW);
	sample(STARTED, 100, NOW - STARTED);
	/* The server was stopped for 4 s: it said its time when it went on, at the end. */
	cr_assert_eq(fleet_clock_sample(&clock_, STARTED + SECOND, STARTED + 5 * SECOND,
					NOW + 5 * SECOND),
		     0);
	cr_assert_eq(clock_.store_offset_us, NOW - STARTED, "nor is it believed");
}

/* The daemon was stopped when it asked for the first time. */
Test(fleet_clock, what_a_slow_answer_was_wrong_by_is_no_jump_later)
{
	start(NOW);
	fleet_clock_sample(&clock_, STARTED, STARTED + 8 * SECOND, NOW + SECOND);
	cr_assert_eq(sample(STARTED + 9 * SECOND, 100, NOW - STARTED), 0);
	cr_assert_eq(fleet_clock_store(&clock_, STARTED + 9 * SECOND), NOW + 9 * SECOND);
}

Test(fleet_clock, drift_over_a_long_silence_is_no_jump)
{
	start(NOW);
	sample(STARTED, 100, NOW - STARTED);
	cr_assert_eq(sample(STARTED + 24 * 60 * MINUTE, 100, NOW - STARTED + 4 * SECOND), 0);
	cr_assert_neq(sample(STARTED + 24 * 60 * MINUTE + SECOND, 100, NOW - STARTED), 0);
}

Test(fleet_clock, the_store_has_passed_what_it_is_said_to_however_the_clocks_part)
{
	start(NOW + 600 * SECOND);
	cr_assert_eq(fleet_clock_passed(&clock_, STARTED), 0, "nothing is known");
	sample(STARTED, 1000, NOW - STARTED);
	for (int64_t after = 0; after < 100 * MINUTE; after += 10 * MINUTE) {
		int64_t passed = fleet_clock_passed(&clock_, STARTED + after);
		/* The store's clock 100 ppm slower than ours. */
		cr_assert_leq(passed, NOW + after - after / 10000);
		cr_assert_geq(passed, NOW + after - after / 1000 - SECOND / 5);
	}
}

Test(fleet_clock, moments_are_translated_there_and_back)
{
	start(NOW);
	sample(STARTED, 100, NOW - STARTED);
	sample(STARTED + SECOND, 100, NOW - STARTED - 600 * SECOND);
	int64_t local = STARTED + 2 * SECOND, moment = NOW + MINUTE;
	int64_t there = fleet_clock_to_store(&clock_, moment, local);
	cr_assert_eq(there, moment - 600 * SECOND + (clock_.offset_us - (NOW - STARTED)) * -1);
	cr_assert_eq(fleet_clock_from_store(&clock_, there, local), moment);
	/* What is left until then is the same on both clocks. */
	cr_assert_eq(there - fleet_clock_store(&clock_, local),
		     moment - fleet_clock_now(&clock_, local));
}
