/* An errand: something that comes to a daemon at a moment.
 *
 * Whatever happens to a daemon is an errand: a timer that waits while the daemon is paused and is
 * dropped when it dies. So a pause loses nothing and a death everything, as with processes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "vtime.h"

struct node;
struct errand {
	struct timer timer;
	struct list_node pending; /* in node->errands, from set to run or drop */
	struct node *node;
	void (*run)(struct errand *errand);
	void (*drop)(struct errand *errand); /* the daemon died first; NULL: nothing to do */
	bool parked;                         /* due, but the daemon is paused */
};

/* Sets or resets an errand for a moment in true time; takes it back. */
void node_at(struct node *node, struct errand *errand, int64_t at_us,
	     void (*run)(struct errand *errand), void (*drop)(struct errand *errand));
void node_cancel(struct errand *errand);

/* The same, after all else that happens in that moment. */
void node_at_late(struct node *node, struct errand *errand, int64_t at_us,
		  void (*run)(struct errand *errand));

static inline bool errand_is_set(const struct errand *errand)
{
	return errand->node && errand->pending.next && list_linked(&errand->pending);
}
