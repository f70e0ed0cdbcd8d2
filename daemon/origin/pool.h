/* The origin that core/origin.h asks for: builds on PostgreSQL, over a pool of connections.
 *
 * Connections are opened on demand, at most `concurrency` of them; idle ones are kept for a while,
 * most recently used first, and watched, so that those of a server that went away are never used. A
 * build that finds none waits for one: in turn, and never longer than a connection takes to be made
 * or to be given up (conn.h has the limits). If its moment is over by then, it is LATE, and the
 * connection is there for its next one. The pool retries nothing and backs off from nothing: that
 * is the core's.
 *
 *   a connection can't be made   the builds that waited for it are LOST (or there was NO_ROOM)
 *   a connection breaks          its build is LOST, the others go on
 *
 * Builds that are chained run as one, by their keyspace's batch query, on one connection.
 *
 * A keyspace's query is prepared when it is first needed. Whether it can be is known after
 * pool_probe, or after the first build. All on the loop's thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/policy.h"
#include "core/origin.h"
#include "origin/statement.h"

/* X(name, what it is): they go up and down */
#define POOL_GAUGE_MAP(X)                                                                          \
	X(connections, "connections to the origin")                                                \
	X(building, "statements under way there")

/* X(name, what it counts): they only grow */
#define POOL_COUNTER_MAP(X)                                                                        \
	X(connects, "connections made")                                                            \
	X(connect_failures, "connections that could not be made")                                  \
	X(lost, "connections that broke")                                                          \
	X(cancels, "statements that were asked to end early")                                      \
	X(evictions, "backends ended that held a lock past their time")

struct pool_counters {
#define X(name, text) uint64_t name;
	POOL_GAUGE_MAP(X)
	POOL_COUNTER_MAP(X)
#undef X
};

struct pool;
typedef void (*pool_cb)(struct pool *pool, void *arg);

/* A pool for the keyspaces, numbered as in `policies`, which it keeps (policy_ref); the other
   arguments are borrowed until it is closed. Nothing connects yet. `lock_namespace` is the same in
   all daemons of one fleet and names its advisory locks. 0, -EINVAL where the DSN is not one,
   -ENOMEM, or another negative errno. */
int pool_create(uv_loop_t *loop, const struct origin_policy *policy, const struct policy *policies,
		size_t policies_count, const char *lock_namespace, struct pool **ret_pool)
	__attribute__((warn_unused_result));

/* The interface that the pump takes; valid until pool_close. Builds still under way when the pool
   is closed are CANCELLED. */
struct origin pool_origin(struct pool *pool);

/* For a reload: memory for so many pool_set that bring another query, be it the keyspace's own or
   that of its batches. 0 or -ENOMEM. */
int pool_reserve(struct pool *pool, uint32_t count) __attribute__((warn_unused_result));

/* The keyspace of this index has this policy from now on. Where its query is another, builds that
   have been handed to a connection end with the old one; all connections forget that. */
void pool_set(struct pool *pool, uint32_t index, const struct policy *policy);

/* Takes over what of this policy can be changed: the time to connect. */
void pool_retime(struct pool *pool, const struct origin_policy *policy);

/* Prepares every keyspace's query that isn't known to be fine, one after the other, while builds go
   first. `done` (NULL: nobody asks) fires once, later: when all are known, or as soon as the origin
   can't be reached, which pool_trouble then tells; also when the pool is closed. One `done` at a
   time; a probe under way begins anew. */
void pool_probe(struct pool *pool, pool_cb done, void *arg);

/* Why the last connection could not be made or was lost; NULL if none was, or one has been made
   since. Valid until the loop goes on. */
const char *pool_trouble(const struct pool *pool);

/* What is known of a keyspace's query: its state and error, parameter types and columns. Valid
   until the loop goes on. NULL: there is no such keyspace. */
const struct statement *pool_statement(const struct pool *pool, uint32_t index);

/* The same of its batch query; NULL: it has none. */
const struct statement *pool_batch_statement(const struct pool *pool, uint32_t index);

const struct pool_counters *pool_counters(const struct pool *pool);

/* Ends all builds and connections at once. `closed` (may be NULL) fires once, later; the pool is
   gone when it returns. */
void pool_close(struct pool *pool, pool_cb closed, void *arg);
