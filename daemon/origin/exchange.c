#include "origin/exchange.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "origin/canonical.h"
#include "origin/chain.h"
#include "origin/dial.h"
#include "origin/eviction.h"
#include "origin/statements.h"

static void forget_steps(struct exchange *exchange)
{
	exchange->steps_count = exchange->steps_done = 0;
	exchange->syncs_count = exchange->syncs_done = 0;
}

void exchange_begin(struct exchange *exchange, struct exchange_session *session, PGconn *pg,
		    struct statement *statement, struct build *build)
{
	CHECK(!exchange->statement && statement);
	exchange->statement = statement_ref(statement);
	exchange->build = build;
	exchange->ticket = (uint64_t)PQbackendPID(pg) << 32 | ++session->tickets;
	exchange->is_learned = exchange->is_outdated = exchange->is_retry = false;
	exchange->has_answer = exchange->has_trouble = false;
	exchange->doubted = exchange->evicted = 0;
	exchange->has_evicted = false;
	forget_steps(exchange);
}

int64_t exchange_timeout_ms(const struct exchange *exchange)
{
	int64_t us = exchange->build ? exchange->build->timeout_us
				     : exchange->statement->policy->build_timeout_us;
	int64_t ms = us / 1000;

	if (ms < 1)
		return 1;
	return ms < INT32_MAX ? ms : INT32_MAX;
}

void exchange_fail(struct exchange *exchange, const struct trouble *trouble)
{
	if (exchange->has_answer || exchange->has_trouble)
		return;
	exchange->has_trouble = true;
	exchange->trouble = *trouble;
}

/* Whether it may be one key's fault that nothing came of several. Not so where the time was up, or
 * the connection broke, or where the rows were not what was asked for. */
static bool is_apart(const struct exchange *exchange)
{
	const struct trouble *trouble = &exchange->trouble;

	if (!exchange->statement->single ||
	    (trouble->outcome != BUILD_FAILED && trouble->outcome != BUILD_BAD_KEY))
		return false;
	return exchange->statement->state == STATEMENT_REFUSED ||
	       (trouble->sqlstate[0] && strcmp(trouble->sqlstate, "57014") != 0);
}

struct build *exchange_end(struct exchange *exchange)
{
	struct build *build = exchange->build;

	if (build && !exchange->has_answer) {
		CHECK(exchange->has_trouble);
		chain_fail(build, &exchange->trouble, is_apart(exchange));
	}
	statement_unref(exchange->statement);
	exchange->statement = NULL;
	exchange->build = NULL;
	forget_steps(exchange);
	return build;
}

/* --- sending --- */

static bool send_sync(struct exchange *exchange, PGconn *pg)
{
	exchange->syncs_count++;
	return PQpipelineSync(pg);
}

static bool send_step(struct exchange *exchange, const struct exchange_session *session, PGconn *pg,
		      enum exchange_step step, int sent)
{
	CHECK(exchange->steps_count < EXCHANGE_STEPS_MAX);
	exchange->steps[exchange->steps_count++] = step;
	return sent && (session->is_pooled || send_sync(exchange, pg));
}

static bool send_sql(struct exchange *exchange, const struct exchange_session *session, PGconn *pg,
		     enum exchange_step step, const char *sql)
{
	return send_step(exchange, session, pg, step,
			 PQsendQueryParams(pg, sql, 0, NULL, NULL, NULL, NULL, 0));
}

static void statement_name(uint32_t index, char name[static 32])
{
	snprintf(name, 32, "segar_%" PRIu32, index);
}

static bool send_drop(struct exchange *exchange, struct exchange_session *session, PGconn *pg,
		      enum exchange_step step, uint32_t index)
{
	char name[32], sql[64];

	statement_name(index, name);
	snprintf(sql, sizeof(sql), "DEALLOCATE %s", name);
	session->prepared[index] = 0;
	return send_sql(exchange, session, pg, step, sql);
}

/* One of what was prepared for queries that have changed or gone since: one a work, so that none
 * takes much longer for it. */
static bool send_stray(struct exchange *exchange, struct exchange_session *session, PGconn *pg)
{
	for (uint32_t i = 0; i < STATEMENTS_MAX; i++) {
		const struct statement *current = session->current[i];

		if (!session->prepared[i] || i == exchange->statement->index ||
		    (current && current->generation == session->prepared[i]))
			continue;
		exchange->stray = i;
		return send_drop(exchange, session, pg, STEP_STRAY, i);
	}
	return true;
}

