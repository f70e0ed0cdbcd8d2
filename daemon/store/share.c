#include "store/share.h"

#include <math.h>

#include "base/check.h"

double share_rate(double budget_per_s, uint32_t fleet)
{
	return budget_per_s * (budget_per_s * 2 < fleet ? 0.8 : 0.9);
}

int64_t share_next_us(double rate_per_s, uint32_t fleet, uint32_t place, int64_t from_us)
{
	CHECK(rate_per_s > 0 && place < fleet);
	/* Turns since 1970 stay under 2^49 at 100,000 a second: a double tells them apart. */
	double turn = ceil((double)from_us * 1e-6 * rate_per_s);
	double round = ceil((turn - place) / fleet);
	int64_t at_us = (int64_t)ceil((round * fleet + place) * 1e6 / rate_per_s);
	return at_us < from_us ? from_us : at_us;
}

uint32_t share_slots(uint32_t concurrency, uint32_t fleet, uint32_t place)
{
	if (place >= concurrency)
		return 1;
	return (concurrency - place - 1) / fleet + 1;
}

uint32_t share_slot(uint32_t concurrency, uint32_t fleet, uint32_t place, uint32_t nth)
{
	CHECK(nth < share_slots(concurrency, fleet, place));
	return (place + nth * fleet) % concurrency;
}
