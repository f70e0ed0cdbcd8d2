#include "origin/pool_state.h"

#include <errno.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "origin/canonical.h"
#include "origin/chain.h"
#include "origin/dsn.h"
#include "origin/guard.h"

enum {
	CONNECT_TIMEOUT_MS_MAX = 5000,
	IDLE_MS = 60 * 1000,
	DOUBT_MS = 10 * 1000,
	CONNECTING_MAX = 32, /* at once; more builds wait for one of these */
};

static void pool_on_turn(uv_idle_t *handle);

void pool_kick(struct pool *pool)
{
	CHECK(uv_idle_start(&pool->turn, pool_on_turn) == 0);
}

void pool_queue(struct list *list, struct build *build)
{
	build->work = list;
	list_push_back(list, &build->node);
}

void pool_fail(struct pool *pool, struct build *build, const struct trouble *trouble)
{
	chain_fail(build, trouble, false);
	pool_queue(&pool->finished, build);
	pool_kick(pool);
}

static void pool_cancel_waiting(struct pool *pool, struct build *build)
{
	struct trouble trouble;

	list_remove(&pool->waiting, &build->node);
	trouble_set(&trouble, BUILD_CANCELLED, STATUS_UNAVAILABLE, "cancelled");
	pool_fail(pool, build, &trouble);
}

/* --- the origin's interface --- */

static void pool_build(void *impl, struct build *build)
{
	struct pool *pool = impl;

	CHECK(pool->statements.at[build->key.keyspace->index] && build->slot >= 0);
	for (struct build *each = build; each; each = each->next) {
		each->value = each->text = NULL;
		each->has_version = false;
		each->version = 0;
		each->history = each->snapshot = 0;
		each->outcome = BUILD_NO_ROW;
		each->status = STATUS_OK;
	}
	build->due_ns = uv_hrtime() + (uint64_t)build->within_us * 1000;
	list_node_init(&build->node);
	pool->asked++;
	pool_queue(&pool->waiting, build);
	if (pool->closing)
		pool_cancel_waiting(pool, build);
	pool_kick(pool);
}

static void pool_cancel(void *impl, struct build *build)
{
	struct pool *pool = impl;

	if (build->work == &pool->finished)
		return;
	pool->counters.cancels++;
	if (build->work == &pool->waiting)
		pool_cancel_waiting(pool, build);
	else
		conn_cancel(build->work);
}

/* Whether a key that does not fit may be right, and our knowledge of the query old: its tables can
 * change their types while no build runs that would notice. Once in a while such a key passes, and
 * its build learns the query anew. */
static bool pool_doubts(const struct pool *pool, struct statement *statement)
{
	uint64_t now_ms = uv_now(pool->config.loop);

	if (statement->doubted_ms == 0)
		statement->doubted_ms = now_ms;
	if (now_ms - statement->doubted_ms < DOUBT_MS)
		return false;
	statement->doubted_ms = now_ms;
	statement->state = STATEMENT_UNKNOWN;
	return true;
}

static enum status pool_check_key(void *impl, const struct key *key, char *text, size_t text_size)
{
	struct pool *pool = impl;
	struct statement *statement = pool->statements.at[key->keyspace->index];
	struct arguments arguments;

	if (statement->state != STATEMENT_OK)
		return STATUS_OK;
	arguments_decode(&arguments, key->bytes, key->len);
	if (arguments_fit(&arguments, statement->policy->name, statement->params,
			  statement->params_count, text, text_size) ||
	    pool_doubts(pool, statement))
		return STATUS_OK;
	return STATUS_BAD_REQUEST;
}

static void pool_forget(void *impl, uint32_t keyspace)
{
	struct pool *pool = impl;

	statements_forget(&pool->statements, keyspace);
}

struct origin pool_origin(struct pool *pool)
{
	return (struct origin){ pool, pool_build, pool_cancel, pool_check_key, pool_forget };
}

/* --- reloading --- */

int pool_reserve(struct pool *pool, uint32_t count)
{
	return statements_reserve(&pool->statements, count);
}

void pool_set(struct pool *pool, uint32_t index, const struct policy *policy)
{
	int64_t longest_ms = policy->build_timeout_us / 1000;

	if (pool->config.locks.longest_ms < longest_ms)
		pool->config.locks.longest_ms = longest_ms;
	pool->follows |= policy->on_change != ON_CHANGE_IGNORE;
	statements_set(&pool->statements, index, policy);
}

