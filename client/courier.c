#include "client/courier.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/reply.h"
#include "proto/rpc.h"

enum {
	ATTEMPTS = 4,
	PAUSE_FIRST_MS = 20, /* between attempts; then four times as long each */
	BUSY_PAUSE_MS = 4,   /* while the daemon has more connections to accept than it may queue */
	AWAY_MS = 100,       /* how long a daemon that is away is not tried again */
	PARTS_MAX = 64,      /* requests in one write */
};

void courier_init(struct courier *c, const char *path)
{
	strcpy(c->path, path);
	link_init(&c->link);
	calls_init(&c->calls);
	c->attempts = ATTEMPTS;
	c->random = (uint64_t)link_now_ms() ^ (uint64_t)getpid() << 32 ^ (uint64_t)(uintptr_t)c;
}

void courier_close(struct courier *c)
{
	link_close(&c->link);
	calls_close(&c->calls);
}

/* --- connecting --- */

/* Half of it to all of it, so that clients which lost a daemon together don't come back together.
 */
static int64_t jittered(struct courier *c, int64_t ms)
{
	c->random = c->random * 6364136223846793005u + 1442695040888963407u;
	return ms - (int64_t)((c->random >> 33) % (uint64_t)(ms / 2 + 1));
}

/* Waits, unless that would take until the deadline. */
static bool pause_before(int64_t ms, int64_t deadline_ms)
{
	if (link_now_ms() + ms >= deadline_ms)
		return false;
	poll(NULL, 0, (int)ms);
	return true;
}

/* 0, or the errno of the last attempt. */
static int connect_until(struct courier *c, int64_t deadline_ms)
{
	int64_t pause_ms = PAUSE_FIRST_MS;
	int tried = 0, error;

	if (link_now_ms() < c->away_until_ms)
		return c->away_error;
	for (;;) {
		error = link_open(&c->link, c->path);
		if (error == 0)
			return 0;
		if (error == EAGAIN) {
			if (!pause_before(jittered(c, BUSY_PAUSE_MS), deadline_ms))
				return error;
			continue;
		}
		if (++tried >= c->attempts || !pause_before(jittered(c, pause_ms), deadline_ms))
			break;
		pause_ms *= 4;
	}
	c->away_until_ms = link_now_ms() + jittered(c, AWAY_MS);
	c->away_error = error;
	return error;
}

/* The daemon cannot be reached: so ends all that waits for it. */
static void give_up(struct courier *c, int error)
{
	struct call *call;

	while ((call = calls_first(&c->calls, CALL_QUEUED)))
		call_done(&c->calls, call,
			  reply_error(call->id, SEGAR_DISCONNECTED, "cannot connect to %s: %s",
				      c->path, strerror(error)));
}

/* Why a connection was dropped. */
struct loss {
	struct courier *c;
	int status;
	const char *text;
};

static void end_lost(struct call *call, void *arg)
{
	const struct loss *loss = arg;

	call_done(&loss->c->calls, call, reply_error(call->id, loss->status, "%s", loss->text));
}

static void drop(struct courier *c, int status, const char *text)
{
	struct loss loss = { c, status, text };

	link_close(&c->link);
	calls_lost(&c->calls, end_lost, &loss);
}

static void drop_lost(struct courier *c)
{
	drop(c, SEGAR_DISCONNECTED, "the connection was lost before the reply came");
}

/* --- the way of a call --- */

/* Ends the calls of one queue whose time is up. Returns how many, and lowers `earliest_ms` to the
 * earliest deadline of the others. */
static size_t expire_queue(struct courier *c, enum call_state state, int64_t now_ms,
			   int64_t *earliest_ms)
{
	struct call *call = calls_first(&c->calls, state), *next;
	size_t expired = 0;

	for (; call; call = next) {
		next = TAILQ_NEXT(call, node);
		if (call->deadline_ms > now_ms) {
			if (call->deadline_ms < *earliest_ms)
				*earliest_ms = call->deadline_ms;
			continue;
		}
		call_done(&c->calls, call,
			  reply_error(call->id, SEGAR_NO_REPLY, "no reply before the deadline"));
		expired++;
	}
	return expired;
}

