#include "store/fleet_clock.h"

#include <stddef.h>

#include "base/check.h"

enum {
	SLEW_DIVISOR = 2000,        /* 500 ppm */
	DRIFT_DIVISOR = 10000,      /* two hosts' clocks part by at most 100 ppm */
	KEPT_US = 60 * 1000 * 1000, /* samples, for so long */
	JUMP_US = 1000 * 1000,      /* what is more cannot be drift */
};

void fleet_clock_init(struct fleet_clock *clock, int64_t local_us, int64_t time_of_day_us)
{
	*clock = (struct fleet_clock){ .slewed_at_us = local_us,
				       .offset_us = time_of_day_us - local_us };
	clock->store_offset_us = clock->offset_us;
}

void fleet_clock_begin(struct fleet_clock *clock)
{
	clock->begun = true;
}

/* How far off the sample may be by now. */
static int64_t error_of(const struct clock_sample *sample, int64_t local_us)
{
	return sample->rtt_us / 2 + (local_us - sample->at_us) / DRIFT_DIVISOR;
}

static void choose(struct fleet_clock *clock, int64_t local_us)
{
	const struct clock_sample *best = NULL;
	for (uint32_t i = 0; i < clock->count; i++) {
		const struct clock_sample *sample = &clock->samples[i];
		if (local_us - sample->at_us > KEPT_US)
			continue;
		if (!best || error_of(sample, local_us) < error_of(best, local_us))
			best = sample;
	}
	CHECK(best);
	clock->store_offset_us = best->offset_us;
	clock->rtt_us = best->rtt_us;
}

int64_t fleet_clock_sample(struct fleet_clock *clock, int64_t sent_us, int64_t received_us,
			   int64_t store_us)
{
	CHECK(sent_us <= received_us);
	struct clock_sample sample = { .at_us = received_us,
				       .rtt_us = received_us - sent_us,
				       .offset_us =
					       store_us - sent_us - (received_us - sent_us) / 2 };
	int64_t silence_us = received_us - clock->heard_at_us;
	int64_t jump_us = sample.offset_us - clock->store_offset_us;
	/* What was known may be off by as much as its own way took: the first is whatever came. */
	int64_t doubt_us =
		JUMP_US + sample.rtt_us / 2 + clock->rtt_us / 2 + 2 * silence_us / DRIFT_DIVISOR;
	bool jumped = clock->in_touch && (jump_us > doubt_us || jump_us < -doubt_us);

	fleet_clock_now(clock, received_us); /* what was slewed so far, by what was known then */
	if (jumped)
		clock->count = clock->next = 0;
	clock->samples[clock->next] = sample;
	clock->next = (clock->next + 1) % FLEET_CLOCK_SAMPLES;
	if (clock->count < FLEET_CLOCK_SAMPLES)
		clock->count++;
	clock->heard_at_us = received_us;
	choose(clock, received_us);
	if (!clock->in_touch && !clock->begun)
		clock->offset_us = clock->store_offset_us;
	clock->in_touch = true;
	return jumped ? jump_us : 0;
}

int64_t fleet_clock_now(struct fleet_clock *clock, int64_t local_us)
{
	int64_t steps = (local_us - clock->slewed_at_us) / SLEW_DIVISOR;
	if (steps > 0) {
		int64_t away = clock->store_offset_us - clock->offset_us;
		clock->slewed_at_us += steps * SLEW_DIVISOR;
		if (away > steps)
			away = steps;
		if (away < -steps)
			away = -steps;
		clock->offset_us += away;
	}
	return local_us + clock->offset_us;
}

int64_t fleet_clock_store(struct fleet_clock *clock, int64_t local_us)
{
	return local_us + clock->store_offset_us;
}

int64_t fleet_clock_passed(const struct fleet_clock *clock, int64_t local_us)
{
	if (!clock->in_touch)
		return 0;
	return local_us + clock->store_offset_us - clock->rtt_us -
	       2 * (local_us - clock->heard_at_us) / DRIFT_DIVISOR;
}

int64_t fleet_clock_to_store(struct fleet_clock *clock, int64_t moment_us, int64_t local_us)
{
	return moment_us - fleet_clock_now(clock, local_us) + fleet_clock_store(clock, local_us);
}

int64_t fleet_clock_from_store(struct fleet_clock *clock, int64_t moment_us, int64_t local_us)
{
	return moment_us - fleet_clock_store(clock, local_us) + fleet_clock_now(clock, local_us);
}
