#include "reply.h"

#include <stdbool.h>
#include <string.h>

struct cursor {
	const uint8_t *at, *end;
	enum { READS, WANTS_MORE, IS_BROKEN } how;
};

struct text {
	const char *bytes; /* NULL: nil */
	size_t len;
};

static const uint8_t *take(struct cursor *in, size_t len)
{
	const uint8_t *at = in->at;

	if (in->how == READS && (size_t)(in->end - in->at) < len)
		in->how = WANTS_MORE;
	if (in->how != READS)
		return NULL;
	in->at += len;
	return at;
}

static uint8_t take_byte(struct cursor *in)
{
	const uint8_t *at = take(in, 1);

	return at ? *at : 0;
}

static uint64_t take_big_endian(struct cursor *in, size_t len)
{
	const uint8_t *at = take(in, len);
	uint64_t number = 0;

	for (size_t i = 0; at && i < len; i++)
		number = number << 8 | at[i];
	return number;
}

static bool break_off(struct cursor *in)
{
	if (in->how == READS)
		in->how = IS_BROKEN;
	return false;
}

/* An integer; false: nil. */
static bool take_integer(struct cursor *in, int64_t *ret_number)
{
	const uint8_t head = take_byte(in);

	if (head < 0x80)
		*ret_number = head;
	else if (head >= 0xe0)
		*ret_number = (int8_t)head;
	else if (head >= 0xcc && head <= 0xcf)
		*ret_number = (int64_t)take_big_endian(in, (size_t)1 << (head - 0xcc));
	else if (head == 0xd0)
		*ret_number = (int8_t)take_big_endian(in, 1);
	else if (head == 0xd1)
		*ret_number = (int16_t)take_big_endian(in, 2);
	else if (head == 0xd2)
		*ret_number = (int32_t)take_big_endian(in, 4);
	else if (head == 0xd3)
		*ret_number = (int64_t)take_big_endian(in, 8);
	else
		return head == 0xc0 ? false : break_off(in);
	return true;
}

/* A string or binary, or nil. */
static struct text take_text(struct cursor *in)
{
	const uint8_t head = take_byte(in);
	size_t len = 0;

	if (head >= 0xa0 && head <= 0xbf)
		len = head & 0x1f;
	else if (head == 0xd9 || head == 0xc4)
		len = take_big_endian(in, 1);
	else if (head == 0xda || head == 0xc5)
		len = take_big_endian(in, 2);
	else if (head == 0xdb || head == 0xc6)
		len = take_big_endian(in, 4);
	else {
		if (head != 0xc0)
			break_off(in);
		return (struct text){ 0 };
	}
	return (struct text){ .bytes = (const char *)take(in, len), .len = len };
}

/* The count of an array (0x90, 0xdc, 0xdd) or a map (0x80, 0xde, 0xdf). */
static size_t take_count(struct cursor *in, uint8_t fix, uint8_t wide)
{
	const uint8_t head = take_byte(in);

	if ((head & 0xf0) == fix)
		return head & 0x0f;
	if (head == wide || head == wide + 1)
		return take_big_endian(in, head == wide ? 2 : 4);
	break_off(in);
	return 0;
}

/* 1 and up: the name's place in the list. */
static uint8_t number_of(struct text text, const char *const *names, size_t count)
{
	if (!text.bytes)
		return 0;
	for (size_t i = 0; i < count; i++)
		if (strlen(names[i]) == text.len && memcmp(names[i], text.bytes, text.len) == 0)
			return (uint8_t)(i + 1);
	return REPLY_NAME_UNKNOWN;
}
#define NUMBER_OF(text, ...)                                                                       \
	number_of(text, (const char *const[]){ __VA_ARGS__ },                                      \
		  sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

static void take_error(struct cursor *in, struct reply *reply)
{
	int64_t zero = -1;
	struct text text;
	const char *colon;

	if (take_count(in, 0x90, 0xdc) != 2 || !take_integer(in, &zero) || zero != 0)
		break_off(in);
	text = take_text(in);
	if (in->how != READS)
		return;
	colon = text.bytes ? memchr(text.bytes, ':', text.len) : NULL;
	text.len = colon ? (size_t)(colon - text.bytes) : 0;
	reply->error = colon ? NUMBER_OF(text, REPLY_ERRORS) : REPLY_NAME_UNKNOWN;
}

static void take_field(struct cursor *in, struct reply *reply)
{
	const struct text name = take_text(in);
	struct text value;

#define IS(word) (name.len == sizeof(word) - 1 && memcmp(name.bytes, word, sizeof(word) - 1) == 0)
	if (in->how != READS || !name.bytes)
		break_off(in);
	else if (IS("state"))
		reply->state = NUMBER_OF(take_text(in), REPLY_STATES);
	else if (IS("reason"))
		reply->reason = NUMBER_OF(take_text(in), REPLY_REASONS);
	else if (IS("source"))
		reply->source = NUMBER_OF(take_text(in), REPLY_SOURCES);
	else if (IS("version"))
		take_integer(in, &reply->version);
	else if (IS("age_ms"))
		take_integer(in, &reply->age_ms);
	else if (IS("ttl_ms"))
		take_integer(in, &reply->ttl_ms);
	else if (IS("stale_ms"))
		take_integer(in, &reply->stale_ms);
	else if (IS("value")) {
		value = take_text(in);
		reply->value = value.bytes;
		reply->value_len = value.len;
	} else
		break_off(in);
#undef IS
}

int reply_read(const uint8_t *data, size_t len, struct reply *ret_reply)
{
	struct cursor in = { .at = data, .end = data + len };
	struct reply reply = { .version = INT64_MIN };
	int64_t type = 0, id = -1;
	size_t fields;

	if (take_count(&in, 0x90, 0xdc) != 4 || !take_integer(&in, &type) || type != 1 ||
	    !take_integer(&in, &id) || id < 0 || id > UINT32_MAX)
		break_off(&in);
	reply.id = (uint32_t)id;
	if (in.how == READS && in.at < in.end && *in.at != 0xc0) {
		take_error(&in, &reply);
		if (take_byte(&in) != 0xc0)
			break_off(&in);
	} else {
		take_byte(&in);
		fields = take_count(&in, 0x80, 0xde);
		for (size_t i = 0; i < fields && in.how == READS; i++)
			take_field(&in, &reply);
	}
	if (in.how == WANTS_MORE)
		return 0;
	if (in.how == IS_BROKEN)
		return -1;
	*ret_reply = reply;
	return (int)(in.at - data);
}
