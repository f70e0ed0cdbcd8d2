/* The fleet clock of a daemon without a store: this host's time of day at its start, carried on by
 * CLOCK_BOOTTIME, which neither steps nor stops while the host sleeps.
 */
#pragma once

#include <stdint.h>

struct clock {
	int64_t offset_us; /* of the time of day over CLOCK_BOOTTIME, at clock_init */
};

void clock_init(struct clock *clock);

/* µs since 1970. Does not go back. Any thread. */
int64_t clock_now_us(const struct clock *clock);
