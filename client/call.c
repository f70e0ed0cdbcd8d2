#include "client/call.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void calls_init(struct calls *calls)
{
	*calls = (struct calls){ .next_id = 1 };
	for (int i = 0; i < CALL_STATES; i++)
		TAILQ_INIT(&calls->queues[i]);
	for (int i = 0; i < CALL_BUCKETS; i++)
		LIST_INIT(&calls->buckets[i]);
}

static void remove_call(struct calls *calls, struct call *call)
{
	TAILQ_REMOVE(&calls->queues[call->state], call, node);
	LIST_REMOVE(call, bucket);
	assert(calls->count > 0);
	calls->count--;
}

void calls_close(struct calls *calls)
{
	for (int i = 0; i < CALL_STATES; i++) {
		struct call *call;

		while ((call = TAILQ_FIRST(&calls->queues[i]))) {
			remove_call(calls, call);
			segar_reply_free(call->reply);
			free(call);
		}
	}
}

uint32_t calls_next_id(struct calls *calls)
{
	while (calls->next_id == 0 || calls_find(calls, calls->next_id))
		calls->next_id++;
	return calls->next_id++;
}

struct call *calls_add(struct calls *calls, uint32_t id, const void *request, size_t len)
{
	struct call *call = calloc(1, sizeof(*call) + len);

	if (!call)
		return NULL;
	call->id = id;
	call->state = CALL_QUEUED;
	call->len = len;
	if (len > 0)
		memcpy(call->request, request, len);
	TAILQ_INSERT_TAIL(&calls->queues[CALL_QUEUED], call, node);
	LIST_INSERT_HEAD(&calls->buckets[id % CALL_BUCKETS], call, bucket);
	calls->count++;
	return call;
}

struct call *calls_find(struct calls *calls, uint32_t id)
{
	struct call *call;

	LIST_FOREACH(call, &calls->buckets[id % CALL_BUCKETS], bucket)
	if (call->id == id)
		return call;
	return NULL;
}

struct call *calls_first(struct calls *calls, enum call_state state)
{
	return TAILQ_FIRST(&calls->queues[state]);
}

/* The one place that changes a call's state. */
static void move(struct calls *calls, struct call *call, enum call_state state, bool to_front)
{
	static const bool allowed[CALL_STATES][CALL_STATES] = {
		[CALL_QUEUED] = { [CALL_SENT] = true, [CALL_DONE] = true },
		[CALL_SENT] = { [CALL_QUEUED] = true, [CALL_DONE] = true },
	};

	assert(allowed[call->state][state]);
	TAILQ_REMOVE(&calls->queues[call->state], call, node);
	call->state = state;
	if (to_front)
		TAILQ_INSERT_HEAD(&calls->queues[state], call, node);
	else
		TAILQ_INSERT_TAIL(&calls->queues[state], call, node);
}

void call_sent(struct calls *calls, struct call *call)
{
	assert(call->written == call->len);
	move(calls, call, CALL_SENT, false);
}

void call_done(struct calls *calls, struct call *call, segar_reply *reply)
{
	assert(reply && !call->reply);
	call->reply = reply;
	move(calls, call, CALL_DONE, false);
}

/* Whether it is worth another connection, of which it then uses up one. */
static bool may_repeat(struct call *call)
{
	const bool harmless = call->repeatable || call->written == 0;

	return harmless && call->repeats++ < CALL_REPEATS_MAX;
}

void calls_lost(struct calls *calls, void (*on_lost)(struct call *call, void *arg), void *arg)
{
	struct call *call = calls_first(calls, CALL_QUEUED), *before;

	/* Of those in the queue only the first can have been written in part; and if it was not,
	 * it must not go from one connection to the next without end. */
	if (call && !may_repeat(call))
		on_lost(call, arg);
	else if (call)
		call->written = 0;
	for (call = TAILQ_LAST(&calls->queues[CALL_SENT], call_queue); call; call = before) {
		before = TAILQ_PREV(call, call_queue, node);
		if (may_repeat(call)) {
			call->written = 0;
			move(calls, call, CALL_QUEUED, true);
		} else {
			on_lost(call, arg);
		}
	}
}

segar_reply *call_take(struct calls *calls, struct call *call)
{
	segar_reply *reply = call->reply;

	assert(call->state == CALL_DONE);
	remove_call(calls, call);
	free(call);
	return reply;
}
