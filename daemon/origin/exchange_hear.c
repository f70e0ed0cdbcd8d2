/* What comes back in an exchange, step by step. */
#include "origin/exchange.h"

#include <errno.h>
#include <string.h>

#include "origin/chain.h"
#include "origin/outcome.h"
#include "origin/session.h"

/* A generation that no statement has: what is prepared under the name must go. */
#define PREPARED_OUTDATED UINT32_MAX

static bool is_error(const PGresult *result)
{
	return PQresultStatus(result) == PGRES_FATAL_ERROR;
}

static void fail_from_result(struct exchange *exchange, const PGresult *result, bool with_position)
{
	struct trouble trouble;

	trouble_from_result(&trouble, result, with_position);
	exchange_fail(exchange, &trouble);
}

/* PostgreSQL doesn't accept the statement as it is now; not so where it ran out of time or room. */
static void refuse_from_result(struct exchange *exchange, const PGresult *result,
			       bool with_position)
{
	fail_from_result(exchange, result, with_position);
	if (exchange->trouble.outcome == BUILD_FAILED &&
	    strcmp(exchange->trouble.sqlstate, "57014"))
		statement_refuse(exchange->statement, exchange->trouble.text);
}

static void on_direct(struct exchange *exchange, struct exchange_session *session,
		      const PGresult *result)
{
	struct trouble trouble;

	if (is_error(result)) {
		fail_from_result(exchange, result, false);
		return;
	}
	session->is_direct = session_is_direct((int)(exchange->ticket >> 32), result);
	if (session->is_direct)
		return;
	trouble_set(
		&trouble, BUILD_LOST, STATUS_UNAVAILABLE,
		"origin.dsn leads to a pooler, such as PgBouncer: it takes origin.pooler: true");
	exchange_fail(exchange, &trouble);
}

/* A role that may not read it gets an error, or no row; a cancel says nothing: to be asked again.
 */
static void on_system(struct exchange *exchange, struct exchange_session *session,
		      const PGresult *result)
{
	struct trouble trouble;

	if (is_error(result)) {
		trouble_from_result(&trouble, result, false);
		session->is_hidden = !strncmp(trouble.sqlstate, "42", 2);
		session->asked_system = session->is_hidden;
		if (!session->is_hidden && session->is_pooled)
			exchange_fail(exchange, &trouble);
	} else if (PQresultStatus(result) == PGRES_TUPLES_OK) {
		session->system = outcome_system(result);
		session->is_hidden = session->system == 0;
	}
}

static void on_description(struct exchange *exchange, const struct exchange_session *session,
			   const PGresult *result)
{
	struct trouble trouble;

	exchange->is_learned = true;
	switch (statement_learn(exchange->statement, result, !session->is_hidden)) {
	case 0:
		return;
	case -ENOMEM:
		trouble_set(&trouble, BUILD_NO_ROOM, STATUS_OVERLOADED,
			    "no memory for a statement");
		break;
	default:
		trouble_set(&trouble, BUILD_FAILED, STATUS_ORIGIN_ERROR, "%s",
			    exchange->statement->error);
	}
	exchange_fail(exchange, &trouble);
}

static void on_rows(struct exchange *exchange, const struct exchange_session *session,
		    const PGresult *result)
{
	struct trouble trouble;
	int error;

	if (exchange->has_trouble)
		return; /* an older statement of that name has run */
	if (exchange->statement->single)
		error = chain_read(exchange->build, result, exchange->ticket, session->system,
				   &trouble);
	else
		error = outcome_read(exchange->build, result, exchange->ticket, session->system,
				     &trouble);
	if (!error)
		exchange->has_answer = true;
	else
		exchange_fail(exchange, &trouble);
}

/* Whether to look at the query again, and to run it again if it is another now. An error of names
 * and types (class 42) can come from the tables having changed, before the query began, or from
 * within it. */
static bool is_doubtful(struct exchange *exchange, struct exchange_session *session,
			const PGresult *result)
{
	const struct statement *statement = exchange->statement;

	if (trouble_is_outdated(result)) {
		session->prepared[statement->index] = PREPARED_OUTDATED;
		return true;
	}
	trouble_from_result(&exchange->trouble, result, false);
	if (strncmp(exchange->trouble.sqlstate, "42", 2))
		return false;
	exchange->doubted = statement->generation;
	if (!strcmp(exchange->trouble.sqlstate, "42501"))
		session->asked_system = false; /* what we add may be what our role may not do */
	return true;
}

