/* The bulkhead: how many flights of this daemon may be on their way to the origin, and who is next.
 *
 * A flight that wants to build enters. Where there is no room, one with someone waiting joins a
 * bounded queue by priority, first in first out; background work is turned away. Nobody passes a
 * queue: free room is filled by bulkhead_next before newcomers find it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

/* X(NAME, name, what it is for), most urgent first */
#define PRIORITY_MAP(X)                                                                            \
	X(MISS, miss, "someone waits and has nothing")                                             \
	X(REFRESH, refresh, "a stale entry, or a refresh call")                                    \
	X(EARLY, early, "an entry that is still fresh")                                            \
	X(WARM, warm, "warm-up")

enum priority {
#define X(NAME, name, text) PRIORITY_##NAME,
	PRIORITY_MAP(X)
#undef X
};
enum {
#define X(NAME, name, text) +1
	PRIORITY_COUNT = 0 PRIORITY_MAP(X)
#undef X
};
const char *priority_name(enum priority priority);

struct bulkhead {
	uint32_t limit; /* flights inside at once */
	uint32_t inside;
	uint32_t queue_max; /* flights queued, per priority */
	uint32_t queued;
	struct list queues[PRIORITY_COUNT];
};

enum admission { ADMISSION_IN, ADMISSION_QUEUED, ADMISSION_FULL };

void bulkhead_init(struct bulkhead *bulkhead, uint32_t limit, uint32_t queue_max);

/* `link` joins a queue on ADMISSION_QUEUED. `patient`: may queue; otherwise in or turned away. */
enum admission bulkhead_enter(struct bulkhead *bulkhead, struct list_node *link,
			      enum priority priority, bool patient);

/* One that was in goes out. */
void bulkhead_leave(struct bulkhead *bulkhead);

/* Lets the most urgent queued one in, if there is room: its link, or NULL. */
struct list_node *bulkhead_next(struct bulkhead *bulkhead);

/* One that is queued gives up, or becomes more urgent (and goes to the end of that queue). */
void bulkhead_give_up(struct bulkhead *bulkhead, struct list_node *link, enum priority priority);
void bulkhead_raise(struct bulkhead *bulkhead, struct list_node *link, enum priority from,
		    enum priority to);
