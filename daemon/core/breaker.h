/* The breaker: after the origin was lost twice in a row, nobody builds until a single probe has
 * come back. Once says little: a connection of many can break, and its build is tried again.
 *
 *   CLOSED ── twice ──> OPEN ── its time is up: one may try ──> PROBING ── came back ──> CLOSED
 *                         ^───────────────── lost ───────────────┘
 *
 * The time grows with each loss, from BREAKER_FIRST_US to BREAKER_MOST_US, with jitter of a half.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"

enum { BREAKER_FIRST_US = 100 * 1000, BREAKER_MOST_US = 5 * 1000 * 1000 };

enum breaker_state { BREAKER_CLOSED, BREAKER_OPEN, BREAKER_PROBING };

struct breaker {
	enum breaker_state state;
	uint32_t losses; /* in a row */
	uint64_t opened; /* times, in all */
	int64_t open_until_us;
};

/* Whether one may try now; if the breaker was open, the caller is the probe and must report. */
bool breaker_admits(struct breaker *breaker, int64_t now_us);

void breaker_came_back(struct breaker *breaker);
void breaker_lost(struct breaker *breaker, int64_t now_us, struct rng *rng);

/* The probe ended without an answer about the origin: the next one may try at once. */
void breaker_probe_void(struct breaker *breaker, int64_t now_us);