/* As expire_queue, of all that wait. */
static size_t expire(struct courier *c, int64_t *ret_earliest_ms)
{
	const struct call *head = calls_first(&c->calls, CALL_QUEUED);
	const bool half_written = head && head->written > 0;
	const int64_t now_ms = link_now_ms();
	size_t expired;

	*ret_earliest_ms = INT64_MAX;
	expired = expire_queue(c, CALL_QUEUED, now_ms, ret_earliest_ms);
	/* Half a request cannot be taken back but with its connection. */
	if (half_written && calls_first(&c->calls, CALL_QUEUED) != head)
		drop_lost(c);
	return expired + expire_queue(c, CALL_SENT, now_ms, ret_earliest_ms);
}

/* Writes what is queued, as far as there is room. False if the connection is lost. */
static bool write_queued(struct courier *c)
{
	struct iovec parts[PARTS_MAX];
	struct call *call;
	ssize_t written;
	int count;

	while (calls_first(&c->calls, CALL_QUEUED)) {
		count = 0;
		TAILQ_FOREACH(call, &c->calls.queues[CALL_QUEUED], node)
		{
			if (count == PARTS_MAX)
				break;
			parts[count++] = (struct iovec){ call->request + call->written,
							 call->len - call->written };
		}
		written = link_write(&c->link, parts, count);
		if (written <= 0)
			return written == 0;
		while (written > 0) {
			size_t part;

			call = calls_first(&c->calls, CALL_QUEUED);
			part = call->len - call->written;
			if (part > (size_t)written)
				part = (size_t)written;
			call->written += part;
			written -= (ssize_t)part;
			if (call->written == call->len)
				call_sent(&c->calls, call);
		}
	}
	return true;
}

/* Gives a message to the call that it answers. False if it is none that a daemon would send. */
static bool on_message(struct courier *c, struct link_message message)
{
	struct rpc_message response;
	struct call *call;
	const char *why;

	if (rpc_parse(message.data, message.len, &response, &why) != RPC_PARSED ||
	    response.type == RPC_REQUEST) {
		free(message.memory);
		return false;
	}
	call = response.type == RPC_RESPONSE ? calls_find(&c->calls, response.id) : NULL;
	if (!call || call->state != CALL_SENT) {
		free(message.memory); /* too late, or a notification */
		return true;
	}
	call_done(&c->calls, call, reply_create(call, &response, message));
	return true;
}

/* Reads once, and takes all messages that are whole. */
static void read_replies(struct courier *c)
{
	struct link_message message;
	enum link_verdict verdict = link_read(&c->link);
	const char *why;

	while (verdict == LINK_MESSAGE) {
		verdict = link_take(&c->link, &message, &why);
		if (verdict == LINK_MESSAGE && !on_message(c, message))
			verdict = LINK_BROKEN;
	}
	switch (verdict) {
	case LINK_MESSAGE:
	case LINK_NOTHING:
		break;
	case LINK_LOST:
		drop_lost(c);
		break;
	case LINK_BROKEN:
		drop(c, SEGAR_PROTOCOL, "what answers at the socket is not segard");
		break;
	case LINK_NO_MEMORY:
		drop(c, SEGAR_NO_MEMORY, "out of memory");
		break;
	}
}

void courier_advance(struct courier *c)
{
	int64_t until_ms;
	int error;

	if (expire(c, &until_ms) > 0)
		return;
	if (!link_is_open(&c->link)) {
		error = connect_until(c, until_ms);
		if (error) {
			give_up(c, error);
			return;
		}
	}
	if (!write_queued(c)) {
		drop_lost(c);
		return;
	}
	if (link_wait(&c->link, calls_first(&c->calls, CALL_QUEUED) != NULL, until_ms))
		read_replies(c);
}

void courier_flush(struct courier *c)
{
	if (!calls_first(&c->calls, CALL_QUEUED))
		return;
	if (!link_is_open(&c->link) &&
	    (link_now_ms() < c->away_until_ms || link_open(&c->link, c->path) != 0))
		return; /* courier_advance() will try harder */
	if (!write_queued(c))
		drop_lost(c);
}
