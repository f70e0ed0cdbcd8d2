/* What all of the wire shares: its ceilings, a span of borrowed bytes, and a refusal with its text.
 *
 * proto/ is used by the daemon and by clients alike. It does no I/O, keeps no global state, never
 * logs, and allocates nowhere but in a wire_buf: every function of it may run in any thread, as
 * long as no two threads share one object. What the bytes mean is PROTOCOL.md's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "proto/status.h"

enum {
	WIRE_REQUEST_MAX = 1024 * 1024,    /* bytes of one message to the daemon */
	WIRE_VALUE_MAX = 16 * 1024 * 1024, /* bytes of one value, and of all values of one reply */
	WIRE_REPLY_MAX =
		WIRE_VALUE_MAX + 2 * 1024 * 1024, /* bytes of one message from the daemon */
	WIRE_DEPTH_MAX = 16,                      /* arrays and maps inside one another */
	WIRE_KEYSPACE_MAX = 64,                   /* bytes of a keyspace's name */
	WIRE_KEY_ARGS_MAX = 16,                   /* arguments of one key */
	WIRE_KEY_BYTES_MAX = 16 * 1024,           /* decoded bytes of one key's arguments, in all */
	WIRE_MGET_KEYS_MAX = 1000,                /* keys of one mget */
	WIRE_WAIT_MS_MAX = 300000,                /* the longest wait a request may ask for */
	WIRE_ERROR_TEXT_MAX = 1024,               /* bytes of an error's text as it is sent */
};

/* Bytes that belong to somebody else, usually the buffer that a message arrived in. */
struct wire_span {
	const char *data;
	size_t len;
};

static inline bool wire_span_is(struct wire_span span, const char *text)
{
	return span.len == strlen(text) && memcmp(span.data, text, span.len) == 0;
}

/* Why something was refused, for the one who sent it. Filled only by functions that fail. */
struct wire_error {
	enum status status; /* never STATUS_OK */
	char text[256];     /* one line of valid UTF-8, without the status' name */
};

/* Sets `error` and returns `status`, so that a parser can end with `return wire_refuse(…)`. Text
 * past the end of error->text is cut at a character's border. */
__attribute__((format(printf, 3, 4))) enum status
wire_refuse(struct wire_error *error, enum status status, const char *format, ...);

/* Room for what wire_quote writes. */
enum { WIRE_QUOTED_MAX = 64 };

/* Makes bytes that came from outside fit for an error's text: what is not printable ASCII becomes
 * \xNN, what is long ends in "...". Writes to `ret_quoted` and returns it. */
const char *wire_quote(const void *bytes, size_t len, char ret_quoted[WIRE_QUOTED_MAX]);
