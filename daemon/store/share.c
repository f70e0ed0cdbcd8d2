#include "store/share.h"

#include <math.h>

#include "base/check.h"

enum { PACE_BURST_US = 200 * 1000 };

double share_rate(double budget_per_s, uint32_t fleet)
{
	double usual = 0.9 * budget_per_s;
	if (budget_per_s >= fleet)
		return usual;
	/* Less than one turn a second: of any second's turns, all may be of places out of touch, in
	   the worst case; usually they are as many as chance has it, give or take three standard
	   deviations. What either allows beside the share of those in touch: */
	double worst = fleet * (1 - sqrt(1 - usual / fleet));
	double root = (sqrt(2.25 + 4 * budget_per_s) - 1.5) / 2;
	double likely = root * root;
	return fmin(usual, fmax(worst, likely));
}

static uint32_t common_divisor(uint32_t a, uint32_t b)
{
	while (b) {
		uint32_t rest = a % b;
		a = b;
		b = rest;
	}
	return a;
}

/* The place's turn in a round. Neighbours are likely to be out of touch together, as the daemons of
   one rack: multiples of the golden section put them far apart (Knuth, TAOCP 3, 6.4). */
static uint32_t turn_of(uint32_t place, uint32_t fleet)
{
	uint32_t step = (uint32_t)(fleet * 0.6180339887498949);
	while (common_divisor(step, fleet) != 1)
		step++;
	return (uint32_t)((uint64_t)place * step % fleet);
}

int64_t share_next_us(double rate_per_s, uint32_t fleet, uint32_t place, int64_t from_us)
{
	CHECK(rate_per_s > 0 && place < fleet);
	/* Moments since 1970 stay under 2^49 at 100,000 a second: a double tells them apart. */
	uint32_t turn = turn_of(place, fleet);
	double round = floor(((double)from_us * 1e-6 * rate_per_s - turn) / fleet) - 1;
	int64_t at_us;
	do {
		at_us = (int64_t)((round * fleet + turn) * 1e6 / rate_per_s);
		round++;
	} while (at_us < from_us);
	return at_us;
}

int64_t share_pace(int64_t next_us, int64_t interval_us, int64_t now_us)
{
	int64_t burst_us = 2 * interval_us < PACE_BURST_US ? 2 * interval_us : PACE_BURST_US;
	if (next_us > now_us + interval_us)
		return now_us;
	return next_us > now_us - burst_us ? next_us : now_us - burst_us;
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
