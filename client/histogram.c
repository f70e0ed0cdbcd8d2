#include "client/histogram.h"

#include <assert.h>

static unsigned bucket_of(uint64_t ns)
{
	unsigned shift;

	if (ns < HISTOGRAM_STEPS)
		return (unsigned)ns;
	shift = 63 - (unsigned)__builtin_clzll(ns) - 5;
	return (shift + 1) * HISTOGRAM_STEPS + (unsigned)(ns >> shift) - HISTOGRAM_STEPS;
}

/* The longest duration that falls into a bucket. */
static uint64_t bucket_end(unsigned bucket)
{
	const unsigned shift = bucket < HISTOGRAM_STEPS ? 0 : bucket / HISTOGRAM_STEPS - 1;
	const uint64_t step =
		bucket < HISTOGRAM_STEPS ? bucket : bucket % HISTOGRAM_STEPS + HISTOGRAM_STEPS;

	return ((step + 1) << shift) - 1;
}

void histogram_add(struct histogram *h, uint64_t ns)
{
	const unsigned bucket = bucket_of(ns);

	assert(bucket < HISTOGRAM_BUCKETS);
	h->counts[bucket]++;
	h->total++;
	if (ns > h->max_ns)
		h->max_ns = ns;
}

void histogram_merge(struct histogram *to, const struct histogram *from)
{
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
		to->counts[i] += from->counts[i];
	to->total += from->total;
	if (from->max_ns > to->max_ns)
		to->max_ns = from->max_ns;
}

uint64_t histogram_percentile(const struct histogram *h, double percent)
{
	const double rank = percent / 100 * (double)h->total;
	uint64_t seen = 0;

	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		seen += h->counts[i];
		if (seen > 0 && (double)seen >= rank)
			return bucket_end(i) < h->max_ns ? bucket_end(i) : h->max_ns;
	}
	return h->max_ns;
}