static bool send_system(struct exchange *exchange, struct exchange_session *session, PGconn *pg)
{
	session->asked_system = true;
	return send_step(exchange, session, pg, STEP_SYSTEM,
			 PQsendQueryParams(pg, GUARD_SYSTEM_SQL, 0, NULL, NULL, NULL, NULL, 1));
}

/* What goes before any statement of ours behind a pooler, and ends with its transaction. Which
 * system this is, is asked each time: the server may be another. */
static bool send_begin(struct exchange *exchange, struct exchange_session *session, PGconn *pg)
{
	char sql[64];

	snprintf(sql, sizeof(sql), "SET LOCAL statement_timeout = %" PRId64,
		 exchange_timeout_ms(exchange));
	return send_sql(exchange, session, pg, STEP_BEGIN, "BEGIN") &&
	       send_sql(exchange, session, pg, STEP_TIMEOUT, sql) &&
	       (PQserverVersion(pg) < 140000 ||
		send_sql(exchange, session, pg, STEP_SETTING,
			 "SET LOCAL client_connection_check_interval = '1s'")) &&
	       (session->is_hidden || send_system(exchange, session, pg));
}

/* What the session must have before any statement of ours: a limit, and an end when we are gone;
 * and what we must know of it. */
static bool send_settings(struct exchange *exchange, struct exchange_session *session, PGconn *pg)
{
	int64_t timeout_ms = exchange_timeout_ms(exchange);
	char sql[64];

	if (session->is_pooled)
		return send_begin(exchange, session, pg);
	if (!session->settled && PQserverVersion(pg) >= 140000 &&
	    !send_sql(exchange, session, pg, STEP_SETTING,
		      "SET client_connection_check_interval = '1s'"))
		return false;
	session->settled = true;
	if (!session->asked_system && !send_system(exchange, session, pg))
		return false;
	if (!send_stray(exchange, session, pg))
		return false;
	if (session->timeout_ms == timeout_ms)
		return true;
	session->timeout_ms = timeout_ms;
	snprintf(sql, sizeof(sql), "SET statement_timeout = %" PRId64, timeout_ms);
	return send_sql(exchange, session, pg, STEP_TIMEOUT, sql);
}

static bool send_query(struct exchange *exchange, const struct exchange_session *session,
		       PGconn *pg)
{
	const char *query = exchange->statement->query;

	return send_step(exchange, session, pg, STEP_QUERY,
			 PQsendPrepare(pg, "", query, 0, NULL)) &&
	       send_step(exchange, session, pg, STEP_DESCRIBE, PQsendDescribePrepared(pg, ""));
}

static bool is_prepared(const struct exchange *exchange, const struct exchange_session *session)
{
	const struct statement *statement = exchange->statement;

	if (session->is_pooled)
		return statement->state == STATEMENT_OK; /* nothing is: all is sent each time */
	return session->prepared[statement->index] == statement->generation;
}

static bool send_prepare(struct exchange *exchange, struct exchange_session *session, PGconn *pg)
{
	const struct statement *statement = exchange->statement;
	char name[32] = "";

	if (session->is_pooled && !send_begin(exchange, session, pg))
		return false;
	if (!session->is_pooled)
		statement_name(statement->index, name);
	if (session->prepared[statement->index] &&
	    !send_drop(exchange, session, pg, STEP_DROP, statement->index))
		return false;
	exchange->preparing = statement->generation;
	return send_step(exchange, session, pg, STEP_PREPARE,
			 PQsendPrepare(pg, name, statement->sql,
				       (int)statement->params_count + GUARD_PARAMS,
				       statement->params));
}

/* `args`: the query's own parameters; `key`: the locks of its key, or keys. */
static bool send_execute(struct exchange *exchange, const struct exchange_session *session,
			 const struct exchange_locks *locks, PGconn *pg, const char *const *args,
			 unsigned args_count, const char *key)
{
	const struct statement *statement = exchange->statement;
	const int count = (int)args_count + GUARD_PARAMS;
	const struct build *build = exchange->build;
	const char *values[KEY_ARGS_MAX + GUARD_PARAMS];
	const char **guard = values + args_count;
	char class[16], slot[16], ticket[24], name[32];

	memcpy(values, args, args_count * sizeof(values[0]));
	snprintf(class, sizeof(class), "%" PRId32, locks->slot_class);
	snprintf(slot, sizeof(slot), "%d", build->slot);
	snprintf(ticket, sizeof(ticket), "%" PRId64, (int64_t)exchange->ticket);
	guard[GUARD_PARAM_CLASS] = class;
	guard[GUARD_PARAM_SLOT] = slot;
	guard[GUARD_PARAM_KEY] = key;
	guard[GUARD_PARAM_TICKET] = ticket;
	statement_name(statement->index, name);
	return send_step(exchange, session, pg, STEP_EXECUTE,
			 session->is_pooled
				 ? PQsendQueryParams(pg, statement->sql, count, statement->params,
						     values, NULL, NULL, 1)
				 : PQsendQueryPrepared(pg, name, count, values, NULL, NULL, 1));
}

