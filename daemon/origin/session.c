#include "origin/session.h"

#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"

struct session_watch {
	uv_poll_t poll;
	struct session *session; /* NULL: the watch is closing */
	int fd;
};

static void watch_on_closed(uv_handle_t *handle)
{
	mem_free(container_of(handle, struct session_watch, poll));
}

static void watch_close(struct session *session)
{
	struct session_watch *watch = session->watch;

	if (!watch)
		return;
	watch->session = NULL;
	session->watch = NULL;
	uv_close((uv_handle_t *)&watch->poll, watch_on_closed);
}

static void session_on_poll(uv_poll_t *handle, int status, int events);

/* Waits for `events` on the socket that libpq has now. */
static int watch_start(struct session *session, int events)
{
	int fd = PQsocket(session->pg);
	struct session_watch *watch;

	if (fd < 0)
		return -1;
	if (session->watch && session->watch->fd != fd)
		watch_close(session);
	if (!session->watch) {
		watch = mem_zalloc(sizeof(*watch));
		if (!watch)
			return -1;
		if (uv_poll_init(session->loop, &watch->poll, fd) < 0) {
			mem_free(watch);
			return -1;
		}
		watch->fd = fd;
		watch->session = session;
		session->watch = watch;
	}
	return uv_poll_start(&session->watch->poll, events, session_on_poll);
}

static void session_break(struct session *session)
{
	if (session->watch)
		uv_poll_stop(&session->watch->poll);
	session->events->broken(session, PQerrorMessage(session->pg));
}

/* The server ends a session that asks for nothing by a message out of turn, then by closing. */
static void session_on_notice(void *arg, const PGresult *result)
{
	struct session *session = arg;
	const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);

	if ((severity && (!strcmp(severity, "FATAL") || !strcmp(severity, "PANIC"))) ||
	    (sqlstate && !strncmp(sqlstate, "57P0", 4)))
		session->doomed = 1;
}

int session_open(struct session *session, uv_loop_t *loop, const struct session_events *events,
		 PGconn *pg)
{
	CHECK(!session->pg && pg);
	*session = (struct session){ .loop = loop, .events = events, .pg = pg };
	PQsetErrorVerbosity(pg, PQERRORS_VERBOSE);
	PQsetNoticeReceiver(pg, session_on_notice, session);
	return PQstatus(pg) == CONNECTION_BAD ? -1 : watch_start(session, UV_WRITABLE);
}

static void session_on_connected(struct session *session)
{
	PQsetErrorVerbosity(session->pg, PQERRORS_DEFAULT);
	if (PQsetnonblocking(session->pg, 1) < 0 || !PQenterPipelineMode(session->pg) ||
	    watch_start(session, UV_READABLE) < 0) {
		session_break(session);
		return;
	}
	session->events->opened(session);
}

/* libpq may close its socket in PQconnectPoll and open another: so the watch stops before. */
static void session_on_connecting(struct session *session)
{
	int error = 0;

	uv_poll_stop(&session->watch->poll);
	switch (PQconnectPoll(session->pg)) {
	case PGRES_POLLING_READING:
		error = watch_start(session, UV_READABLE);
		break;
	case PGRES_POLLING_WRITING:
		error = watch_start(session, UV_WRITABLE);
		break;
	case PGRES_POLLING_OK:
		session_on_connected(session);
		return;
	case PGRES_POLLING_FAILED:
	case PGRES_POLLING_ACTIVE:
		error = -1;
		break;
	}
	if (error < 0)
		session_break(session);
}

static void session_on_poll(uv_poll_t *handle, int status, int events)
{
	struct session *session = container_of(handle, struct session_watch, poll)->session;

	(void)events;
	if (!session)
		return;
	if (PQpipelineStatus(session->pg) == PQ_PIPELINE_OFF) {
		session_on_connecting(session);
		return;
	}
	/* On a write error libpq still reads: the server may have said why. */
	if (status < 0 || !PQconsumeInput(session->pg) || session_flush(session) < 0)
		session_break(session);
	else
		session->events->readable(session);
}

int session_flush(struct session *session)
{
	int more = PQflush(session->pg);

	if (more < 0)
		return -1;
	return watch_start(session, more ? UV_READABLE | UV_WRITABLE : UV_READABLE);
}

int session_is_alive(struct session *session)
{
	struct pollfd look = { .fd = PQsocket(session->pg), .events = POLLIN };

	while (PQstatus(session->pg) == CONNECTION_OK && !session->doomed &&
	       poll(&look, 1, 0) == 1) {
		if (!PQconsumeInput(session->pg))
			return 0;
		(void)PQisBusy(session->pg); /* has the message parsed, also out of turn */
	}
	return PQstatus(session->pg) == CONNECTION_OK && !session->doomed;
}

int session_is_direct(int backend, const PGresult *result)
{
	return PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1 &&
	       strtol(PQgetvalue(result, 0, 0), NULL, 10) == backend;
}

void session_close(struct session *session)
{
	if (!session->pg)
		return;
	watch_close(session);
	PQfinish(session->pg);
	session->pg = NULL;
}
