/* The hot key's readers at one daemon: thousands of gets a second, most of which are equal.
 *
 * Why counting equals running. Between two events of a daemon its engine changes by nothing but the
 * lookups themselves, and what a lookup says then depends on the time alone, and only ever goes on:
 * fresh, early refresh to be drawn, drawn, due; fresh again; stale, to be retried; dead; or, where
 * trust is lost: a miss, stale, dead. Each of these ends by one comparison of the time with a
 * number that stands still, and none comes twice (of the two misses the entry's phase tells). So
 * where the first and the last of a row of arrivals are told the same, all between are, and a
 * lookup that is told so (a plain one) leaves nothing behind but numbers that count it. After each
 * event of the daemon the first arrival that is told something else, or is not plain, is found by
 * halving, with the daemon's own engine_lookup, whose traces are wiped out; it is run through the
 * pump at its own moment, after all else of that moment. Those before it are counted when the next
 * event comes: the first and the last are looked up in earnest, by the clock as it was at their
 * moments, and judged.
 *
 * Not plain is whatever has an effect or draws a number: a miss, a hit that starts a refresh, the
 * draw of an early refresh's moment (it depends on the hits so far) or chance, an arrival that sees
 * trust end. The daemon's clock may be read ahead and behind, as it is one line between two events.
 *
 * With scene->one_by_one every arrival is run through the pump at its own moment. `sim --compare`
 * plays seeds both ways: all that happens (the trace, line by line) and the state at the end of
 * each daemon's life must be the same.
 */
#pragma once

#include <stdint.h>

#include "core/request.h"
#include "errand.h"

enum { HOT_KEY = 0, HOT_WAITING_MAX = 20 };

struct hot {
	struct node *node;
	int64_t period_us; /* between two arrivals; 0: nobody asks */
	int64_t next_us;   /* the next arrival that is neither counted nor run, true time */
	struct errand ask; /* set for the next one that must be run */
	bool on;
	uint32_t waiting; /* readers whose request waits: the others go on asking */
	uint64_t hits;    /* by counting or running */
};

void hot_init(struct hot *hot, struct node *node);

/* Counts what has come before now. Call before anything touches the daemon. */
void hot_settle(struct node *node);

/* Finds the next arrival to be run. Call after anything has touched it. */
void hot_plan(struct node *node);

/* The daemon stops reading: arrivals from now on go nowhere. hot_plan takes up again. */
void hot_pause(struct node *node);
