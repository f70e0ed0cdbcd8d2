/* Why the store gave no answer: Redis' errors and the connection's, translated here, once.
 *
 * None of these means "lease held" or "no entry". Pure; any thread.
 */
#pragma once

#include <stdbool.h>

struct redisReply;

/* X(NAME, name, what it means) */
#define STORE_ERROR_MAP(X)                                                                         \
	X(NONE, none, "no error")                                                                  \
	X(CONNECT, connect, "no connection could be made")                                         \
	X(LOST, lost, "the connection broke")                                                      \
	X(TIMEOUT, timeout, "no reply in time")                                                    \
	X(LATE, late, "the command came after its deadline and was not carried out")               \
	X(PASSWORD, password, "the password is wrong or missing")                                  \
	X(FORBIDDEN, forbidden, "the user may not run a command, or not on these keys")            \
	X(OOM, oom, "out of memory")                                                               \
	X(READONLY, readonly, "a replica: it takes no writes")                                     \
	X(MISCONF, misconf, "it takes no writes: it cannot save or replicate them")                \
	X(LOADING, loading, "it is still reading its data from disk")                              \
	X(BUSY, busy, "a script has been running for too long")                                    \
	X(CLUSTER, cluster, "another node of the cluster has the key, or none has")                \
	X(NOSCRIPT, noscript, "it does not know the script")                                       \
	X(VERSION, version, "it is older than Redis 7, and does not take our scripts")             \
	X(OTHER, other, "an error of another kind")                                                \
	X(GARBAGE, garbage, "the reply is none that the script gives")                             \
	X(MEMORY, memory, "the daemon is out of memory")                                           \
	X(CLOSED, closed, "the daemon is closing")

enum store_error {
#define X(NAME, name, text) STORE_ERROR_##NAME,
	STORE_ERROR_MAP(X)
#undef X
};
/* Kept out of the enum, so that -Wswitch-enum asks only for real errors. */
enum {
#define X(NAME, name, text) +1
	STORE_ERRORS_COUNT = 0 STORE_ERROR_MAP(X)
#undef X
};

/* Static storage, never NULL. */
const char *store_error_name(enum store_error error);
const char *store_error_text(enum store_error error);

/* What an error of Redis means, by its first word. */
enum store_error store_error_read(const char *text);

/* The same for a reply; NONE where it is no error. */
enum store_error store_error_of(const struct redisReply *reply);

/* Whether the command may have been carried out all the same. */
bool store_error_is_doubtful(enum store_error error);
