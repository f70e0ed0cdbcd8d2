/* The inside of a pool, for the files that work on it:
 *
 *   pool.c        builds, what is known of the queries, the turn, the beginning and the end
 *   pool_conns.c  the connections
 */
#pragma once

#include "base/list.h"
#include "origin/conn.h"
#include "origin/pool.h"
#include "origin/statements.h"
#include "origin/trouble.h"

struct pool {
	struct conn_config config;
	uint32_t conns_max;
	bool standby;      /* what it connects to may be one */
	bool follows;      /* a keyspace asks what a change does */
	bool warned;       /* that it is one */
	struct list conns; /* of struct conn, owned: all that are not freed yet */
	struct list idle;  /* of struct conn: the most recently used first */
	uint32_t connecting;

	/* Where a build is, its `work` says: one of these lists, or the conn that runs it. */
	struct list waiting;
	struct list finished;
	uint64_t asked; /* builds so far */

	/* Learning, for those who want to know beforehand. */
	bool probing;
	bool is_learning;    /* a connection does */
	uint32_t probe_next; /* the statement that is or will be learned */
	pool_cb probe_done;
	void *probe_arg;

	uv_idle_t turn; /* runs while there is something to hand on */
	bool closing;
	pool_cb closed;
	void *closed_arg;
	bool is_away;     /* the last connection that was begun could not be made */
	bool has_trouble; /* or a connection was lost since */
	struct trouble trouble;
	struct pool_counters counters;
	struct statements statements;
};

/* pool.c: has the turn come. Everything is handed on from the loop, never from inside a call. */
void pool_kick(struct pool *pool);

/* pool.c: the build is in that list now. */
void pool_queue(struct list *list, struct build *build);

/* pool.c: the build, which is in no list, is finished, with that trouble. */
void pool_fail(struct pool *pool, struct build *build, const struct trouble *trouble);

/* pool.c: a connection has learned a statement, or `trouble` says why not. */
void pool_probe_learned(struct pool *pool, const struct trouble *trouble);

/* pool_conns.c: what connections tell. */
extern const struct conn_events pool_conn_events;

/* pool_conns.c: a connection that takes work now, taken from the idle ones; NULL: there is none. */
struct conn *pool_take_idle(struct pool *pool);

/* pool_conns.c: begins one more; where that fails, the builds that waited for it have failed. */
void pool_open_one(struct pool *pool);

static inline struct build *pool_build_of(struct list_node *node)
{
	return container_of(node, struct build, node);
}
