/* The hot key's readers at one daemon: thousands of gets a second, most of which are equal.
 *
 * Between two events of a daemon its engine does not change, and what a lookup says of a key then
 * changes with time in one direction only: fresh, stale, dead. So where the first and the last of a
 * row of arrivals are told the same, all between are. After each event of the daemon the first
 * arrival that will be told something else is found by halving, with the daemon's own
 * engine_lookup; those before it are counted when the next event comes, and the first and the last
 * of them are looked up in earnest, and judged. Each arrival that is not a plain hit is run.
 *
 * With scene->one_by_one every arrival is run through the pump at its own moment: a test holds the
 * two against each other.
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