/* Whose trace the statement tells: one can only tell one. */
static const struct trace *trace_of(const struct build *build)
{
	while (build && !build->trace)
		build = build->next;
	return build ? build->trace : NULL;
}

static bool send_name(struct exchange *exchange, const struct exchange_session *session, PGconn *pg,
		      const struct trace *trace)
{
	static const char set[] = "SET LOCAL application_name = '" DIAL_NAME " ";
	char sql[sizeof(set) + TRACE_TEXT_LEN + 1];

	static_assert(sizeof(DIAL_NAME) + TRACE_TEXT_LEN < 64, "PostgreSQL cuts a longer name");
	memcpy(sql, set, sizeof(set) - 1);
	trace_write(trace, sql + sizeof(set) - 1);
	strcat(sql, "'");
	return send_sql(exchange, session, pg, STEP_NAME, sql);
}

/* The statement, in a transaction of its own where it tells its trace; behind a pooler it is in one
 * anyway. */
static bool send_run(struct exchange *exchange, const struct exchange_session *session,
		     const struct exchange_locks *locks, PGconn *pg, const char *const *args,
		     unsigned args_count, const char *key)
{
	const struct trace *trace = trace_of(exchange->build);

	if (!trace)
		return send_execute(exchange, session, locks, pg, args, args_count, key);
	return (session->is_pooled || send_sql(exchange, session, pg, STEP_BEGIN, "BEGIN")) &&
	       send_name(exchange, session, pg, trace) &&
	       send_execute(exchange, session, locks, pg, args, args_count, key) &&
	       (session->is_pooled || send_sql(exchange, session, pg, STEP_COMMIT, "COMMIT"));
}

static enum exchange_turn next_learn(struct exchange *exchange, struct exchange_session *session,
				     PGconn *pg)
{
	if (!send_settings(exchange, session, pg) || !send_query(exchange, session, pg))
		return EXCHANGE_BREAKS;
	return EXCHANGE_PREPARES;
}

static bool send_before(struct exchange *exchange, struct exchange_session *session, PGconn *pg)
{
	return send_settings(exchange, session, pg) &&
	       (is_prepared(exchange, session) || send_prepare(exchange, session, pg));
}

static enum exchange_turn next_chain(struct exchange *exchange, struct exchange_session *session,
				     const struct exchange_locks *locks, PGconn *pg)
{
	struct chain_arrays arrays;
	struct trouble trouble;
	bool sent;

	if (chain_ask(exchange->build, exchange->statement, locks->lock_namespace, &arrays) < 0) {
		trouble_set(&trouble, BUILD_NO_ROOM, STATUS_OVERLOADED, "no memory for the keys");
		exchange_fail(exchange, &trouble);
		return EXCHANGE_ENDS;
	}
	if (!arrays.keys) {
		exchange->has_answer = true;
		return EXCHANGE_ENDS;
	}
	sent = send_before(exchange, session, pg) &&
	       send_run(exchange, session, locks, pg, (const char *const *)&arrays.keys, 1,
			arrays.locks);
	chain_arrays_free(&arrays);
	return sent ? EXCHANGE_BUILDS : EXCHANGE_BREAKS;
}

static enum exchange_turn next_build(struct exchange *exchange, struct exchange_session *session,
				     const struct exchange_locks *locks, PGconn *pg)
{
	const struct statement *statement = exchange->statement;
	const struct build *build = exchange->build;
	const struct key *key = &build->key;
	struct arguments arguments;
	struct trouble trouble;
	char text[ERROR_TEXT_MAX], lock[24];

	arguments_decode(&arguments, key->bytes, key->len);
	if (!arguments_fit(&arguments, statement->policy->name, statement->params,
			   statement->params_count, text, sizeof(text))) {
		trouble_set(&trouble, BUILD_BAD_KEY, STATUS_BAD_REQUEST, "%s", text);
		exchange_fail(exchange, &trouble);
		return EXCHANGE_ENDS;
	}
	snprintf(lock, sizeof(lock), "%" PRId64, guard_key_lock(locks->lock_namespace, key));
	return send_before(exchange, session, pg) &&
			       send_run(exchange, session, locks, pg, arguments.args,
					arguments.count, build->lock_key ? lock : NULL)
		       ? EXCHANGE_BUILDS
		       : EXCHANGE_BREAKS;
}

