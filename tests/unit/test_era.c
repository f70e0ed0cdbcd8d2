#include "store/era.h"

#include <criterion/criterion.h>

#define SECOND INT64_C(1000000)
#define NOW    (INT64_C(1700000000) * SECOND)

static const struct policy policy = {
	.fresh_us = 600 * SECOND, .stale_us = 30 * SECOND, .negative_us = 5 * SECOND, .jitter = 0.1
};

/* Generated `age` ago by its own clock, which says `now`. */
static struct entry entry_of(uint32_t era, int64_t now_us, int64_t age_us)
{
	return (struct entry){ .era = era,
			       .generated_at_us = now_us - age_us,
			       .fresh_until_us = now_us - age_us + 600 * SECOND,
			       .stale_until_us = now_us - age_us + 630 * SECOND };
}

Test(era, entries_of_the_era_stay_as_they_are)
{
	struct era era = { .number = 3, .since_us = NOW - SECOND };
	struct entry entry = entry_of(3, NOW, 10 * SECOND), before = entry;
	era_translate(&era, &entry, &policy, NOW);
	cr_assert_eq(entry.generated_at_us, before.generated_at_us);
	cr_assert_eq(entry.fresh_until_us, before.fresh_until_us);
	cr_assert_eq(entry.stale_until_us, before.stale_until_us);
	cr_assert_not(entry.changed);
}

Test(era, those_of_the_era_before_expire_when_it_ended_and_are_as_old_as_they_are)
{
	for (int sign = -1; sign <= 1; sign += 2) {
		int64_t jump = sign * 900 * SECOND;
		struct era era = { .number = 3, .since_us = NOW - 5 * SECOND, .jump_us = jump };
		struct entry entry = entry_of(2, NOW - jump, 20 * SECOND);
		era_translate(&era, &entry, &policy, NOW);
		cr_assert_eq(entry.generated_at_us, NOW - 20 * SECOND);
		cr_assert_eq(entry.fresh_until_us, NOW - 5 * SECOND);
		cr_assert_eq(entry.stale_until_us, NOW + 25 * SECOND);
		cr_assert(entry.changed);

		entry = entry_of(2, NOW - jump, 625 * SECOND);
		era_translate(&era, &entry, &policy, NOW);
		cr_assert_eq(entry.stale_until_us, NOW + 5 * SECOND, "no longer than it had");
	}
}

Test(era, entries_of_older_eras_are_dead)
{
	struct era era = { .number = 9, .since_us = NOW - SECOND, .jump_us = SECOND };
	struct entry entry = entry_of(2, NOW + 1000 * SECOND, 0);
	era_translate(&era, &entry, &policy, NOW);
	cr_assert_eq(entry_phase(&entry, NOW), ENTRY_DEAD);
	entry = entry_of(2, NOW - 100 * SECOND, 0);
	era_translate(&era, &entry, &policy, NOW);
	cr_assert_eq(entry_phase(&entry, NOW), ENTRY_DEAD);
}

Test(era, of_an_era_that_is_news_nothing_is_fresh)
{
	struct era era = { .number = 2 };
	struct entry entry = entry_of(3, NOW + 900 * SECOND, 0);
	era_translate(&era, &entry, &policy, NOW);
	cr_assert_eq(entry_phase(&entry, NOW), ENTRY_STALE);
	cr_assert_leq(entry.stale_until_us, NOW + 30 * SECOND);
}

Test(era, no_moment_is_further_away_than_the_policy_allows)
{
	struct era era = { .number = 1 };
	struct entry entry = entry_of(1, NOW + 3600 * SECOND, 0);
	era_translate(&era, &entry, &policy, NOW);
	cr_assert_eq(entry.generated_at_us, NOW);
	cr_assert_eq(entry.fresh_until_us, NOW + 660 * SECOND);
	cr_assert_eq(entry.stale_until_us, NOW + 690 * SECOND);
	entry = entry_of(1, NOW + 3600 * SECOND, 0);
	entry.absent = true;
	era_translate(&era, &entry, &policy, NOW);
	cr_assert_leq(entry.fresh_until_us, NOW + 6 * SECOND);
}

Test(era, what_was_changed_just_now_is_not_fresh_where_the_clock_is_late)
{
	struct era era = { .number = 1 };
	struct entry entry = entry_of(1, NOW, 10 * SECOND);
	entry_soft_expire(&entry, NOW + 300, 30 * SECOND);
	era_translate(&era, &entry, &policy, NOW);
	cr_assert_eq(entry_phase(&entry, NOW), ENTRY_STALE);
	cr_assert_eq(entry.stale_until_us, NOW + 300 + 30 * SECOND);
	entry = entry_of(1, NOW, 10 * SECOND);
	entry_soft_expire(&entry, NOW + 300, 0);
	era_translate(&era, &entry, &policy, NOW);
	cr_assert_eq(entry_phase(&entry, NOW), ENTRY_DEAD);
}

Test(era, the_first_that_is_heard_of_is_no_news)
{
	struct era era = { 0 };
	cr_assert_not(era_adopt(&era, 4, NOW, 0));
	cr_assert_not(era_adopt(&era, 4, NOW, 0));
	cr_assert(era_adopt(&era, 5, NOW, SECOND));
	cr_assert_eq(era.jump_us, SECOND);
}

Test(era, a_jump_is_told_for_a_while_or_until_the_era_changes)
{
	struct era era = { .number = 1 };
	cr_assert_eq(era_jump_to_tell(&era, 0), 0);
	era_saw_jump(&era, 5 * SECOND, 100);
	cr_assert_eq(era_jump_to_tell(&era, 200), 5 * SECOND);
	cr_assert_eq(era_jump_to_tell(&era, 100 + 10 * SECOND), 0, "nobody else saw it");
	era_saw_jump(&era, 5 * SECOND, 100);
	era_adopt(&era, 2, NOW, 5 * SECOND);
	cr_assert_eq(era_jump_to_tell(&era, 200), 0);
}
