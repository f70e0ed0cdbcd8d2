#include "origin/canonical.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "origin/types.h"
#include "proto/key.h"

static_assert((int)CANONICAL_ROOM >= (int)KEY_ARGS_ROOM, "whatever key comes has room");
static_assert((int)KEY_ARGS_MAX == (int)WIRE_KEY_ARGS_MAX, "whatever key comes has room");

void arguments_decode(struct arguments *arguments, const char *key, size_t len)
{
	arguments->count = key_args(key, len, arguments->room, arguments->args);
	CHECK(arguments->count <= KEY_ARGS_MAX);
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Whether `digits` is a plain decimal of at most `max`, itself a plain decimal: for such, shorter
 * is smaller and equal lengths compare as text. */
static bool is_decimal(const char *digits, const char *max)
{
	size_t len = strspn(digits, "0123456789");
	size_t max_len = strlen(max);

	if (len == 0 || digits[len] || (digits[0] == '0' && len > 1))
		return false;
	return len < max_len || (len == max_len && strcmp(digits, max) <= 0);
}

/* `max` and `min` without its sign. */
static bool is_integer(const char *arg, const char *max, const char *min)
{
	if (arg[0] != '-')
		return is_decimal(arg, max);
	return arg[1] != '0' && is_decimal(arg + 1, min);
}

static bool is_uuid(const char *arg)
{
	static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

	for (size_t i = 0; i < sizeof(form); i++) {
		bool hex = is_digit(arg[i]) || (arg[i] >= 'a' && arg[i] <= 'f');
		if (form[i] == 'x' ? !hex : arg[i] != form[i])
			return false;
	}
	return true;
}

static bool is_boolean(const char *arg)
{
	return !strcmp(arg, "true") || !strcmp(arg, "false");
}

static int month_days(int year, int month)
{
	static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

	return days[month - 1] + (month == 2 && leap);
}

/* Years 1 to 9999: the others have spellings that nobody keys by. */
static bool is_date(const char *arg)
{
	static const char form[] = "dddd-dd-dd";
	int year, month, day;

	if (!strcmp(arg, "infinity") || !strcmp(arg, "-infinity"))
		return true;
	for (size_t i = 0; i < sizeof(form); i++)
		if (form[i] == 'd' ? !is_digit(arg[i]) : arg[i] != form[i])
			return false;
	if (sscanf(arg, "%4d-%2d-%2d", &year, &month, &day) != 3)
		return false;
	return year >= 1 && month >= 1 && month <= 12 && day >= 1 && day <= month_days(year, month);
}

const char *canonical_expected(uint32_t type_oid, const char *arg)
{
	switch (type_oid) {
	case PG_TYPE_INT2:
		return is_integer(arg, "32767", "32768") ? NULL : "a smallint in plain decimal";
	case PG_TYPE_INT4:
		return is_integer(arg, "2147483647", "2147483648") ? NULL
								   : "an integer in plain decimal";
	case PG_TYPE_INT8:
		return is_integer(arg, "9223372036854775807", "9223372036854775808")
			       ? NULL
			       : "a bigint in plain decimal";
	case PG_TYPE_OID:
		return is_decimal(arg, "4294967295") ? NULL : "an oid in plain decimal";
	case PG_TYPE_UUID:
		return is_uuid(arg) ? NULL : "a uuid in lower case with four hyphens";
	case PG_TYPE_BOOL:
		return is_boolean(arg) ? NULL : "true or false";
	case PG_TYPE_DATE:
		return is_date(arg) ? NULL : "a date as YYYY-MM-DD";
	}
	return NULL;
}

bool arguments_fit(const struct arguments *arguments, const char *keyspace,
		   const uint32_t *param_types, unsigned params_count, char *text, size_t text_size)
{
	if (arguments->count != params_count) {
		snprintf(text, text_size, "%s takes %u argument%s, got %u", keyspace, params_count,
			 params_count == 1 ? "" : "s", arguments->count);
		return false;
	}
	for (unsigned i = 0; i < params_count; i++) {
		const char *expected = canonical_expected(param_types[i], arguments->args[i]);
		if (expected) {
			snprintf(text, text_size, "argument %u of %s must be %s", i + 1, keyspace,
				 expected);
			return false;
		}
	}
	return true;
}
