/* Counts of durations, from which percentiles are read: exact below 32 ns, then 32 steps for every
 * power of two, so that a percentile is at most 3 % too high.
 *
 * A histogram is plain data; zeroed, it is empty. */
#pragma once

#include <stdint.h>

enum { HISTOGRAM_STEPS = 32, HISTOGRAM_BUCKETS = 60 * HISTOGRAM_STEPS };

struct histogram {
	uint32_t counts[HISTOGRAM_BUCKETS];
	uint64_t total;
	uint64_t max_ns;
};

void histogram_add(struct histogram *h, uint64_t ns);

/* Adds all of `from` to `to`. */
void histogram_merge(struct histogram *to, const struct histogram *from);

/* The duration that `percent` of them do not exceed; 0 if there are none. */
uint64_t histogram_percentile(const struct histogram *h, double percent);
