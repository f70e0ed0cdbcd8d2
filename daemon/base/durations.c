#include "base/durations.h"

static unsigned bucket_of(uint64_t us)
{
	if (us < DURATIONS_LEAST_US)
		return 0;
	unsigned power = 63 - (unsigned)__builtin_clzll(us);
	if (power >= DURATIONS_MOST_LOG)
		return DURATIONS_BUCKETS - 1;
	unsigned step = (unsigned)(us >> (power - 2)) % DURATIONS_STEPS;
	return 1 + (power - DURATIONS_LEAST_LOG) * DURATIONS_STEPS + step;
}

void durations_add(struct durations *durations, int64_t us)
{
	uint64_t least0_us = us > 0 ? (uint64_t)us : 0;
	durations->buckets[bucket_of(least0_us)]++;
	durations->sum_us += least0_us;
	durations->count++;
}

int64_t durations_end(unsigned bucket)
{
	if (bucket == 0)
		return DURATIONS_LEAST_US;
	if (bucket >= DURATIONS_BUCKETS - 1)
		return INT64_MAX;
	unsigned power = DURATIONS_LEAST_LOG + (bucket - 1) / DURATIONS_STEPS;
	int64_t steps = DURATIONS_STEPS + (bucket - 1) % DURATIONS_STEPS + 1;
	return steps << (power - 2);
}

int64_t durations_percentile(const struct durations *durations, double percent)
{
	double rank = percent / 100 * (double)durations->count;
	uint64_t seen = 0;
	for (unsigned i = 0; i < DURATIONS_BUCKETS && durations->count > 0; i++) {
		seen += durations->buckets[i];
		if (seen > 0 && (double)seen >= rank)
			return durations_end(i);
	}
	return 0;
}
