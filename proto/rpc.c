#include "proto/rpc.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "proto/utf8.h"

static enum rpc_verdict refuse(enum rpc_verdict verdict, const char *why, const char **ret_why)
{
	*ret_why = why;
	return verdict;
}

/* All that is left: the last element of a complete message, or what is inside it. */
static struct wire_span take_rest(struct reader *r)
{
	const struct wire_span rest = { (const char *)r->at, (size_t)(r->end - r->at) };

	r->at = r->end;
	return rest;
}

/* The method and the params, which a request and a notification have alike. NULL, or what's wrong.
 */
static const char *take_call(struct reader *r, struct rpc_message *message)
{
	if (!reader_text(r, &message->method))
		return "the method is not a string";
	if (!reader_array(r, &message->params_count))
		return "params is not an array";
	message->params = take_rest(r);
	return NULL;
}

static enum rpc_verdict parse_request(struct reader *r, uint32_t elements,
				      struct rpc_message *message, const char **ret_why)
{
	const char *why;

	if (elements < 2 || !reader_u32(r, &message->id))
		return refuse(RPC_BROKEN, "the id is not a u32", ret_why);
	if (elements != 4)
		return refuse(RPC_REFUSED, "a request has four elements", ret_why);
	why = take_call(r, message);
	return why ? refuse(RPC_REFUSED, why, ret_why) : RPC_PARSED;
}

static enum rpc_verdict parse_response(struct reader *r, uint32_t elements,
				       struct rpc_message *message, const char **ret_why)
{
	if (elements != 4)
		return refuse(RPC_BROKEN, "a response has four elements", ret_why);
	if (!reader_u32(r, &message->id))
		return refuse(RPC_BROKEN, "the id is not a u32", ret_why);
	if (!reader_skip(r, &message->error))
		return refuse(RPC_BROKEN, "the response is not whole", ret_why);
	message->result = take_rest(r);
	return RPC_PARSED;
}

static enum rpc_verdict parse_notification(struct reader *r, uint32_t elements,
					   struct rpc_message *message, const char **ret_why)
{
	const char *why;

	if (elements != 3)
		return refuse(RPC_BROKEN, "a notification has three elements", ret_why);
	why = take_call(r, message);
	return why ? refuse(RPC_BROKEN, why, ret_why) : RPC_PARSED;
}

enum rpc_verdict rpc_parse(const void *frame, size_t len, struct rpc_message *ret_message,
			   const char **ret_why)
{
	struct rpc_message message = { 0 };
	enum rpc_verdict ret;
	uint32_t elements, type;
	struct reader r;

	reader_init(&r, frame, len);
	if (!reader_array(&r, &elements))
		return refuse(RPC_BROKEN, "the message is not an array", ret_why);
	if (elements == 0 || !reader_u32(&r, &type) || type > RPC_NOTIFICATION)
		return refuse(RPC_BROKEN, "the message's type is not 0, 1 or 2", ret_why);
	message.type = (enum rpc_type)type;
	switch (message.type) {
	case RPC_REQUEST:
		ret = parse_request(&r, elements, &message, ret_why);
		break;
	case RPC_RESPONSE:
		ret = parse_response(&r, elements, &message, ret_why);
		break;
	case RPC_NOTIFICATION:
		ret = parse_notification(&r, elements, &message, ret_why);
		break;
	}
	if (ret != RPC_BROKEN)
		*ret_message = message;
	return ret;
}

bool rpc_peek_id(const void *data, size_t len, uint32_t *ret_id)
{
	uint32_t elements, type;
	struct reader r;

	reader_init(&r, data, len);
	return reader_array(&r, &elements) && elements == 4 && reader_u32(&r, &type) &&
	       type == RPC_REQUEST && reader_u32(&r, ret_id);
}

/* The head of a string that a client would choose: its length and where its bytes begin; NULL for
 * everything else. */
static const uint8_t *plain_str(const uint8_t *at, const uint8_t *end, size_t *ret_len)
{
	if (end - at < 3)
		return NULL; /* and no key is that short */
	if (*at >= 0xa0 && *at < 0xc0) {
		*ret_len = *at & 0x1f;
		return at + 1;
	}
	if (*at == 0xd9) {
		*ret_len = at[1];
		return at + 2;
	}
	if (*at == 0xda) {
		*ret_len = (size_t)at[1] << 8 | at[2];
		return at + 3;
	}
	return NULL;
}

/* As plain_str, of an unsigned number: what is behind it. */
static const uint8_t *plain_u32(const uint8_t *at, const uint8_t *end, uint32_t *ret_number)
{
	uint32_t four;
	uint16_t two;

	if (end - at < 5)
		return NULL; /* and no request ends that soon */
	switch (*at) {
	case 0xcc:
		*ret_number = at[1];
		return at + 2;
	case 0xcd:
		memcpy(&two, at + 1, sizeof(two));
		*ret_number = be16toh(two);
		return at + 3;
	case 0xce:
		memcpy(&four, at + 1, sizeof(four));
		*ret_number = be32toh(four);
		return at + 5;
	default:
		*ret_number = *at;
		return *at < 0x80 ? at + 1 : NULL;
	}
}

size_t rpc_parse_plain_get(const void *data, size_t len, uint32_t *ret_id,
			   struct wire_span *ret_key)
{
	static const uint8_t method[] = { 0xa3, 'g', 'e', 't' };
	const uint8_t *at = data, *end = at + len;
	bool options;
	uint32_t id;
	size_t key_len;

