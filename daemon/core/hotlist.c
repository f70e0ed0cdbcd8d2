#include "core/hotlist.h"

#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/mem.h"

enum {
	SECOND_US = 1000 * 1000,
	HALVINGS_MOST = 63, /* nothing is left after them */
	STEP_MOST = 16,     /* a burst says little */
};

int hotlist_init(struct hotlist *hot, uint32_t keys, uint64_t seed)
{
	CHECK(keys <= HOT_KEYS_MAX);
	*hot = (struct hotlist){ .counters_max = keys * HOT_COUNTERS_PER_KEY,
				 .mean = HOT_SKIP_FIRST };
	hot->skip = keys > 0 ? HOT_SKIP_FIRST : UINT32_MAX;
	rng_seed(&hot->rng, seed);
	if (keys == 0)
		return 0;
	hot->counters = mem_zalloc(hot->counters_max * sizeof(*hot->counters));
	return hot->counters && table_init(&hot->table, 64) == 0 ? 0 : -1;
}

void hotlist_close(struct hotlist *hot)
{
	mem_free(hot->counters);
	table_close(&hot->table);
	*hot = (struct hotlist){ 0 };
}

size_t hotlist_cost(const struct hotlist *hot)
{
	return hot->counters ? mem_cost(hot->counters) + table_cost(&hot->table) : 0;
}

/* ---- the pace ------------------------------------------------------------------------------ */

/* How many are skipped follows how many come: at once where they come faster than they are to be
   counted, and after a second where they come more slowly. */
static void pace(struct hotlist *hot, int64_t now_us)
{
	int64_t spent_us = now_us - hot->paced_us;
	if (hot->samples < HOT_SAMPLES_PER_S && spent_us < SECOND_US)
		return;
	double seconds = spent_us > 0 ? (double)spent_us / SECOND_US : 1e-6;
	double mean = (double)hot->samples * hot->mean / seconds / HOT_SAMPLES_PER_S;
	double most = (double)hot->mean * STEP_MOST;
	if (most > HOT_SKIP_MOST)
		most = HOT_SKIP_MOST;
	hot->mean = mean < 1 ? 1 : (uint32_t)(mean < most ? mean : most);
	hot->paced_us = now_us;
	hot->samples = 0;
}

/* Evenly spread steps would keep time with clients that ask in turn. */
static void draw_skip(struct hotlist *hot)
{
	hot->skip = hot->counters ? (uint32_t)rng_between(&hot->rng, 1, 2 * (int64_t)hot->mean - 1)
				  : UINT32_MAX;
}

/* ---- counters ------------------------------------------------------------------------------ */

/* Halving all keeps the heap's order. */
static void halve(struct hotlist *hot, int64_t now_us)
{
	int64_t times = (now_us - hot->halved_us) / HOT_HALF_LIFE_US;
	if (times <= 0)
		return;
	int64_t shift = times < HALVINGS_MOST ? times : HALVINGS_MOST;
	for (uint32_t i = 0; i < hot->used; i++) {
		hot->counters[i].rank.at >>= shift;
		hot->counters[i].error >>= shift;
	}
	/* What is left of the counts stands for what is left of their time. */
	int64_t length_us = hot->halved_us - hot->since_us;
	for (int64_t i = 0; i < shift; i++)
		length_us = (length_us + HOT_HALF_LIFE_US) >> 1;
	hot->halved_us += times * HOT_HALF_LIFE_US;
	hot->since_us = hot->halved_us - length_us;
}

static void begin(struct hotlist *hot, int64_t now_us)
{
	if (hot->since_us == 0 || now_us < hot->halved_us)
		hot->since_us = hot->halved_us = hot->paced_us = now_us;
}

static struct hot_counter *find(const struct hotlist *hot, uint64_t hash, const char *bytes,
				size_t len)
{
	for (struct table_node *node = table_find(&hot->table, hash); node;
	     node = table_next(node)) {
		struct hot_counter *counter = container_of(node, struct hot_counter, node);
		if (counter->len == len && memcmp(counter->bytes, bytes, len) == 0)
			return counter;
	}
	return NULL;
}

