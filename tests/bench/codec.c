#include "codec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/frame.h"
#include "proto/mp.h"
#include "proto/result.h"
#include "proto/rpc.h"

int protocol_from_name(const char *name)
{
	static const char *const names[] = { "segar", "classic", "meta", "redis", "echo" };

	for (int i = 0; i < (int)(sizeof(names) / sizeof(names[0])); i++)
		if (strcmp(names[i], name) == 0)
			return i;
	return -1;
}

void codec_digits(char *at, uint32_t key)
{
	for (int i = KEY_DIGITS; i > 0; i--, key /= 10)
		at[i - 1] = (char)('0' + key % 10);
}

/* ---- requests ---- */

static size_t put_segar(struct codec *codec, const char *prefix)
{
	const size_t key_len = strlen(prefix) + KEY_DIGITS;
	struct wire_buf b;

	wire_buf_wrap(&b, codec->request, 256);
	wire_buf_raw(&b, "\x94\x00", 2);
	codec->id_at = b.len + codec->wide_id;
	wire_buf_raw(&b, codec->wide_id ? "\xcd\0\0" : "\0", codec->wide_id ? 3 : 1);
	wire_buf_raw(&b, "\xa3get\x91", 5);
	wire_buf_str_len(&b, prefix, strlen(prefix));
	/* The same head, for the whole key. */
	b.len -= strlen(prefix) + (strlen(prefix) < 32 ? 1 : 2);
	if (key_len < 32)
		wire_buf_raw(&b, &(char){ (char)(0xa0 | key_len) }, 1);
	else
		wire_buf_raw(&b, (char[]){ (char)0xd9, (char)key_len }, 2);
	wire_buf_raw(&b, prefix, strlen(prefix));
	codec->digits_at = b.len;
	wire_buf_raw(&b, "0000000000", KEY_DIGITS);
	return b.len;
}

/* A request of memcached's or Redis': a key between two texts. */
static size_t put_text(struct codec *codec, const char *before, const char *prefix,
		       const char *after)
{
	codec->digits_at = strlen(before) + strlen(prefix);
	return (size_t)sprintf(codec->request, "%s%s0000000000%s", before, prefix, after);
}

/* What is set: the digits, then x's. */
static size_t put_body(struct codec *codec, size_t at)
{
	codec->body_at = at;
	memset(codec->request + at, 'x', codec->value_len);
	memcpy(codec->request + at + codec->value_len, "\r\n", 2);
	return at + codec->value_len + 2;
}

static size_t put_request(struct codec *codec, const char *prefix)
{
	const size_t key_len = strlen(prefix) + KEY_DIGITS;
	char text[128];
	size_t len = 0;

	switch (codec->protocol) {
	case PROTOCOL_SEGAR:
	case PROTOCOL_ECHO:
		return put_segar(codec, prefix);
	case PROTOCOL_CLASSIC:
	case PROTOCOL_META:
		if (!codec->fill && codec->protocol == PROTOCOL_META)
			return put_text(codec, "mg ", prefix, " v\r\n");
		if (!codec->fill)
			return put_text(codec, "get ", prefix, "\r\n");
		snprintf(text, sizeof(text), " 0 0 %zu\r\n", codec->value_len);
		len = put_text(codec, "set ", prefix, text);
		break;
	case PROTOCOL_REDIS:
		snprintf(text, sizeof(text), "*%d\r\n$3\r\n%s\r\n$%zu\r\n", codec->fill ? 3 : 2,
			 codec->fill ? "SET" : "GET", key_len);
		len = put_text(codec, text, prefix, "\r\n");
		if (codec->fill)
			len += (size_t)sprintf(codec->request + len, "$%zu\r\n", codec->value_len);
		break;
	}
	return codec->fill ? put_body(codec, len) : len;
}

/* What replies begin with, as far as they are all alike. */
static void expect(struct codec *codec, const char *prefix)
{
	char *head = codec->head;
	const size_t size = sizeof(codec->head);
	int len = 0;

	if (codec->fill && codec->protocol == PROTOCOL_REDIS)
		len = snprintf(head, size, "+OK\r\n");
	else if (codec->fill)
		len = snprintf(head, size, "STORED\r\n");
	else if (codec->protocol == PROTOCOL_CLASSIC)
		len = snprintf(head, size, "VALUE %s0000000000 0 %zu\r\n", prefix,
			       codec->value_len);
	else if (codec->protocol == PROTOCOL_META)
		len = snprintf(head, size, "VA %zu\r\n", codec->value_len);
	else if (codec->protocol == PROTOCOL_REDIS)
		len = snprintf(head, size, "$%zu\r\n", codec->value_len);
	codec->head_len = (size_t)len;
	if (!codec->fill) {
		codec->tail_len = codec->protocol == PROTOCOL_CLASSIC ? strlen("\r\nEND\r\n") : 2;
		if (codec->protocol == PROTOCOL_CLASSIC)
			codec->head_digits_at = strlen("VALUE ") + strlen(prefix);
	}
}

