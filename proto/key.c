#include "proto/key.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "proto/utf8.h"

/* A canonical text that is being written. */
struct draft {
	char *text; /* KEY_TEXT_MAX bytes, borrowed */
	size_t len;
	size_t decoded; /* bytes of arguments so far */
	unsigned args_count;
};

static bool is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '.' || c == '-';
}

bool key_is_keyspace_name(const char *name, size_t len)
{
	if (len == 0 || len > WIRE_KEYSPACE_MAX)
		return false;
	for (size_t i = 0; i < len; i++)
		if (!is_name_char(name[i]))
			return false;
	return true;
}

static enum status check_keyspace(const char *name, size_t len, struct wire_error *error)
{
	char quoted[WIRE_QUOTED_MAX];

	if (key_is_keyspace_name(name, len))
		return STATUS_OK;
	if (len == 0)
		return wire_refuse(error, STATUS_BAD_REQUEST, "the key names no keyspace");
	return wire_refuse(error, STATUS_BAD_REQUEST,
			   "\"%s\" can't be a keyspace: 1 to %d of A-Z a-z 0-9 _ . -",
			   wire_quote(name, len, quoted), WIRE_KEYSPACE_MAX);
}

static enum status refuse_size(struct wire_error *error)
{
	return wire_refuse(error, STATUS_TOO_LARGE, "the key's arguments are over %d bytes",
			   WIRE_KEY_BYTES_MAX);
}

static enum status refuse_count(struct wire_error *error)
{
	return wire_refuse(error, STATUS_BAD_REQUEST, "the key has over %d arguments",
			   WIRE_KEY_ARGS_MAX);
}

/* Looks for what no argument may hold. The text may still be encoded: since `:` and `%` are ASCII,
 * that changes nothing in what is valid. */
static enum status check_args(const char *text, size_t len, struct wire_error *error)
{
	const char *nul = memchr(text, 0, len);
	size_t at = utf8_valid_len(text, len);
	unsigned arg = 0;

	if (!nul && at == len)
		return STATUS_OK;
	if (nul && (size_t)(nul - text) < at)
		at = (size_t)(nul - text);
	for (size_t i = 0; i < at; i++)
		arg += text[i] == ':';
	return wire_refuse(error, STATUS_BAD_REQUEST, "argument %u of the key %s", arg,
			   text[at] ? "is not valid UTF-8" : "has a NUL byte");
}

static void draft_begin(struct draft *draft, char *scratch, struct wire_span keyspace)
{
	*draft = (struct draft){ .text = scratch, .len = keyspace.len };
	memcpy(scratch, keyspace.data, keyspace.len);
}

static enum status draft_open_arg(struct draft *draft, struct wire_error *error)
{
	if (draft->args_count == WIRE_KEY_ARGS_MAX)
		return refuse_count(error);
	draft->args_count++;
	draft->text[draft->len++] = ':';
	return STATUS_OK;
}

static enum status draft_put(struct draft *draft, char c, struct wire_error *error)
{
	if (draft->decoded == WIRE_KEY_BYTES_MAX)
		return refuse_size(error);
	draft->decoded++;
	if (c == ':' || c == '%') {
		memcpy(draft->text + draft->len, c == ':' ? "%3A" : "%25", 3);
		draft->len += 3;
	} else {
		draft->text[draft->len++] = c;
	}
	return STATUS_OK;
}

static enum status draft_end(const struct draft *draft, size_t keyspace_len,
			     struct wire_key *ret_key, struct wire_error *error)
{
	enum status status = check_args(draft->text, draft->len, error);

	assert(draft->len <= KEY_TEXT_MAX);
	if (status == STATUS_OK)
		*ret_key = (struct wire_key){ draft->text, draft->len, keyspace_len,
					      draft->args_count };
	return status;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The byte that the three characters at `at` stand for, or -1. */
static int escaped_byte(const char *at, size_t len)
{
	int high, low;

	if (len < 3)
		return -1;
	high = hex_digit(at[1]);
	low = hex_digit(at[2]);
	return high < 0 || low < 0 ? -1 : high << 4 | low;
}

/* A key with escapes: decoded and encoded again in our way. */
static enum status parse_escaped(const char *text, size_t len, size_t keyspace_len, char *scratch,
				 struct wire_key *ret_key, struct wire_error *error)
{
	enum status status = STATUS_OK;
	struct draft draft;

	draft_begin(&draft, scratch, (struct wire_span){ text, keyspace_len });
	for (size_t i = keyspace_len; i < len && status == STATUS_OK; i++) {
		int byte;

		if (text[i] == ':') {
			status = draft_open_arg(&draft, error);
		} else if (text[i] != '%') {
			status = draft_put(&draft, text[i], error);
		} else {
			byte = escaped_byte(text + i, len - i);
			if (byte < 0)
				return wire_refuse(error, STATUS_BAD_REQUEST,
						   "malformed %% at byte %zu of the key", i);
			status = draft_put(&draft, (char)byte, error);
			i += 2;
		}
	}
	return status == STATUS_OK ? draft_end(&draft, keyspace_len, ret_key, error) : status;
}

/* A key without: it is canonical as it stands. */
static enum status parse_plain(const char *text, size_t len, size_t keyspace_len,
			       struct wire_key *ret_key, struct wire_error *error)
{
	enum status status;
	unsigned args = 0;

