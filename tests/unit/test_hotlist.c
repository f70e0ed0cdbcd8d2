#include "core/hotlist.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "core/keyspace.h"

static const int64_t SECOND = 1000000, BEGIN = 1000 * (int64_t)1000000;
enum { KEYS = 8, COUNTERS = KEYS * HOT_COUNTERS_PER_KEY };

static struct hotlist hot;
static int64_t now_us;

static void open_hot(void)
{
	now_us = BEGIN;
	cr_assert_eq(hotlist_init(&hot, KEYS, 1), 0);
}

static void close_hot(void)
{
	hotlist_close(&hot);
}

TestSuite(hotlist, .init = open_hot, .fini = close_hot);

static void get(const char *key)
{
	if (hotlist_is_due(&hot))
		hotlist_count(&hot, key_public_hash(key, strlen(key)), key, strlen(key), now_us);
}

static void get_number(uint32_t number)
{
	char key[32];
	snprintf(key, sizeof(key), "k:%u", number);
	get(key);
}

/* Every get is counted from here on. */
static void count_all(void)
{
	for (int i = 0; i < 2 * HOT_SKIP_FIRST; i++)
		get("k:first");
	now_us += SECOND;
	for (int i = 0; i < 2 * HOT_SKIP_FIRST; i++)
		get("k:first");
	now_us += SECOND;
	get("k:first");
	cr_assert_eq(hot.mean, 1, "mean %u", hot.mean);
}

static bool is_key(const struct hot_rank *rank, const char *key)
{
	return rank->len == strlen(key) && memcmp(rank->bytes, key, rank->len) == 0;
}

Test(hotlist, tells_the_hottest_first)
{
	struct hot_rank ranks[KEYS];
	count_all();
	for (int i = 0; i < 3000; i++)
		get_number((uint32_t)(i % 6 < 3 ? 1 : i % 6 < 5 ? 2 : 3));
	uint32_t count = hotlist_top(&hot, now_us, ranks, KEYS);
	cr_assert_geq(count, 3);
	cr_assert(is_key(&ranks[0], "k:1"));
	cr_assert(is_key(&ranks[1], "k:2"));
	cr_assert(is_key(&ranks[2], "k:3"));
	cr_assert_eq(hotlist_top(&hot, now_us, ranks, 1), 1);
	cr_assert(is_key(&ranks[0], "k:1"), "of fewer, the hottest");
	cr_assert_eq(hotlist_top(&hot, now_us, ranks, 0), 0);
}

Test(hotlist, a_crowd_of_cold_keys_takes_bounded_memory_and_pushes_no_hot_one_out)
{
	struct hot_rank ranks[KEYS];
	size_t cost = hotlist_cost(&hot);
	count_all();
	for (uint32_t i = 0; i < 20000; i++) {
		get("k:hot");
		get_number(i);
	}
	cr_assert_eq(hot.used, COUNTERS);
	cr_assert_leq(hotlist_cost(&hot), cost + 4096,
		      "the table has grown to its counters, no more");
	cr_assert_geq(hotlist_top(&hot, now_us, ranks, KEYS), 1);
	cr_assert(is_key(&ranks[0], "k:hot"));
	cr_assert_leq(ranks[0].rate * (double)(now_us - hot.since_us) / 1e6, 21000,
		      "no key is told hotter than it is");
	cr_assert_geq(ranks[0].rate * (double)(now_us - hot.since_us) / 1e6, 19000);
}

Test(hotlist, yesterdays_goes)
{
	struct hot_rank ranks[KEYS];
	count_all();
	for (int i = 0; i < 10000; i++)
		get("k:yesterday");
	now_us += 10 * (int64_t)HOT_HALF_LIFE_US;
	for (int i = 0; i < 100; i++)
		get("k:today");
	cr_assert_geq(hotlist_top(&hot, now_us, ranks, KEYS), 1);
	cr_assert(is_key(&ranks[0], "k:today"));
	now_us += 100 * (int64_t)HOT_HALF_LIFE_US;
	cr_assert_eq(hotlist_top(&hot, now_us, ranks, KEYS), 0,
		     "and where nothing comes, all of it");
}

Test(hotlist, rates_are_gets_a_second_at_once_and_after_an_hour)
{
	struct hot_rank rank;
	for (int second = 0; second < 3600; second++) {
		for (int i = 0; i < 500; i++)
			get_number((uint32_t)i % 2);
		now_us += SECOND;
		if (second != 60 && second != 3599)
			continue;
		cr_assert_eq(hotlist_top(&hot, now_us, &rank, 1), 1);
		cr_assert_float_eq(rank.rate, 250, 15, "%g after %d s", rank.rate, second);
	}
}

Test(hotlist, counts_few_of_many)
{
	struct hot_rank rank;
	for (int second = 0; second < 20; second++) {
		for (int i = 0; i < 200000; i++) {
			get_number((uint32_t)i % 4);
			now_us += 5;
		}
	}
	cr_assert_lt(hot.sampled, 20 * 3 * HOT_SAMPLES_PER_S, "%lu", (unsigned long)hot.sampled);
	cr_assert_geq(hot.sampled, 20 * HOT_SAMPLES_PER_S / 3);
	cr_assert_eq(hotlist_top(&hot, now_us, &rank, 1), 1);
	cr_assert_float_eq(rank.rate, 50000, 7000, "%g", rank.rate);
}

Test(hotlist, a_key_that_is_too_long_is_counted_as_such)
{
	char longest[HOT_KEY_BYTES + 2];
	struct hot_rank ranks[KEYS];
	count_all();
	memset(longest, 'x', sizeof(longest));
	longest[HOT_KEY_BYTES + 1] = '\0';
	get(longest);
	cr_assert_eq(hot.unfit, 1);
	longest[HOT_KEY_BYTES] = '\0';
	get(longest);
	cr_assert_eq(hot.unfit, 1);
	uint32_t count = hotlist_top(&hot, now_us, ranks, KEYS), found = 0;
	for (uint32_t i = 0; i < count; i++)
		found += is_key(&ranks[i], longest);
	cr_assert_eq(found, 1);
}

Test(hotlist, a_clock_that_goes_back_begins_anew)
{
	struct hot_rank rank;
	count_all();
	now_us -= 3600 * SECOND;
	for (int i = 0; i < 2 * HOT_SKIP_FIRST; i++)
		get("k:1");
	cr_assert_eq(hotlist_top(&hot, now_us, &rank, 1), 1);
	cr_assert_geq(rank.rate, 0);
}

Test(hotlist_off, none_are_tracked)
{
	struct hot_rank rank;
	cr_assert_eq(hotlist_init(&hot, 0, 1), 0);
	hot.skip = 2;
	get("k:1");
	get("k:1");
	cr_assert_eq(hot.skip, UINT32_MAX);
	cr_assert_eq(hotlist_top(&hot, BEGIN, &rank, 1), 0);
	cr_assert_eq(hotlist_cost(&hot), 0);
	hotlist_close(&hot);
}

Test(hotlist_off, missing_memory_is_told)
{
	for (uint64_t n = 1; n <= 2; n++) {
		mem_fail_at(n);
		cr_assert_eq(hotlist_init(&hot, KEYS, 1), -1);
		mem_fail_at(0);
		hotlist_close(&hot);
	}
}
