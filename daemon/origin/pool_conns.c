/* The pool's connections: those that it opens, and what they tell. */
#include <libpq-fe.h>
#include <string.h>

#include "base/log.h"
#include "origin/pool_state.h"

/* A connection that was begun when `asked` builds had been asked for could not be made. The builds
 * that waited then give up, but for as many as have others on the way; those that came later see
 * for themselves. */
static void pool_give_up(struct pool *pool, const struct trouble *trouble, uint64_t asked)
{
	while (pool->waiting.count > pool->connecting &&
	       pool->asked - pool->waiting.count < asked) {
		struct build *build = pool_build_of(list_pop_front(&pool->waiting));
		pool_fail(pool, build, trouble);
	}
	if (pool->connecting == 0 && !pool->is_learning)
		pool->probing = false;
}

struct conn *pool_take_idle(struct pool *pool)
{
	struct list_node *node;

	while ((node = list_pop_front(&pool->idle))) {
		struct conn *conn = container_of(node, struct conn, idle_node);
		if (conn_is_usable(conn))
			return conn;
	}
	return NULL;
}

void pool_open_one(struct pool *pool)
{
	struct trouble trouble;
	struct conn *conn;

	if (conn_open(&pool->config, &conn) == 0) {
		conn->owner_mark = pool->asked;
		list_push_back(&pool->conns, &conn->node);
		pool->connecting++;
		pool->counters.connections++;
		return;
	}
	trouble_set(&trouble, BUILD_NO_ROOM, STATUS_OVERLOADED, "no memory for a connection");
	pool_give_up(pool, &trouble, pool->asked);
}

/* Its builds lag behind the log of changes, and nobody would know. */
static void pool_check_standby(struct pool *pool, const struct conn *conn)
{
	const char *is_one = PQparameterStatus(conn->session.pg, "in_hot_standby");

	if (pool->standby || !pool->follows || pool->warned || !is_one || strcmp(is_one, "on") != 0)
		return;
	pool->warned = true;
	log_error("origin.standby",
		  LOG_TEXT("why",
			   "origin.dsn leads to a standby, and origin.standby is false: what "
			   "it has not replayed yet can be missed by fresh values"));
}

static void pool_on_opened(struct conn *conn)
{
	struct pool *pool = conn->config->owner;

	pool_check_standby(pool, conn);
	pool->connecting--;
	pool->counters.connects++;
	pool->has_trouble = false;
	if (pool->is_away)
		log_info("origin.back");
	pool->is_away = false;
}

static void pool_on_idle(struct conn *conn)
{
	struct pool *pool = conn->config->owner;

	list_push_front(&pool->idle, &conn->idle_node);
	pool_kick(pool);
}

static void pool_on_finished(struct conn *conn, struct build *build, const struct trouble *trouble)
{
	struct pool *pool = conn->config->owner;

	if (conn->exchange.evicted > 0) {
		pool->counters.evictions += conn->exchange.evicted;
		log_warning(
			"origin.evicted",
			LOG_TEXT("why", "it held a lock beyond its time, or was stuck sending"));
	}
	if (build) {
		pool->counters.building--;
		pool_queue(&pool->finished, build);
	} else {
		pool_probe_learned(pool, trouble);
	}
	pool_kick(pool);
}

static void pool_on_lost(struct pool *pool, const struct trouble *trouble)
{
	pool->counters.lost++;
	log_warning("origin.lost", LOG_TEXT("why", trouble->text));
}

static void pool_on_no_connection(struct pool *pool, const struct trouble *trouble, uint64_t asked)
{
	pool->counters.connect_failures++;
	if (!pool->is_away)
		log_warning("origin.away", LOG_TEXT("why", trouble->text));
	pool->is_away = true;
	pool_give_up(pool, trouble, asked);
}

static void pool_on_closed(struct conn *conn, const struct trouble *trouble)
{
	struct pool *pool = conn->config->owner;

	if (list_linked(&conn->idle_node))
		list_remove(&pool->idle, &conn->idle_node);
	pool->counters.connections--;
	if (!conn->was_open)
		pool->connecting--;
	pool_kick(pool);
	if (!trouble)
		return;
	pool->has_trouble = true;
	pool->trouble = *trouble;
	if (conn->was_open)
		pool_on_lost(pool, trouble);
	else
		pool_on_no_connection(pool, trouble, conn->owner_mark);
}

static void pool_on_freed(struct conn *conn)
{
	struct pool *pool = conn->config->owner;

	list_remove(&pool->conns, &conn->node);
	pool_kick(pool);
}

const struct conn_events pool_conn_events = {
	.opened = pool_on_opened,
	.idle = pool_on_idle,
	.finished = pool_on_finished,
	.closed = pool_on_closed,
	.freed = pool_on_freed,
};
