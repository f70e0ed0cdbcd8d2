#include "origin/conn.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "origin/cancel.h"
#include "origin/dial.h"

const char *conn_state_name(enum conn_state state)
{
	switch (state) {
#define X(NAME, name, next)                                                                        \
	case CONN_##NAME:                                                                          \
		return #name;
		CONN_STATE_MAP(X)
#undef X
	}
	return "?";
}

static void conn_on_timer(uv_timer_t *timer);

static void conn_arm(struct conn *conn, int64_t ms)
{
	CHECK(uv_timer_start(&conn->timer, conn_on_timer, (uint64_t)ms, 0) == 0);
}

/* The one place that writes the state. */
static void conn_move(struct conn *conn, enum conn_state next)
{
	static const unsigned may[] = {
#define X(NAME, name, next) [CONN_##NAME] = (next),
		CONN_STATE_MAP(X)
#undef X
	};
	bool works = next != CONN_IDLE && next != CONN_CLOSED;

	CHECK_MSG(may[conn->state] & (1u << next), "a connection goes from %s to %s",
		  conn_state_name(conn->state), conn_state_name(next));
	CHECK(works == (conn->exchange.statement != NULL));
	conn->state = next;
	if (next == CONN_IDLE)
		conn_arm(conn, conn->is_large ? CONN_LARGE_IDLE_MS : conn->config->idle_ms);
	else if (next == CONN_CANCELLING)
		conn_arm(conn, CONN_CANCEL_MS);
}

/* --- ends --- */

static void conn_on_handle_closed(uv_handle_t *handle)
{
	struct conn *conn = handle->data;

	if (--conn->handles > 0)
		return;
	conn->config->events->freed(conn);
	mem_free(conn);
}

static size_t chain_bytes(const struct build *build)
{
	size_t bytes = 0;
	for (; build; build = build->next)
		bytes += build->value ? build->value->len : 0;
	return bytes;
}

/* Gives the work back to the owner, if there is some. */
static void conn_finish(struct conn *conn)
{
	struct exchange *exchange = &conn->exchange;
	struct build *build;

	if (!exchange->statement)
		return;
	conn->why = CONN_NOT_CANCELLED;
	build = exchange_end(exchange);
	conn->is_large = chain_bytes(build) > CONN_LARGE;
	conn->config->events->finished(conn, build,
				       exchange->has_trouble ? &exchange->trouble : NULL);
}

static void conn_shut(struct conn *conn, const struct trouble *trouble)
{
	conn_finish(conn);
	aside_free(conn->aside);
	conn->aside = NULL;
	conn_move(conn, CONN_CLOSED);
	session_close(&conn->session);
	uv_close((uv_handle_t *)&conn->timer, conn_on_handle_closed);
	uv_close((uv_handle_t *)&conn->told, conn_on_handle_closed);
	conn->config->events->closed(conn, trouble);
}

static void conn_set_cancelled(struct trouble *trouble)
{
	trouble_set(trouble, BUILD_CANCELLED, STATUS_UNAVAILABLE, "cancelled");
}

/* The connection is lost, and so is the work, unless it was to be cancelled anyway. */
static void conn_break(struct conn *conn, const struct trouble *trouble)
{
	struct trouble cancelled;

	conn_set_cancelled(&cancelled);
	exchange_fail(&conn->exchange, conn->why == CONN_CANCELLED_BY_OWNER ? &cancelled : trouble);
	conn_shut(conn, trouble);
}

static void conn_break_saying(struct conn *conn, const char *message)
{
	struct trouble trouble;

	trouble_from_message(&trouble, message);
	conn_break(conn, &trouble);
}

void conn_close(struct conn *conn)
{
	struct trouble trouble;

	if (conn->state == CONN_CLOSED)
		return;
	/* The server may as well stop; nobody waits for that. */
	if (conn->exchange.statement && !conn->aside && !conn->config->is_pooled)
		conn->aside = cancel_start(conn->session.pg, &conn->told);
	conn_set_cancelled(&trouble);
	exchange_fail(&conn->exchange, &trouble);
	conn_shut(conn, NULL);
}

/* The work is over. */
static void conn_rest(struct conn *conn)
{
	struct exchange *exchange = &conn->exchange;

	if (exchange->has_trouble && exchange->trouble.outcome == BUILD_LOST) {
		struct trouble trouble = exchange->trouble;
		conn_break(conn, &trouble);
		return;
	}
	conn_finish(conn);
	if (conn->aside)
		return; /* it could hit the next statement */
	conn_move(conn, CONN_IDLE);
	conn->config->events->idle(conn);
}

/* --- cancelling --- */