int codec_init(struct codec *codec, enum protocol protocol, bool fill, const char *prefix,
	       size_t value_len, uint32_t slots)
{
	*codec = (struct codec){
		.protocol = protocol, .fill = fill, .value_len = value_len, .wide_id = slots > 128
	};
	if (strlen(prefix) > 64)
		return -1;
	codec->request = malloc(512 + value_len);
	if (!codec->request)
		return -1;
	codec->request_len = put_request(codec, prefix);
	expect(codec, prefix);
	return 0;
}

void codec_close(struct codec *codec)
{
	free(codec->request);
	*codec = (struct codec){ 0 };
}

void codec_put(const struct codec *codec, char *at, uint32_t key, uint32_t slot)
{
	memcpy(at, codec->request, codec->request_len);
	codec_digits(at + codec->digits_at, key);
	if (codec->id_at && codec->wide_id)
		at[codec->id_at] = (char)(slot >> 8), at[codec->id_at + 1] = (char)slot;
	else if (codec->id_at)
		at[codec->id_at] = (char)slot;
	if (codec->body_at)
		memcpy(at + codec->body_at, at + codec->digits_at, KEY_DIGITS);
}

/* ---- replies ---- */

/* A line that is not the head that was hoped for. */
static enum reply_kind take_line(const struct codec *codec, const char *data, size_t len,
				 struct reply *ret_reply)
{
	const char *end = memchr(data, '\n', len);

	if (!end)
		return len < CODEC_HEAD_MAX ? REPLY_MORE : REPLY_BROKEN;
	*ret_reply = (struct reply){ .used = (size_t)(end + 1 - data) };
	if (codec->fill)
		return REPLY_ERROR;
	return *data == 'E' && end - data < 6 && data[1] == 'N' ? REPLY_MISS
	       : *data == '$' && data[1] == '-'                 ? REPLY_MISS
								: REPLY_ERROR;
}

static enum reply_kind take_in_order(const struct codec *codec, const char *data, size_t len,
				     uint32_t key, struct reply *ret_reply)
{
	const size_t digits_at = codec->head_digits_at;
	const size_t least = codec->head_len < len ? codec->head_len : len;
	char digits[KEY_DIGITS];

	if (digits_at == 0) {
		if (memcmp(data, codec->head, least) != 0)
			return take_line(codec, data, len, ret_reply);
	} else if (least > 5 && memcmp(data, codec->head, 5) != 0) {
		return take_line(codec, data, len, ret_reply);
	}
	if (len < codec->head_len + (codec->fill ? 0 : KEY_DIGITS))
		return digits_at > 0 && len < 6 ? take_line(codec, data, len, ret_reply)
						: REPLY_MORE;
	if (digits_at > 0) {
		codec_digits(digits, key);
		if (memcmp(data + digits_at, digits, KEY_DIGITS) != 0)
			return REPLY_BROKEN;
	}
	*ret_reply = (struct reply){ .used = codec->head_len };
	if (!codec->fill) {
		ret_reply->digits = data + codec->head_len;
		ret_reply->used += KEY_DIGITS;
		ret_reply->rest = codec->value_len - KEY_DIGITS + codec->tail_len;
	}
	return REPLY_FRESH;
}

static const uint8_t *take_id(const struct codec *codec, const uint8_t *at, uint32_t *ret_slot)
{
	if (*at < 128) {
		*ret_slot = *at;
		return at + 1;
	}
	if (codec->wide_id && *at == 0xcc) {
		*ret_slot = at[1];
		return at + 2;
	}
	*ret_slot = (uint32_t)at[1] << 8 | at[2];
	return codec->wide_id && *at == 0xcd ? at + 3 : NULL;
}

/* Past a number or nil. */
static inline const uint8_t *skip_number(const uint8_t *at)
{
	static const uint8_t more[] = { 1, 2, 4, 8, 1, 2, 4, 8 }; /* of 0xcc to 0xd3 */

	return *at >= 0xcc && *at <= 0xd3 ? at + 1 + more[*at - 0xcc] : at + 1;
}

/* Past a key that must be this one. */
static inline const uint8_t *skip_key(const uint8_t *at, const char *key, size_t len)
{
	return at && memcmp(at, key, len) == 0 ? at + len : NULL;
}
#define SKIP_KEY(at, key) skip_key(at, key, sizeof(key) - 1)

