/* A shared store with one behind it for the time when the shared one is away.
 *
 * Loads and leases go to the shared store; where it is away they are answered by this daemon's own
 * (store/memory.h), marked `away`. So a daemon cut off still builds each key once and remembers
 * what failed, and the core's way of a request stays one. A lease is renewed, saved and released
 * where it was taken. Permits are the shared store's alone: it knows the share of a daemon out of
 * touch.
 *
 * On the loop's thread.
 */
#pragma once

#include "core/store.h"

struct fallback {
	struct store shared; /* borrowed as long as the fallback */
	struct store own;
};

void fallback_init(struct fallback *fallback, const struct store *shared, const struct store *own);

/* The two as one; valid as long as `fallback` stays in place. */
struct store fallback_iface(struct fallback *fallback);
