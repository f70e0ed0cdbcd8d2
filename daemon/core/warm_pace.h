/* How many statements of warm-ups this daemon has under way at once: few at first, more as long as
 * the origin does not feel it, fewer when it does.
 *
 * Additive increase, multiplicative decrease: Chiu, Jain, "Analysis of the increase and decrease
 * algorithms for congestion avoidance in computer networks", Computer Networks 17 (1989); that a
 * growing delay says so before anything fails is from Brakmo, O'Malley, Peterson, "TCP Vegas",
 * SIGCOMM 1994. The delay is what a statement of a keyspace takes against the least that its
 * statements took of late, so that slow queries are no sign of trouble by themselves.
 *
 * Pure; one owner.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { WARM_PACE_KINDS = 64 };

/* What statements take, of one keyspace and one size. */
struct warm_delay {
	int64_t least_us; /* grows slowly, so that what was once is forgotten; 0: unknown */
	int64_t smooth_us;
};

struct warm_pace {
	double window, most;
	uint32_t troubles; /* in a row */
	int64_t rest_until_us;
	struct warm_delay delays[WARM_PACE_KINDS];
};

/* At most `most` at once, at least one. */
void warm_pace_init(struct warm_pace *pace, uint32_t most);

/* Whether one more may begin, beside so many. */
bool warm_pace_admits(const struct warm_pace *pace, uint32_t under_way, int64_t now_us);

/* One ended well, or brought nothing. `kind`: any number that tells keyspaces and sizes apart. */
void warm_pace_went_well(struct warm_pace *pace, uint32_t kind, int64_t took_us, int64_t now_us);
void warm_pace_failed(struct warm_pace *pace, int64_t now_us);
