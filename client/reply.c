#include "client/reply.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/result.h"

/* What the header says must be what is on the wire. */
#define X(number, NAME, name, text)                                                                \
	static_assert((int)SEGAR_##NAME == (int)STATUS_##NAME, "segar.h and proto/status.h "       \
							       "differ");
STATUS_MAP(X)
#undef X
#define X(NAME, name)                                                                              \
	static_assert((int)SEGAR_##NAME == (int)RESULT_##NAME, "segar.h and proto/result.h "       \
							       "differ");
RESULT_STATE_MAP(X)
#undef X
#define X(NAME, name)                                                                              \
	static_assert((int)SEGAR_REASON_##NAME == (int)RESULT_REASON_##NAME,                       \
		      "segar.h and proto/result.h differ");
RESULT_REASON_MAP(X)
#undef X
#define X(NAME, name)                                                                              \
	static_assert((int)SEGAR_SOURCE_##NAME == (int)RESULT_SOURCE_##NAME,                       \
		      "segar.h and proto/result.h differ");
RESULT_SOURCE_MAP(X)
#undef X

/* A reply, what keeps its bytes, and its results. */
struct owner {
	segar_reply reply; /* first: a reply is found to be its owner */
	void *memory;      /* owned: the message that it came in */
	segar_result results[];
};

static const char no_text[] = "";

/* Given where there is no memory for a reply, and never freed. */
static const segar_reply no_memory = {
	.status = SEGAR_NO_MEMORY,
	.error = "out of memory",
	.retry_after_ms = -1,
};

/* A NUL-terminated copy, to be freed by free_text. */
static const char *copy_text(struct wire_span text)
{
	char *copy = text.len ? strndup(text.data, text.len) : NULL;

	return copy ? copy : no_text;
}

static void free_text(const char *text)
{
	if (text != no_text)
		free((char *)text);
}

void segar_reply_free(segar_reply *reply)
{
	struct owner *owner = (struct owner *)reply;

	if (!reply || reply == &no_memory)
		return;
	for (size_t i = 0; i < reply->results_count; i++)
		free_text(owner->results[i].error);
	free_text(reply->error);
	free(owner->memory);
	free(owner);
}

static struct owner *create_owner(uint32_t id, size_t results_count)
{
	struct owner *owner = calloc(1, sizeof(*owner) + results_count * sizeof(owner->results[0]));

	if (!owner)
		return NULL;
	owner->reply = (segar_reply){ .id = id, .error = no_text, .retry_after_ms = -1 };
	for (size_t i = 0; i < results_count; i++)
		owner->results[i] = (segar_result){ .error = no_text, .retry_after_ms = -1 };
	owner->reply.results = results_count ? owner->results : NULL;
	owner->reply.results_count = results_count;
	return owner;
}

segar_reply *reply_error(uint32_t id, int status, const char *format, ...)
{
	struct owner *owner = create_owner(id, 0);
	char *text = NULL;
	va_list args;

	if (!owner)
		return (segar_reply *)&no_memory;
	va_start(args, format);
	if (vasprintf(&text, format, args) >= 0)
		owner->reply.error = text;
	va_end(args);
	owner->reply.status = status;
	return &owner->reply;
}

/* A newer daemon may have codes that we have no number for. */
static int known_status(int status)
{
	return status < 0 ? SEGAR_OTHER : status;
}

/* One item of an mget, or the result of a get. False if it is neither result nor error. */
static bool read_result(struct wire_span encoded, segar_result *to)
{
	struct result from;
	struct wire_span text;

	if (result_read_error(encoded, &text)) {
		to->status = known_status(rpc_read_error_text(text, &text, &to->retry_after_ms));
		to->error = copy_text(text);
		return true;
	}
	if (!result_read(encoded, &from))
		return false;
	to->state = (enum segar_state)from.state;
	to->reason = (enum segar_reason)from.reason;
	to->source = (enum segar_source)from.source;
	to->value = from.has_value ? from.value : NULL;
	to->value_len = from.has_value ? from.value_len : 0;
	to->has_version = from.has_version;
	to->version = from.version;
	to->age_ms = from.age_ms;
	to->ttl_ms = from.ttl_ms;
	to->stale_ms = from.stale_ms;
	return true;
}

static bool read_results(struct wire_span encoded, struct owner *owner)
{
	struct wire_span item;
	struct reader r;
	uint32_t count;

	reader_init(&r, encoded.data, encoded.len);
	if (!reader_array(&r, &count) || count != owner->reply.results_count)
		return false;
	for (uint32_t i = 0; i < count; i++)
		if (!reader_skip(&r, &item) || !read_result(item, &owner->results[i]))
			return false;
	return reader_at_end(&r);
}

static bool is_name(struct wire_span span, const char *name)
{
	return span.len == strlen(name) && memcmp(span.data, name, span.len) == 0;
}

/* {version, built, joined} or {queued, joined}, and whatever a newer daemon adds. */
static bool read_refreshed(struct wire_span encoded, segar_reply *reply)
{
	struct wire_span name, skipped;
	struct mp_value value;
	struct reader r;
	uint32_t pairs;

	reader_init(&r, encoded.data, encoded.len);
	if (!reader_map(&r, &pairs))
		return false;
	for (uint32_t i = 0; i < pairs; i++) {
		if (!reader_text(&r, &name) || !reader_peek(&r, &value) ||
		    !reader_skip(&r, &skipped))
			return false;
		if (is_name(name, "version") && value.type == MP_INT) {
			reply->has_version = 1;
			reply->version = value.number;
		} else if (value.type == MP_BOOL) {
			if (is_name(name, "built"))
				reply->built = value.boolean;
			else if (is_name(name, "joined"))
				reply->joined = value.boolean;
			else if (is_name(name, "queued"))
				reply->queued = value.boolean;
		}
	}
	return reader_at_end(&r);
}

static bool read_as(enum call_shape shape, struct wire_span encoded, struct owner *owner)
{
	switch (shape) {
	case CALL_ANY:
		return true;
	case CALL_RESULT:
		return read_result(encoded, &owner->results[0]);
	case CALL_RESULTS:
		return read_results(encoded, owner);
	case CALL_REFRESHED:
		return read_refreshed(encoded, &owner->reply);
	}
	return false;
}

/* A reply that turned out to be no good is given up for one that says so. */
static segar_reply *refuse(struct owner *owner, const struct call *call)
{
	segar_reply_free(&owner->reply);
	return reply_error(call->id, SEGAR_PROTOCOL, "the daemon's reply is not understood");
}

segar_reply *reply_create(const struct call *call, const struct rpc_message *response,
			  struct link_message message)
{
	const bool failed = response->error.len != 1 || (uint8_t)*response->error.data != 0xc0;
	const size_t results = failed                        ? 0
			       : call->shape == CALL_RESULT  ? 1
			       : call->shape == CALL_RESULTS ? call->keys_count
							     : 0;
	struct owner *owner = create_owner(call->id, results);
	struct wire_span text;

	if (!owner) {
		free(message.memory);
		return (segar_reply *)&no_memory;
	}
	owner->memory = message.memory;
	if (failed) {
		owner->reply.status = known_status(
			rpc_read_error(response->error, &text, &owner->reply.retry_after_ms));
		owner->reply.error = copy_text(text);
		return &owner->reply;
	}
	owner->reply.encoded = response->result.data;
	owner->reply.encoded_len = response->result.len;
	if (!read_as(call->shape, response->result, owner))
		return refuse(owner, call);
	return &owner->reply;
}
