/* libsegar: values from segard, the cache-refresh daemon of this host.
 *
 *	segar *c = segar_open(NULL);
 *	segar_reply *r = segar_get(c, "product_config:42", NULL);
 *	if (r->status == SEGAR_OK && r->results[0].value)
 *		use(r->results[0].value, r->results[0].value_len);
 *	segar_reply_free(r);
 *	segar_close(c);
 *
 * Every call gives a reply, which tells an error as well; it is the caller's to free, and all that
 * it points to lives as long as it. What the fields of a result mean is told in PROTOCOL.md.
 *
 * A handle is one connection. It belongs to one thread at a time; different threads use different
 * handles, without any locking. The library has no other state, starts no threads, raises no
 * SIGPIPE, and its descriptor does not survive exec. After fork() only one side may go on using a
 * handle.
 *
 * Connecting. A handle connects when it is first used, and again after its connection is lost: a
 * few attempts, in jittered and growing intervals, less than a second in all and never past the
 * call's deadline. If they fail the call ends with SEGAR_DISCONNECTED, and for a moment so does
 * every other at once: a daemon that is away does not slow its clients down.
 *
 * Repeating. If the connection is lost while an answer is awaited, the question is asked again on
 * the next one, twice at most, if it only reads: get, mget, inspect, hello, ping, stats and
 * keyspaces. All else, refresh and invalidate among it, is not repeated once a byte of it may have
 * left: it ends with SEGAR_DISCONNECTED, and may or may not have been carried out.
 */
#ifndef SEGAR_H
#define SEGAR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* How a call ended. Up to 99 they are segard's answers, by the numbers of PROTOCOL.md; from 100 on
 * the library's own. Numbers that you do not know are errors too. */
enum segar_status {
	SEGAR_OK = 0,
	SEGAR_BAD_REQUEST = 1,
	SEGAR_TOO_LARGE = 2,
	SEGAR_UNKNOWN_METHOD = 3,
	SEGAR_UNKNOWN_KEYSPACE = 4,
	SEGAR_DENIED = 5,
	SEGAR_TIMEOUT = 6,
	SEGAR_OVERLOADED = 7,
	SEGAR_UNAVAILABLE = 8,
	SEGAR_ORIGIN_ERROR = 9,

	SEGAR_DISCONNECTED = 100, /* no daemon answers at the socket, or the connection was lost */
	SEGAR_NO_REPLY = 101,     /* the call's own deadline passed; the daemon did not answer */
	SEGAR_PROTOCOL = 102,     /* what answers is not segard, or not one that we understand */
	SEGAR_NO_MEMORY = 103,
	SEGAR_TOO_MANY = 104, /* SEGAR_PENDING_MAX calls are pending already */
	SEGAR_OTHER = 105,    /* an error whose code this library does not know: see the text */
};

enum segar_state { SEGAR_FRESH, SEGAR_STALE, SEGAR_DEFAULT, SEGAR_ABSENT };

enum segar_reason {
	SEGAR_REASON_NONE,
	SEGAR_REASON_REFRESHING,
	SEGAR_REASON_CHANGED,
	SEGAR_REASON_TIMEOUT,
	SEGAR_REASON_OVERLOADED,
	SEGAR_REASON_UNAVAILABLE,
	SEGAR_REASON_ORIGIN_ERROR,
};

enum segar_source {
	SEGAR_SOURCE_NONE,
	SEGAR_SOURCE_NEAR,
	SEGAR_SOURCE_STORE,
	SEGAR_SOURCE_ORIGIN,
};

/* The names of the above as on the wire. Static, never NULL. */
const char *segar_status_name(int status);
const char *segar_state_name(enum segar_state state);
const char *segar_reason_name(enum segar_reason reason);
const char *segar_source_name(enum segar_source source);

/* What get or mget tells of one key. Of status SEGAR_OK all is set; else only the first three. */
typedef struct segar_result {
	int status;
	const char *error;      /* "" if OK; NUL-terminated UTF-8 */
	int64_t retry_after_ms; /* -1: the daemon does not say */

	enum segar_state state;
	enum segar_reason reason;
	enum segar_source source;
	const void *value; /* NULL: the row's value is NULL, or there is no row (SEGAR_ABSENT) */
	size_t value_len;  /* bytes; no NUL follows them */
	int has_version;
	int64_t version;
	int64_t age_ms;
	int64_t ttl_ms;
	int64_t stale_ms;
} segar_result;

