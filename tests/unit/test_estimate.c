#include "client/estimate.h"

#include <criterion/criterion.h>

/* Of a plan in which hosts, processes and keys that are 0 are 1. */
static struct estimate estimate_of(const struct estimate_plan *plan)
{
	struct estimate e;
	struct estimate_plan whole = *plan;
	double *const counts[] = { &whole.hosts, &whole.processes, &whole.keys };

	for (int i = 0; i < 3; i++)
		if (*counts[i] == 0)
			*counts[i] = 1;
	estimate_make(&whole, &e);
	return e;
}

Test(estimate, a_stampede_is_rate_times_build_time)
{
	struct estimate e = estimate_of(
		&(struct estimate_plan){ .rate_per_s = 1500, .build_s = 0.4, .concurrency = 100 });

	cr_assert_eq(e.unprotected, 600);
	cr_assert_eq(e.segar, 1);
	cr_assert(!e.unprotected_fits);
	e = estimate_of(&(struct estimate_plan){ .rate_per_s = 50000, .build_s = 0.8 });
	cr_assert_eq(e.unprotected, 40000);
	cr_assert_eq(e.segar, 1);
}

Test(estimate, single_flight_in_a_process_leaves_one_build_a_process)
{
	struct estimate_plan plan = { .rate_per_s = 500, .build_s = 0.3, .processes = 15 };
	struct estimate e = estimate_of(&plan);

	cr_assert_eq(e.unprotected, 150);
	cr_assert_eq(e.in_each_process, 10);
	cr_assert_eq(e.single_flight, 15);
	cr_assert_eq(e.segar, 1);
	plan.processes = 5;
	plan.hosts = 2;
	e = estimate_of(&plan);
	cr_assert_eq(e.single_flight, 10);
	plan.hosts = 1000;
	e = estimate_of(&plan);
	cr_assert_eq(e.single_flight, 150, "no more than there are requests");
}

Test(estimate, many_keys_are_bounded_by_the_pool)
{
	struct estimate_plan plan = { .rate_per_s = 10000, .build_s = 0.1, .keys = 300 };
	struct estimate e = estimate_of(&plan);

	cr_assert_eq(e.segar, 300);
	plan.concurrency = 40;
	e = estimate_of(&plan);
	cr_assert_eq(e.segar, 40);
}

Test(estimate, hardly_asked_for_is_still_one_build)
{
	struct estimate e =
		estimate_of(&(struct estimate_plan){ .rate_per_s = 0.001, .build_s = 0.01 });

	cr_assert_eq(e.unprotected, 1);
	cr_assert_eq(e.single_flight, 1);
	cr_assert_eq(e.segar, 1);
}

Test(estimate, jitter_spreads_what_would_expire_at_once)
{
	struct estimate_plan plan = {
		.rate_per_s = 50000, .build_s = 0.05, .keys = 200000, .fresh_s = 300, .jitter = 0.1
	};
	struct estimate e = estimate_of(&plan);

	cr_assert_eq(e.expired_at_once, 200000);
	cr_assert_float_eq(e.wave_begins_s, 270, 1e-6);
	cr_assert_float_eq(e.wave_s, 60, 1e-6);
	cr_assert_float_eq(e.wave_per_s, 3333.3, 0.1);
	cr_assert(e.wave_peak_per_s > 3400 && e.wave_peak_per_s < 3600, "%g", e.wave_peak_per_s);
	cr_assert_float_eq(e.steady_per_s, 666.7, 0.1);
	plan.jitter = 0;
	e = estimate_of(&plan);
	cr_assert_eq(e.wave_per_s, 200000);
	cr_assert_eq(e.wave_peak_per_s, 200000);
}

Test(estimate, nobody_asking_builds_nothing_in_the_long_run)
{
	struct estimate e = estimate_of(&(struct estimate_plan){
		.rate_per_s = 3, .build_s = 0.05, .keys = 200000, .fresh_s = 300 });

	cr_assert_float_eq(e.steady_per_s, 3, 1e-9);
}

Test(estimate, the_budget_holds_or_says_how_stale_values_become)
{
	struct estimate_plan plan = { .rate_per_s = 50000,
				      .build_s = 0.1,
				      .keys = 18000,
				      .fresh_s = 600,
				      .jitter = 0.05,
				      .budget_per_s = 200,
				      .stale_s = 30 };
	struct estimate e = estimate_of(&plan);

	cr_assert_float_eq(e.rate_limit_per_s, 180, 1e-9);
	cr_assert(e.budget_holds, "30/s are needed");
	cr_assert_float_eq(e.drain_s, 100, 1e-6);
	cr_assert_float_eq(e.stale_needed_s, 40.1, 1e-6);
	cr_assert(!e.wave_holds);
	plan.stale_s = 41;
	cr_assert(estimate_of(&plan).wave_holds);
	plan.concurrency = 2;
	e = estimate_of(&plan);
	cr_assert_float_eq(e.rate_limit_per_s, 20, 1e-9, "two at once of 100 ms are 20/s");
	cr_assert(!e.budget_holds && !e.steady_fits);
}
