#include "client/segar.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/call.h"
#include "client/link.h"
#include "client/reply.h"
#include "proto/method.h"
#include "proto/reader.h"
#include "proto/result.h"
#include "proto/rpc.h"

#define SOCKET_DEFAULT "/run/segar/segard.sock"

enum {
	PATH_MAX_LEN = 107, /* sun_path less its NUL */
	TIMEOUT_MS = 10000,
	TIMEOUT_MS_MAX = 1000000000,
	WAIT_MARGIN_MS = 2000, /* for the way there and back of a call that waits long */
	ATTEMPTS = 4,
	PAUSE_FIRST_MS = 20, /* between attempts; then four times as long each */
	BUSY_PAUSE_MS = 4,   /* while the daemon has more connections to accept than it may queue */
	AWAY_MS = 100,       /* how long a daemon that is away is not tried again */
	PARTS_MAX = 64,      /* requests in one write */
};

struct segar {
	char path[PATH_MAX_LEN + 1];
	struct link link;
	struct calls calls;
	struct wire_buf out; /* the request that is being encoded */
	int64_t timeout_ms;
	int attempts;
	int64_t away_until_ms; /* till then connecting ends with away_error at once */
	int away_error;        /* an errno */
	uint64_t random;
};

segar *segar_open(const char *socket_path)
{
	segar *c;

	if (!socket_path)
		socket_path = getenv("SEGAR_SOCKET");
	if (!socket_path || !*socket_path)
		socket_path = SOCKET_DEFAULT;
	if (strlen(socket_path) > PATH_MAX_LEN)
		return NULL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	strcpy(c->path, socket_path);
	link_init(&c->link);
	calls_init(&c->calls);
	wire_buf_init(&c->out, WIRE_REQUEST_MAX);
	c->timeout_ms = TIMEOUT_MS;
	c->attempts = ATTEMPTS;
	c->random = (uint64_t)link_now_ms() ^ (uint64_t)getpid() << 32 ^ (uint64_t)(uintptr_t)c;
	return c;
}

void segar_close(segar *c)
{
	if (!c)
		return;
	link_close(&c->link);
	calls_close(&c->calls);
	wire_buf_close(&c->out);
	free(c);
}

void segar_set_timeout(segar *c, int64_t timeout_ms)
{
	c->timeout_ms = timeout_ms;
}

void segar_set_attempts(segar *c, int attempts)
{
	c->attempts = attempts > 0 ? attempts : 1;
}

const char *segar_socket_path(const segar *c)
{
	return c->path;
}

size_t segar_pending(const segar *c)
{
	return c->calls.count;
}

/* --- connecting --- */

/* Half of it to all of it, so that clients which lost a daemon together don't come back together.
 */
static int64_t jittered(segar *c, int64_t ms)
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
static int connect_until(segar *c, int64_t deadline_ms)
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
static void give_up(segar *c, int error)
{
	struct call *call;

	while ((call = calls_first(&c->calls, CALL_QUEUED)))
		call_done(&c->calls, call,
			  reply_error(call->id, SEGAR_DISCONNECTED, "cannot connect to %s: %s",
				      c->path, strerror(error)));
}

/* Why a connection was dropped. */
struct loss {
	segar *c;
	int status;
	const char *text;
};

static void end_lost(struct call *call, void *arg)
{
	const struct loss *loss = arg;

	call_done(&loss->c->calls, call, reply_error(call->id, loss->status, "%s", loss->text));
}

static void drop(segar *c, int status, const char *text)
{
	struct loss loss = { c, status, text };

	link_close(&c->link);
	calls_lost(&c->calls, end_lost, &loss);
}

static void drop_lost(segar *c)
{
	drop(c, SEGAR_DISCONNECTED, "the connection was lost before the reply came");
}

/* --- the way of a call --- */

/* Ends the calls of one queue whose time is up. Returns how many, and lowers `earliest_ms` to the
 * earliest deadline of the others. */
static size_t expire_queue(segar *c, enum call_state state, int64_t now_ms, int64_t *earliest_ms)
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
static size_t expire(segar *c, int64_t *ret_earliest_ms)
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
static bool write_queued(segar *c)
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
static bool on_message(segar *c, struct link_message message)
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
static void read_replies(segar *c)
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

