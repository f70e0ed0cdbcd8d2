#include "origin/feed_link.h"

#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "origin/dial.h"

static void arm(struct feed_link *link, int64_t ms);

void feed_link_close(struct feed_link *link)
{
	aside_free(link->aside);
	link->aside = NULL;
	session_close(&link->session);
	uv_timer_stop(&link->timer);
	link->state = FEED_LINK_CLOSED;
}

static void lose(struct feed_link *link, const struct trouble *trouble)
{
	struct trouble why = *trouble;
	feed_link_close(link);
	link->events->lost(link, &why);
}

static void lose_saying(struct feed_link *link, const char *message)
{
	struct trouble trouble;
	trouble_from_message(&trouble, message);
	lose(link, &trouble);
}

static void on_timer(uv_timer_t *timer)
{
	struct feed_link *link = timer->data;
	struct trouble trouble;
	switch (link->state) {
	case FEED_LINK_DIALLING:
		trouble_set(&trouble, BUILD_LOST, STATUS_UNAVAILABLE,
			    "no connection to PostgreSQL within %d ms", FEED_CONNECT_MS);
		break;
	case FEED_LINK_BUSY:
		trouble_set(&trouble, BUILD_LOST, STATUS_UNAVAILABLE,
			    "PostgreSQL had not answered within %d ms", FEED_TURN_MS);
		break;
	case FEED_LINK_CLOSED:
	case FEED_LINK_IDLE:
		return;
	}
	if (link->has_trouble)
		trouble = link->trouble;
	lose(link, &trouble);
}

static void arm(struct feed_link *link, int64_t ms)
{
	CHECK(uv_timer_start(&link->timer, on_timer, (uint64_t)ms, 0) == 0);
}

/* ---- results ----------------------------------------------------------------------------- */

static void take(struct feed_link *link, const PGresult *result)
{
	ExecStatusType status = PQresultStatus(result);
	bool good = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
	unsigned n = link->done++;
	if (good) {
		link->events->result(link, n, result);
	} else if (!link->has_trouble && status != PGRES_PIPELINE_ABORTED) {
		link->has_trouble = true;
		trouble_from_result(&link->trouble, result, false);
	}
}

/* True: the turn is over. */
static bool take_all(struct feed_link *link)
{
	PGconn *pg = link->session.pg;
	while (link->state == FEED_LINK_BUSY && !PQisBusy(pg)) {
		PGresult *result = PQgetResult(pg);
		if (!result && PQstatus(pg) != CONNECTION_OK)
			return false;
		if (!result)
			continue; /* between two statements */
		bool sync = PQresultStatus(result) == PGRES_PIPELINE_SYNC;
		if (!sync)
			take(link, result);
		PQclear(result);
		if (sync)
			return true;
	}
	return false;
}

static void on_readable(struct session *session)
{
	struct feed_link *link = container_of(session, struct feed_link, session);
	bool rang = false;
	PGnotify *bell;
	if (take_all(link)) {
		link->state = FEED_LINK_IDLE;
		uv_timer_stop(&link->timer);
		link->events->answered(link, link->has_trouble ? &link->trouble : NULL);
	}
	if (!link->session.pg)
		return;
	if (link->state == FEED_LINK_IDLE)
		(void)PQisBusy(session->pg); /* has what came out of turn parsed */
	while ((bell = PQnotifies(session->pg))) {
		PQfreemem(bell);
		rang = true;
	}
	if (rang)
		link->events->rang(link);
}

static void on_broken(struct session *session, const char *message)
{
	lose_saying(container_of(session, struct feed_link, session), message);
}

/* ---- opening ----------------------------------------------------------------------------- */

static void on_opened(struct session *session)
{
	struct feed_link *link = container_of(session, struct feed_link, session);
	link->state = FEED_LINK_IDLE;
	uv_timer_stop(&link->timer);
	link->events->opened(link);
}

static void on_told(uv_async_t *async)
{
	static const struct session_events events = {
		.opened = on_opened,
		.readable = on_readable,
		.broken = on_broken,
	};
	struct feed_link *link = async->data;
	PGconn *pg;
	if (!link->aside || !aside_result(link->aside))
		return;
	pg = dial_take(link->aside);
	aside_free(link->aside);
	link->aside = NULL;
	if (!pg)
		lose_saying(link, "no memory for a connection");
	else if (session_open(&link->session, link->loop, &events, pg) < 0)
		lose_saying(link, PQerrorMessage(pg));
}

void feed_link_open(struct feed_link *link, const char *dsn)
{
	CHECK(link->state == FEED_LINK_CLOSED);
	link->state = FEED_LINK_DIALLING;
	link->has_trouble = false;
	link->aside = dial_start(dsn, &link->told);
	if (!link->aside) {
		link->has_trouble = true;
		trouble_set(&link->trouble, BUILD_NO_ROOM, STATUS_OVERLOADED,
			    "no thread to connect to PostgreSQL in");
	}
	arm(link, link->aside ? FEED_CONNECT_MS : 0);
}

/* ---- sending ----------------------------------------------------------------------------- */

void feed_link_send(struct feed_link *link, const struct feed_statement *statements, unsigned count)
{
	PGconn *pg = link->session.pg;
	bool good = true;
	CHECK(link->state == FEED_LINK_IDLE && count > 0 && count <= FEED_STATEMENTS_MAX);
	link->state = FEED_LINK_BUSY;
	link->sent = count;
	link->done = 0;
	link->has_trouble = false;
	for (unsigned i = 0; i < count && good; i++)
		good = PQsendQueryParams(pg, statements[i].sql, statements[i].params_count, NULL,
					 statements[i].params, NULL, NULL, 0);
	good = good && PQpipelineSync(pg) && session_flush(&link->session) == 0;
	if (!good) {
		link->has_trouble = true;
		trouble_from_message(&link->trouble, PQerrorMessage(pg));
	}
	arm(link, good ? FEED_TURN_MS : 0);
}

/* ---- life -------------------------------------------------------------------------------- */

void feed_link_init(struct feed_link *link, uv_loop_t *loop, const struct feed_link_events *events)
{
	*link = (struct feed_link){ .loop = loop, .events = events };
	CHECK(uv_timer_init(loop, &link->timer) == 0);
	CHECK(uv_async_init(loop, &link->told, on_told) == 0);
	link->timer.data = link->told.data = link;
	link->handles = 2;
}

static void on_handle_closed(uv_handle_t *handle)
{
	struct feed_link *link = handle->data;
	if (--link->handles == 0)
		link->events->ended(link);
}

void feed_link_end(struct feed_link *link)
{
	feed_link_close(link);
	uv_close((uv_handle_t *)&link->timer, on_handle_closed);
	uv_close((uv_handle_t *)&link->told, on_handle_closed);
}
