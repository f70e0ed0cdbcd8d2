/* The hot list: the keys that are asked for most, in bounded memory.
 *
 * Space-Saving (Metwally, Agrawal, El Abbadi, "Efficient computation of frequent and top-k elements
 * in data streams", ICDT 2005): so many counters; a key without one takes over the counter of the
 * least, its count included, which it notes as its error. Whatever has more than a `counters`-th of
 * all gets has a counter, and no count is too low, nor too high by more than its error.
 *
 * Only one get in some is counted, for as many as were skipped: how many adapts, so that about
 * HOT_SAMPLES_PER_S a second are. The others pay for one decrement.
 *
 * Counts halve every HOT_HALF_LIFE_US, and with them the time that they stand for: what was hot
 * yesterday goes. One owner. Times in µs.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/limits.h"
#include "base/rng.h"
#include "base/table.h"

enum {
	HOT_KEY_BYTES = 256, /* longer keys are not tracked */
	HOT_KEYS_MAX = HOT_KEYS_CEILING,
	HOT_COUNTERS_PER_KEY = 2,  /* so that what is told is sure */
	HOT_SAMPLES_PER_S = 1000,  /* at most about */
	HOT_SKIP_FIRST = 64,       /* until it is known how many come */
	HOT_SKIP_MOST = 64 * 1024, /* one in so many, at the most */
	HOT_HALF_LIFE_US = 120 * 1000 * 1000,
};

struct hot_counter {
	struct table_node node;
	struct heap_node rank; /* at: the count, in gets */
	int64_t error;         /* the count that it took over */
	uint32_t len;
	char bytes[HOT_KEY_BYTES];
};

struct hotlist {
	struct hot_counter *counters; /* owned; NULL: nothing is tracked */
	uint32_t counters_max, used;
	uint32_t skip; /* gets until the next one that is counted, that one included */
	uint32_t mean; /* one in so many is, on average */
	struct table table;
	struct heap ranks; /* the least count first */
	struct rng rng;
	int64_t since_us;  /* the counts stand for the time since; 0: nothing was counted yet */
	int64_t halved_us; /* when they were halved */
	int64_t paced_us;  /* since when `samples` were taken */
	uint32_t samples;
	uint64_t sampled; /* gets that were counted, ever */
	uint64_t unfit;   /* of these, those of longer keys */
};

/* What is told of a key. */
struct hot_rank {
	const char *bytes; /* borrowed until the next call that changes something */
	uint32_t len;
	uint64_t hash;
	double rate; /* gets a second: surely so many */
};

/* Tracks `keys` keys; 0: none. 0, or -1 when memory is missing. */
int hotlist_init(struct hotlist *hot, uint32_t keys, uint64_t seed)
	__attribute__((warn_unused_result));
void hotlist_close(struct hotlist *hot); /* accepts a zeroed one */
size_t hotlist_cost(const struct hotlist *hot);

/* A get has come. Whether it is one to be counted: then hotlist_count() is to be called. */
static inline bool hotlist_is_due(struct hotlist *hot)
{
	return --hot->skip == 0;
}

/* Counts it, for all that were skipped. `hash` is the key's, under the engine's secret. */
void hotlist_count(struct hotlist *hot, uint64_t hash, const char *bytes, size_t len,
		   int64_t now_us);

/* Whether hotlist_top would tell it, among so many as there are. */
bool hotlist_has(const struct hotlist *hot, uint64_t hash, const char *bytes, size_t len);

/* The hottest first, at most `most`. Returns how many. */
uint32_t hotlist_top(struct hotlist *hot, int64_t now_us, struct hot_rank *ret_ranks,
		     uint32_t most);
