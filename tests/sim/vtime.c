#include "vtime.h"

#include <stddef.h>

#include "base/check.h"

/* The heap's order: the moment, then the late ones. */
static void set(struct vtime *vtime, struct timer *timer, int64_t at_us, bool late,
		void (*fire)(struct timer *timer))
{
	heap_remove(&vtime->timers, &timer->node);
	timer->fire = fire;
	if (at_us < vtime->now_us)
		at_us = vtime->now_us;
	heap_insert(&vtime->timers, &timer->node, at_us * 2 + late);
}

void vtime_set(struct vtime *vtime, struct timer *timer, int64_t at_us,
	       void (*fire)(struct timer *timer))
{
	set(vtime, timer, at_us, false, fire);
}

void vtime_set_late(struct vtime *vtime, struct timer *timer, int64_t at_us,
		    void (*fire)(struct timer *timer))
{
	set(vtime, timer, at_us, true, fire);
}

void vtime_cancel(struct vtime *vtime, struct timer *timer)
{
	heap_remove(&vtime->timers, &timer->node);
}

bool vtime_step(struct vtime *vtime, int64_t until_us)
{
	struct heap_node *next = heap_first(&vtime->timers);
	if (!next || next->at / 2 > until_us) {
		vtime->now_us = until_us;
		return false;
	}
	CHECK(next->at / 2 >= vtime->now_us);
	heap_remove(&vtime->timers, next);
	vtime->now_us = next->at / 2;
	vtime->steps++;
	struct timer *timer = container_of(next, struct timer, node);
	timer->fire(timer);
	return true;
}