/* Behind a pooler the connection ends with the work, at the loop's next turn: the pooler ends the
 * server's with it, and PostgreSQL the statement, within client_connection_check_interval. A
 * cancel's own connection, where it breaks before the pooler has passed it on, as it does when this
 * process ends, brings PgBouncer 1.18 down ("bad client state"), and all that go through it. */
static void conn_begin_cancel(struct conn *conn, enum conn_why why)
{
	conn->why = why;
	conn_move(conn, CONN_CANCELLING);
	/* Where it cannot be sent, the timer closes the connection. */
	if (conn->config->is_pooled)
		conn_arm(conn, 0);
	else
		conn->aside = cancel_start(conn->session.pg, &conn->told);
}

void conn_cancel(struct conn *conn)
{
	if (conn->state == CONN_PREPARING || conn->state == CONN_BUILDING)
		conn_begin_cancel(conn, CONN_CANCELLED_BY_OWNER);
	else if (conn->state == CONN_CANCELLING)
		conn->why = CONN_CANCELLED_BY_OWNER;
}

static void conn_on_cancelled(struct conn *conn)
{
	if (conn->state != CONN_CANCELLING || conn->exchange.statement)
		return;
	conn_move(conn, CONN_IDLE);
	conn->config->events->idle(conn);
}

static void conn_set_timeout(struct conn *conn, struct trouble *trouble)
{
	trouble_set(trouble, BUILD_FAILED, STATUS_ORIGIN_ERROR,
		    "57014 canceling statement due to statement timeout (build_timeout %g s)",
		    (double)exchange_timeout_ms(&conn->exchange) / 1000);
}

/* All was answered after a cancel: with an error that speaks of the cancel, or one of the query's
 * own, or the result, or not at all, since the work was between two turns. */
static void conn_end_cancelled(struct conn *conn)
{
	struct exchange *exchange = &conn->exchange;
	struct trouble trouble;

	if (exchange->has_trouble && !strcmp(exchange->trouble.sqlstate, "57014"))
		exchange->has_trouble = false;
	if (conn->why == CONN_CANCELLED_BY_OWNER)
		conn_set_cancelled(&trouble);
	else
		conn_set_timeout(conn, &trouble);
	exchange_fail(exchange, &trouble);
	conn_rest(conn);
}

/* Behind a pooler. PostgreSQL would have ended the statement by itself: either it hangs, or it
 * never got it, since the pooler has no connection free. */
static void conn_hang_up(struct conn *conn)
{
	struct trouble trouble;

	if (conn->why == CONN_CANCELLED_BY_OWNER) {
		conn_close(conn);
		return;
	}
	trouble_set(
		&trouble, BUILD_LOST, STATUS_UNAVAILABLE,
		"no answer through the pooler within %g s (build_timeout and a grace): has it a "
		"connection free?",
		(double)(exchange_timeout_ms(&conn->exchange) + CONN_GRACE_MS) / 1000);
	conn_break(conn, &trouble);
}

/* --- work --- */

static void conn_advance(struct conn *conn)
{
	const struct build *build = conn->exchange.build;
	bool late = build && uv_hrtime() > build->due_ns;

	switch (exchange_next(&conn->exchange, &conn->server, &conn->config->locks,
			      conn->session.pg, late)) {
	case EXCHANGE_PREPARES:
		if (conn->state != CONN_PREPARING)
			conn_move(conn, CONN_PREPARING);
		break;
	case EXCHANGE_BUILDS:
		conn_move(conn, CONN_BUILDING);
		break;
	case EXCHANGE_EVICTS:
		break;
	case EXCHANGE_ENDS:
		conn_rest(conn);
		return;
	case EXCHANGE_BREAKS:
		conn_break_saying(conn, PQerrorMessage(conn->session.pg));
		return;
	}
	if (session_flush(&conn->session) < 0)
		conn_break_saying(conn, PQerrorMessage(conn->session.pg));
}

void conn_work(struct conn *conn, struct statement *statement, struct build *build)
{
	CHECK(conn->state == CONN_IDLE);
	exchange_begin(&conn->exchange, &conn->server, conn->session.pg, statement, build);
	conn_arm(conn, exchange_timeout_ms(&conn->exchange) + CONN_GRACE_MS);
	conn_advance(conn);
}

bool conn_is_usable(struct conn *conn)
{
	struct trouble trouble;

	CHECK(conn->state == CONN_IDLE);
	if (session_is_alive(&conn->session))
		return true;
	trouble_from_message(&trouble, PQerrorMessage(conn->session.pg));
	conn_break(conn, &trouble);
	return false;
}