/* Does what there is to do, and waits for the socket or the earliest deadline if that is nothing.
 * Each round brings a call closer to its end. */
static void advance(segar *c)
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

void segar_flush(segar *c)
{
	if (!calls_first(&c->calls, CALL_QUEUED))
		return;
	if (!link_is_open(&c->link) &&
	    (link_now_ms() < c->away_until_ms || link_open(&c->link, c->path) != 0))
		return; /* segar_receive() will try harder */
	if (!write_queued(c))
		drop_lost(c);
}

segar_reply *segar_receive(segar *c, uint32_t id)
{
	for (;;) {
		struct call *call =
			id ? calls_find(&c->calls, id) : calls_first(&c->calls, CALL_DONE);

		if (call && call->state == CALL_DONE)
			return call_take(&c->calls, call);
		if (id ? !call : c->calls.count == 0)
			return NULL;
		advance(c);
	}
}

/* --- asking --- */

static int64_t deadline_of(const segar *c, const segar_options *options)
{
	int64_t timeout_ms = c->timeout_ms;

	if (options && options->timeout_ms != SEGAR_UNSET)
		timeout_ms = options->timeout_ms;
	else if (options && options->wait_ms > 0 && options->wait_ms < WIRE_WAIT_MS_MAX &&
		 options->wait_ms + WAIT_MARGIN_MS > timeout_ms)
		timeout_ms = options->wait_ms + WAIT_MARGIN_MS;
	return link_now_ms() + (timeout_ms < TIMEOUT_MS_MAX ? timeout_ms : TIMEOUT_MS_MAX);
}

/* Whether the method takes them is for the daemon to say: an option without effect would be worse
 * than an error. */
static void put_options(struct wire_buf *b, const segar_options *from)
{
	struct options options = options_unset();

	static_assert(SEGAR_UNSET == OPTION_UNSET, "segar.h and proto/method.h differ");
	options.wait_ms = from->wait_ms;
	options.max_stale_ms = from->max_stale_ms;
	options.min_version = from->min_version;
	options.if_older_ms = from->if_older_ms;
	if (from->hard)
		options.hard = 1;
	options_put(b, &options);
}

/* Begins a request in c->out. Returns its id, or 0 if too many are pending. */
static uint32_t begin_request(segar *c, const char *method, uint32_t params_count)
{
	uint32_t id;

	if (c->calls.count >= SEGAR_PENDING_MAX)
		return 0;
	id = calls_next_id(&c->calls);
	wire_buf_rewind(&c->out, 0);
	rpc_put_request(&c->out, id, method, params_count);
	return id;
}

/* Whether a method may be asked twice without harm. */
static bool is_repeatable(const char *name)
{
	const int method = method_from_name(name, strlen(name));

	return method >= 0 && method != METHOD_REFRESH && method != METHOD_INVALIDATE;
}

/* Queues what c->out holds. NULL if there is no memory. */
static struct call *end_request(segar *c, uint32_t id, const char *method,
				const segar_options *options)
{
	const bool failed = wire_buf_failed(&c->out);
	struct call *call = calls_add(&c->calls, id, c->out.data, failed ? 0 : c->out.len);

	if (!call)
		return NULL;
	call->repeatable = is_repeatable(method);
	call->deadline_ms = deadline_of(c, options);
	if (failed && c->out.no_memory)
		call_done(&c->calls, call, reply_error(id, SEGAR_NO_MEMORY, "out of memory"));
	else if (failed)
		call_done(&c->calls, call,
			  reply_error(id, SEGAR_TOO_LARGE, "the request is over %d bytes",
				      WIRE_REQUEST_MAX));
	return call;
}

static uint32_t send_key(segar *c, enum method method, enum call_shape shape, const char *key,
			 const segar_options *options)
{
	const uint32_t id = begin_request(c, method_name(method), options ? 2 : 1);
	struct call *call;

	if (!id)
		return 0;
	wire_buf_str(&c->out, key);
	if (options)
		put_options(&c->out, options);
	call = end_request(c, id, method_name(method), options);
	if (!call)
		return 0;
	call->shape = shape;
	return id;
}