/* --- probing --- */

/* The next statement that has to be learned; NULL: none, or one is being learned. */
static struct statement *pool_probe_wanted(struct pool *pool)
{
	if (!pool->probing || pool->is_learning)
		return NULL;
	for (; pool->probe_next < STATEMENTS_MAX; pool->probe_next++) {
		struct statement *statement = pool->statements.at[pool->probe_next];

		if (statement && statement->state != STATEMENT_OK)
			return statement;
	}
	pool->probing = false;
	return NULL;
}

void pool_probe_learned(struct pool *pool, const struct trouble *trouble)
{
	pool->is_learning = false;
	if (trouble && trouble->outcome != BUILD_FAILED)
		pool->probing = false; /* not the statement's own */
}

static void pool_probe_tell(struct pool *pool)
{
	pool_cb done = pool->probe_done;

	pool->probe_done = NULL;
	done(pool, pool->probe_arg);
}

void pool_probe(struct pool *pool, pool_cb done, void *arg)
{
	CHECK(!(done && pool->probe_done) && !pool->closing);
	pool->probing = true;
	pool->probe_next = 0;
	if (done) {
		pool->probe_done = done;
		pool->probe_arg = arg;
	}
	pool_kick(pool);
}

/* --- the turn --- */

/* An error of the query or its data; lost connections are told of once, as origin.lost. */
static void pool_log_failure(const struct build *build)
{
	const struct value *text = build->text;
	if (!log_enabled_for(LOG_LEVEL_WARNING, build->key.keyspace->log_level))
		return;
	if (build->outcome == BUILD_FAILED)
		LOG_IF(true, LOG_LEVEL_WARNING, "build.failed",
		       LOG_KEY("key", build->key.bytes, build->key.len),
		       LOG_QUOTE("why", text ? text->bytes : "", text ? text->len : 0));
	else if (build->outcome == BUILD_APART && text)
		LOG_IF(true, LOG_LEVEL_WARNING, "batch.apart",
		       LOG_KEY("key", build->key.bytes, build->key.len),
		       LOG_QUOTE("why", text->bytes, text->len));
}

static void pool_hand_back(struct pool *pool)
{
	/* Not those that come meanwhile: they are for the next turn. */
	for (size_t left = pool->finished.count; left > 0; left--) {
		struct build *build = pool_build_of(list_pop_front(&pool->finished));
		build->work = NULL;
		pool_log_failure(build);
		build->done(build);
	}
}

/* Several by the keyspace's batch query, one alone by its own. NULL: there is no such query any
   more. */
static struct statement *pool_statement_of(struct pool *pool, const struct build *build)
{
	uint32_t index = build->key.keyspace->index;

	return pool->statements.at[build->next ? STATEMENTS_BATCH + index : index];
}

/* Those whose batch query a reload has taken away go their own ways. */
static void pool_part(struct pool *pool)
{
	struct list_node *next, *node = list_first(&pool->waiting);
	struct trouble trouble;

	for (; node; node = next) {
		struct build *build = pool_build_of(node);
		next = node->next != &pool->waiting.head ? node->next : NULL;
		if (pool_statement_of(pool, build))
			continue;
		list_remove(&pool->waiting, node);
		trouble_set(&trouble, BUILD_FAILED, STATUS_ORIGIN_ERROR,
			    "the keyspace has no batch query any more");
		chain_fail(build, &trouble, true);
		pool_queue(&pool->finished, build);
		pool_kick(pool);
	}
}

static void pool_hand_out(struct pool *pool)
{
	size_t wanted;
	struct statement *unknown;
	struct conn *conn;

	pool_part(pool);
	while (!list_empty(&pool->waiting) && (conn = pool_take_idle(pool))) {
		struct build *build = pool_build_of(list_pop_front(&pool->waiting));
		build->work = conn;
		pool->counters.building++;
		conn_work(conn, pool_statement_of(pool, build), build);
	}
	unknown = pool_probe_wanted(pool);
	if (unknown && list_empty(&pool->waiting) && (conn = pool_take_idle(pool))) {
		pool->is_learning = true;
		pool->probe_next++;
		conn_work(conn, unknown, NULL);
		unknown = NULL;
	}
	wanted = pool->waiting.count + (unknown != NULL);
	while (pool->connecting < wanted && pool->connecting < CONNECTING_MAX &&
	       pool->counters.connections < pool->conns_max) {
		pool_open_one(pool);
		wanted = pool->waiting.count + (unknown && pool->probing);
	}
}

