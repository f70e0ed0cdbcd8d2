#include "vtime.h"

#include <stddef.h>

#include "base/check.h"

/* The heap's order, in one number: the moment, then the order of setting, then the late ones. That
   of setting starts over at times: two of one moment are never so many sets apart. */
enum { ORDER_BITS = 27, ORDER_LATE = 1 << 26 };
#define AT_MOST_US (INT64_MAX >> ORDER_BITS)

static void set(struct vtime *vtime, struct timer *timer, int64_t at_us, uint32_t order,
		void (*fire)(struct timer *timer))
{
	heap_remove(&vtime->timers, &timer->node);
	timer->fire = fire;
	if (at_us < vtime->now_us)
		at_us = vtime->now_us;
	CHECK(at_us < AT_MOST_US);
	heap_insert(&vtime->timers, &timer->node, (at_us << ORDER_BITS) + order);
}

void vtime_set(struct vtime *vtime, struct timer *timer, int64_t at_us,
	       void (*fire)(struct timer *timer))
{
	set(vtime, timer, at_us, vtime->sets++ & (ORDER_LATE - 1), fire);
}

void vtime_set_late(struct vtime *vtime, struct timer *timer, int64_t at_us, uint32_t rank,
		    void (*fire)(struct timer *timer))
{
	CHECK(rank <= VTIME_RANK_MAX);
	set(vtime, timer, at_us, ORDER_LATE + rank, fire);
}

int64_t vtime_due(const struct timer *timer)
{
	CHECK(timer->node.in_heap);
	return timer->node.at >> ORDER_BITS;
}

void vtime_cancel(struct vtime *vtime, struct timer *timer)
{
	heap_remove(&vtime->timers, &timer->node);
}

bool vtime_step(struct vtime *vtime, int64_t until_us)
{
	struct heap_node *next = heap_first(&vtime->timers);
	struct timer *timer = next ? container_of(next, struct timer, node) : NULL;
	if (!timer || vtime_due(timer) > until_us) {
		vtime->now_us = until_us;
		return false;
	}
	int64_t due_us = vtime_due(timer);
	CHECK(due_us >= vtime->now_us);
	heap_remove(&vtime->timers, next);
	vtime->now_us = due_us;
	vtime->steps++;
	timer->fire(timer);
	return true;
}
