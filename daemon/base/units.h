/* Quantities as people write them: 800ms, 256MiB, 200/s, 10%.
 *
 * Every kind is read into a whole number of its smallest step, so that ranges compare exactly and a
 * value is printed again as it would be written. A quantity is a decimal number directly followed
 * by its unit ("1.5GiB"); only a bare 0 may go without one. Stateless; any thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum unit_kind {
	UNIT_COUNT,    /* 40; in ones */
	UNIT_DURATION, /* 800ms, 10s, 5m, 2h, 7d; in microseconds */
	UNIT_SIZE,     /* 512B, 64KiB, 256MiB, 2GiB; in bytes */
	UNIT_RATE,     /* 200/s, 3/m; in 1/UNITS_RATE_ONE per second */
	UNIT_PERCENT,  /* 10%; in 1/UNITS_PERCENT_ONE of the whole */
	UNIT_FACTOR,   /* 1.5; in 1/UNITS_FACTOR_ONE */
};

enum {
	UNITS_RATE_ONE = 60000000,   /* 1/s, so that 1/m is whole too, to six decimals */
	UNITS_PERCENT_ONE = 1000000, /* 100% */
	UNITS_FACTOR_ONE = 1000,
	UNITS_TEXT_MAX = 32, /* bytes of a quantity as text, with its NUL */
};

#define UNITS_MS     INT64_C(1000)
#define UNITS_SECOND (1000 * UNITS_MS)
#define UNITS_MINUTE (60 * UNITS_SECOND)
#define UNITS_HOUR   (60 * UNITS_MINUTE)
#define UNITS_DAY    (24 * UNITS_HOUR)

#define UNITS_KIB INT64_C(1024)
#define UNITS_MIB (1024 * UNITS_KIB)
#define UNITS_GIB (1024 * UNITS_MIB)

/* Reads the `len` bytes at `text`, all of them, as a quantity of that kind. 0, or -EINVAL for what
 * is no such quantity (or finer than its smallest step), or -ERANGE for one over 2^63-1 steps. */
int units_parse(enum unit_kind kind, const char *text, size_t len, int64_t *ret_value)
	__attribute__((warn_unused_result));

/* Writes `value` (not negative) in the largest unit that needs no decimals; units_parse() reads it
 * back as the same value. Returns `buf`. */
const char *units_format(enum unit_kind kind, int64_t value, char buf[UNITS_TEXT_MAX]);
