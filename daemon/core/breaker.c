#include "core/breaker.h"

#include "base/check.h"

bool breaker_admits(struct breaker *breaker, int64_t now_us)
{
	switch (breaker->state) {
	case BREAKER_CLOSED:
		return true;
	case BREAKER_PROBING:
		return false;
	case BREAKER_OPEN:
		if (now_us < breaker->open_until_us)
			return false;
		breaker->state = BREAKER_PROBING;
		return true;
	}
	return false;
}

void breaker_came_back(struct breaker *breaker)
{
	*breaker = (struct breaker){ .opened = breaker->opened };
}

void breaker_lost(struct breaker *breaker, int64_t now_us, struct rng *rng)
{
	/* Builds that were under way when the first one was lost say nothing new. */
	if (breaker->state == BREAKER_OPEN && now_us < breaker->open_until_us)
		return;
	if (breaker->losses++ == 0)
		return;
	int64_t length = BREAKER_FIRST_US;
	for (uint32_t i = 2; i < breaker->losses && length < BREAKER_MOST_US; i++)
		length *= 2;
	if (length > BREAKER_MOST_US)
		length = BREAKER_MOST_US;
	breaker->state = BREAKER_OPEN;
	breaker->opened++;
	breaker->open_until_us = now_us + rng_between(rng, length / 2, length);
}

void breaker_probe_void(struct breaker *breaker, int64_t now_us)
{
	if (breaker->state == BREAKER_PROBING) {
		breaker->state = BREAKER_OPEN;
		breaker->open_until_us = now_us;
	}
}
