/* The server: the listening socket, the connections, and what they share.
 *
 * server_open() binds and listens; from then on it serves until server_close(), which lets waiting
 * requests be answered within a bound. One turn of the loop:
 *
 *   poll      connections with input: read, serve, send (peer.c)
 *   timers    the pump answers waiting requests: replies are written, connections become due
 *   prepare   server_turn: requests left over from a turn, and one send for each due connection
 *
 * Everything happens on the loop's thread. The pump outlives the server.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/list.h"
#include "base/policy.h"
#include "core/job.h"
#include "core/pump.h"
#include "proto/key.h"
#include "rpc/access.h"
#include "rpc/limits.h"
#include "rpc/listener.h"
#include "rpc/outbox.h"
#include "rpc/users.h"

/* X(name, what it counts): they only grow */
#define SERVER_COUNTER_MAP(X)                                                                      \
	X(accepted, "connections accepted")                                                        \
	X(connections_refused, "connections over the limit, or for want of descriptors or memory") \
	X(requests_total, "requests and notifications read")                                       \
	X(replies_total, "replies written")                                                        \
	X(errors_total, "of these, errors")                                                        \
	X(requests_refused, "requests over the limit of those that wait")                          \
	X(notifications, "notifications ignored")                                                  \
	X(bad_streams, "connections closed for what they sent")                                    \
	X(denied, "requests that the client's user may not make")                                  \
	X(clients_vanished, "connections that ended with requests waiting or replies unsent")      \
	X(requests_abandoned, "requests that waited when their client went")                       \
	X(stalls, "times that a connection was not read because its replies were not")             \
	X(replies_parked, "replies that waited for a client to read others")                       \
	X(replies_dropped, "values not sent because too many were unread")                         \
	X(laggards_closed, "connections closed because too much was unread over all of them")      \
	X(accept_pauses, "times that no connection could be accepted, nor refused")                \
	X(bytes_in, "bytes read")                                                                  \
	X(bytes_out, "bytes sent")

struct server_counters {
#define X(name, text) uint64_t name;
	SERVER_COUNTER_MAP(X)
#undef X
};

/* Where numbers for `stats` go: one call of `put` each. */
struct stat_sink {
	void (*put)(struct stat_sink *sink, const char *name, int64_t number);
};

/* X(name): of how many keyspaces a reload was */
#define SERVER_RELOAD_MAP(X) X(keyspaces) X(added) X(changed) X(removed)

/* A reload that a client asks for, embedded in its owner. */
struct server_reload {
	struct list_node node;                      /* whoever carries it out */
	void (*done)(struct server_reload *reload); /* once, later */

	/* What came of it. */
	const char *why;    /* borrowed for the call; NULL: the new configuration is in force */
	enum status status; /* with `why` */
#define X(name) uint32_t name;
	SERVER_RELOAD_MAP(X)
#undef X
};

/* What a client asks the doctor, embedded in its owner. */
struct doctor_report;
struct server_examination {
	struct list_node node;                                /* whoever carries it out */
	void (*done)(struct server_examination *examination); /* once, later */

	const struct doctor_report *report; /* borrowed for the call; NULL: `why` there is none */
	const char *why;
};

/* What a client asks about warm-ups, embedded in its owner. */
struct server_warm {
	enum { WARM_START_PLAN, WARM_START_KEYS, WARM_START_HOT, WARM_STATUS, WARM_CANCEL } what;
	char name[JOB_NAME_MAX]; /* of the plan, or keyspace; STATUS, CANCEL: of the job */
	double rate_per_s;       /* START; 0: the plan's, or none */
	char *keys;              /* START_KEYS: as chunk_put writes them; borrowed until `done` */
	uint32_t keys_len, keys_count;
	void (*done)(struct server_warm *warm); /* once, later */

	/* What came of it. */
	enum status status;
	const char *why;      /* borrowed for the call; without STATUS_OK */
	bool joined;          /* START: it ran already; `name` is the job's */
	struct job job;       /* STATUS */
	const char *failures; /* STATUS: borrowed for the call: key and text by turns */
	uint32_t failures_len;

	/* Whoever answers it. */
	void *work;
	struct job_call call;
};

/* A job, as far as this daemon knows. */
struct server_job {
	const char *name; /* borrowed until the loop goes on */
	const struct job *job;
};

/* The configuration in force. */
struct server_config {
	const char *path; /* these are borrowed until the loop goes on */
	uint64_t digest;
	int64_t loaded_at_ms; /* since 1970 */
	const char *refused;  /* why the last one that was read is not; NULL: it is */
};

/* A request of which there is to be a span. */
struct server_span {
	const struct trace *trace; /* these are borrowed for the call */
	const char *method;
	const struct key *key;       /* NULL: of an mget, which has `keys` */
	const struct answer *answer; /* NULL: of an mget, each key has its own */
	uint32_t keys;
	bool is_get;
	int64_t began_us; /* of the fleet clock */
};

/* What the server tells of parts of the daemon that it does not know. Each may be NULL. */
struct server_about {
	void *impl;

	/* Whether the daemon is fully up: origin reachable, feeds read, … */
	bool (*ready)(void *impl);

	/* Reads the configuration anew, and tells what came of it. */
	void (*reload)(void *impl, struct server_reload *reload);

	/* Looks at what the daemon lives by, and tells what is wrong. */
	void (*examine)(void *impl, struct server_examination *examination);

	/* Starts a warm-up, or tells how one stands, or ends it. */
	void (*warm)(void *impl, struct server_warm *warm);

