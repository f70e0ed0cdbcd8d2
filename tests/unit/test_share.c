#include "store/share.h"

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/rng.h"

#define NOW (INT64_C(1700000000) * 1000000)

Test(share, a_place_s_moments_come_once_in_a_round)
{
	double rate = share_rate(50, 10);
	cr_assert_float_eq(rate, 45, 1e-9);
	int64_t at = share_next_us(rate, 10, 3, NOW);
	for (int i = 0; i < 1000; i++) {
		cr_assert_eq(share_next_us(rate, 10, 3, at), at, "it is not before itself");
		int64_t next = share_next_us(rate, 10, 3, at + 1);
		cr_assert(llabs(next - at - 10 * 1000000 / 45) <= 2, "%lld",
			  (long long)(next - at));
		at = next;
	}
}

Test(share, all_places_together_keep_the_rate_evenly)
{
	enum { FLEET = 10 };
	double rate = share_rate(50, FLEET);
	int64_t last = 0, at = NOW;
	for (int i = 0; i < 1000; i++) {
		int64_t next = INT64_MAX;
		for (uint32_t place = 0; place < FLEET; place++) {
			int64_t mine = share_next_us(rate, FLEET, place, at + 1);
			next = mine < next ? mine : next;
		}
		if (last)
			cr_assert(llabs(next - last - 1000000 / 45) <= 2);
		last = at = next;
	}
}

Test(share, large_rates_and_fleets_keep_their_precision)
{
	double rate = share_rate(100000, 10000);
	for (uint32_t place = 0; place < 10000; place += 77) {
		int64_t at = share_next_us(rate, 10000, place, NOW);
		cr_assert(at >= NOW && at <= NOW + 10000 * 1000000LL / 90000 + 2);
		cr_assert_eq(share_next_us(rate, 10000, place, at), at);
		cr_assert_gt(share_next_us(rate, 10000, place, at + 1), at);
	}
}

Test(share, less_is_given_out_where_turns_are_rare)
{
	cr_assert_float_eq(share_rate(200, 100), 180, 1e-9);
	cr_assert_float_eq(share_rate(100, 100), 90, 1e-9);
	cr_assert_float_eq(share_rate(50, 100), 40.46, 0.01);
	cr_assert_float_eq(share_rate(20, 100), 14.32, 0.01);
	cr_assert_float_eq(share_rate(1, 100), 0.451, 0.001);
}

Test(share, slots_of_different_places_differ_where_there_are_enough)
{
	for (uint32_t fleet = 1; fleet <= 50; fleet++) {
		unsigned used[40] = { 0 }, all = 0;
		for (uint32_t place = 0; place < fleet; place++) {
			uint32_t count = share_slots(40, fleet, place);
			cr_assert_geq(count, 1);
			for (uint32_t nth = 0; nth < count; nth++) {
				uint32_t slot = share_slot(40, fleet, place, nth);
				cr_assert_lt(slot, 40);
				used[slot]++;
				all++;
			}
		}
		if (fleet <= 40)
			cr_assert_eq(all, 40, "%u share them all", fleet);
		for (int slot = 0; slot < 40; slot++)
			cr_assert(used[slot] >= 1 && used[slot] <= (fleet <= 40 ? 1 : 2));
	}
}

/* Starts in the worst second, where some daemons are out of touch with the store: the first places,
   as those of a rack, or any. With up to 5 ms of jitter before each start. */
static unsigned worst_second(double budget, uint32_t fleet, uint32_t out_of_touch, bool any,
			     uint64_t seed)
{
	enum { SECONDS = 20, STARTS_MAX = 20000 };
	static int64_t starts[STARTS_MAX];
	double rate = share_rate(budget, fleet);
	uint32_t live = fleet - out_of_touch, left = out_of_touch;
	unsigned count = 0, worst = 0;
	struct rng rng;
	rng_seed(&rng, seed);
	for (uint32_t place = 0; place < fleet && left > 0; place++) {
		if (any && rng_between(&rng, 1, fleet - place) > left)
			continue;
		left--;
		for (int64_t at = NOW;
		     (at = share_next_us(rate, fleet, place, at + 1)) < NOW + SECONDS * 1000000;)
			starts[count++] = at + rng_between(&rng, 0, 5000);
	}
	if (live > 0) {
		double interval = 1e6 * fleet / (rate * live);
		for (double at = (double)rng_between(&rng, 0, 100000); at < SECONDS * 1e6;
		     at += interval)
			starts[count++] = NOW + (int64_t)at + rng_between(&rng, 0, 5000);
	}
	for (unsigned i = 0; i < count; i++) {
		unsigned inside = 0;
		for (unsigned j = 0; j < count; j++)
			inside += starts[j] >= starts[i] && starts[j] < starts[i] + 1000000;
		worst = inside > worst ? inside : worst;
	}
	return worst;
}

Test(share, whatever_part_is_out_of_touch_the_budget_holds)
{
	static const struct {
		double budget;
		uint32_t fleet;
	} cases[] = { { 50, 10 }, { 200, 100 }, { 50, 100 }, { 20, 100 },
		      { 5, 100 }, { 10, 1 },    { 30, 2 },   { 100, 7 } };
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint32_t fleet = cases[i].fleet, step = fleet < 10 ? 1 : fleet / 10;
		for (uint32_t out = 0; out <= fleet; out += step) {
			for (int any = 0; any < 2; any++) {
				unsigned worst =
					worst_second(cases[i].budget, fleet, out, any, out);
				cr_log_info("%u of %u: %u of %g", out, fleet, worst,
					    cases[i].budget);
				cr_assert_leq(worst, cases[i].budget,
					      "%u of %u out of touch: %u of %g", out, fleet, worst,
					      cases[i].budget);
			}
		}
	}
}
