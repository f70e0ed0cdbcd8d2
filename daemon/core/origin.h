/* The origin as the core sees it: something that builds a key's value.
 *
 * Implemented by origin/pool.h (PostgreSQL) and by the simulator. One build is one run of the
 * keyspace's query for one key. Several of one keyspace can go together: chained by `next`, they
 * are one run of its batch query. Rules for implementations:
 *   - `done` fires exactly once for each chain that was started, never inside the call that starts
 *     or cancels it, also when the origin closes; then each build has its answer;
 *   - at most `concurrency` chains run at once (the core sees to it; the implementation may CHECK);
 *   - the value's bytes arrive as text, but for bytea columns, which arrive as their bytes.
 * Everything happens on the loop's thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/value.h"
#include "core/keyspace.h"
#include "proto/status.h"
#include "proto/trace.h"

/* X(NAME, name, what it means) */
#define BUILD_OUTCOME_MAP(X)                                                                       \
	X(ROW, row, "one row: a value or SQL NULL")                                                \
	X(NO_ROW, no_row, "the query found no row")                                                \
	X(FAILED, failed, "the origin reported an error: for all hosts, remembered")               \
	X(BAD_KEY, bad_key, "the key's arguments do not fit the query: nothing was sent")          \
	X(KEY_HELD, key_held, "the key's advisory lock is held: another build of it runs")         \
	X(SLOT_HELD, slot_held, "the slot's advisory lock is held: an older build still runs")     \
	X(APART, apart,                                                                            \
	  "of several: nothing came of it, maybe by another's fault; build it alone")              \
	X(NO_ROOM, no_room, "the origin takes no more connections")                                \
	X(LATE, late, "nothing was sent: its moment was over before there was a connection")       \
	X(LOST, lost, "no connection, or it broke: this host's own trouble, not remembered")       \
	X(CANCELLED, cancelled, "cancelled by the daemon")

enum build_outcome {
#define X(NAME, name, text) BUILD_##NAME,
	BUILD_OUTCOME_MAP(X)
#undef X
};
const char *build_outcome_name(enum build_outcome outcome);

struct build;
typedef void (*build_done_cb)(struct build *build);

/* One build, embedded in its owner. The owner fills the first part and keeps all of it in place
   until `done`. Of a chain, the first's slot, time limit and `done` are all of theirs. */
struct build {
	struct key key;     /* bytes borrowed until done */
	struct build *next; /* in the same statement, another key of the same keyspace; at most
			       BATCH_KEYS_MAX in all. NULL: none */
	int slot;           /* which of `concurrency` advisory locks to take at the origin */
	bool lock_key;      /* take the key's advisory lock too: under a lease, so that whoever
			       holds it has none any more. The origin ends such a holder that
			       is over its time or stuck sending; this build is KEY_HELD, the
			       next may get through */
	int64_t timeout_us; /* the statement's limit, enforced by the origin itself */
	int64_t within_us;  /* it is sent so soon after it was handed over, or not at all: LATE */
	const struct trace *trace; /* what the origin may log of it, if it logs; borrowed until
				      done. Of a chain, the first counts that has one. NULL: none */
	build_done_cb done;

	/* The answer. The owner takes over both references. */
	enum build_outcome outcome;
	struct value *value; /* counted; ROW: the value, NULL for SQL NULL */
	bool has_version;
	int64_t version;  /* the `version` column, if it has one and it isn't NULL */
	int64_t fresh_us; /* the row's own times, in place of the policy's; -1: none */
	int64_t stale_us;
	uint64_t history;   /* of the origin, as history_of() (core/entry.h) makes it; 0: unknown */
	uint64_t snapshot;  /* xmin of the snapshot the query ran under; 0: unknown */
	enum status status; /* FAILED, BAD_KEY, NO_ROOM, LOST: what waiters get */
	struct value *text; /* counted; the error's text, for the same */

	/* The implementation's own. */
	uint64_t due_ns;
	struct list_node node;
	void *work;
};

struct origin {
	void *impl;

	/* Starts a build, with those chained to it; never fails: trouble is an outcome. */
	void (*build)(void *impl, struct build *build);

	/* Asks for an early end of what was started; `done` still fires, perhaps with its result.
	 */
	void (*cancel)(void *impl, struct build *build);

	/* Whether the key's arguments fit the keyspace's query (count, canonical form), as far as
	   the query's parameter types are known by now: STATUS_OK, also where they are not known
	   yet, or STATUS_BAD_REQUEST with a text (NUL-terminated, cut to `text_size`). No I/O. */
	enum status (*check_key)(void *impl, const struct key *key, char *text, size_t text_size);

	/* The keyspace of this index is gone, its number free for another. NULL: nobody cares. */
	void (*forget)(void *impl, uint32_t keyspace);
};
