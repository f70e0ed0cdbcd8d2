#include "base/units.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"

enum { DECIMALS_MAX = 6 };

struct unit {
	const char *suffix;
	int64_t steps;
};

/* Largest first; an empty slot ends each row. */
static const struct unit units[][6] = {
	[UNIT_COUNT] = { { "", 1 } },
	[UNIT_DURATION] = { { "d", UNITS_DAY },
			    { "h", UNITS_HOUR },
			    { "m", UNITS_MINUTE },
			    { "s", UNITS_SECOND },
			    { "ms", UNITS_MS } },
	[UNIT_SIZE] = { { "GiB", UNITS_GIB },
			{ "MiB", UNITS_MIB },
			{ "KiB", UNITS_KIB },
			{ "B", 1 } },
	[UNIT_RATE] = { { "/s", UNITS_RATE_ONE }, { "/m", UNITS_RATE_ONE / 60 } },
	[UNIT_PERCENT] = { { "%", UNITS_PERCENT_ONE / 100 } },
	[UNIT_FACTOR] = { { "", UNITS_FACTOR_ONE } },
};

static size_t digits_span(const char *text, size_t len)
{
	size_t n = 0;
	while (n < len && text[n] >= '0' && text[n] <= '9')
		n++;
	return n;
}

/* The `len` digits at `text`, or -ERANGE. */
static int digits_read(const char *text, size_t len, int64_t *ret)
{
	int64_t value = 0;
	for (size_t i = 0; i < len; i++)
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, text[i] - '0', &value))
			return -ERANGE;
	*ret = value;
	return 0;
}

static const struct unit *unit_find(enum unit_kind kind, const char *suffix, size_t len)
{
	for (const struct unit *unit = units[kind]; unit->suffix; unit++)
		if (strlen(unit->suffix) == len && memcmp(unit->suffix, suffix, len) == 0)
			return unit;
	return NULL;
}

/* The steps of 0.DIGITS units; -EINVAL where that is no whole number of them. */
static int fraction_read(const char *digits, size_t len, int64_t steps, int64_t *ret)
{
	if (len > DECIMALS_MAX)
		return -EINVAL;
	int64_t value = 0;
	int64_t divisor = 1;
	for (size_t i = 0; i < len; i++) {
		value = 10 * value + (digits[i] - '0');
		divisor *= 10;
	}
	static_assert(UNITS_DAY < INT64_MAX / 1000000, "the product below cannot overflow");
	if (value * steps % divisor != 0)
		return -EINVAL;
	*ret = value * steps / divisor;
	return 0;
}

int units_parse(enum unit_kind kind, const char *text, size_t len, int64_t *ret_value)
{
	if (len == 1 && text[0] == '0') {
		*ret_value = 0;
		return 0;
	}
	size_t whole_len = digits_span(text, len);
	size_t at = whole_len;
	size_t fraction_len = 0;
	if (at < len && text[at] == '.') {
		at++;
		fraction_len = digits_span(text + at, len - at);
		if (fraction_len == 0)
			return -EINVAL;
	}
	const struct unit *unit =
		unit_find(kind, text + at + fraction_len, len - at - fraction_len);
	if (whole_len == 0 || !unit)
		return -EINVAL;

	int64_t whole;
	int64_t fraction;
	int r = fraction_read(text + at, fraction_len, unit->steps, &fraction);
	if (r < 0)
		return r;
	r = digits_read(text, whole_len, &whole);
	if (r < 0)
		return r;
	if (__builtin_mul_overflow(whole, unit->steps, &whole) ||
	    __builtin_add_overflow(whole, fraction, &whole))
		return -ERANGE;
	*ret_value = whole;
	return 0;
}

/* "VALUE.DECIMALS" in a unit of `steps`, at most DECIMALS_MAX of them, without trailing zeros. */
static void format_decimals(const struct unit *unit, int64_t value, char buf[UNITS_TEXT_MAX])
{
	char digits[DECIMALS_MAX + 1];
	int64_t rest = value % unit->steps;
	int n = 0;
	while (rest != 0 && n < DECIMALS_MAX) {
		rest *= 10;
		digits[n++] = (char)('0' + rest / unit->steps);
		rest %= unit->steps;
	}
	digits[n] = '\0';
	snprintf(buf, UNITS_TEXT_MAX, "%" PRId64 ".%s%s", value / unit->steps, digits,
		 unit->suffix);
}

const char *units_format(enum unit_kind kind, int64_t value, char buf[UNITS_TEXT_MAX])
{
	CHECK(value >= 0);
	if (value == 0) {
		strcpy(buf, "0");
		return buf;
	}
	const struct unit *unit = units[kind];
	while (value % unit->steps != 0 && unit[1].suffix)
		unit++;
	if (value % unit->steps == 0)
		snprintf(buf, UNITS_TEXT_MAX, "%" PRId64 "%s", value / unit->steps, unit->suffix);
	else
		format_decimals(unit, value, buf);
	return buf;
}
