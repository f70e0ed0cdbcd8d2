#include "client/segar.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "client/courier.h"
#include "client/reply.h"
#include "proto/method.h"
#include "proto/reader.h"
#include "proto/result.h"
#include "proto/rpc.h"

#define SOCKET_DEFAULT "/run/segar/segard.sock"

enum {
	TIMEOUT_MS = 10000,
	TIMEOUT_MS_MAX = 1000000000,
	WAIT_MARGIN_MS = 2000, /* for the way there and back of a call that waits long */
};

struct segar {
	struct courier courier;
	struct wire_buf out; /* the request that is being encoded */
	int64_t timeout_ms;
};

segar *segar_open(const char *socket_path)
{
	segar *c;

	if (!socket_path)
		socket_path = getenv("SEGAR_SOCKET");
	if (!socket_path || !*socket_path)
		socket_path = SOCKET_DEFAULT;
	if (strlen(socket_path) > COURIER_PATH_MAX)
		return NULL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	courier_init(&c->courier, socket_path);
	wire_buf_init(&c->out, WIRE_REQUEST_MAX);
	c->timeout_ms = TIMEOUT_MS;
	return c;
}

void segar_close(segar *c)
{
	if (!c)
		return;
	courier_close(&c->courier);
	wire_buf_close(&c->out);
	free(c);
}

void segar_set_timeout(segar *c, int64_t timeout_ms)
{
	c->timeout_ms = timeout_ms;
}

void segar_set_attempts(segar *c, int attempts)
{
	c->courier.attempts = attempts > 0 ? attempts : 1;
}

const char *segar_socket_path(const segar *c)
{
	return c->courier.path;
}

size_t segar_pending(const segar *c)
{
	return c->courier.calls.count;
}

void segar_flush(segar *c)
{
	courier_flush(&c->courier);
}

segar_reply *segar_receive(segar *c, uint32_t id)
{
	for (;;) {
		struct call *call = id ? calls_find(&c->courier.calls, id)
				       : calls_first(&c->courier.calls, CALL_DONE);

		if (call && call->state == CALL_DONE)
			return call_take(&c->courier.calls, call);
		if (id ? !call : c->courier.calls.count == 0)
			return NULL;
		courier_advance(&c->courier);
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
	if (from->trace) {
		options.trace = 1;
		options.trace_text = (struct wire_span){ from->trace, strlen(from->trace) };
	}
	options_put(b, &options);
}

/* Begins a request in c->out. Returns its id, or 0 if too many are pending. */
static uint32_t begin_request(segar *c, const char *method, uint32_t params_count)
{
	uint32_t id;

	if (c->courier.calls.count >= SEGAR_PENDING_MAX)
		return 0;
	id = calls_next_id(&c->courier.calls);
	wire_buf_rewind(&c->out, 0);
	rpc_put_request(&c->out, id, method, params_count);
	return id;
}

/* Whether a method may be asked twice without harm. */
static bool is_repeatable(const char *name)
{
	const int method = method_from_name(name, strlen(name));

	return method >= 0 && method != METHOD_REFRESH && method != METHOD_INVALIDATE &&
	       method != METHOD_TRACE;
}

/* Queues what c->out holds. NULL if there is no memory. */
static struct call *end_request(segar *c, uint32_t id, const char *method,
				const segar_options *options)
{
	const bool failed = wire_buf_failed(&c->out);
	struct call *call = calls_add(&c->courier.calls, id, c->out.data, failed ? 0 : c->out.len);

	if (!call)
		return NULL;
	call->repeatable = is_repeatable(method);
	call->deadline_ms = deadline_of(c, options);
	if (failed && c->out.no_memory)
		call_done(&c->courier.calls, call,
			  reply_error(id, SEGAR_NO_MEMORY, "out of memory"));
	else if (failed)
		call_done(&c->courier.calls, call,
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
		call_done(&c->courier.calls, call,
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
	if (c->courier.calls.count >= SEGAR_PENDING_MAX)
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
