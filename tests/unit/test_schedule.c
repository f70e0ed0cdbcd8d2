/* The early refresh's one moment an entry, against XFetch as it is defined: a chance a request. */
#include "core/schedule.h"

#include <criterion/criterion.h>
#include <math.h>

enum { SAMPLES = 10000 };

static const int64_t SECOND = 1000000;

struct sample {
	double mean, deviation; /* of the moment before expiry, in units of delta */
	double none;            /* share of entries without an early refresh */
};

static struct sample summarise(const double *before, int count)
{
	struct sample sample = { 0 };
	int refreshed = 0;
	double sum = 0, squares = 0;
	for (int i = 0; i < count; i++) {
		if (before[i] <= 0)
			continue;
		refreshed++;
		sum += before[i];
		squares += before[i] * before[i];
	}
	sample.none = 1 - (double)refreshed / count;
	if (refreshed > 0)
		sample.mean = sum / refreshed;
	if (refreshed > 1)
		sample.deviation = sqrt(fmax(0, squares / refreshed - sample.mean * sample.mean));
	return sample;
}

/* XFetch request by request: Poisson arrivals, each with the chance exp(-x / (beta * delta)).
   Requests that are sure to do nothing are skipped: before 25 * delta. */
static double xfetch_before(double rate_per_delta, struct rng *rng)
{
	double x = SCHEDULE_WINDOW;
	for (;;) {
		x -= -log1p(-rng_unit(rng)) / rate_per_delta;
		if (x <= 0)
			return 0;
		if (rng_unit(rng) < exp(-x))
			return x;
	}
}

static void compare(double rate_per_s, int64_t delta_us)
{
	static double ours[SAMPLES], theirs[SAMPLES];
	struct rng rng;
	rng_seed(&rng, 7);
	double rate_per_delta = rate_per_s * (double)delta_us / 1e6;
	/* Long fresh times, so that nothing is cut off at half. */
	int64_t fresh = 2 * (SCHEDULE_WINDOW + 5) * delta_us;
	/* Per-request sampling of 50,000/s for an hour costs too much: from some rate on a request
	   stands for a hundred, which changes nothing in the limit. */
	double cheap = rate_per_delta > 30 ? 30 : rate_per_delta;
	struct entry entry = { .generated_at_us = 0, .fresh_until_us = fresh };
	int64_t draw_at = schedule_draw_at(&entry, 1, delta_us);
	cr_assert_eq(draw_at, fresh - SCHEDULE_WINDOW * delta_us);
	for (int i = 0; i < SAMPLES; i++) {
		theirs[i] = xfetch_before(cheap, &rng) + log(rate_per_delta / cheap);
		uint64_t hits = (uint64_t)(cheap * (double)draw_at / (double)delta_us);
		int64_t at = hits == 0 ? fresh
				       : schedule_draw(&entry, 1, delta_us, hits, draw_at, draw_at,
						       &rng);
		cr_assert(at >= draw_at && at <= fresh);
		ours[i] = at == fresh ? 0
				      : (double)(fresh - at) / (double)delta_us +
						log(rate_per_delta / cheap);
	}
	struct sample a = summarise(ours, SAMPLES), b = summarise(theirs, SAMPLES);
	/* Three standard errors, and the rate that was estimated from whole hits. */
	double margin = 0.15;
	cr_assert_float_eq(a.mean, b.mean, margin, "mean %g and %g at %g/s, %gs", a.mean, b.mean,
			   rate_per_s, (double)delta_us / 1e6);
	cr_assert_float_eq(a.deviation, b.deviation, margin, "deviation %g and %g", a.deviation,
			   b.deviation);
	cr_assert_float_eq(a.none, b.none, 0.03, "none %g and %g", a.none, b.none);
}

Test(schedule, has_the_mean_spread_and_misses_of_xfetch_at_all_rates)
{
	const double rates[] = { 1, 10, 100, 1000, 50000 };
	const int64_t deltas[] = { 1000, 100000, 800000, 60 * SECOND };
	for (int r = 0; r < 5; r++)
		for (int d = 0; d < 4; d++)
			if (rates[r] * (double)deltas[d] >= 200000) /* else hardly anyone comes */
				compare(rates[r], deltas[d]);
}

