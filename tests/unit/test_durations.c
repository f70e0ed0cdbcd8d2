#include "base/durations.h"

#include <criterion/criterion.h>

Test(durations, buckets_follow_each_other_without_a_gap)
{
	int64_t before = 0;
	for (unsigned i = 0; i < DURATIONS_BUCKETS; i++) {
		int64_t end = durations_end(i);
		cr_assert_gt(end, before);
		struct durations d = { 0 };
		durations_add(&d, before);
		cr_assert_eq(d.buckets[i], 1, "%ld begins bucket %u", (long)before, i);
		if (i + 1 < DURATIONS_BUCKETS) {
			durations_add(&d, end - 1);
			cr_assert_eq(d.buckets[i], 2, "%ld ends bucket %u", (long)end - 1, i);
		}
		before = end;
	}
}

Test(durations, extremes_fall_into_the_first_and_the_last)
{
	struct durations d = { 0 };
	durations_add(&d, -5);
	durations_add(&d, 0);
	durations_add(&d, INT64_MAX);
	cr_assert_eq(d.buckets[0], 2);
	cr_assert_eq(d.buckets[DURATIONS_BUCKETS - 1], 1);
	cr_assert_eq(d.count, 3);
	cr_assert_eq(d.sum_us, (uint64_t)INT64_MAX, "a negative one adds nothing");
}

Test(durations, percentiles_are_at_most_a_quarter_too_high)
{
	struct durations d = { 0 };
	cr_assert_eq(durations_percentile(&d, 99), 0);
	for (int64_t i = 1; i <= 10000; i++)
		durations_add(&d, i * 100);
	for (int percent = 1; percent <= 100; percent++) {
		int64_t exact = percent * 10000, told = durations_percentile(&d, percent);
		cr_assert(told >= exact && told <= exact + exact / 4 + 1, "%d %%: %ld, not %ld",
			  percent, (long)told, (long)exact);
	}
}
