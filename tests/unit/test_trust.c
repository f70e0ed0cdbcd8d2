#include "store/trust.h"

#include <criterion/criterion.h>

Test(trust, begins_with_the_first_beat_and_goes_on_without_a_gap)
{
	struct trust trust = { 0 };
	cr_assert_eq(trust_hear(&trust, 7), TRUST_BEGINS);
	cr_assert_eq(trust_hear(&trust, 8), TRUST_GOES_ON);
	cr_assert_eq(trust_hear(&trust, 8), TRUST_REPEATED);
	cr_assert_eq(trust_hear(&trust, 9), TRUST_GOES_ON);
}

Test(trust, a_gap_in_the_numbers_ends_it)
{
	struct trust trust = { 0 };
	trust_hear(&trust, 7);
	cr_assert_eq(trust_hear(&trust, 9), TRUST_BEGINS);
	cr_assert_eq(trust_hear(&trust, 10), TRUST_GOES_ON);
	cr_assert_eq(trust_hear(&trust, 1), TRUST_BEGINS, "flushed");
}

Test(trust, the_next_number_on_another_connection_proves_nothing)
{
	struct trust trust = { 0 };
	trust_hear(&trust, 7);
	trust_lose(&trust);
	cr_assert_eq(trust_hear(&trust, 8), TRUST_BEGINS);
}