static bool wants_eviction(const struct exchange *exchange)
{
	return exchange->has_answer && !exchange->has_evicted && eviction_is_due(exchange->build);
}

static enum exchange_turn next_evict(struct exchange *exchange, struct exchange_session *session,
				     const struct exchange_locks *locks, PGconn *pg)
{
	exchange->has_evicted = true;
	if (session->is_pooled && !send_begin(exchange, session, pg))
		return EXCHANGE_BREAKS;
	return send_step(exchange, session, pg, STEP_EVICT,
			 eviction_send(pg, exchange->build, locks, exchange_timeout_ms(exchange)))
		       ? EXCHANGE_EVICTS
		       : EXCHANGE_BREAKS;
}

static enum exchange_turn next_turn(struct exchange *exchange, struct exchange_session *session,
				    const struct exchange_locks *locks, PGconn *pg, bool late)
{
	if (wants_eviction(exchange))
		return next_evict(exchange, session, locks, pg);
	if (exchange->has_answer || exchange->has_trouble)
		return EXCHANGE_ENDS;
	/* Before anything that lasts is said: behind a pooler it would be others' too. */
	if (!session->is_pooled && !session->is_direct)
		return send_sql(exchange, session, pg, STEP_DIRECT, "SELECT pg_backend_pid()")
			       ? EXCHANGE_PREPARES
			       : EXCHANGE_BREAKS;
	/* By itself: who may not ask for it would spoil the transaction. */
	if (session->is_pooled && !session->asked_system)
		return send_system(exchange, session, pg) ? EXCHANGE_PREPARES : EXCHANGE_BREAKS;
	if (exchange->is_outdated) {
		exchange->is_outdated = exchange->is_learned = false;
		exchange->is_retry = true;
	}
	if (!exchange->is_learned &&
	    (exchange->is_retry || exchange->statement->state != STATEMENT_OK))
		return next_learn(exchange, session, pg);
	if (exchange->doubted && exchange->doubted == exchange->statement->generation) {
		exchange->has_trouble = true; /* the query's own, it is as it was */
		return EXCHANGE_ENDS;
	}
	if (!is_prepared(exchange, session) && exchange->statement->state != STATEMENT_OK)
		return send_prepare(exchange, session, pg) ? EXCHANGE_PREPARES : EXCHANGE_BREAKS;
	if (exchange->statement->state != STATEMENT_OK)
		statement_accept(exchange->statement);
	if (!exchange->build)
		return EXCHANGE_ENDS;
	if (late) {
		struct trouble trouble;
		trouble_set(&trouble, BUILD_LATE, STATUS_OVERLOADED,
			    "the connection to PostgreSQL came too late for the build");
		exchange_fail(exchange, &trouble);
		return EXCHANGE_ENDS;
	}
	return exchange->statement->single ? next_chain(exchange, session, locks, pg)
					   : next_build(exchange, session, locks, pg);
}

enum exchange_turn exchange_next(struct exchange *exchange, struct exchange_session *session,
				 const struct exchange_locks *locks, PGconn *pg, bool late)
{
	enum exchange_turn turn;

	CHECK(exchange->statement && exchange->syncs_done == exchange->syncs_count);
	forget_steps(exchange);
	turn = next_turn(exchange, session, locks, pg, late);
	if (!session->is_pooled || turn == EXCHANGE_ENDS || turn == EXCHANGE_BREAKS)
		return turn;
	if (exchange->steps[0] == STEP_BEGIN &&
	    !send_sql(exchange, session, pg, STEP_COMMIT, "COMMIT"))
		return EXCHANGE_BREAKS;
	return send_sync(exchange, pg) ? turn : EXCHANGE_BREAKS;
}

bool exchange_clean(struct exchange *exchange, const struct exchange_session *session, PGconn *pg,
		    bool *ret_broken)
{
	if (PQtransactionStatus(pg) != PQTRANS_INERROR)
		return false;
	forget_steps(exchange);
	*ret_broken = !send_sql(exchange, session, pg, STEP_ROLLBACK, "ROLLBACK") ||
		      (session->is_pooled && !send_sync(exchange, pg));
	return true;
}