static void pool_on_gone(uv_handle_t *handle)
{
	struct pool *pool = handle->data;

	if (pool->closed)
		pool->closed(pool, pool->closed_arg);
	statements_close(&pool->statements);
	mem_free(pool);
}

static void pool_on_turn(uv_idle_t *handle)
{
	struct pool *pool = handle->data;

	CHECK(uv_idle_stop(handle) == 0);
	pool_hand_back(pool);
	if (!pool->closing)
		pool_hand_out(pool);
	if (pool->probe_done && !pool->probing)
		pool_probe_tell(pool);
	if (pool->closing && list_empty(&pool->conns) && list_empty(&pool->finished) &&
	    !uv_is_closing((uv_handle_t *)handle))
		uv_close((uv_handle_t *)handle, pool_on_gone);
}

/* --- birth and end --- */

static int64_t pool_connect_timeout_ms(const struct origin_policy *policy)
{
	int64_t ms = policy->build_timeout_us / 1000;

	if (ms < 1)
		return 1;
	return ms < CONNECT_TIMEOUT_MS_MAX ? ms : CONNECT_TIMEOUT_MS_MAX;
}

void pool_retime(struct pool *pool, const struct origin_policy *policy)
{
	pool->config.connect_timeout_ms = pool_connect_timeout_ms(policy);
}

int pool_create(uv_loop_t *loop, const struct origin_policy *policy, const struct policy *policies,
		size_t policies_count, const char *lock_namespace, struct pool **ret_pool)
{
	int error = dsn_check(policy->dsn);
	struct pool *pool;

	CHECK(policy->concurrency > 0 && policies_count <= KEYSPACES_MAX);
	if (error)
		return error;
	pool = mem_zalloc(sizeof(*pool));
	if (!pool)
		return -ENOMEM;
	statements_init(&pool->statements);
	if (pool_reserve(pool, (uint32_t)policies_count) != 0) {
		statements_close(&pool->statements);
		mem_free(pool);
		return -ENOMEM;
	}
	pool->config = (struct conn_config){
		.loop = loop,
		.dsn = policy->dsn,
		.is_pooled = policy->pooler,
		.locks = { lock_namespace, guard_slot_class(lock_namespace), 0 },
		.connect_timeout_ms = pool_connect_timeout_ms(policy),
		.idle_ms = IDLE_MS,
		.statements = pool->statements.at,
		.events = &pool_conn_events,
		.owner = pool,
	};
	pool->conns_max = (uint32_t)policy->concurrency;
	pool->standby = policy->standby;
	for (uint32_t i = 0; i < policies_count; i++)
		pool_set(pool, i, &policies[i]);
	list_init(&pool->conns);
	list_init(&pool->idle);
	list_init(&pool->waiting);
	list_init(&pool->finished);
	CHECK(uv_idle_init(loop, &pool->turn) == 0);
	pool->turn.data = pool;
	*ret_pool = pool;
	return 0;
}

void pool_close(struct pool *pool, pool_cb closed, void *arg)
{
	CHECK(!pool->closing);
	pool->closing = true;
	pool->closed = closed;
	pool->closed_arg = arg;
	pool->probing = false;
	while (!list_empty(&pool->waiting))
		pool_cancel_waiting(pool, pool_build_of(list_first(&pool->waiting)));
	list_foreach (&pool->conns, node)
		conn_close(container_of(node, struct conn, node));
	pool_kick(pool);
}

const char *pool_trouble(const struct pool *pool)
{
	return pool->has_trouble ? pool->trouble.text : NULL;
}

const struct statement *pool_statement(const struct pool *pool, uint32_t index)
{
	CHECK(index < ROSTER_MAX);
	return pool->statements.at[index];
}

const struct statement *pool_batch_statement(const struct pool *pool, uint32_t index)
{
	CHECK(index < ROSTER_MAX);
	return pool->statements.at[STATEMENTS_BATCH + index];
}

const struct pool_counters *pool_counters(const struct pool *pool)
{
	return &pool->counters;
}
