/* The bulkhead: how many flights of this daemon may be on their way to the origin, and who is next.
 *
 * A flight that wants to build enters. Where there is no room, one with someone waiting joins a
 * bounded queue by priority; background work is turned away. Nobody passes a queue: free room is
 * filled by bulkhead_next before newcomers find it.
 *
 * Within a priority the queue is fair between clients: each flight gets a start tag, one after its
 * client's last or the queue's own, whichever is later, and the least tag goes first. So who asks
 * for one key is served next to who asked for ten thousand. Source: Goyal, Vin, Cheng, "Start-time
 * fair queueing", SIGCOMM 1996, at equal costs; clients are told apart by a hash of their number
 * into SHARES, as in McKenney, "Stochastic fairness queueing", INFOCOM 1990. A client's flights may
 * fill the queue only as far as they leave as much room free: Choudhury, Hahne, "Dynamic queue
 * length thresholds for shared-memory packet switches", ToN 1998, alpha 1.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"

/* X(NAME, name, what it is for), most urgent first */
#define PRIORITY_MAP(X)                                                                            \
	X(CROWD, crowd, "many wait for one build, or would if it came late")                       \
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

enum { BULKHEAD_SHARES = 1024 };

/* A client's part of a queue. */
struct bulkhead_share {
	int64_t last_tag;
	uint32_t queued;
};

struct bulkhead_queue {
	struct heap tickets; /* by start tag */
	int64_t tag;         /* of the last that was let in */
	struct bulkhead_share shares[BULKHEAD_SHARES];
};

/* A flight's place in a queue, embedded in it; zeroed, it is in none. */
struct bulkhead_ticket {
	struct heap_node node;
	uint32_t share;
};

struct bulkhead {
	uint32_t limit; /* flights inside at once */
	uint32_t inside;
	uint32_t queue_max; /* flights queued, per priority */
	uint32_t queued;
	struct bulkhead_queue queues[PRIORITY_COUNT];
};

enum admission { ADMISSION_IN, ADMISSION_QUEUED, ADMISSION_FULL };

void bulkhead_init(struct bulkhead *bulkhead, uint32_t limit, uint32_t queue_max);

/* The ticket joins a queue on ADMISSION_QUEUED. `client`: any number that tells clients apart.
   `patient`: may queue; otherwise in or turned away. */
enum admission bulkhead_enter(struct bulkhead *bulkhead, struct bulkhead_ticket *ticket,
			      enum priority priority, uint32_t client, bool patient);

/* One that was in goes out. */
void bulkhead_leave(struct bulkhead *bulkhead);

/* Lets the next queued one in, if there is room: its ticket, or NULL. */
struct bulkhead_ticket *bulkhead_next(struct bulkhead *bulkhead);

/* Another client waits for a queued one too: its place is now the better one of the two. */
void bulkhead_join(struct bulkhead *bulkhead, struct bulkhead_ticket *ticket,
		   enum priority priority, uint32_t client);

/* One that is queued gives up, or becomes more urgent. */
void bulkhead_give_up(struct bulkhead *bulkhead, struct bulkhead_ticket *ticket,
		      enum priority priority);
void bulkhead_raise(struct bulkhead *bulkhead, struct bulkhead_ticket *ticket, enum priority from,
		    enum priority to);
