#include "base/units.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <string.h>

static int parse(enum unit_kind kind, const char *text, int64_t *ret_value)
{
	return units_parse(kind, text, strlen(text), ret_value);
}

Test(units, quantities_are_read_in_their_smallest_step)
{
	static const struct {
		enum unit_kind kind;
		const char *text;
		int64_t value;
	} cases[] = {
		{ UNIT_DURATION, "800ms", 800 * UNITS_MS },
		{ UNIT_DURATION, "1.5s", 1500 * UNITS_MS },
		{ UNIT_DURATION, "0.001ms", 1 },
		{ UNIT_DURATION, "10m", 600 * UNITS_SECOND },
		{ UNIT_DURATION, "2h", 2 * UNITS_HOUR },
		{ UNIT_DURATION, "3650d", 3650 * UNITS_DAY },
		{ UNIT_DURATION, "0", 0 },
		{ UNIT_DURATION, "0s", 0 },
		{ UNIT_DURATION, "007s", 7 * UNITS_SECOND },
		{ UNIT_SIZE, "1B", 1 },
		{ UNIT_SIZE, "256MiB", 256 * UNITS_MIB },
		{ UNIT_SIZE, "1.5GiB", 1536 * UNITS_MIB },
		{ UNIT_RATE, "200/s", 200 * (int64_t)UNITS_RATE_ONE },
		{ UNIT_RATE, "3/m", UNITS_RATE_ONE / 20 },
		{ UNIT_RATE, "0.5/s", UNITS_RATE_ONE / 2 },
		{ UNIT_PERCENT, "10%", UNITS_PERCENT_ONE / 10 },
		{ UNIT_PERCENT, "0.5%", UNITS_PERCENT_ONE / 200 },
		{ UNIT_COUNT, "40", 40 },
		{ UNIT_COUNT, "9223372036854775807", INT64_MAX },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		int64_t value = -1;
		cr_assert_eq(parse(cases[i].kind, cases[i].text, &value), 0, "%s", cases[i].text);
		cr_assert_eq(value, cases[i].value, "%s: %ld", cases[i].text, (long)value);
	}
}

Test(units, what_is_no_quantity_is_malformed_and_leaves_the_result_alone)
{
	static const struct {
		enum unit_kind kind;
		const char *text;
	} cases[] = {
		{ UNIT_DURATION, "" },           { UNIT_DURATION, "s" },
		{ UNIT_DURATION, "5" },          { UNIT_DURATION, "5 s" },
		{ UNIT_DURATION, " 5s" },        { UNIT_DURATION, "5s " },
		{ UNIT_DURATION, "-5s" },        { UNIT_DURATION, "+5s" },
		{ UNIT_DURATION, "1h30m" },      { UNIT_DURATION, "5S" },
		{ UNIT_DURATION, "1.s" },        { UNIT_DURATION, ".5s" },
		{ UNIT_DURATION, "1e3s" },       { UNIT_DURATION, "0x10s" },
		{ UNIT_DURATION, "inf" },        { UNIT_DURATION, "0.0001ms" },
		{ UNIT_DURATION, "1.0000000s" }, { UNIT_SIZE, "256" },
		{ UNIT_SIZE, "256MB" },          { UNIT_SIZE, "0.5B" },
		{ UNIT_SIZE, "256M" },           { UNIT_RATE, "200" },
		{ UNIT_RATE, "200/h" },          { UNIT_PERCENT, "10" },
		{ UNIT_PERCENT, "10%%" },        { UNIT_COUNT, "1.5" },
		{ UNIT_COUNT, "1_000" },         { UNIT_COUNT, "1,000" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		int64_t value = 77;
		cr_assert_eq(parse(cases[i].kind, cases[i].text, &value), -EINVAL, "%s",
			     cases[i].text);
		cr_assert_eq(value, 77, "%s", cases[i].text);
	}
}

Test(units, what_does_not_fit_is_out_of_range)
{
	int64_t value = 77;
	cr_assert_eq(parse(UNIT_COUNT, "9223372036854775808", &value), -ERANGE);
	cr_assert_eq(parse(UNIT_COUNT, "99999999999999999999999999", &value), -ERANGE);
	cr_assert_eq(parse(UNIT_DURATION, "106751992d", &value), -ERANGE);
	cr_assert_eq(parse(UNIT_DURATION, "9223372036854775.999ms", &value), -ERANGE);
	cr_assert_eq(parse(UNIT_SIZE, "8589934592GiB", &value), -ERANGE);
	cr_assert_eq(value, 77);
}

Test(units, bytes_behind_the_length_do_not_count)
{
	int64_t value;
	cr_assert_eq(units_parse(UNIT_DURATION, "10ms", 2, &value), -EINVAL);
	cr_assert_eq(units_parse(UNIT_DURATION, "10sx", 3, &value), 0);
	cr_assert_eq(units_parse(UNIT_DURATION, "1\0s", 3, &value), -EINVAL);
}

Test(units, the_largest_unit_without_decimals_is_written)
{
	static const struct {
		enum unit_kind kind;
		int64_t value;
		const char *text;
	} cases[] = {
		{ UNIT_DURATION, 0, "0" },
		{ UNIT_DURATION, 600 * UNITS_SECOND, "10m" },
		{ UNIT_DURATION, 90 * UNITS_SECOND, "90s" },
		{ UNIT_DURATION, 1500 * UNITS_MS, "1500ms" },
		{ UNIT_DURATION, 1, "0.001ms" },
		{ UNIT_DURATION, 48 * UNITS_HOUR, "2d" },
		{ UNIT_SIZE, 1536 * UNITS_MIB, "1536MiB" },
		{ UNIT_RATE, UNITS_RATE_ONE / 20, "3/m" },
		{ UNIT_RATE, 1, "0.000001/m" },
		{ UNIT_PERCENT, UNITS_PERCENT_ONE / 200, "0.5%" },
		{ UNIT_COUNT, INT64_MAX, "9223372036854775807" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char text[UNITS_TEXT_MAX];
		cr_assert_str_eq(units_format(cases[i].kind, cases[i].value, text), cases[i].text);
	}
}

Test(units, every_value_written_is_read_back_as_it_was)
{
	static const enum unit_kind kinds[] = { UNIT_COUNT, UNIT_DURATION, UNIT_SIZE, UNIT_RATE,
						UNIT_PERCENT };
	uint64_t state = 1;
	for (int i = 0; i < 100000; i++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		int64_t value = (int64_t)((state >> 1) >> (i % 63));
		enum unit_kind kind = kinds[i % 5];
		char text[UNITS_TEXT_MAX];
		int64_t again = -1;
		units_format(kind, value, text);
		cr_assert_eq(parse(kind, text, &again), 0, "%s", text);
		cr_assert_eq(again, value, "%s", text);
	}
}