static void conn_on_answered(struct conn *conn)
{
	struct exchange *exchange = &conn->exchange;
	struct trouble trouble;
	bool broken = false;

	if (exchange_clean(exchange, &conn->server, conn->session.pg, &broken)) {
		if (broken || session_flush(&conn->session) < 0)
			conn_break_saying(conn, PQerrorMessage(conn->session.pg));
		return;
	}
	if (conn->state == CONN_CANCELLING) {
		conn_end_cancelled(conn);
		return;
	}
	if (exchange->has_trouble && !strcmp(exchange->trouble.sqlstate, "57014")) {
		trouble = exchange->trouble;
		trouble_set(&exchange->trouble, BUILD_FAILED, STATUS_ORIGIN_ERROR,
			    "%.512s (build_timeout %g s)", trouble.text,
			    (double)exchange_timeout_ms(exchange) / 1000);
	}
	conn_advance(conn);
}

static void conn_on_readable(struct session *session)
{
	struct conn *conn = container_of(session, struct conn, session);

	if (!conn->exchange.statement) {
		(void)PQisBusy(session->pg); /* has messages out of turn parsed */
		return;
	}
	switch (exchange_take(&conn->exchange, &conn->server, session->pg)) {
	case EXCHANGE_WAITS:
		break;
	case EXCHANGE_ANSWERED:
		conn_on_answered(conn);
		break;
	case EXCHANGE_CONFUSED:
		conn_break_saying(conn, PQerrorMessage(session->pg));
		break;
	}
}

static void conn_on_broken(struct session *session, const char *message)
{
	conn_break_saying(container_of(session, struct conn, session), message);
}

static void conn_on_opened(struct session *session)
{
	struct conn *conn = container_of(session, struct conn, session);

	conn->was_open = true;
	conn->config->events->opened(conn);
	conn_move(conn, CONN_IDLE);
	conn->config->events->idle(conn);
}

static void conn_on_timer(uv_timer_t *timer)
{
	struct conn *conn = container_of(timer, struct conn, timer);
	struct trouble trouble;

	switch (conn->state) {
	case CONN_CONNECTING:
		if (conn->aside || conn->session.pg)
			trouble_set(&trouble, BUILD_LOST, STATUS_UNAVAILABLE,
				    "no connection to PostgreSQL within %" PRId64 " ms",
				    conn->config->connect_timeout_ms);
		else
			trouble_set(&trouble, BUILD_NO_ROOM, STATUS_OVERLOADED,
				    "no thread to connect to PostgreSQL in");
		break;
	case CONN_IDLE:
		conn_close(conn);
		return;
	case CONN_PREPARING:
	case CONN_BUILDING:
		conn_begin_cancel(conn, CONN_CANCELLED_BY_TIMEOUT);
		return;
	case CONN_CANCELLING:
		if (conn->config->is_pooled) {
			conn_hang_up(conn);
			return;
		}
		trouble_set(&trouble, BUILD_LOST, STATUS_UNAVAILABLE,
			    "PostgreSQL answers neither the query nor its cancelling");
		break;
	case CONN_CLOSED:
		CHECK_MSG(0, "a closed connection has no timer");
		return;
	}
	conn_break(conn, &trouble);
}

/* --- birth --- */

static void conn_on_dialled(struct conn *conn, PGconn *pg)
{
	static const struct session_events events = {
		.opened = conn_on_opened,
		.readable = conn_on_readable,
		.broken = conn_on_broken,
	};

	if (!pg)
		conn_break_saying(conn, "no memory for a connection");
	else if (session_open(&conn->session, conn->config->loop, &events, pg) < 0)
		conn_break_saying(conn, PQerrorMessage(pg));
}

static void conn_on_told(uv_async_t *async)
{
	struct conn *conn = container_of(async, struct conn, told);
	struct aside *aside = conn->aside;

	if (!aside || !aside_result(aside))
		return;
	conn->aside = NULL;
	if (conn->state == CONN_CONNECTING)
		conn_on_dialled(conn, dial_take(aside));
	else
		conn_on_cancelled(conn);
	aside_free(aside);
}

int conn_open(const struct conn_config *config, struct conn **ret_conn)
{
	struct conn *conn = mem_zalloc(sizeof(*conn));

	if (!conn)
		return -1;
	conn->config = config;
	conn->state = CONN_CONNECTING;
	conn->server.is_pooled = config->is_pooled;
	conn->server.prepared = conn->prepared;
	conn->server.current = config->statements;
	list_node_init(&conn->node);
	list_node_init(&conn->idle_node);
	if (uv_async_init(config->loop, &conn->told, conn_on_told) < 0) {
		mem_free(conn);
		return -1;
	}
	CHECK(uv_timer_init(config->loop, &conn->timer) == 0);
	conn->handles = 2;
	conn->timer.data = conn->told.data = conn;
	/* Trouble is an event, and comes from the loop: where there is no thread, by the timer. */
	conn->aside = dial_start(config->dsn, &conn->told);
	conn_arm(conn, conn->aside ? config->connect_timeout_ms : 0);
	*ret_conn = conn;
	return 0;
}
