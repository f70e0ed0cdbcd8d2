/* The result of a get: what is told of a value besides its bytes, and in which words.
 *
 * In a message the value comes last: its head ends what result_put() writes, and the value's bytes
 * follow from wherever they are kept, without a copy.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/wire.h"
#include "proto/wire_buf.h"

/* X(NAME, name): how good a value is */
#define RESULT_STATE_MAP(X)                                                                        \
	X(FRESH, fresh)                                                                            \
	X(STALE, stale)                                                                            \
	X(DEFAULT, default)                                                                        \
	X(ABSENT, absent) /* the origin has no such row */

/* X(NAME, name): why it isn't fresh; NONE is nil on the wire */
#define RESULT_REASON_MAP(X)                                                                       \
	X(NONE, none)                                                                              \
	X(REFRESHING, refreshing)                                                                  \
	X(CHANGED, changed)                                                                        \
	X(TIMEOUT, timeout)                                                                        \
	X(OVERLOADED, overloaded)                                                                  \
	X(UNAVAILABLE, unavailable)                                                                \
	X(ORIGIN_ERROR, origin_error)

/* X(NAME, name): where it came from; NONE is nil on the wire */
#define RESULT_SOURCE_MAP(X)                                                                       \
	X(NONE, none)                                                                              \
	X(NEAR, near)                                                                              \
	X(STORE, store)                                                                            \
	X(ORIGIN, origin)

#define X(NAME, name) RESULT_##NAME,
enum result_state { RESULT_STATE_MAP(X) };
#undef X
#define X(NAME, name) RESULT_REASON_##NAME,
enum result_reason { RESULT_REASON_MAP(X) };
#undef X
#define X(NAME, name) RESULT_SOURCE_##NAME,
enum result_source { RESULT_SOURCE_MAP(X) };
#undef X

/* Kept out of the enums, so that -Wswitch-enum asks only for real ones. */
#define X(NAME, name) +1
enum {
	RESULT_STATE_COUNT = 0 RESULT_STATE_MAP(X),
	RESULT_REASON_COUNT = 0 RESULT_REASON_MAP(X),
	RESULT_SOURCE_COUNT = 0 RESULT_SOURCE_MAP(X),
};
#undef X

struct result {
	enum result_state state;
	enum result_reason reason;
	enum result_source source;
	bool has_value; /* false: SQL NULL, or absent */
	bool has_version;
	uint32_t value_len;
	const char *value; /* borrowed; result_put() does not look at it */
	int64_t version;
	int64_t age_ms;   /* since generated_at */
	int64_t ttl_ms;   /* left to fresh_until */
	int64_t stale_ms; /* since fresh_until */
};

/* Writes the result's map up to its value: of value_len bytes, only the head. Exactly that many
 * bytes must follow in the stream, if it has a value. */
void result_put(struct wire_buf *b, const struct result *result);

/* What differs between results that are fresh and from the near cache. */
struct result_fresh {
	int64_t version;
	int64_t age_ms;
	int64_t ttl_ms;
	uint32_t value_len;
	bool has_version;
	bool has_value;
};

/* The hot path: a whole response with such a result, up to its value's bytes; the same bytes as
 * rpc_put_response() and result_put() write. */
void result_put_fresh(struct wire_buf *b, uint32_t id, const struct result_fresh *fresh);

/* Reads a result's map in any order of its keys; keys that it doesn't know are skipped, so that a
 * newer daemon may tell more. False if it is no such map; `ret_result` is set only otherwise, and
 * its value borrows from `encoded`. */
__attribute__((warn_unused_result)) bool result_read(struct wire_span encoded,
						     struct result *ret_result);

/* Writes {error: "code: text"}, which stands in for a result in the list of an mget; otherwise as
 * rpc_put_error_text(). */
void result_put_error(struct wire_buf *b, enum status status, int64_t retry_after_ms,
		      const char *text, size_t len);

/* Reads that: sets "code: text", borrowed, for rpc_read_error_text(). False if it is no such map.
 */
__attribute__((warn_unused_result)) bool result_read_error(struct wire_span encoded,
							   struct wire_span *ret_error);

/* The wire's names. Static storage, never NULL. */
const char *result_state_name(enum result_state state);
const char *result_reason_name(enum result_reason reason);
const char *result_source_name(enum result_source source);
