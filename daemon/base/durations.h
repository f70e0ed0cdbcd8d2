/* Counts of durations, in buckets: for means, percentiles and a monitor's histograms.
 *
 * Below DURATIONS_LEAST_US all are one bucket; from there on every power of two has DURATIONS_STEPS
 * of equal width, so that a percentile is at most 25 % too high; what is over 2^36 µs (19 hours) is
 * in the last. Plain data of a fixed size, empty when zeroed. One owner.
 */
#pragma once

#include <stdint.h>

enum {
	DURATIONS_STEPS = 4,
	DURATIONS_LEAST_LOG = 6, /* 64 µs */
	DURATIONS_MOST_LOG = 36,
	DURATIONS_LEAST_US = 1 << DURATIONS_LEAST_LOG,
	DURATIONS_BUCKETS = 1 + (DURATIONS_MOST_LOG - DURATIONS_LEAST_LOG) * DURATIONS_STEPS + 1,
};

struct durations {
	uint64_t count;
	uint64_t sum_us;
	uint64_t buckets[DURATIONS_BUCKETS];
};

/* Adds one; a negative one counts as 0. */
void durations_add(struct durations *durations, int64_t us);

/* What all in the bucket are below, in µs; INT64_MAX for the last. They grow with the bucket. */
int64_t durations_end(unsigned bucket);

/* What `percent` of them are below, by the buckets; 0 if there are none. */
int64_t durations_percentile(const struct durations *durations, double percent);
