#include "client/estimate.h"

#include <math.h>

static const double BUDGET_SHARE = 0.9; /* daemons out of touch may use the rest */

static double at_least_one(double builds)
{
	return builds > 1 ? ceil(builds - 1e-9) : 1;
}

static double least(double a, double b)
{
	return a < b ? a : b;
}

static void make_stampede(const struct estimate_plan *plan, struct estimate *e)
{
	const double processes = plan->hosts * plan->processes;
	const double lost = plan->rate_per_s * plan->build_s;

	e->unprotected = at_least_one(lost);
	e->in_each_process = at_least_one(lost / processes);
	e->single_flight = least(e->unprotected, processes * plan->keys);
	e->segar = least(e->unprotected, plan->keys);
	if (plan->concurrency > 0) {
		e->segar = least(e->segar, plan->concurrency);
		e->unprotected_fits = e->unprotected <= plan->concurrency;
		e->single_flight_fits = e->single_flight <= plan->concurrency;
	}
}

static void make_wave(const struct estimate_plan *plan, struct estimate *e)
{
	e->expired_at_once = plan->keys;
	e->wave_begins_s = plan->fresh_s * (1 - plan->jitter);
	e->wave_s = 2 * plan->jitter * plan->fresh_s;
	e->wave_per_s = e->wave_s > 1 ? plan->keys / e->wave_s : plan->keys;
	e->wave_peak_per_s = e->wave_per_s;
	/* The greatest of that many Poisson numbers is so far above their mean, or nearly. */
	if (e->wave_s > 1)
		e->wave_peak_per_s += sqrt(2 * e->wave_per_s * log(e->wave_s));
	e->wave_peak_per_s = least(e->wave_peak_per_s, plan->keys);
	e->steady_per_s = least(plan->keys / plan->fresh_s, plan->rate_per_s);
	e->steady_at_once = e->steady_per_s * plan->build_s;
	e->steady_fits = plan->concurrency <= 0 || e->steady_at_once <= plan->concurrency;
}

/* The last key of the wave to be built has then been expired for so long. */
static void make_budget(const struct estimate_plan *plan, struct estimate *e)
{
	e->rate_limit_per_s = BUDGET_SHARE * plan->budget_per_s;
	if (plan->concurrency > 0)
		e->rate_limit_per_s = least(e->rate_limit_per_s, plan->concurrency / plan->build_s);
	e->drain_s = plan->keys / e->rate_limit_per_s;
	e->stale_needed_s = e->drain_s > e->wave_s ? e->drain_s - e->wave_s : 0;
	e->stale_needed_s += plan->build_s;
	e->budget_holds = e->steady_per_s <= e->rate_limit_per_s;
	e->wave_holds = e->stale_needed_s <= plan->stale_s;
}

void estimate_make(const struct estimate_plan *plan, struct estimate *ret_estimate)
{
	*ret_estimate = (struct estimate){ 0 };
	make_stampede(plan, ret_estimate);
	if (plan->fresh_s > 0)
		make_wave(plan, ret_estimate);
	if (plan->fresh_s > 0 && plan->budget_per_s > 0)
		make_budget(plan, ret_estimate);
}