/* Past a short word or nil. */
static inline const uint8_t *skip_word(const uint8_t *at)
{
	return *at == 0xc0 ? at + 1 : at + 1 + (*at & 0x1f);
}

/* No head of a reply with a value is longer, up to the value's key. */
enum { VALUE_HEAD_MAX = 160 };

/* A reply with a value as this daemon writes it; NULL: it is something else. */
static const uint8_t *find_value(const struct codec *codec, const uint8_t *at, size_t *ret_len,
				 uint32_t *ret_slot, bool *ret_fresh)
{
	at = SKIP_KEY(at, "\x94\x01");
	at = at ? take_id(codec, at, ret_slot) : NULL;
	at = SKIP_KEY(at, "\xc0\x88\xa5state");
	if (!at)
		return NULL;
	*ret_fresh = memcmp(at,
			    "\xa5"
			    "fresh",
			    6) == 0;
	at = SKIP_KEY(skip_word(at), "\xa6reason");
	at = at ? SKIP_KEY(skip_word(at), "\xa6source") : NULL;
	at = at ? SKIP_KEY(skip_word(at), "\xa7version") : NULL;
	at = at ? SKIP_KEY(skip_number(at), "\xa6"
					    "age_ms")
		: NULL;
	at = at ? SKIP_KEY(skip_number(at), "\xa6ttl_ms") : NULL;
	at = at ? SKIP_KEY(skip_number(at), "\xa8stale_ms") : NULL;
	at = at ? SKIP_KEY(skip_number(at), "\xa5value") : NULL;
	if (!at || *at < 0xc4 || *at > 0xc6)
		return NULL;
	*ret_len = at[1];
	if (*at == 0xc4)
		return at + 2;
	*ret_len = *ret_len << 8 | at[2];
	if (*at == 0xc5)
		return at + 3;
	*ret_len = *ret_len << 16 | (size_t)at[3] << 8 | at[4];
	return at + 5;
}

/* Any other reply, once it is whole. */
static enum reply_kind take_any_segar(const char *data, size_t len, const struct codec *codec,
				      struct reply *ret_reply)
{
	struct frame_scan scan = { 0 };
	struct rpc_message message;
	struct result result;
	const char *why;
	size_t size;

	switch (frame_scan(&scan, data, len, WIRE_REPLY_MAX, &size, &why)) {
	case FRAME_MORE:
		return REPLY_MORE;
	case FRAME_BROKEN:
	case FRAME_TOO_LARGE:
		return REPLY_BROKEN;
	case FRAME_COMPLETE:
		break;
	}
	if (rpc_parse(data, size, &message, &why) != RPC_PARSED || message.type != RPC_RESPONSE)
		return REPLY_BROKEN;
	*ret_reply = (struct reply){ .used = size, .slot = message.id };
	if (!result_read(message.result, &result))
		return REPLY_ERROR;
	if (!result.has_value)
		return REPLY_MISS;
	if (result.value_len != codec->value_len)
		return REPLY_BROKEN;
	ret_reply->digits = result.value;
	return result.state == RESULT_FRESH ? REPLY_FRESH : REPLY_STALE;
}

static enum reply_kind take_segar(const struct codec *codec, const char *data, size_t len,
				  struct reply *ret_reply)
{
	const uint8_t *value;
	uint32_t slot = 0;
	size_t value_len = 0;
	bool fresh = false;

	if (len < VALUE_HEAD_MAX)
		return take_any_segar(data, len, codec, ret_reply);
	value = find_value(codec, (const uint8_t *)data, &value_len, &slot, &fresh);
	if (!value)
		return take_any_segar(data, len, codec, ret_reply);
	if (value_len != codec->value_len)
		return REPLY_BROKEN;
	*ret_reply = (struct reply){
		.used = (size_t)((const char *)value - data) + KEY_DIGITS,
		.rest = value_len - KEY_DIGITS,
		.slot = slot,
		.digits = (const char *)value,
	};
	return fresh ? REPLY_FRESH : REPLY_STALE;
}

enum reply_kind codec_take(const struct codec *codec, const char *data, size_t len, uint32_t key,
			   struct reply *ret_reply)
{
	switch (codec->protocol) {
	case PROTOCOL_SEGAR:
		return take_segar(codec, data, len, ret_reply);
	case PROTOCOL_ECHO:
		*ret_reply = (struct reply){ .used = 1, .rest = codec->value_len - 1 };
		return REPLY_FRESH;
	case PROTOCOL_CLASSIC:
	case PROTOCOL_META:
	case PROTOCOL_REDIS:
		break;
	}
	return take_in_order(codec, data, len, key, ret_reply);
}
