/* The fleet clock: one time for all daemons, that of their Redis.
 *
 * Two clocks run here, both as offsets to the host's CLOCK_BOOTTIME, which counts suspended time
 * and which nobody sets:
 *
 *   now     what the daemon goes by: never goes back, never jumps; slewed towards the store's by at
 *           most 500 ppm
 *   store   the best guess of the store's clock: the sample of the last minute with the least
 *           round trip, older ones counting for less
 *
 * They are the same but for microseconds. They part when the store's clock jumps, or when the
 * daemon had to begin by the host's time of day and that was wrong: so moments that leave for the
 * store, or come from it, are translated. Until the first sample, now is the host's time of day.
 *
 * Pure: every function is told the local time, µs of CLOCK_BOOTTIME. One owner.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { FLEET_CLOCK_SAMPLES = 64 };

struct clock_sample {
	int64_t at_us;     /* local */
	int64_t offset_us; /* store = local + offset */
	int64_t rtt_us;
};

struct fleet_clock {
	int64_t offset_us;    /* now = local + offset */
	int64_t slewed_at_us; /* local */
	int64_t store_offset_us;
	int64_t rtt_us;      /* of the sample that it is from */
	int64_t heard_at_us; /* local, of the newest sample */
	bool in_touch;       /* there has been a sample */
	bool begun;          /* what now says is gone by: it must not jump any more */
	uint32_t next;       /* in samples: the one to be replaced */
	uint32_t count;
	struct clock_sample samples[FLEET_CLOCK_SAMPLES];
};

void fleet_clock_init(struct fleet_clock *clock, int64_t local_us, int64_t time_of_day_us);

/* From here on deadlines and ages go by it. */
void fleet_clock_begin(struct fleet_clock *clock);

/* Takes what the store's clock said between these two local moments. The first sample sets now,
   too, unless that has begun by the host's time of day: then they part. Returns by how much the
   store's clock has jumped since the last one: 0, or more than a second, either way. */
int64_t fleet_clock_sample(struct fleet_clock *clock, int64_t sent_us, int64_t received_us,
			   int64_t store_us);

/* A moment that the store's clock has passed by now, though little else; 0: never in touch. */
int64_t fleet_clock_passed(const struct fleet_clock *clock, int64_t local_us);

int64_t fleet_clock_now(struct fleet_clock *clock, int64_t local_us);

/* The store's clock. Only once in touch; before, it is now. */
int64_t fleet_clock_store(struct fleet_clock *clock, int64_t local_us);

/* Translates a moment of now into the store's, and back. */
int64_t fleet_clock_to_store(struct fleet_clock *clock, int64_t moment_us, int64_t local_us);
int64_t fleet_clock_from_store(struct fleet_clock *clock, int64_t moment_us, int64_t local_us);