/* A free one, or that of the least, whose count it keeps. In no heap. */
static struct hot_counter *take_counter(struct hotlist *hot)
{
	if (hot->used < hot->counters_max)
		return &hot->counters[hot->used++];
	struct hot_counter *least = container_of(heap_first(&hot->ranks), struct hot_counter, rank);
	heap_remove(&hot->ranks, &least->rank);
	table_remove(&hot->table, &least->node);
	least->error = least->rank.at;
	return least;
}

void hotlist_count(struct hotlist *hot, uint64_t hash, const char *bytes, size_t len,
		   int64_t now_us)
{
	int64_t weight = hot->mean;
	if (!hot->counters) {
		draw_skip(hot);
		return;
	}
	begin(hot, now_us);
	halve(hot, now_us);
	hot->sampled++;
	hot->samples++;
	struct hot_counter *counter = len <= HOT_KEY_BYTES ? find(hot, hash, bytes, len) : NULL;
	if (counter) {
		heap_remove(&hot->ranks, &counter->rank);
	} else if (len <= HOT_KEY_BYTES) {
		counter = take_counter(hot);
		counter->len = (uint32_t)len;
		memcpy(counter->bytes, bytes, len);
		table_insert(&hot->table, &counter->node, hash);
	}
	if (counter)
		heap_insert(&hot->ranks, &counter->rank, counter->rank.at + weight);
	else
		hot->unfit++;
	pace(hot, now_us);
	draw_skip(hot);
}

/* ---- telling ------------------------------------------------------------------------------- */

bool hotlist_has(const struct hotlist *hot, uint64_t hash, const char *bytes, size_t len)
{
	const struct hot_counter *counter = hot->counters ? find(hot, hash, bytes, len) : NULL;
	return counter && counter->rank.at > counter->error;
}

static bool is_hotter(const struct hot_rank *a, const struct hot_rank *b)
{
	return a->rate > b->rate || (a->rate == b->rate && a->hash < b->hash);
}

/* Restores the order below `at` of a heap whose root is the coldest. */
static void sift_down(struct hot_rank *ranks, uint32_t count, uint32_t at)
{
	for (;;) {
		uint32_t coldest = at;
		for (uint32_t child = 2 * at + 1; child <= 2 * at + 2 && child < count; child++)
			if (is_hotter(&ranks[coldest], &ranks[child]))
				coldest = child;
		if (coldest == at)
			return;
		struct hot_rank swap = ranks[at];
		ranks[at] = ranks[coldest];
		ranks[coldest] = swap;
		at = coldest;
	}
}

static void heapify(struct hot_rank *ranks, uint32_t count)
{
	for (uint32_t at = count / 2; at-- > 0;)
		sift_down(ranks, count, at);
}

uint32_t hotlist_top(struct hotlist *hot, int64_t now_us, struct hot_rank *ret_ranks, uint32_t most)
{
	uint32_t count = 0;
	if (!hot->counters || hot->since_us == 0 || most == 0)
		return 0;
	halve(hot, now_us);
	int64_t length_us = now_us - hot->since_us;
	/* One get in a moment is no rate. */
	double seconds = length_us > SECOND_US ? (double)length_us / SECOND_US : 1;
	for (uint32_t i = 0; i < hot->used; i++) {
		const struct hot_counter *counter = &hot->counters[i];
		const struct hot_rank rank = { .bytes = counter->bytes,
					       .len = counter->len,
					       .hash = counter->node.hash,
					       .rate = (double)(counter->rank.at - counter->error) /
						       seconds };
		if (rank.rate <= 0)
			continue;
		if (count < most) {
			ret_ranks[count++] = rank;
			if (count == most)
				heapify(ret_ranks, count);
		} else if (is_hotter(&rank, &ret_ranks[0])) {
			ret_ranks[0] = rank;
			sift_down(ret_ranks, count, 0);
		}
	}
	/* Heap sort: the coldest of the rest goes last. */
	heapify(ret_ranks, count);
	for (uint32_t left = count; left > 1; left--) {
		struct hot_rank coldest = ret_ranks[0];
		ret_ranks[0] = ret_ranks[left - 1];
		ret_ranks[left - 1] = coldest;
		sift_down(ret_ranks, left - 1, 0);
	}
	return count;
}
