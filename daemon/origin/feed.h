/* The feed: reads the origin's log of changes (sql/05_changes.sql) and has the store apply them.
 *
 * One daemon of the fleet does, by a right from the store (core/change.h); the others ask for that
 * right now and then, and take over within seconds when it lapses.
 *
 *   RESTING ──> ASKING ──> CONNECTING ──> LEARNING ──> APPLYING <──> READING
 *     ^  ^        │ ^                                   ^    │          │
 *     │  └─ held ─┘ │                                   │    v          │
 *     │             └── the position is another's ─────  FINISHING      │
 *     │                                                  │    │          │
 *     └─────────── lost: the store, or PostgreSQL <──────┴────┴── WAITING ──> READING
 *
 *   RESTING     a time: then asks (again)
 *   ASKING      the store: the right, and how far the log has been applied
 *   CONNECTING  PostgreSQL
 *   LEARNING    which history this is, what the database says of the position, and from when on it
 *               is to listen
 *   READING     the changes that have become visible since the position, some at a time
 *   APPLYING    the store, for each of these; with the last, the position
 *   FINISHING   PostgreSQL: the end of the read; now and then it keeps the position too, and trims
 *   WAITING     the bell (NOTIFY), or the time of the next look
 *
 * What has been read is applied at least once: the position moves with the last of it. Where the
 * position is lost, or is of another history, or the log was trimmed beyond it, all that is cached
 * of followed keyspaces expires, spread over FEED_SPREAD_US.
 *
 * All on the loop's thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/policy.h"
#include "core/change.h"

enum { FEED_SPREAD_US = 30 * 1000 * 1000 };

struct feed;

struct feed_options {
	const char *dsn;   /* the database whose log it is; borrowed, as all that follows */
	const char *fleet; /* its name in the database; NULL: its position is kept nowhere */
	const struct policy *policies; /* copied */
	size_t policies_count;
	int64_t poll_us;      /* how often the log is read without a bell */
	int64_t retention_us; /* how long it is kept at least */
	bool standby;         /* builds read one */
	struct change_store store;
	uint64_t seed;
};

/* X(name, what it counts): they only grow */
#define FEED_COUNTER_MAP(X)                                                                        \
	X(reads, "times that the log of changes was read")                                         \
	X(rows, "changes read")                                                                    \
	X(keys, "keys that they changed, each once a reading")                                     \
	X(failures, "readings that failed")                                                        \
	X(expired, "times that all that is cached of the followed keyspaces expired")              \
	X(bad_keys, "changes of keys that are none")

/* X(name): `lag_ms`, from the beginning of the oldest transaction of the last batch to its reading;
   `open_ms`, for so long a transaction has been open that may still log changes */
#define FEED_GAUGE_MAP(X)                                                                          \
	X(lag_ms)                                                                                  \
	X(open_ms)

struct feed_stats {
	const char *state; /* static */
	bool following;    /* this daemon reads */
#define X(name, text) int64_t name;
	FEED_COUNTER_MAP(X)
#undef X
#define X(name) int64_t name;
	FEED_GAUGE_MAP(X)
#undef X
};

/* Whether any keyspace follows the log. */
bool feed_is_wanted(const struct policy *policies, size_t count);

/* Starts. 0 or -ENOMEM. */
int feed_create(uv_loop_t *loop, const struct feed_options *options, struct feed **ret_feed)
	__attribute__((warn_unused_result));

/* Goes by other policies from the next read on; they are copied. All that is cached expires if
   other keyspaces are followed than before. 0 or -ENOMEM: then it goes on by the old. */
int feed_follow(struct feed *feed, const struct policy *policies, size_t count)
	__attribute__((warn_unused_result));

void feed_get_stats(const struct feed *feed, struct feed_stats *ret_stats);

/* Gives the right back and ends; `closed` fires once, later, and the feed is gone. The store must
   answer until then. */
void feed_close(struct feed *feed, void (*closed)(void *arg), void *arg);
