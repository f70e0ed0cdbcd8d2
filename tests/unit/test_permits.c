#include "core/permits.h"

#include <criterion/criterion.h>

static struct permits permits;
static struct list_node first, second, urgent;

static void open_line(void)
{
	permits_init(&permits);
	list_node_init(&first);
	list_node_init(&second);
	list_node_init(&urgent);
	permits_join(&permits, &first, PRIORITY_REFRESH);
	permits_join(&permits, &second, PRIORITY_REFRESH);
}

TestSuite(permits, .init = open_line);

Test(permits, only_the_head_asks)
{
	cr_assert_eq(permits_next(&permits, 0), &first);
	cr_assert_null(permits_next(&permits, 0), "it is asking already");
	permits_answered(&permits, 0);
	permits_leave(&permits, &first, PRIORITY_REFRESH);
	cr_assert_eq(permits_next(&permits, 0), &second);
	permits_answered(&permits, 0);
	permits_join(&permits, &urgent, PRIORITY_MISS);
	cr_assert_eq(permits_next(&permits, 0), &urgent);
}

Test(permits, who_is_told_to_retry_lets_the_whole_line_wait)
{
	cr_assert_eq(permits_next(&permits, 10), &first);
	permits_answered(&permits, 100);
	permits_join(&permits, &urgent, PRIORITY_MISS);
	cr_assert_null(permits_next(&permits, 99));
	cr_assert_eq(permits_next(&permits, 100), &urgent);
}

/* It may book further ahead than those who were told to wait. */
Test(permits, a_crowd_does_not_wait_with_the_line)
{
	cr_assert_eq(permits_next(&permits, 10), &first);
	permits_answered(&permits, 100);
	permits_join(&permits, &urgent, PRIORITY_CROWD);
	cr_assert_eq(permits_retry_at(&permits), 0);
	cr_assert_eq(permits_next(&permits, 10), &urgent);
	permits_answered(&permits, 0);
	permits_leave(&permits, &urgent, PRIORITY_CROWD);
	cr_assert_eq(permits_retry_at(&permits), 100, "what it got says nothing of the others");
	cr_assert_null(permits_next(&permits, 99));
}

Test(permits, what_a_crowd_cannot_have_nobody_asks_for)
{
	permits_join(&permits, &urgent, PRIORITY_CROWD);
	cr_assert_eq(permits_next(&permits, 10), &urgent);
	permits_answered(&permits, 100);
	cr_assert_null(permits_next(&permits, 99));
	permits_leave(&permits, &urgent, PRIORITY_CROWD);
	cr_assert_null(permits_next(&permits, 99));
	cr_assert_eq(permits_next(&permits, 100), &first);
}

Test(permits, patience_goes_by_how_fast_the_line_moved)
{
	const int64_t SECOND = 1000000;
	cr_assert_eq(permits_patience_us(&permits, 0, 0), 50000, "never 0");
	for (int i = 1; i <= 50; i++)
		permits_granted(&permits, i * SECOND / 10);
	cr_assert_eq(permits_patience_us(&permits, 20, 5 * SECOND), 20 * permits.turn_us);
	cr_assert_eq(permits_patience_us(&permits, UINT64_MAX, 5 * SECOND), 10 * SECOND);
	cr_assert_eq(permits_next(&permits, 5 * SECOND), &first);
	permits_answered(&permits, 9 * SECOND);
	cr_assert_eq(permits_patience_us(&permits, 0, 5 * SECOND), 4 * SECOND);
}
