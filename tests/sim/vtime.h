/* Virtual time: one heap of timers for the whole world. Nothing happens but by a timer, and time
 * stands still while one fires. Moments are true time in µs; daemons' clocks derive from it.
 *
 * Timers of one moment fire in the order in which they were set, and after them the late ones by
 * their rank: so the order depends on nothing but what is set, and setting a late one changes
 * nothing of the others (hot.h needs that).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"

enum { MS = 1000, SECOND = 1000 * 1000 };

struct timer {
	struct heap_node node;
	void (*fire)(struct timer *timer); /* out of the heap by then: may set or free it */
};

struct vtime {
	int64_t now_us;
	struct heap timers;
	uint32_t sets; /* of timers that are not late */
	uint64_t steps;
};

/* Sets the timer, or sets it anew. A moment that has passed means: next. A late one fires after all
   others of its moment; the late ones of one moment must have ranks of their own. */
enum { VTIME_RANK_MAX = (1 << 26) - 1 };
void vtime_set(struct vtime *vtime, struct timer *timer, int64_t at_us,
	       void (*fire)(struct timer *timer));
void vtime_set_late(struct vtime *vtime, struct timer *timer, int64_t at_us, uint32_t rank,
		    void (*fire)(struct timer *timer));

/* The moment of a timer that is set. */
int64_t vtime_due(const struct timer *timer);

/* Takes the timer back, if it is set. A zeroed timer is not set. */
void vtime_cancel(struct vtime *vtime, struct timer *timer);

/* Fires the next timer that is due by `until_us`; if there is none, it is `until_us` now: false. */
bool vtime_step(struct vtime *vtime, int64_t until_us);