uint32_t segar_send_get(segar *c, const char *key, const segar_options *options)
{
	return send_key(c, METHOD_GET, CALL_RESULT, key, options);
}

uint32_t segar_send_refresh(segar *c, const char *key, const segar_options *options)
{
	return send_key(c, METHOD_REFRESH, CALL_REFRESHED, key, options);
}

uint32_t segar_send_invalidate(segar *c, const char *key, const segar_options *options)
{
	return send_key(c, METHOD_INVALIDATE, CALL_ANY, key, options);
}

uint32_t segar_send_mget(segar *c, const char *const *keys, size_t count,
			 const segar_options *options)
{
	const uint32_t id = begin_request(c, "mget", options ? 2 : 1);
	struct call *call;

	if (!id)
		return 0;
	wire_buf_array(&c->out, (uint32_t)count);
	for (size_t i = 0; i < count; i++)
		wire_buf_str(&c->out, keys[i]);
	if (options)
		put_options(&c->out, options);
	call = end_request(c, id, "mget", options);
	if (!call)
		return 0;
	call->shape = CALL_RESULTS;
	call->keys_count = count;
	return id;
}

static bool holds_values(const void *bytes, size_t len, uint32_t count)
{
	struct reader reader;
	struct wire_span value;

	reader_init(&reader, bytes, len);
	/* Ends with the bytes, whatever the count claims. */
	while (count > 0 && reader_skip(&reader, &value))
		count--;
	return count == 0 && reader_at_end(&reader);
}

uint32_t segar_send_call(segar *c, const char *method, const void *params, size_t params_len,
			 uint32_t params_count, const segar_options *options)
{
	const uint32_t id = begin_request(c, method, params_count);
	const bool fit = holds_values(params, params_len, params_count);
	struct call *call;

	if (!id)
		return 0;
	if (fit)
		wire_buf_raw(&c->out, params, params_len);
	else
		wire_buf_rewind(&c->out, 0); /* nothing is sent: it would swallow what follows */
	call = end_request(c, id, method, options);
	if (call && !fit)
		call_done(&c->calls, call,
			  reply_error(id, SEGAR_BAD_REQUEST,
				      "the %zu bytes of params are not %u MessagePack values",
				      params_len, (unsigned)params_count));
	return call ? id : 0;
}

/* The reply to a call that was just queued, or that could not be. */
static segar_reply *reply_to(segar *c, uint32_t id)
{
	if (id)
		return segar_receive(c, id);
	if (c->calls.count >= SEGAR_PENDING_MAX)
		return reply_error(0, SEGAR_TOO_MANY, "%d calls are pending", SEGAR_PENDING_MAX);
	return reply_error(0, SEGAR_NO_MEMORY, "out of memory");
}

segar_reply *segar_get(segar *c, const char *key, const segar_options *options)
{
	return reply_to(c, segar_send_get(c, key, options));
}

segar_reply *segar_mget(segar *c, const char *const *keys, size_t count,
			const segar_options *options)
{
	return reply_to(c, segar_send_mget(c, keys, count, options));
}

segar_reply *segar_refresh(segar *c, const char *key, const segar_options *options)
{
	return reply_to(c, segar_send_refresh(c, key, options));
}

segar_reply *segar_invalidate(segar *c, const char *key, const segar_options *options)
{
	return reply_to(c, segar_send_invalidate(c, key, options));
}

segar_reply *segar_inspect(segar *c, const char *key, const segar_options *options)
{
	return reply_to(c, send_key(c, METHOD_INSPECT, CALL_ANY, key, options));
}

segar_reply *segar_call(segar *c, const char *method, const void *params, size_t params_len,
			uint32_t params_count, const segar_options *options)
{
	return reply_to(c, segar_send_call(c, method, params, params_len, params_count, options));
}

segar_reply *segar_ping(segar *c, const segar_options *options)
{
	return segar_call(c, "ping", NULL, 0, 0, options);
}
