#include "core/epoch.h"

#include <criterion/criterion.h>

static struct entry entry(int64_t generated_at)
{
	return (struct entry){ .generated_at_us = generated_at,
			       .fresh_until_us = generated_at + 10000,
			       .stale_until_us = generated_at + 20000 };
}

Test(epoch, ends_what_was_generated_before_it_and_nothing_else)
{
	struct epochs epochs = { 0 };
	cr_assert(epochs_add(&epochs, (struct epoch){ .moment_us = 100, .spread_us = 0 }));
	struct entry before = entry(99), after = entry(100);
	cr_assert(epochs_apply(&epochs, &before, 7, false));
	cr_assert(before.fresh_until_us == 100 && before.changed);
	cr_assert_eq(before.stale_until_us, 99 + 20000, "the stale bound is not the epoch's");
	cr_assert_not(epochs_apply(&epochs, &after, 7, false));
	cr_assert(after.fresh_until_us == 10100 && !after.changed);
}

Test(epoch, a_hard_one_without_a_spread_ends_what_is_stale_too)
{
	struct epochs epochs = { 0 };
	epochs_add(&epochs, (struct epoch){ .moment_us = 100, .spread_us = 10 });
	struct entry spread = entry(99);
	epochs_apply(&epochs, &spread, 7, true);
	cr_assert_eq(spread.stale_until_us, 99 + 20000);
	epochs_add(&epochs, (struct epoch){ .moment_us = 15000, .spread_us = 0 });
	struct entry fresh = entry(14000), stale = entry(2000), dead = entry(-9000),
		     after = entry(15000);
	cr_assert(epochs_apply(&epochs, &fresh, 7, true));
	cr_assert(fresh.fresh_until_us == 15000 && fresh.stale_until_us == 15000 && fresh.changed);
	cr_assert(epochs_apply(&epochs, &stale, 7, true));
	cr_assert(stale.fresh_until_us == 12000 && stale.stale_until_us == 12000 && stale.changed);
	epochs_apply(&epochs, &dead, 7, true);
	cr_assert_eq(dead.stale_until_us, -9000 + 20000, "it was over before");
	cr_assert_not(epochs_apply(&epochs, &after, 7, true));
}

Test(epoch, spreads_keys_over_its_time)
{
	struct epochs epochs = { 0 };
	epochs_add(&epochs, (struct epoch){ .moment_us = 100, .spread_us = 1000 });
	int in_first_half = 0;
	for (uint64_t hash = 0; hash < 1000; hash++) {
		struct entry old = entry(0);
		epochs_apply(&epochs, &old, hash * 0x9e3779b97f4a7c15u, false);
		cr_assert(old.fresh_until_us >= 100 && old.fresh_until_us < 1100);
		in_first_half += old.fresh_until_us < 600;
	}
	cr_assert(in_first_half > 430 && in_first_half < 570);
}

Test(epoch, the_same_one_twice_is_one)
{
	struct epochs epochs = { 0 };
	cr_assert(epochs_add(&epochs, (struct epoch){ .moment_us = 100, .spread_us = 10 }));
	cr_assert_not(epochs_add(&epochs, (struct epoch){ .moment_us = 100, .spread_us = 10 }));
	cr_assert_eq(epochs.count, 1);
}

/* However many there were, in whatever order they came: nothing lives longer than its first epoch
   would have let it, but by the spread of those still kept. */
Test(epoch, of_many_none_is_forgotten_in_effect)
{
	for (int order = 0; order < 2; order++) {
		struct epochs epochs = { 0 };
		for (int i = 0; i < 20; i++) {
			int64_t moment = 1000 * (order ? 20 - i : i + 1);
			cr_assert(epochs_add(
				&epochs, (struct epoch){ .moment_us = moment, .spread_us = 500 }));
			cr_assert_leq(epochs.count, EPOCHS_MAX);
			for (uint32_t k = 1; k < epochs.count; k++)
				cr_assert_lt(epochs.at[k - 1].moment_us, epochs.at[k].moment_us);
		}
		for (int64_t generated = 0; generated < 20000; generated += 250) {
			struct entry old = entry(generated);
			old.fresh_until_us = INT64_MAX;
			cr_assert(epochs_apply(&epochs, &old, 499, false));
			int64_t oldest = epochs.at[0].moment_us;
			int64_t first = generated / 1000 * 1000 + 1000;
			cr_assert_leq(old.fresh_until_us, (first > oldest ? first : oldest) + 499);
		}
	}
}

/* Told late, it may be the second oldest, and so the one that takes over. */
Test(epoch, the_next_takes_over_what_the_oldest_had_to_do_though_it_is_new)
{
	struct epochs epochs = { 0 };
	for (int64_t i = 0; i < EPOCHS_MAX; i++)
		epochs_add(&epochs,
			   (struct epoch){ .moment_us = 1000 + 1000 * i, .spread_us = 500 });
	cr_assert(epochs_add(&epochs, (struct epoch){ .moment_us = 1400, .spread_us = 500 }));
	cr_assert_eq(epochs.count, EPOCHS_MAX);
	cr_assert_eq(epochs.at[0].moment_us, 1400);
	cr_assert_eq(epochs.at[0].spread_us, 0);
	cr_assert_eq(epochs.at[1].spread_us, 500, "it has its own to do still");
}

/* A failover's: what was built after it, by whoever heard of it first, is not built again. */
Test(epoch, one_of_a_history_spares_what_was_built_in_it)
{
	struct epochs epochs = { 0 };
	uint64_t histories[] = { history_of(1, 3), history_of(1, 4), history_of(1, 2),
				 history_of(2, 3), 0 };
	epochs_add(&epochs, (struct epoch){ .moment_us = 1000, .history = history_of(1, 3) });
	for (int i = 0; i < 5; i++) {
		struct entry entry = { .generated_at_us = 900,
				       .fresh_until_us = 2000,
				       .stale_until_us = 3000,
				       .history = histories[i] };
		cr_assert_eq(epochs_apply(&epochs, &entry, 7, false), i >= 2, "%d", i);
	}
}