	/* The `n`th of the jobs that run; false: there are no more. */
	bool (*job)(void *impl, uint32_t n, struct server_job *ret_job);

	/* Which one is in force. */
	void (*config)(void *impl, struct server_config *ret_config);

	/* A request has a trace: gives that a span of its own, if there is to be one. Then its end
	   is told. */
	void (*span_begin)(void *impl, struct trace *trace);
	void (*span_end)(void *impl, const struct server_span *span);

	/* More numbers for `stats`. */
	void (*stats)(void *impl, struct stat_sink *sink);

	/* Whether the keyspace is served; if not, the reason in `text`, cut to `size`. */
	bool (*keyspace)(void *impl, const struct keyspace *keyspace, char *text, size_t size);

	/* The same of its batch query, which it has; without it each key is built alone. */
	bool (*batch)(void *impl, const struct keyspace *keyspace, char *text, size_t size);
};

struct server_options {
	uv_loop_t *loop;
	struct pump *pump;                  /* borrowed; its host's clock is the server's */
	const struct listen_policy *listen; /* borrowed as long as the server is open */
	int listen_fd; /* a socket that listens there already, taken over; -1: none */
	const struct limits_policy *limits; /* borrowed as long as the server is open */
	struct access_rules access;         /* likewise */
	struct server_about about;
};

struct peer;
struct server;
typedef void (*server_close_cb)(struct server *server);

struct server {
	void *data; /* the owner's */
	uv_loop_t *loop;
	struct pump *pump;
	const struct limits_policy *limits;
	struct access_rules access;
	struct list users; /* of the connections */
	struct server_about about;
	int64_t now_us; /* the fleet clock's, read once a batch */

	struct listener listener;
	uv_poll_t accept_poll;
	uv_timer_t accept_timer; /* while accepting pauses */
	uv_timer_t path_timer;   /* looks whether clients still find the socket */
	const struct listen_policy *listen;
	bool path_complained; /* it is logged that they don't */
	int reserve_fd;       /* given up to refuse a connection when descriptors run out; or -1 */

	uv_prepare_t prepare; /* server_turn */
	uv_idle_t idle;  /* keeps the loop from sleeping while there is work left, or polling */
	int64_t poll_us; /* requests are looked for so long before it sleeps; 0: it sleeps */
	int64_t poll_until_us; /* of the fleet clock */
	uv_timer_t timer;      /* the next end in `leaving`, or of the drain */
	struct list follows;   /* keys that are followed (follow.h) */
	struct list peers;     /* all connections */
	struct list due;       /* those with something to do before the loop sleeps */
	struct list leaving;   /* those with an end, the next first */
	struct list laggards; /* those with unsent output, the one longest without progress first */
	uint32_t peers_ever;  /* numbers given to peers */
	uint32_t surplus;     /* connections in SURPLUS */

	uint32_t weight;      /* requests that wait, an mget for each of its keys */
	size_t key_bytes;     /* of the keys of those requests */
	size_t key_bytes_max; /* at most: KEYS_ALL_MAX; tests lower it */
	uint32_t ops;         /* operations on the store under way */
	size_t input_bytes;   /* kept for connections */
	size_t turn_bytes;    /* of long outputs, sent in this turn of the loop */
	uint32_t turn_shorts; /* short outputs that were */
	bool beside_shorts;   /* the last turn had some */
	size_t output_bytes;  /* unsent, shared values counted for each that has them to send */
	size_t output_max;    /* that much memory may be unsent: REPLIES_ALL_MAX; tests lower it */
	size_t output_check;  /* at so many bytes it must be looked at what is shared */
	size_t held_bytes;    /* values that mgets hold */
	size_t held_max;      /* at most: REPLIES_ALL_MAX; tests lower it */
	struct outbox_pool outboxes;
	struct outbox no_outbox; /* without room: what is written to where memory is missing */
	struct server_counters counters;

	uint32_t handles;       /* that are not closed */
	bool closing;           /* server_close() was called */
	bool ending;            /* and all that it waits for is over, but for its last handles */
	int64_t drain_until_ms; /* of the loop's clock */
	server_close_cb closed;

	char read_buffer[READ_BUFFER];
	char key_scratch[KEY_TEXT_MAX];
};

/* Starts serving. On failure nothing is left open, and `ret_text` (of `size` bytes) says why;
 * LISTENER_IN_USE: another daemon serves on that socket. */
enum listener_outcome server_open(struct server *server, const struct server_options *options,
				  char *ret_text, size_t size) __attribute__((warn_unused_result));

/* Stops accepting, gives the socket's path up, serves what clients have sent so far, lets it be
 * answered and sent for at most `drain_ms` milliseconds, and closes what is left. Then `closed` is
 * called, once, never from inside: nothing of the server is open any more. Operations on the store
 * are waited for, however long that takes: they have ends of their own. */
void server_close(struct server *server, int64_t drain_ms, server_close_cb closed);

/* New rules, borrowed as long as the server is open or until the next ones: for all connections,
 * from their next request on. */
void server_set_access(struct server *server, const struct access_rules *rules);

/* ---- for the connections ---- */

/* Closes the connection FAREWELL_MS from now, if it is still in this state. */
void server_leave_soon(struct server *server, struct peer *peer);

/* One of the server's handles is closed. */
void server_handle_closed(struct server *server);

/* Something that server_close() waits for is over. */
void server_may_be_closed(struct server *server);

/* Reads the clock, for the requests that are served next. */
static inline int64_t server_now(struct server *server)
{
	return server->now_us = pump_now_us(server->pump);
}
