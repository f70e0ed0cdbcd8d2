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
	era_translate(&era, &entry, &policy, NOW, 0);
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
		era_translate(&era, &entry, &policy, NOW, 0);
		cr_assert_eq(entry.generated_at_us, NOW - 20 * SECOND);
		cr_assert_eq(entry.fresh_until_us, NOW - 5 * SECOND);
		cr_assert_eq(entry.stale_until_us, NOW + 25 * SECOND);
		cr_assert(entry.changed);

		entry = entry_of(2, NOW - jump, 625 * SECOND);
		era_translate(&era, &entry, &policy, NOW, 0);
		cr_assert_eq(entry.stale_until_us, NOW + 5 * SECOND, "no longer than it had");
	}
}

Test(era, entries_of_older_eras_are_dead)
{
	struct era era = { .number = 9, .since_us = NOW - SECOND, .jump_us = SECOND };
	struct entry entry = entry_of(2, NOW + 1000 * SECOND, 0);
	era_translate(&era, &entry, &policy, NOW, 0);
	cr_assert_eq(entry_phase(&entry, NOW), ENTRY_DEAD);
	entry = entry_of(2, NOW - 100 * SECOND, 0);
	era_translate(&era, &entry, &policy, NOW, 0);
	cr_assert_eq(entry_phase(&entry, NOW), ENTRY_DEAD);
}

Test(era, entries_of_an_era_that_is_news_are_dead)
{
	struct era era = { .number = 2 };
	struct entry entry = entry_of(3, NOW + 900 * SECOND, 0);
	era_translate(&era, &entry, &policy, NOW, 0);
	cr_assert_eq(entry_phase(&entry, NOW), ENTRY_DEAD);
	entry = entry_of(3, NOW - 900 * SECOND, 0);
	era_translate(&era, &entry, &policy, NOW, 0);
	cr_assert_eq(entry_phase(&entry, NOW), ENTRY_DEAD);
}

Test(era, a_jump_after_the_new_era_counts_for_those_of_the_era_before_too)
{
	struct era era = { .number = 3, .since_us = NOW, .jump_us = -20 * SECOND };
	struct entry entry = entry_of(2, NOW + 20 * SECOND, 100 * SECOND);
	era_saw_jump(&era, -30 * SECOND, 0);
	era_translate(&era, &entry, &policy, NOW - 30 * SECOND, SECOND);
	cr_assert_eq(entry.generated_at_us, NOW - 130 * SECOND);
	cr_assert_leq(entry.stale_until_us, NOW);
}

Test(era, no_moment_is_further_away_than_the_policy_allows)
{
	struct era era = { .number = 1 };
	struct entry entry = entry_of(1, NOW + 3600 * SECOND, 0);
	era_translate(&era, &entry, &policy, NOW, 0);
	cr_assert_eq(entry.generated_at_us, NOW);
	cr_assert_eq(entry.fresh_until_us, NOW + 660 * SECOND);
	cr_assert_eq(entry.stale_until_us, NOW + 690 * SECOND);
	entry = entry_of(1, NOW + 3600 * SECOND, 0);
	entry.absent = true;
	era_translate(&era, &entry, &policy, NOW, 0);
	cr_assert_leq(entry.fresh_until_us, NOW + 6 * SECOND);
}

Test(era, what_was_changed_just_now_is_not_fresh_where_the_clock_is_late)
{
	struct era era = { .number = 1 };
	struct entry entry = entry_of(1, NOW, 10 * SECOND);
	entry_soft_expire(&entry, NOW + 300, 30 * SECOND);
	era_translate(&era, &entry, &policy, NOW, 0);
	cr_assert_eq(entry_phase(&entry, NOW), ENTRY_STALE);
	cr_assert_eq(entry.stale_until_us, NOW + 300 + 30 * SECOND);
	entry = entry_of(1, NOW, 10 * SECOND);
	entry_soft_expire(&entry, NOW + 300, 0);
	era_translate(&era, &entry, &policy, NOW, 0);
	cr_assert_eq(entry_phase(&entry, NOW), ENTRY_DEAD);
}

Test(era, the_first_that_is_heard_of_is_no_news)
{
	struct era era = { 0 };
	cr_assert_not(era_adopt(&era, 4, NOW, 0, 0));
	cr_assert_not(era_adopt(&era, 4, NOW, 0, 0));
	cr_assert(era_adopt(&era, 5, NOW, SECOND, 0));
	cr_assert_eq(era.jump_us, SECOND);
}

