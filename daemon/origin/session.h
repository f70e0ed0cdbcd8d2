/* One libpq connection on the loop: the socket and its watching, nothing of what is said on it.
 *
 *   dial ──> session_open ──> … PQconnectPoll … ──> opened ──> readable … readable ──>
 * session_close └─> broken                     └─> broken
 *
 * Once open it is non-blocking and in pipeline mode. Embedded in its owner, which closes it also
 * after `broken`; the events fire from the loop only, never inside a call. libpq may change its
 * socket while it connects, so the poll handle is a block of its own, which outlives the session by
 * one turn of the loop.
 */
#pragma once

#include <libpq-fe.h>
#include <uv.h>

struct session;

struct session_events {
	void (*opened)(struct session *session);
	void (*readable)(struct session *session); /* PQconsumeInput is done: look for results */
	void (*broken)(struct session *session, const char *message); /* libpq's; borrowed */
};

struct session_watch;

struct session {
	uv_loop_t *loop;                     /* borrowed */
	const struct session_events *events; /* borrowed, static */
	PGconn *pg;                          /* owned; NULL once closed */
	struct session_watch *watch;         /* owned until session_close; it frees itself */
	int doomed;                          /* the server has said that it ends the session */
};

/* Takes over a connection that libpq has begun (dial.h) and goes on with it. 0, or -1: it cannot,
   see PQerrorMessage; no event follows. Either way the session owns `pg`. */
int session_open(struct session *session, uv_loop_t *loop, const struct session_events *events,
		 PGconn *pg) __attribute__((warn_unused_result));

/* Sends what libpq holds back, and keeps watching. 0, or -1: broken, see PQerrorMessage. */
int session_flush(struct session *session) __attribute__((warn_unused_result));

/* Whether an idle session can take a statement now: nothing has come that says otherwise. Looks at
   the socket; does not wait. */
int session_is_alive(struct session *session);

/* Whether `result`, of SELECT pg_backend_pid(), names the process that the session was opened with
   (PQbackendPID): a pooler has numbers of its own. */
int session_is_direct(int backend, const PGresult *result);

/* Ends it at once; no event fires any more. Accepts a zeroed session. */
void session_close(struct session *session);
