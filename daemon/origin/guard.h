/* The guarded statement: a keyspace's query that runs only if its advisory locks are free.
 *
 * Leases in the store can lapse while a build runs on; PostgreSQL's own locks cannot. So each build
 * tries the lock of its slot (which bounds the fleet's concurrency) and then, if asked, of its key
 * (which keeps builds single), inside its own statement, and both end with it. The form of the SQL
 * matters: a MATERIALIZED CTE and a LIMIT … OFFSET 0 keep the planner from running the query before
 * the locks, and CASE evaluates in order (PostgreSQL 4.2.14).
 *
 * The timeline comes with each build, since a standby can be promoted under an open connection. On
 * a primary it is read from memory; in recovery from pg_control, whose checkpoint still has the old
 * one for a while after a promotion, but whose end of recovery has the new one at once.
 *
 * Where the lock is held, one row says which; where there is no such row, one row without `found`.
 * Two rows: the query is not single-valued. A value over VALUE_BYTES_MAX never leaves the server:
 * its length comes alone.
 *
 * For a batch the same holds for the slot, and each key's lock is tried for itself: the query runs
 * for those that got theirs, and not at all without any. Its $1 is therefore replaced, in the text,
 * by the array of these: a subquery, which PostgreSQL computes once, before the first row is looked
 * for, and can look up in an index. At least one row comes back, and one for each row of the query.
 * Together their values are at most BATCH_BYTES_MAX; beyond that lengths come alone.
 *
 * All columns come in binary form: for text that is its bytes in the client's encoding (UTF-8).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "core/keyspace.h"

/* The columns that come back. */
enum guard_column {
	GUARD_HELD,     /* integer: enum guard_held */
	GUARD_TICKET,   /* bigint: the build's own number, as it was sent */
	GUARD_SNAPSHOT, /* xid8: xmin of the snapshot */
	GUARD_TIMELINE, /* integer; NULL where our role may not read it */
	GUARD_FOUND,    /* boolean: true, or NULL: no such row */
	GUARD_LENGTH,   /* integer: the value's bytes in the server's encoding; NULL: SQL NULL */
	GUARD_VALUE,    /* NULL also where GUARD_LENGTH is over the limit */
	GUARD_VERSION,  /* these three: bigint; NULL also where the query has no such column */
	GUARD_FRESH_MS,
	GUARD_STALE_MS,
	GUARD_COLUMNS,
	/* Of a batch besides. */
	GUARD_KEY = GUARD_COLUMNS, /* text: the row's key */
	GUARD_LOCKED,              /* text: a 1 or a 0 for each key that was asked for, in order: it
				      has got its lock */
	GUARD_BATCH_COLUMNS
};

/* Rows of a batch's query: more are an error. So is each that is not the only one for its key. */
enum { GUARD_BATCH_ROWS_MAX = 2 * BATCH_KEYS_MAX };

/* The optional columns of a keyspace's query; a bit each. */
enum { GUARD_HAS_VERSION = 1, GUARD_HAS_FRESH_MS = 2, GUARD_HAS_STALE_MS = 4 };

enum guard_held {
	GUARD_FREE,      /* both locks are ours: the query ran */
	GUARD_SLOT_HELD, /* by an older build in this slot */
	GUARD_KEY_HELD,  /* by another build of this key */
};

/* The parameters behind the query's own. */
enum guard_param {
	GUARD_PARAM_CLASS, /* integer: the fleet, guard_slot_class() */
	GUARD_PARAM_SLOT,  /* integer */
	GUARD_PARAM_KEY,   /* bigint: guard_key_lock(), or NULL: without the key's lock. Of a batch:
			      an array of such, beside that of the keys */
	GUARD_PARAM_TICKET, /* bigint */
	GUARD_PARAMS
};

/* The guarded form of `query`, which has `params_count` parameters, a column `value` of type
   `value_type` and the optional `columns`. `has_timeline`: our role may read that. The caller
   owns it (mem_free); NULL when memory is missing. */
char *guard_sql(const char *query, unsigned params_count, uint32_t value_type, unsigned columns,
		bool has_timeline) __attribute__((warn_unused_result));

/* The same of a batch's query, whose one parameter is the array of the keys. `query` has a column
   `key` too. */
char *guard_batch_sql(const char *query, uint32_t value_type, unsigned columns, bool has_timeline)
	__attribute__((warn_unused_result));

/* Asks for the system's identifier, a bigint: one row, or none where our role may not read what
   `has_timeline` needs. An error where it may not read the identifier itself. */
extern const char GUARD_SYSTEM_SQL[];

/* The same with the timeline, an integer, beside it. */
extern const char GUARD_HISTORY_SQL[];

/* Ends the sessions, of our own role and name, that hold one of the locks although their time is
 * over: that took more than GUARD_EVICT_LIMIT ms, or that hang in writing to a client which does
 * not read, and so notice neither their timeout nor a cancel. One row for each that was ended.
 * Behind a blank a name has a build's trace, or what a pooler adds.
 */
extern const char GUARD_EVICT_SQL[];

enum guard_evict_param {
	GUARD_EVICT_CLASS,  /* oid[]: the locks as pg_locks shows them … */
	GUARD_EVICT_OBJECT, /* oid[] */
	GUARD_EVICT_KIND,   /* smallint: … of one bigint, 1, or of two integers, 2 */
	GUARD_EVICT_LIMIT,  /* bigint */
	GUARD_EVICT_STUCK,  /* boolean: also within the limit, if it hangs in writing */
	GUARD_EVICT_PARAMS
};

/* What names the fleet's slots and keys among all advisory locks of the database; the same in all
   daemons of one fleet. Pure; any thread. */
int32_t guard_slot_class(const char *lock_namespace);
int64_t guard_key_lock(const char *lock_namespace, const struct key *key);
