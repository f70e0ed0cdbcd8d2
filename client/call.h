/* A question to the daemon, from the moment it is asked until its reply is taken.
 *
 *	QUEUED ──written──> SENT ──its response, its deadline, a lost connection──> DONE
 *	   ^                  │
 *	   └──lost, and may be repeated
 *
 * QUEUED waits for room in the socket, SENT for the daemon, DONE for segar_receive(). A call is in
 * exactly one of the three queues of its calls, and found there by its id.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "client/segar.h"

enum { CALL_BUCKETS = 1024, CALL_REPEATS_MAX = 2 };

enum call_state { CALL_QUEUED, CALL_SENT, CALL_DONE };
enum { CALL_STATES = CALL_DONE + 1 };

/* What the result of a call looks like. */
enum call_shape { CALL_ANY, CALL_RESULT, CALL_RESULTS, CALL_REFRESHED };

struct call {
	TAILQ_ENTRY(call) node;  /* in the queue of its state */
	LIST_ENTRY(call) bucket; /* in the bucket of its id */
	uint32_t id;
	enum call_state state;
	enum call_shape shape;
	size_t keys_count; /* CALL_RESULTS */
	bool repeatable;
	unsigned repeats;
	int64_t deadline_ms;
	segar_reply *reply; /* owned; when DONE */
	size_t written;     /* of the request's bytes, on this connection */
	size_t len;
	uint8_t request[];
};
TAILQ_HEAD(call_queue, call);
LIST_HEAD(call_bucket, call);

struct calls {
	struct call_queue queues[CALL_STATES];
	struct call_bucket buckets[CALL_BUCKETS];
	size_t count;
	uint32_t next_id;
};

void calls_init(struct calls *calls);

/* Frees all of them. */
void calls_close(struct calls *calls);

/* An id that no call has, and not 0. */
uint32_t calls_next_id(struct calls *calls);

/* Queues a call of that id and a copy of its request; what is not a parameter is zero. NULL if
 * there is no memory. */
struct call *calls_add(struct calls *calls, uint32_t id, const void *request, size_t len);

/* NULL if there is none of that id. */
struct call *calls_find(struct calls *calls, uint32_t id);

/* The call that has been in that state the longest, or NULL. */
struct call *calls_first(struct calls *calls, enum call_state state);

/* Moves a call that the daemon has been sent. */
void call_sent(struct calls *calls, struct call *call);

/* Ends a call; takes the reply. */
void call_done(struct calls *calls, struct call *call, segar_reply *reply);

/* Takes back all that went to a connection that is lost: what may be repeated is queued again,
 * before all else and in order; the rest is given to `on_lost`, which ends it. */
void calls_lost(struct calls *calls, void (*on_lost)(struct call *call, void *arg), void *arg);

/* Removes a call that is DONE and gives its reply, which is then the caller's. */
segar_reply *call_take(struct calls *calls, struct call *call);