Test(era, a_jump_is_told_for_a_while_or_until_the_era_changes)
{
	struct era era = { .number = 1 };
	cr_assert_eq(era_jump_to_tell(&era, 0), 0);
	era_saw_jump(&era, 5 * SECOND, 100);
	cr_assert_eq(era_jump_to_tell(&era, 200), 5 * SECOND);
	cr_assert_eq(era_jump_to_tell(&era, 100 + 10 * SECOND), 0, "nobody else saw it");
	era_saw_jump(&era, 5 * SECOND, 20 * SECOND);
	era_adopt(&era, 2, NOW, 5 * SECOND, 0);
	cr_assert_eq(era_jump_to_tell(&era, 21 * SECOND), 0);
}

/* A jump is seen, and not the era's yet: an entry may be by the clock before it, or by that after.
 */
Test(era, until_a_jump_is_settled_no_entry_is_younger_than_by_either_clock)
{
	for (int sign = -1; sign <= 1; sign += 2) {
		int64_t jump = sign * 60 * SECOND;
		struct era era = { .number = 3, .since_us = NOW - 5000 * SECOND };
		era_saw_jump(&era, jump, 0);
		struct entry before = entry_of(3, NOW - jump, 100 * SECOND);
		struct entry after = entry_of(3, NOW, 100 * SECOND);
		era_translate(&era, &before, &policy, NOW, SECOND);
		era_translate(&era, &after, &policy, NOW, SECOND);
		cr_assert_leq(before.generated_at_us, NOW - 100 * SECOND);
		cr_assert_leq(after.generated_at_us, NOW - 100 * SECOND);
		cr_assert_leq(before.stale_until_us, NOW + 530 * SECOND);
		/* What nobody else saw was none of the store's. */
		after = entry_of(3, NOW, 100 * SECOND);
		era_translate(&era, &after, &policy, NOW, 20 * SECOND);
		cr_assert_eq(after.generated_at_us, NOW - 100 * SECOND);
	}
}

Test(era, what_is_written_until_a_jump_is_settled_is_never_younger_to_others)
{
	for (int sign = -1; sign <= 1; sign += 2) {
		int64_t jump = sign * 60 * SECOND;
		struct era writer = { .number = 3 }, of_before = { .number = 3 };
		struct era of_next = { .number = 4, .since_us = NOW, .jump_us = jump };
		struct entry entry = entry_of(0, NOW, 10 * SECOND), copy;
		era_saw_jump(&writer, jump, 0);
		era_mark(&writer, &entry, SECOND);
		cr_assert_eq(entry.era, 3);
		copy = entry;
		era_translate(&of_next, &copy, &policy, NOW, 0);
		cr_assert_leq(copy.generated_at_us, NOW - 10 * SECOND);
		copy = entry;
		era_translate(&of_before, &copy, &policy, NOW, 0);
		cr_assert_leq(copy.generated_at_us, NOW - 10 * SECOND);
	}
}

Test(era, jumps_before_the_next_era_add_up_and_what_is_left_of_them_is_told)
{
	struct era era = { .number = 1 };
	era_saw_jump(&era, 5 * SECOND, 0);
	era_saw_jump(&era, 7 * SECOND, SECOND);
	cr_assert_eq(era_jump_to_tell(&era, 2 * SECOND), 12 * SECOND);
	era_adopt(&era, 2, NOW, 5 * SECOND, 0);
	cr_assert_eq(era_jump_to_tell(&era, 2 * SECOND), 7 * SECOND);
	era_adopt(&era, 3, NOW, 7 * SECOND - 300, 0);
	cr_assert_eq(era_jump_to_tell(&era, 2 * SECOND), 0);
}

Test(era, a_hard_change_stays_one_under_any_clock)
{
	for (int sign = -1; sign <= 1; sign += 2) {
		int64_t jump = sign * 3000 * SECOND;
		struct era era = { .number = 4, .since_us = NOW - SECOND, .jump_us = jump };
		struct entry entry = entry_of(3, NOW - jump, 10 * SECOND);
		/* As invalidate.lua does, by the new clock. */
		entry_soft_expire(&entry, NOW, 0);
		entry.stale_until_us = entry.fresh_until_us;
		era_translate(&era, &entry, &policy, NOW, 0);
		cr_assert_eq(entry_phase(&entry, NOW), ENTRY_DEAD);
	}
}

Test(era, fences_grow_though_the_clock_has_gone_back)
{
	struct era era = { .number = 1 };
	cr_assert_eq(era_fence(&era, NOW), 0);
	era_saw_jump(&era, -60 * SECOND, 0);
	cr_assert_eq(era_fence(&era, NOW), NOW + 60 * SECOND);
	era_adopt(&era, 2, NOW, -60 * SECOND, 0);
	cr_assert_eq(era_fence(&era, NOW), NOW + 60 * SECOND);
	era_saw_jump(&era, 20 * SECOND, 0);
	cr_assert_eq(era_fence(&era, NOW), NOW + 40 * SECOND);
	era_saw_jump(&era, 90 * SECOND, 0);
	cr_assert_eq(era_fence(&era, NOW), 0);
}
