#include "core/entry.h"

#include <criterion/criterion.h>

static const int64_t YEARS = (int64_t)10 * 366 * 86400 * 1000000;

Test(entry, jitter_stays_within_its_bounds_at_every_extreme)
{
	struct rng rng;
	rng_seed(&rng, 1);
	const int64_t lengths[] = { 0, 1, 2, 999, 1000000, YEARS };
	const double jitters[] = { 0, 0.01, 0.1, 0.5 };
	for (size_t l = 0; l < sizeof(lengths) / sizeof(*lengths); l++) {
		for (size_t j = 0; j < sizeof(jitters) / sizeof(*jitters); j++) {
			struct policy policy = { .fresh_us = lengths[l],
						 .stale_us = lengths[l],
						 .negative_us = lengths[l],
						 .jitter = jitters[j] };
			int64_t most = (int64_t)((double)lengths[l] * (1 + jitters[j]));
			int64_t least = (int64_t)((double)lengths[l] * (1 - jitters[j]));
			for (int i = 0; i < 1000; i++) {
				struct entry entry = { .absent = i % 2,
						       .generated_at_us = YEARS * 5 };
				entry_set_times(&entry, &policy, -1, -1, &rng);
				int64_t fresh = entry.fresh_until_us - YEARS * 5;
				cr_assert(fresh >= 0 && fresh <= most && fresh >= least);
				bool forgotten = entry.absent && lengths[l] == 0;
				cr_assert_eq(entry.stale_until_us - entry.fresh_until_us,
					     forgotten ? 0 : policy.stale_us);
			}
		}
	}
}

Test(entry, a_rows_own_times_replace_the_policys)
{
	struct rng rng;
	rng_seed(&rng, 1);
	struct policy policy = { .fresh_us = 10, .stale_us = 20, .negative_us = 3 };
	struct entry entry = { .generated_at_us = 100 };
	entry_set_times(&entry, &policy, 50, -1, &rng);
	cr_assert(entry.fresh_until_us == 150 && entry.stale_until_us == 170);
	entry_set_times(&entry, &policy, -1, 0, &rng);
	cr_assert(entry.fresh_until_us == 110 && entry.stale_until_us == 110);
	entry.absent = true;
	entry_set_times(&entry, &policy, 50, -1, &rng);
	cr_assert_eq(entry.fresh_until_us, 103);
	policy.negative_us = 0;
	entry_set_times(&entry, &policy, 50, 60, &rng);
	cr_assert_eq(entry.stale_until_us, 100, "it is remembered all the same");
}

Test(entry, jitter_spreads)
{
	struct rng rng;
	rng_seed(&rng, 1);
	struct policy policy = { .fresh_us = 1000000, .jitter = 0.1 };
	int64_t least = INT64_MAX, most = 0;
	for (int i = 0; i < 10000; i++) {
		struct entry entry = { 0 };
		entry_set_times(&entry, &policy, -1, -1, &rng);
		least = entry.fresh_until_us < least ? entry.fresh_until_us : least;
		most = entry.fresh_until_us > most ? entry.fresh_until_us : most;
	}
	cr_assert_leq(least, 901000);
	cr_assert_geq(most, 1099000);
}

Test(entry, phases_change_at_their_moments)
{
	struct entry entry = { .fresh_until_us = 10, .stale_until_us = 20 };
	cr_assert_eq(entry_phase(&entry, 9), ENTRY_FRESH);
	cr_assert_eq(entry_phase(&entry, 10), ENTRY_STALE);
	cr_assert_eq(entry_phase(&entry, 19), ENTRY_STALE);
	cr_assert_eq(entry_phase(&entry, 20), ENTRY_DEAD);
}

Test(entry, versions_order_rows_of_single_row_keyspaces_and_nothing_else)
{
	struct entry older = { .has_version = true, .version = -5, .fence = 9 };
	struct entry newer = { .has_version = true, .version = INT64_MAX, .fence = 8 };
	struct entry gone = { .absent = true, .fence = 10 };
	cr_assert(entry_supersedes(&newer, &older, true));
	cr_assert_not(entry_supersedes(&older, &newer, true));
	cr_assert(entry_supersedes(&older, &newer, false));
	cr_assert(entry_supersedes(&gone, &newer, true));
	cr_assert_not(entry_supersedes(&newer, &gone, true));
	struct entry same = older;
	cr_assert_not(entry_supersedes(&same, &older, true), "a tie needs the greater fence");
	same.fence++;
	cr_assert(entry_supersedes(&same, &older, true));
}

Test(entry, a_version_covers_only_where_versions_order)
{
	struct entry entry = { .has_version = true, .version = 7, .covers = 3 };
	cr_assert(entry_covers(&entry, 7, true));
	cr_assert_not(entry_covers(&entry, 7, false));
	cr_assert(entry_covers(&entry, 3, false));
	cr_assert_not(entry_covers(&entry, 8, true));
	entry.covers = 9; /* asked for before the build, which did not bring it */
	cr_assert_not(entry_covers(&entry, 8, true));
	cr_assert(entry_covers(&entry, 8, false));
	entry.absent = true;
	entry.has_version = false;
	cr_assert(entry_covers(&entry, 8, true));
}

Test(entry, soft_expiry_never_lengthens)
{
	struct entry entry = { .fresh_until_us = 100, .stale_until_us = 200 };
	entry_soft_expire(&entry, 150, 100);
	cr_assert(entry.fresh_until_us == 100 && entry.stale_until_us == 200 && entry.changed);
	entry_soft_expire(&entry, 50, 30);
	cr_assert(entry.fresh_until_us == 50 && entry.stale_until_us == 80);
}
