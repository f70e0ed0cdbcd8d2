#include "client/quantity.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* The factor of a unit, or 0. */
static double factor_of(enum quantity kind, const char *unit)
{
	static const struct {
		enum quantity kind;
		const char *unit;
		double factor;
	} units[] = {
		{ QUANTITY_RATE, "/s", 1 },         { QUANTITY_RATE, "/m", 1.0 / 60 },
		{ QUANTITY_DURATION, "ms", 0.001 }, { QUANTITY_DURATION, "s", 1 },
		{ QUANTITY_DURATION, "m", 60 },     { QUANTITY_DURATION, "h", 3600 },
		{ QUANTITY_DURATION, "d", 86400 },  { QUANTITY_COUNT, "", 1 },
		{ QUANTITY_PERCENT, "%", 0.01 },
	};

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (units[i].kind == kind && strcmp(units[i].unit, unit) == 0)
			return units[i].factor;
	return 0;
}

bool quantity_read(enum quantity kind, const char *text, double least, double most,
		   double *ret_number)
{
	const size_t digits = strspn(text, "0123456789.");
	char *end = NULL;
	double number = strtod(text, &end);

	/* strtod takes more than people mean */
	if (digits == 0 || end != text + digits || factor_of(kind, end) == 0)
		return false;
	number *= factor_of(kind, end);
	if (number < least || number > most || (kind == QUANTITY_COUNT && number != floor(number)))
		return false;
	*ret_number = number;
	return true;
}