	if (len < 2 || at[0] != 0x94 || at[1] != RPC_REQUEST)
		return 0;
	at = plain_u32(at + 2, end, &id);
	if (!at || (size_t)(end - at) < sizeof(method) + 1 ||
	    memcmp(at, method, sizeof(method)) != 0)
		return 0;
	at += sizeof(method);
	if (*at != 0x91 && *at != 0x92)
		return 0;
	options = *at == 0x92;
	at = plain_str(at + 1, end, &key_len);
	if (!at || (size_t)(end - at) < key_len + options)
		return 0;
	if (options && at[key_len] != 0x80)
		return 0;
	*ret_id = id;
	*ret_key = (struct wire_span){ (const char *)at, key_len };
	return (size_t)(at - (const uint8_t *)data) + key_len + options;
}

/* What an error's text says at its end, in the way of RETRY_AFTER; -1 if it doesn't. */
#define RETRY_AFTER " retry_after_ms="

static int64_t told_retry_ms(struct wire_span text)
{
	const size_t mark_len = strlen(RETRY_AFTER);
	int64_t number = 0, unit = 1;
	size_t at = text.len;

	for (; at > 0 && text.data[at - 1] >= '0' && text.data[at - 1] <= '9'; unit *= 10) {
		if (text.len - at == 15)
			return -1;
		number += unit * (text.data[--at] - '0');
	}
	if (at == text.len || at < mark_len ||
	    memcmp(text.data + at - mark_len, RETRY_AFTER, mark_len) != 0)
		return -1;
	return number;
}

int rpc_read_error_text(struct wire_span all, struct wire_span *ret_text,
			int64_t *ret_retry_after_ms)
{
	const char *colon = all.len ? memchr(all.data, ':', all.len) : NULL;
	int status = colon ? status_from_name(all.data, (size_t)(colon - all.data)) : -1;
	size_t skip = 0;

	if (status == STATUS_OK)
		status = -1; /* no error says that */
	if (status >= 0) {
		skip = (size_t)(colon - all.data) + 1;
		if (skip < all.len && all.data[skip] == ' ')
			skip++;
	}
	*ret_text = (struct wire_span){ all.data + skip, all.len - skip };
	*ret_retry_after_ms = told_retry_ms(all);
	return status;
}

int rpc_read_error(struct wire_span error, struct wire_span *ret_text, int64_t *ret_retry_after_ms)
{
	struct wire_span all = { "", 0 }, skipped;
	uint32_t count = 0;
	struct reader r;

	reader_init(&r, error.data, error.len);
	/* Other servers send the bare text; it serves as well. */
	if (reader_array(&r, &count) && (count != 2 || !reader_skip(&r, &skipped)))
		count = 0;
	if (!reader_text(&r, &all))
		all = (struct wire_span){ "", 0 };
	return rpc_read_error_text(all, ret_text, ret_retry_after_ms);
}

void rpc_put_request(struct wire_buf *b, uint32_t id, const char *method, uint32_t params_count)
{
	wire_buf_array(b, 4);
	wire_buf_int(b, RPC_REQUEST);
	wire_buf_int(b, id);
	wire_buf_str(b, method);
	wire_buf_array(b, params_count);
}

void rpc_put_notification(struct wire_buf *b, const char *method, uint32_t params_count)
{
	wire_buf_array(b, 3);
	wire_buf_int(b, RPC_NOTIFICATION);
	wire_buf_str(b, method);
	wire_buf_array(b, params_count);
}

void rpc_put_response(struct wire_buf *b, uint32_t id)
{
	uint8_t *at = wire_buf_reserve(b, RESPONSE_HEAD_MAX), *const from = at;

	if (!at)
		return;
	*at++ = 0x94;
	*at++ = RPC_RESPONSE;
	at = mp_put_int(at, id);
	*at++ = 0xc0;
	b->len += (size_t)(at - from);
}

/* Any bytes as UTF-8 of at most WIRE_ERROR_TEXT_MAX bytes, on one line. Returns how many. */
static size_t clean_text(char *to, const char *text, size_t len)
{
	size_t at = 0;

	while (len > 0 && at < WIRE_ERROR_TEXT_MAX) {
		const size_t room = WIRE_ERROR_TEXT_MAX - at;
		size_t valid = utf8_valid_len(text, len < room ? len : room);

		memcpy(to + at, text, valid);
		at += valid;
		text += valid;
		len -= valid;
		if (len > 0 && at < WIRE_ERROR_TEXT_MAX) {
			to[at++] = '?';
			text++;
			len--;
		}
	}
	for (size_t i = 0; i < at; i++)
		if ((unsigned char)to[i] < ' ' || to[i] == 0x7f)
			to[i] = ' ';
	return at;
}

void rpc_put_error_text(struct wire_buf *b, enum status status, int64_t retry_after_ms,
			const char *text, size_t len)
{
	char all[64 + WIRE_ERROR_TEXT_MAX + 64];
	size_t at = (size_t)sprintf(all, "%s: ", status_name(status));

	at += clean_text(all + at, text, len);
	if (retry_after_ms >= 0)
		at += (size_t)sprintf(all + at, RETRY_AFTER "%" PRId64, retry_after_ms);
	wire_buf_str_len(b, all, at);
}

void rpc_put_error(struct wire_buf *b, uint32_t id, enum status status, int64_t retry_after_ms,
		   const char *text, size_t len)
{
	wire_buf_array(b, 4);
	wire_buf_int(b, RPC_RESPONSE);
	wire_buf_int(b, id);
	wire_buf_array(b, 2);
	wire_buf_int(b, 0);
	rpc_put_error_text(b, status, retry_after_ms, text, len);
	wire_buf_nil(b);
}
