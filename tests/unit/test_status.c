#include "proto/status.h"

#include <criterion/criterion.h>
#include <string.h>

Test(status, every_name_finds_its_status)
{
	for (int i = 0; i < STATUS_COUNT; i++) {
		const char *name = status_name((enum status)i);

		cr_assert_eq(status_from_name(name, strlen(name)), i);
		cr_assert_neq(status_from_name(name, strlen(name) - 1), i);
		cr_assert_gt(strlen(status_text((enum status)i)), 0);
	}
}

Test(status, numbers_of_other_makes_have_a_name_too)
{
	cr_assert_str_eq(status_name((enum status)STATUS_COUNT), "unknown_status");
	cr_assert_str_eq(status_name((enum status) - 1), "unknown_status");
	cr_assert_str_eq(status_text((enum status)STATUS_COUNT), "unknown status");
	cr_assert_eq(status_from_name("nonsense", 8), -1);
	cr_assert_eq(status_from_name("", 0), -1);
}