static void on_execute_error(struct exchange *exchange, struct exchange_session *session,
			     const PGresult *result)
{
	if (exchange->has_trouble)
		return;
	if (!exchange->is_retry && is_doubtful(exchange, session, result))
		exchange->is_outdated = true;
	else
		fail_from_result(exchange, result, false);
}

/* Gone already is as good; but where a cancel hit it, the name is still taken. */
static bool is_still_there(struct exchange_session *session, uint32_t index, const PGresult *result,
			   struct trouble *ret_trouble)
{
	trouble_from_result(ret_trouble, result, false);
	if (!strcmp(ret_trouble->sqlstate, "26000"))
		return false;
	session->prepared[index] = PREPARED_OUTDATED;
	return true;
}

static void on_drop_error(struct exchange *exchange, struct exchange_session *session,
			  const PGresult *result)
{
	struct trouble trouble;

	if (is_still_there(session, exchange->statement->index, result, &trouble))
		exchange_fail(exchange, &trouble);
}

/* Nothing of the work needs it. */
static void on_stray_error(struct exchange *exchange, struct exchange_session *session,
			   const PGresult *result)
{
	struct trouble trouble;

	(void)is_still_there(session, exchange->stray, result, &trouble);
}

static void on_result(struct exchange *exchange, struct exchange_session *session,
		      const PGresult *result)
{
	/* The server ends the session: whatever the step was for. */
	if (is_error(result) && !PQresultErrorField(result, PG_DIAG_SQLSTATE)) {
		fail_from_result(exchange, result, false);
		return;
	}
	if (PQresultStatus(result) == PGRES_PIPELINE_ABORTED)
		return; /* behind a step that failed */
	switch (exchange->steps[exchange->steps_done]) {
	case STEP_ROLLBACK:
		break;
	case STEP_DIRECT:
		on_direct(exchange, session, result);
		break;
	case STEP_BEGIN:
	case STEP_NAME:
	case STEP_COMMIT:
		if (is_error(result))
			fail_from_result(exchange, result, false);
		break;
	case STEP_SETTING:
		if (is_error(result) && session->is_pooled)
			fail_from_result(exchange, result, false);
		break;
	case STEP_SYSTEM:
		on_system(exchange, session, result);
		break;
	case STEP_TIMEOUT:
		if (is_error(result) && session->is_pooled)
			fail_from_result(exchange, result, false);
		else if (is_error(result))
			session->timeout_ms = 0; /* a cancel hit it: to be set again */
		break;
	case STEP_STRAY:
		if (is_error(result))
			on_stray_error(exchange, session, result);
		break;
	case STEP_DROP:
		if (is_error(result))
			on_drop_error(exchange, session, result);
		break;
	case STEP_QUERY:
		if (is_error(result))
			refuse_from_result(exchange, result, true);
		break;
	case STEP_DESCRIBE:
		if (!exchange->has_trouble && !is_error(result))
			on_description(exchange, session, result);
		break;
	case STEP_PREPARE:
		if (is_error(result)) {
			refuse_from_result(exchange, result, false);
		} else if (PQresultStatus(result) == PGRES_COMMAND_OK) {
			if (!session->is_pooled)
				session->prepared[exchange->statement->index] = exchange->preparing;
			statement_accept(exchange->statement);
		}
		break;
	case STEP_EXECUTE:
		if (is_error(result))
			on_execute_error(exchange, session, result);
		else if (PQresultStatus(result) == PGRES_TUPLES_OK)
			on_rows(exchange, session, result);
		break;
	case STEP_EVICT:
		if (PQresultStatus(result) == PGRES_TUPLES_OK)
			exchange->evicted = (unsigned)PQntuples(result);
		break;
	}
}

enum exchange_progress exchange_take(struct exchange *exchange, struct exchange_session *session,
				     PGconn *pg)
{
	int nothing =
		0; /* NULLs in a row: one ends a command's results, two are libpq's confusion */

	while (exchange->syncs_done < exchange->syncs_count) {
		PGresult *result;

		if (PQisBusy(pg))
			return EXCHANGE_WAITS;
		result = PQgetResult(pg);
		if (!result && ++nothing > 1)
			return EXCHANGE_CONFUSED;
		if (!result) { /* the end of a step */
			exchange->steps_done += session->is_pooled;
			continue;
		}
		nothing = 0;
		if (PQresultStatus(result) == PGRES_PIPELINE_SYNC) {
			exchange->syncs_done++;
			exchange->steps_done += !session->is_pooled;
		} else if (exchange->steps_done < exchange->steps_count)
			on_result(exchange, session, result);
		PQclear(result);
	}
	return EXCHANGE_ANSWERED;
}
