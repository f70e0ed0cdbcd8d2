#include "client/histogram.h"

#include <criterion/criterion.h>
#include <stdlib.h>

Test(histogram, without_durations_every_percentile_is_0)
{
	static const struct histogram h;

	cr_assert_eq(histogram_percentile(&h, 50), 0);
	cr_assert_eq(histogram_percentile(&h, 100), 0);
}

Test(histogram, one_duration_is_every_percentile)
{
	for (uint64_t ns = 0; ns < (uint64_t)1 << 62; ns = ns * 3 / 2 + 1) {
		struct histogram h = { 0 };

		histogram_add(&h, ns);
		cr_assert_eq(histogram_percentile(&h, 0), ns);
		cr_assert_eq(histogram_percentile(&h, 50), ns);
		cr_assert_eq(histogram_percentile(&h, 100), ns);
	}
}

Test(histogram, percentiles_are_at_most_3_percent_too_high)
{
	for (uint64_t scale = 1; scale < (uint64_t)1 << 40; scale *= 7) {
		struct histogram h = { 0 };

		for (uint64_t i = 1; i <= 10000; i++)
			histogram_add(&h, i * scale);
		for (int percent = 1; percent <= 100; percent++) {
			const double exact = (double)percent * 100 * (double)scale;
			const double told = (double)histogram_percentile(&h, percent);

			cr_assert_geq(told, exact);
			cr_assert_leq(told, exact * 1.0313 + 1);
		}
		cr_assert_eq(h.max_ns, 10000 * scale);
	}
}

Test(histogram, merging_is_adding_all)
{
	struct histogram one = { 0 }, both = { 0 }, other = { 0 };

	for (uint64_t i = 0; i < 1000; i++) {
		histogram_add(i % 2 ? &one : &other, i * i);
		histogram_add(&both, i * i);
	}
	histogram_merge(&one, &other);
	cr_assert_eq(one.total, both.total);
	cr_assert_eq(one.max_ns, both.max_ns);
	for (int percent = 0; percent <= 100; percent++)
		cr_assert_eq(histogram_percentile(&one, percent),
			     histogram_percentile(&both, percent));
}