	if (len > WIRE_KEYSPACE_MAX + WIRE_KEY_ARGS_MAX + WIRE_KEY_BYTES_MAX)
		return refuse_size(error);
	for (size_t i = keyspace_len; i < len; i++)
		args += text[i] == ':';
	if (args > WIRE_KEY_ARGS_MAX)
		return refuse_count(error);
	if (len - keyspace_len - args > WIRE_KEY_BYTES_MAX)
		return refuse_size(error);
	status = check_args(text, len, error);
	if (status == STATUS_OK)
		*ret_key = (struct wire_key){ text, len, keyspace_len, args };
	return status;
}

enum status key_parse(const char *text, size_t len, char *scratch, struct wire_key *ret_key,
		      struct wire_error *error)
{
	const size_t keyspace_len = key_keyspace_len(text, len);
	enum status status = check_keyspace(text, keyspace_len, error);

	if (status != STATUS_OK)
		return status;
	if (memchr(text, '%', len))
		return parse_escaped(text, len, keyspace_len, scratch, ret_key, error);
	return parse_plain(text, len, keyspace_len, ret_key, error);
}

static enum status draft_value(struct draft *draft, const struct mp_value *value,
			       struct wire_error *error)
{
	enum status status = draft_open_arg(draft, error);
	struct wire_span bytes = { NULL, 0 };
	char digits[24];

	if (status != STATUS_OK)
		return status;
	if (value->type == MP_STR || value->type == MP_BIN) {
		bytes = value->bytes;
	} else if (value->type == MP_INT) {
		bytes.data = digits;
		bytes.len = (size_t)sprintf(digits, "%" PRId64, value->number);
	} else {
		return wire_refuse(
			error, STATUS_BAD_REQUEST,
			"argument %u of the key is %s; it must be a string or an integer",
			draft->args_count, mp_type_text(value->type));
	}
	for (size_t i = 0; i < bytes.len && status == STATUS_OK; i++)
		status = draft_put(draft, bytes.data[i], error);
	return status;
}

static enum status read_array(struct reader *params, uint32_t count, char *scratch,
			      struct wire_key *ret_key, struct wire_error *error)
{
	struct wire_span keyspace;
	struct mp_value value;
	struct draft draft;
	enum status status;

	if (count == 0 || !reader_text(params, &keyspace))
		return wire_refuse(error, STATUS_BAD_REQUEST,
				   "a key's array begins with the name of a keyspace");
	status = check_keyspace(keyspace.data, keyspace.len, error);
	if (status != STATUS_OK)
		return status;
	draft_begin(&draft, scratch, keyspace);
	for (uint32_t i = 1; i < count; i++) {
		if (!reader_next(params, &value))
			return wire_refuse(error, STATUS_BAD_REQUEST, "the key is not whole");
		status = draft_value(&draft, &value, error);
		if (status != STATUS_OK)
			return status;
	}
	return draft_end(&draft, keyspace.len, ret_key, error);
}

enum status key_read(struct reader *params, char *scratch, struct wire_key *ret_key,
		     struct wire_error *error)
{
	struct reader ahead = *params;
	struct mp_value value;
	enum status status;

	if (!reader_next(&ahead, &value))
		return wire_refuse(error, STATUS_BAD_REQUEST, "the key is missing");
	if (value.type == MP_STR || value.type == MP_BIN)
		status = key_parse(value.bytes.data, value.bytes.len, scratch, ret_key, error);
	else if (value.type == MP_ARRAY)
		status = read_array(&ahead, value.count, scratch, ret_key, error);
	else
		return wire_refuse(error, STATUS_BAD_REQUEST,
				   "the key is %s; it must be a string or an array",
				   mp_type_text(value.type));
	if (status == STATUS_OK)
		*params = ahead;
	return status;
}

unsigned key_args(const char *text, size_t len, char *buf, const char *ret_args[WIRE_KEY_ARGS_MAX])
{
	char *to = buf, *const end = buf + KEY_ARGS_ROOM;
	unsigned count = 0;

	for (size_t i = key_keyspace_len(text, len); i < len; i++) {
		assert(to < end);
		if (text[i] == ':') {
			assert(count < WIRE_KEY_ARGS_MAX);
			if (count > 0)
				*to++ = '\0';
			ret_args[count++] = to;
		} else if (text[i] == '%') {
			const int byte = escaped_byte(text + i, len - i);

			assert(byte > 0);
			*to++ = (char)byte;
			i += 2;
		} else {
			*to++ = text[i];
		}
	}
	if (count > 0) {
		assert(to < end);
		*to = '\0';
	}
	return count;
}

size_t key_keyspace_len(const char *text, size_t len)
{
	const char *colon = len ? memchr(text, ':', len) : NULL;

	return colon ? (size_t)(colon - text) : len;
}
