#include "ops/clock.h"

#include <time.h>

static int64_t read_us(clockid_t id)
{
	struct timespec ts;
	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

void clock_init(struct clock *clock)
{
	clock->offset_us = read_us(CLOCK_REALTIME) - read_us(CLOCK_BOOTTIME);
}

int64_t clock_now_us(const struct clock *clock)
{
	return clock->offset_us + read_us(CLOCK_BOOTTIME);
}