/* The hit that refreshes, as the engine finds it: Poisson arrivals, each with its chance. */
static double sparse_before(double rate_per_delta, struct rng *rng)
{
	enum { DELTA = 1000000 };
	const struct entry entry = { .fresh_until_us = 100 * (int64_t)DELTA };
	double x = SCHEDULE_WINDOW;
	for (;;) {
		x -= -log1p(-rng_unit(rng)) / rate_per_delta;
		if (x <= 0)
			return 0;
		int64_t now_us = entry.fresh_until_us - (int64_t)(x * DELTA);
		if (schedule_chance(&entry, 1, DELTA, now_us, rng))
			return x;
	}
}

Test(schedule, few_hits_take_their_chance_each_as_xfetch_says)
{
	static const double rates[] = { 0.1, 1, 10 };
	for (size_t r = 0; r < sizeof(rates) / sizeof(*rates); r++) {
		static double ours[SAMPLES], theirs[SAMPLES];
		struct rng rng;
		rng_seed(&rng, 11);
		for (int i = 0; i < SAMPLES; i++) {
			ours[i] = sparse_before(rates[r], &rng);
			theirs[i] = xfetch_before(rates[r], &rng);
		}
		struct sample a = summarise(ours, SAMPLES), b = summarise(theirs, SAMPLES);
		cr_assert_float_eq(a.mean, b.mean, 0.15, "%g and %g at %g", a.mean, b.mean,
				   rates[r]);
		cr_assert_float_eq(a.deviation, b.deviation, 0.15);
		cr_assert_float_eq(a.none, b.none, 0.02);
	}
}

Test(schedule, hits_are_few_by_how_many_come_while_a_refresh_takes)
{
	cr_assert(schedule_is_sparse(1, SECOND, SCHEDULE_SPARSE - 1, SECOND));
	cr_assert_not(schedule_is_sparse(1, SECOND, SCHEDULE_SPARSE, SECOND));
	cr_assert_not(schedule_is_sparse(2, SECOND, SCHEDULE_SPARSE, 2 * SECOND));
	cr_assert(schedule_is_sparse(1, SECOND, 10 * SCHEDULE_SPARSE, 11 * SECOND));
	cr_assert(schedule_is_sparse(1, SECOND, 3, 1), "a copy just got");
	cr_assert_not(schedule_is_sparse(0, SECOND, 1, SECOND), "there is no early refresh");
	cr_assert_not(schedule_is_sparse(1, 0, 1, SECOND), "nor where the cost is not known");
}

Test(schedule, nobody_draws_before_half_of_the_fresh_time)
{
	struct entry entry = { .generated_at_us = 100, .fresh_until_us = 100 + SECOND };
	cr_assert_eq(schedule_draw_at(&entry, 1, 10 * SECOND), 100 + SECOND / 2);
	struct rng rng;
	rng_seed(&rng, 1);
	for (int i = 0; i < 1000; i++) {
		int64_t at = schedule_draw(&entry, 10, 60 * SECOND, 1u << 20, SECOND / 2,
					   100 + SECOND / 2, &rng);
		cr_assert(at >= 100 + SECOND / 2 && at <= entry.fresh_until_us);
	}
}

Test(schedule, beta_0_or_an_unknown_cost_means_never)
{
	struct entry entry = { .fresh_until_us = SECOND };
	cr_assert_eq(schedule_draw_at(&entry, 0, 1000), SECOND);
	cr_assert_eq(schedule_draw_at(&entry, 1, 0), SECOND);
}

Test(schedule, smoothing_follows_and_never_sticks_at_nothing)
{
	int64_t delta = schedule_smooth(0, 800000);
	cr_assert_eq(delta, 800000);
	for (int i = 0; i < 100; i++)
		delta = schedule_smooth(delta, 100000);
	cr_assert(delta >= 100000 && delta < 110000);
	cr_assert_gt(schedule_smooth(0, 0), 0);
}
