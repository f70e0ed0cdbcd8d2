/* The methods and the options of the wire, each in one list: the daemon's method table, segarctl's
 * commands and the checks of both come from here. Adding one is one line (and its row in
 * PROTOCOL.md, which a test compares).
 */
#pragma once

#include <stdint.h>

#include "proto/reader.h"
#include "proto/trace.h"
#include "proto/wire.h"
#include "proto/wire_buf.h"

/* X(NAME, name, what params it takes, what it does) */
#define METHOD_MAP(X)                                                                              \
	X(GET, get, "key [options]", "one value")                                                  \
	X(MGET, mget, "[keys] [options]", "many values in one reply")                              \
	X(REFRESH, refresh, "key [options]", "build a value anew")                                 \
	X(INVALIDATE, invalidate, "key [options]", "what is known of a key is no longer fresh")    \
	X(INSPECT, inspect, "key", "all that the daemon knows of a key")                           \
	X(TRACE, trace, "key", "what has happened to a key since it was asked last")               \
	X(HELLO, hello, "", "the daemon's name, version and limits")                               \
	X(PING, ping, "", "answers \"pong\"")                                                      \
	X(STATS, stats, "[keyspace]", "counters and gauges, of all or of a keyspace")              \
	X(KEYSPACES, keyspaces, "", "the keyspaces and how each stands")                           \
	X(TOP, top, "[count]", "what is asked for most, and what would cost most")                 \
	X(WARM, warm, "{plan | keys | keyspace, [rate]}",                                          \
	  "have keys built before they are asked for")                                             \
	X(WARM_STATUS, warm_status, "[job]", "how a warm-up stands, or all that run")              \
	X(WARM_CANCEL, warm_cancel, "job", "end a warm-up")                                        \
	X(RELOAD, reload, "", "read the configuration anew")                                       \
	X(LOG, log, "[{level, keyspace, rate}]", "what is logged, and how much of it")             \
	X(DOCTOR, doctor, "", "what is wrong with all that the daemon lives by")

enum method {
#define X(NAME, name, params, text) METHOD_##NAME,
	METHOD_MAP(X)
#undef X
};
enum {
#define X(NAME, name, params, text) +1
	METHOD_COUNT = 0 METHOD_MAP(X)
#undef X
};

enum option_type { OPTION_NUMBER, OPTION_FLAG, OPTION_TRACE };

#define OPTION_IN(NAME) (1u << METHOD_##NAME)
#define OPTION_READS    (OPTION_IN(GET) | OPTION_IN(MGET))

/* X(name, type, least, most, the methods that take it, what it asks for) */
#define OPTION_MAP(X)                                                                              \
	X(wait_ms, OPTION_NUMBER, 0, WIRE_WAIT_MS_MAX, OPTION_READS | OPTION_IN(REFRESH),          \
	  "wait so long for a value; 0: answer now")                                               \
	X(max_stale_ms, OPTION_NUMBER, 0, INT64_MAX, OPTION_READS,                                 \
	  "take no value that is stale for longer; 0: only fresh ones")                            \
	X(min_version, OPTION_NUMBER, INT64_MIN + 1, INT64_MAX, OPTION_READS | OPTION_IN(REFRESH), \
	  "take no value of a lower version")                                                      \
	X(if_older_ms, OPTION_NUMBER, 0, INT64_MAX, OPTION_IN(REFRESH),                            \
	  "build only if the value is older")                                                      \
	X(hard, OPTION_FLAG, 0, 1, OPTION_IN(INVALIDATE), "serve it no longer as stale, either")   \
	X(trace, OPTION_TRACE, 0, 1, OPTION_READS | OPTION_IN(REFRESH),                            \
	  "the W3C traceparent that the request belongs to")

/* What an option is when the request does not name it, or names it with nil. */
#define OPTION_UNSET INT64_MIN

/* All options, whether or not a method takes them: OPTION_UNSET, a number, or 0 and 1. */
struct options {
#define X(name, type, least, most, methods, text) int64_t name;
	OPTION_MAP(X)
#undef X
	struct trace traceparent;    /* as read, where `trace` is 1 */
	struct wire_span trace_text; /* to be written, where `trace` is 1; borrowed */
};

static inline struct options options_unset(void)
{
	return (struct options){
#define X(name, type, least, most, methods, text) .name = OPTION_UNSET,
		OPTION_MAP(X)
#undef X
	};
}

/* One line of OPTION_MAP as data, for those who list them. */
struct option_spec {
	const char *name;
	const char *text;
	enum option_type type;
	unsigned methods; /* a bit for each, OPTION_IN */
	int64_t least, most;
	size_t offset; /* in struct options */
};
extern const struct option_spec options_all[];
extern const size_t options_count;

/* Where an option's value is in `options`. */
int64_t *option_at(struct options *options, const struct option_spec *option);

/* The method of that name, or -1. */
int method_from_name(const char *name, size_t len);

/* The wire's name of a method, its params and its purpose. Static storage, never NULL. */
const char *method_name(enum method method);
const char *method_params(enum method method);
const char *method_text(enum method method);

/* Takes what follows the other params of a request to `method`: its options map, nil, or nothing.
 * Options that it does not name are OPTION_UNSET. Refuses with STATUS_BAD_REQUEST, `error` naming
 * the option: what is no map, unknown options and those of other methods, options given twice,
 * values of the wrong type or out of range, and params that follow. A float
 * without a fraction counts as the integer it is. `ret_options` is set on STATUS_OK only. */
__attribute__((warn_unused_result)) enum status options_read(struct reader *params,
							     enum method method,
							     struct options *ret_options,
							     struct wire_error *error);

/* Writes the map of all options that are not OPTION_UNSET. */
void options_put(struct wire_buf *b, const struct options *options);
