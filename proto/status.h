/* How a request can end, in one list: the codes of the wire, of the daemon and of the clients.
 *
 * On the wire an error is [0, "code: text"]; the names below are those codes. The numbers are the
 * client library's return values; they never change meaning.
 */
#pragma once

#include <stddef.h>

/* X(number, NAME, name, what it means) */
#define STATUS_MAP(X)                                                                              \
	X(0, OK, ok, "done")                                                                       \
	X(1, BAD_REQUEST, bad_request, "the request is malformed")                                 \
	X(2, TOO_LARGE, too_large, "the request or the value is over a size limit")                \
	X(3, UNKNOWN_METHOD, unknown_method, "there is no such method")                            \
	X(4, UNKNOWN_KEYSPACE, unknown_keyspace, "there is no such keyspace")                      \
	X(5, DENIED, denied, "this peer may not do that")                                          \
	X(6, TIMEOUT, timeout, "no value before the deadline")                                     \
	X(7, OVERLOADED, overloaded, "a limit is reached; try again later")                        \
	X(8, UNAVAILABLE, unavailable, "the origin or the daemon cannot be reached")               \
	X(9, ORIGIN_ERROR, origin_error, "the origin answered with an error")

enum status {
#define X(number, NAME, name, text) STATUS_##NAME = number,
	STATUS_MAP(X)
#undef X
};
/* Kept out of the enum, so that -Wswitch-enum asks only for real codes. */
enum {
#define X(number, NAME, name, text) +1
	STATUS_COUNT = 0 STATUS_MAP(X)
#undef X
};

/* The wire's name of a status ("origin_error"). Static storage, never NULL. Any thread. */
const char *status_name(enum status status);

/* One plain sentence on what the status means. Static storage, never NULL. Any thread. */
const char *status_text(enum status status);

/* The status whose wire name is the `len` bytes at `name`, or -1 if there is none. Any thread. */
int status_from_name(const char *name, size_t len);