typedef struct segar_reply {
	uint32_t id; /* as segar_send_… returned it */
	int status;
	const char *error;      /* "" if OK; NUL-terminated UTF-8 */
	int64_t retry_after_ms; /* -1: the daemon does not say */

	/* get: one; mget: one a key, in the keys' order */
	const segar_result *results;
	size_t results_count;

	/* refresh */
	int has_version;
	int64_t version;
	int built;  /* a build was run for it */
	int joined; /* it waited for a build that others had asked for */
	int queued; /* wait_ms 0: a build is under way */

	/* the answer as MessagePack, whatever the method; NULL if there is none */
	const void *encoded;
	size_t encoded_len;
} segar_reply;

/* Frees a reply. NULL is fine. */
void segar_reply_free(segar_reply *reply);

#define SEGAR_UNSET       INT64_MIN
#define SEGAR_PENDING_MAX 65536

/* What a call asks for besides the key. Begin with SEGAR_OPTIONS, then set what matters: a 0 means
 * something. Where a function takes options, NULL means SEGAR_OPTIONS. */
typedef struct segar_options {
	int64_t wait_ms;      /* how long the daemon waits for a value; 0: answer now */
	int64_t max_stale_ms; /* 0: only fresh ones */
	int64_t min_version;
	int64_t if_older_ms; /* refresh */
	int hard;            /* invalidate: 1 */
	/* How long this call may take in all, connecting included. SEGAR_UNSET: the handle's
	 * timeout, or wait_ms and two seconds if that is longer. */
	int64_t timeout_ms;
	/* get, mget, refresh: the W3C traceparent that the call belongs to; NULL: none. Needed
	 * until the function returns. */
	const char *trace;
} segar_options;

#define SEGAR_OPTIONS                                                                              \
	{                                                                                          \
		SEGAR_UNSET, SEGAR_UNSET, SEGAR_UNSET, SEGAR_UNSET, 0, SEGAR_UNSET, NULL           \
	}

typedef struct segar segar;

/* A handle for the daemon at that path; NULL: $SEGAR_SOCKET, or /run/segar/segard.sock. Does not
 * connect yet. NULL if there is no memory, or the path is over 107 bytes. */
segar *segar_open(const char *socket_path);

/* Closes the connection and forgets all calls without a reply. Replies stay good. NULL is fine. */
void segar_close(segar *c);

/* How long a call may take that does not say so itself; 10 s at first. */
void segar_set_timeout(segar *c, int64_t timeout_ms);

/* How often a lost or missing connection is tried in a row, at least once; 4 at first. */
void segar_set_attempts(segar *c, int attempts);

/* The path that the handle connects to. Lives as long as the handle. */
const char *segar_socket_path(const segar *c);

/* Each asks and waits for the answer. Never NULL: without memory, the reply says so. `key` is in
 * string form, NUL-terminated: see segar_key(). */
segar_reply *segar_get(segar *c, const char *key, const segar_options *options);
segar_reply *segar_mget(segar *c, const char *const *keys, size_t count,
			const segar_options *options);
segar_reply *segar_refresh(segar *c, const char *key, const segar_options *options);
segar_reply *segar_invalidate(segar *c, const char *key, const segar_options *options);
segar_reply *segar_inspect(segar *c, const char *key, const segar_options *options);
segar_reply *segar_ping(segar *c, const segar_options *options);

/* Any method; `params` holds `params_count` values encoded as MessagePack. Of `options` only
 * timeout_ms counts. */
segar_reply *segar_call(segar *c, const char *method, const void *params, size_t params_len,
			uint32_t params_count, const segar_options *options);

/* Pipelining: each queues a call and returns its id at once, to be given to segar_receive(). The
 * call's time begins here. 0 if there is no memory for the call, or SEGAR_PENDING_MAX are pending;
 * all other faults come as its reply. Nothing is sent before segar_flush() or segar_receive(). */
uint32_t segar_send_get(segar *c, const char *key, const segar_options *options);
uint32_t segar_send_mget(segar *c, const char *const *keys, size_t count,
			 const segar_options *options);
uint32_t segar_send_refresh(segar *c, const char *key, const segar_options *options);
uint32_t segar_send_invalidate(segar *c, const char *key, const segar_options *options);
uint32_t segar_send_call(segar *c, const char *method, const void *params, size_t params_len,
			 uint32_t params_count, const segar_options *options);

/* Sends what is queued, as far as that goes without waiting. */
void segar_flush(segar *c);

/* Waits for the reply to that call, or with id 0 for any; replies come in any order. NULL if there
 * is no such call, or none at all. */
segar_reply *segar_receive(segar *c, uint32_t id);

/* How many calls wait for their reply or for their segar_receive(). */
size_t segar_pending(const segar *c);

/* Writes `keyspace` and `args` as a key, percent-encoded where need be, and a NUL to `ret_key`, as
 * far as `size` goes. Returns the length that the whole has, as snprintf does. */
size_t segar_key(char *ret_key, size_t size, const char *keyspace, const char *const *args,
		 size_t args_count);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
