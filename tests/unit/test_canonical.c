#include "origin/canonical.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "origin/types.h"

static void expect(uint32_t type, const char *const *args, bool fits)
{
	for (; *args; args++)
		cr_assert_eq(canonical_expected(type, *args) == NULL, fits, "%s: %s",
			     pg_type_name(type), *args);
}
#define FIT(type, ...)   expect(type, (const char *const[]){ __VA_ARGS__, NULL }, true)
#define UNFIT(type, ...) expect(type, (const char *const[]){ __VA_ARGS__, NULL }, false)

Test(canonical, integers_are_plain_decimals_in_range)
{
	FIT(PG_TYPE_INT2, "0", "7", "-1", "32767", "-32768");
	UNFIT(PG_TYPE_INT2, "32768", "-32769", "99999");
	FIT(PG_TYPE_INT4, "0", "42", "-42", "2147483647", "-2147483648");
	UNFIT(PG_TYPE_INT4, "2147483648", "-2147483649", "10000000000");
	FIT(PG_TYPE_INT8, "9223372036854775807", "-9223372036854775808");
	UNFIT(PG_TYPE_INT8, "9223372036854775808", "-9223372036854775809");
	FIT(PG_TYPE_OID, "0", "4294967295");
	UNFIT(PG_TYPE_OID, "-1", "4294967296");
	UNFIT(PG_TYPE_INT4, "", "-", "+42", "042", "00", "-0", "-042", " 42", "42 ", "4 2", "4_2",
	      "0x2a", "1e3", "1.0", "--1", "٤٢", "42\n");
}

Test(canonical, uuids_are_lower_case_with_hyphens)
{
	FIT(PG_TYPE_UUID, "00000000-0000-0000-0000-000000000000",
	    "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11");
	UNFIT(PG_TYPE_UUID, "", "A0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
	      "a0eebc999c0b4ef8bb6d6bb9bd380a11", "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
	      "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a111",
	      "g0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11");
}

Test(canonical, booleans_have_two_words)
{
	FIT(PG_TYPE_BOOL, "true", "false");
	UNFIT(PG_TYPE_BOOL, "", "t", "f", "TRUE", "True", "1", "0", "yes", "on", " true");
}

Test(canonical, dates_are_days_that_exist)
{
	FIT(PG_TYPE_DATE, "2024-02-29", "0001-01-01", "9999-12-31", "2000-02-29", "infinity",
	    "-infinity");
	UNFIT(PG_TYPE_DATE, "", "2023-02-29", "1900-02-29", "2024-13-01", "2024-00-01",
	      "2024-04-31", "2024-01-00", "0000-01-01", "2024-1-1", "20240101", "2024-01-01 ",
	      "today", "Infinity", "2024/01/01", "2024-01-01 BC", "10000-01-01");
}

Test(canonical, other_types_pass_as_they_are)
{
	FIT(PG_TYPE_TEXT, "", " 042 ", "'; --");
	FIT(PG_TYPE_NUMERIC, "1.50", "042");
	cr_assert_null(canonical_expected(99999, "anything"));
}

Test(canonical, a_key_is_decoded_and_fits_its_query_or_says_why_not)
{
	static const uint32_t types[] = { PG_TYPE_TEXT, PG_TYPE_INT4 };
	static const char key[] = "shop:a%3Ab%25:7";
	static struct arguments arguments;
	char text[96];

	arguments_decode(&arguments, key, strlen(key));
	cr_assert_eq(arguments.count, 2u);
	cr_assert_str_eq(arguments.args[0], "a:b%");
	cr_assert_str_eq(arguments.args[1], "7");
	cr_assert(arguments_fit(&arguments, "shop", types, 2, text, sizeof(text)));
	cr_assert_not(arguments_fit(&arguments, "shop", types, 1, text, sizeof(text)));
	cr_assert_str_eq(text, "shop takes 1 argument, got 2");
	arguments.args[1] = "07";
	cr_assert_not(arguments_fit(&arguments, "shop", types, 2, text, sizeof(text)));
	cr_assert_str_eq(text, "argument 2 of shop must be an integer in plain decimal");
	cr_assert_not(arguments_fit(&arguments, "shop", types, 2, text, 10));
	cr_assert_str_eq(text, "argument ");
}
