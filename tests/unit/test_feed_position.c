#include "origin/feed_position.h"

#include <criterion/criterion.h>
#include <string.h>

static struct feed_position a, b;

static bool make(struct feed_position *position, const char *snapshot)
{
	return feed_position_make(position, 0x1234, 0x5678, snapshot);
}

Test(feed_position, what_is_written_is_read)
{
	cr_assert(make(&a, "10:20:10,15"));
	cr_assert_str_eq(a.text, "0000000000001234:0000000000005678 10:20:10,15");
	cr_assert(feed_position_read(&b, a.text));
	cr_assert(b.history == 0x1234 && b.followed == 0x5678 && b.xmin == 10 && b.xmax == 20);
	cr_assert_str_eq(feed_position_snapshot(&b), "10:20:10,15");
}

Test(feed_position, what_is_none_is_refused_and_changes_nothing)
{
	static const char *const none[] = {
		"",
		"10:20:",
		"0000000000001234 10:20:",
		"0000000000001234:0000000000005678",
		"0000000000001234:0000000000005678 ",
		"0000000000001234:0000000000005678 10:20",
		"0000000000001234:0000000000005678 20:10:",
		"0000000000001234:0000000000005678 :20:",
		"0000000000001234:0000000000005678 10:20:x",
		"0000000000001234:0000000000005678 10:20:1'1",
		"000000000000123:00000000000005678 10:20:",
	};
	cr_assert(make(&a, "10:20:"));
	for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++)
		cr_assert_not(feed_position_read(&a, none[i]), "%s", none[i]);
	cr_assert_str_eq(feed_position_snapshot(&a), "10:20:");
}

Test(feed_position, one_that_is_too_long_is_refused)
{
	static char text[POSITION_MAX + 8] = "1:2:";
	memset(text + 4, '1', POSITION_MAX);
	cr_assert_not(make(&a, text));
	text[POSITION_MAX - FEED_ORIGIN_LEN - 2] = '\0';
	cr_assert(make(&a, text));
}

Test(feed_position, the_older_has_seen_less)
{
	static const char *const in_order[] = { "5:9:5,7", "5:9:7", "8:9:", "8:10:8", "9:10:" };
	for (size_t i = 0; i < sizeof(in_order) / sizeof(*in_order); i++)
		for (size_t j = 0; j < sizeof(in_order) / sizeof(*in_order); j++) {
			cr_assert(make(&a, in_order[i]) && make(&b, in_order[j]));
			cr_assert_eq(feed_position_is_older(&a, &b), i < j, "%zu %zu", i, j);
		}
}
