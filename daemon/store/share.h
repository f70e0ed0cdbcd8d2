/* A daemon's own share of the fleet's budget, for when it is out of touch with the store.
 *
 * Each place has moments of its own, the same for all who can work them out:
 *
 *   (k * fleet + turn) / rate,   k = 0, 1, 2 …,   in seconds of the fleet clock
 *
 * where `turn` is the place's in an order that puts neighbours far apart. So the shares of many
 * interleave instead of clumping, and the fleet as a whole keeps to the rate, whatever part of it
 * is out of touch. Pure; any thread.
 */
#pragma once

#include <stdint.h>

/* What is given out of a budget: nine tenths, the rest is for jitter. Less where a place's turn
   comes less than once a second: then the shares of those out of touch, if these are unlucky ones,
   may clump all the same. */
double share_rate(double budget_per_s, uint32_t fleet);

/* The first moment of this place that is not before `from_us`. */
int64_t share_next_us(double rate_per_s, uint32_t fleet, uint32_t place, int64_t from_us);

/* A pace: a rate of its own beside the budget's, a statement each `interval_us`. When the next may
   start, by its record: in the past, it may now, and so far back the record counts that a few that
   came late are made up for. What is further ahead than it can be is from another clock or pace. */
int64_t share_pace(int64_t next_us, int64_t interval_us, int64_t now_us);

/* How many slots are this place's alone, at least one: place, place + fleet, … below concurrency.
   With fewer slots than places, some share one; the origin's locks sort that out. */
uint32_t share_slots(uint32_t concurrency, uint32_t fleet, uint32_t place);
uint32_t share_slot(uint32_t concurrency, uint32_t fleet, uint32_t place, uint32_t nth);
