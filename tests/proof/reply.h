/* Replies to `get`, read from the wire's description alone (proto/PROTOCOL.md): shares no code with
 * what it judges.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { REPLY_NAME_UNKNOWN = 255 };

/* Numbers that stand for names, as the checker (check.py) reads them. 0: nil. */
#define REPLY_STATES "fresh", "stale", "default", "absent"
#define REPLY_REASONS                                                                              \
	"refreshing", "changed", "timeout", "overloaded", "unavailable", "origin_error"
#define REPLY_SOURCES "near", "store", "origin"
#define REPLY_ERRORS                                                                               \
	"bad_request", "too_large", "unknown_method", "unknown_keyspace", "denied", "timeout",     \
		"overloaded", "unavailable", "origin_error"

struct reply {
	uint32_t id;
	uint8_t state, reason, source, error;
	int64_t version; /* INT64_MIN: nil */
	int64_t age_ms, ttl_ms, stale_ms;
	const char *value; /* borrowed from what was read; NULL: nil */
	size_t value_len;
};

/* Reads the message that begins at `data`. The bytes that it takes; 0: it is not whole yet; -1: it
 * is no response to a get. */
int reply_read(const uint8_t *data, size_t len, struct reply *ret_reply)
	__attribute__((warn_unused_result));
