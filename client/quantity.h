/* Amounts with their units as people write them on a command line: 1500/s, 400ms, 12, 10%. Pure. */
#pragma once

#include <stdbool.h>

enum quantity {
	QUANTITY_RATE,     /* a second: N/s, N/m */
	QUANTITY_DURATION, /* in seconds: ms, s, m, h, d */
	QUANTITY_COUNT,    /* whole, without a unit */
	QUANTITY_PERCENT,  /* as a share of 1 */
};

/* False, with `ret_number` untouched, if the text is none of that kind, or not from `least` to
 * `most`. No sign, blank, exponent or "inf". */
bool quantity_read(enum quantity kind, const char *text, double least, double most,
		   double *ret_number);
