#include "core/schedule.h"

#include <math.h>

#include "base/check.h"

int64_t schedule_draw_at(const struct entry *entry, double beta, int64_t delta_us)
{
	if (beta <= 0 || delta_us <= 0)
		return entry->fresh_until_us;
	int64_t half = (entry->fresh_until_us - entry->generated_at_us) / 2;
	double window = SCHEDULE_WINDOW * beta * (double)delta_us;
	if (window >= (double)half)
		return entry->generated_at_us + half;
	return entry->fresh_until_us - (int64_t)window;
}

/* Hits in `scale`. A span shorter than that says little: a copy just got would seem to be read
   without end. */
static double rate_in(double scale, uint64_t hits, int64_t span_us)
{
	return (double)hits * scale / ((double)span_us > scale ? (double)span_us : scale);
}

bool schedule_is_sparse(double beta, int64_t delta_us, uint64_t hits, int64_t span_us)
{
	double scale = beta * (double)delta_us;
	return scale > 0 && rate_in(scale, hits, span_us) < SCHEDULE_SPARSE;
}

bool schedule_chance(const struct entry *entry, double beta, int64_t delta_us, int64_t now_us,
		     struct rng *rng)
{
	double left = (double)(entry->fresh_until_us - now_us);
	return rng_unit(rng) < exp(-left / (beta * (double)delta_us));
}

int64_t schedule_draw(const struct entry *entry, double beta, int64_t delta_us, uint64_t hits,
		      int64_t span_us, int64_t now_us, struct rng *rng)
{
	CHECK(now_us < entry->fresh_until_us);
	if (beta <= 0 || delta_us <= 0 || hits == 0)
		return entry->fresh_until_us;
	double scale = beta * (double)delta_us;
	double exponential = -log1p(-rng_unit(rng));
	if (exponential <= 0)
		exponential = 0x1p-60;
	double before = scale * (log(rate_in(scale, hits, span_us)) - log(exponential));
	if (before <= 0)
		return entry->fresh_until_us;
	double room = (double)(entry->fresh_until_us - now_us);
	return before >= room ? now_us : entry->fresh_until_us - (int64_t)before;
}

int64_t schedule_smooth(int64_t delta_us, int64_t sample_us)
{
	if (sample_us < 1)
		sample_us = 1;
	return delta_us == 0 ? sample_us : delta_us + (sample_us - delta_us) / 8;
}
