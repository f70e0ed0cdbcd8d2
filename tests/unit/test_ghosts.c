#include "core/ghosts.h"

#include <criterion/criterion.h>

static const int64_t SECOND = 1000000;
static struct ghosts ghosts;

static void open_ghosts(void)
{
	cr_assert_eq(ghosts_init(&ghosts, 1 << 16), 0);
}

static void close_ghosts(void)
{
	ghosts_close(&ghosts);
}

TestSuite(ghosts, .init = open_ghosts, .fini = close_ghosts);

static uint64_t hash_of(uint64_t i)
{
	return (i + 1) * 0x9e3779b97f4a7c15u;
}

Test(ghosts, knows_an_older_version_until_the_end)
{
	ghosts_note(&ghosts, hash_of(1), 7, 10 * SECOND, 0);
	cr_assert(ghosts_know_better(&ghosts, hash_of(1), 6, 9 * SECOND));
	cr_assert_not(ghosts_know_better(&ghosts, hash_of(1), 7, 9 * SECOND));
	cr_assert_not(ghosts_know_better(&ghosts, hash_of(1), 6, 10 * SECOND));
	cr_assert_not(ghosts_know_better(&ghosts, hash_of(2), 6, 9 * SECOND));
}

Test(ghosts, the_highest_version_counts)
{
	ghosts_note(&ghosts, hash_of(1), 7, 10 * SECOND, 0);
	ghosts_note(&ghosts, hash_of(1), 5, 20 * SECOND, 0);
	cr_assert(ghosts_know_better(&ghosts, hash_of(1), 6, 15 * SECOND));
}

Test(ghosts, are_bounded_and_count_what_they_lose)
{
	for (uint64_t i = 0; i < 100000; i++)
		ghosts_note(&ghosts, hash_of(i), 7, 10 * SECOND, 0);
	cr_assert_gt(ghosts.overflow, 90000);
	uint64_t before = ghosts.overflow;
	for (uint64_t i = 0; i < 1000; i++)
		ghosts_note(&ghosts, hash_of(i), 7, 30 * SECOND, 11 * SECOND);
	cr_assert_lt(ghosts.overflow - before, 200, "the dead give way first");
}
