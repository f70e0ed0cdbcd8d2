/* When a fresh entry is refreshed early: XFetch, as one moment per entry.
 *
 * XFetch (Vattani, Chierichetti, Lowenstein, "Optimal probabilistic cache stampede prevention",
 * VLDB 2015) lets each request, x before expiry, refresh with probability exp(-x / (beta * delta)),
 * where delta is what a refresh costs. For requests that come at a rate r this is a Poisson process
 * whose first event can be drawn at once: its integrated rate r * beta * delta * exp(-x / (beta *
 * delta)) reaches E ~ Exp(1) at
 *
 *      x = beta * delta * (ln(r * beta * delta) - ln(E))
 *
 * before expiry; not positive: never. So the hot path compares with one moment and draws nothing.
 *
 * It is the first request after that moment which refreshes, and so it must not be long in coming:
 * by a thousand daemons that each see a request now and then, the moment would be used too late. An
 * entry with fewer than SCHEDULE_SPARSE requests in beta * delta takes its chance at each of them,
 * as XFetch says; that is few enough.
 * Pure functions; times in µs.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "core/entry.h"

/* Nobody draws earlier than so many times beta * delta before expiry: the chance of a refresh that
   early is below exp(-25) a request. */
enum { SCHEDULE_WINDOW = 25 };

enum { SCHEDULE_SPARSE = 16 };

/* Whether an entry that was hit `hits` times in `span_us` takes its chance at each hit. */
bool schedule_is_sparse(double beta, int64_t delta_us, uint64_t hits, int64_t span_us);

/* That chance: whether this hit refreshes it. */
bool schedule_chance(const struct entry *entry, double beta, int64_t delta_us, int64_t now_us,
		     struct rng *rng);

/* From when on the refresh's moment is drawn, at the first hit: fresh_until less the window, but
   not before half of the fresh time. fresh_until if there is no early refresh (beta or delta 0). */
int64_t schedule_draw_at(const struct entry *entry, double beta, int64_t delta_us);

/* The moment, drawn for an entry that was hit `hits` times in `span_us`; between now and
   fresh_until, which means none. */
int64_t schedule_draw(const struct entry *entry, double beta, int64_t delta_us, uint64_t hits,
		      int64_t span_us, int64_t now_us, struct rng *rng);

/* delta, smoothed: an exponentially weighted mean with weight 1/8 (as RFC 6298 does for round
   trips). 0 means unknown. */
int64_t schedule_smooth(int64_t delta_us, int64_t sample_us);
