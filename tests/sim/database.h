/* The origin's rows, and all that was ever committed to them.
 *
 * A row has a version, drawn from one sequence for all rows when a transaction writes it, under the
 * row's lock: so one row's versions grow in commit order, and those of different rows do not. A
 * transaction stays open for a while, and some never commit. A key reads one row, or in
 * KEYSPACE_SUM a few neighbours, whose greatest version is its own.
 *
 * What is read is the database as it was at its position: that of a standby stands still while it
 * lags. A failover goes back to what the promoted replica had; its history is another, and versions
 * that were lost come again.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "changelog.h"
#include "scene.h"

enum { ROWS_OF_SUM = 3 };

struct commit {
	int64_t at_us;
	int64_t version;
	bool exists; /* false: deleted */
};

struct transaction;
struct row {
	struct commit *commits; /* owned; the first is the row's beginning */
	uint32_t count, room;
	struct transaction *writer; /* owned; the open one that has locked it, or NULL */
};

/* A standby stood still in between; `to_us` INT64_MAX: it still does. */
struct lag {
	int64_t from_us, to_us;
};
enum { LAGS_MAX = 1000 };

struct database {
	struct fleet *fleet;
	struct rng rng, bells;
	struct row rows[KEYS_MAX];
	int64_t sequence;
	struct changelog log; /* where the scene has one */
	struct timer next;
	uint32_t open; /* transactions */

	/* Set by trouble.c. */
	struct lag lags[LAGS_MAX]; /* the last one may go on */
	uint32_t lags_count;
	uint32_t timeline;
	int64_t promoted_us; /* when the last failover was, true time */
};

/* What a query for a key finds at a moment. */
struct reading {
	bool exists, has_version;
	int64_t version;
};

void database_init(struct database *database, struct fleet *fleet);
void database_close(struct database *database);

/* What a reader sees at a moment is how the rows were at this one. */
int64_t database_position(const struct database *database, int64_t at_us);

/* The origin's history now, as builds have it. */
uint64_t database_history(const struct database *database);

void database_lag(struct database *database);
void database_catch_up(struct database *database);
/* All that was committed since then is lost, and what is open. */
void database_promote(struct database *database, int64_t since_us);

struct reading database_read(const struct database *database, int key, int64_t at_us);

/* The numbers of the open transactions before that one; how many. */
uint32_t database_open_before(const struct database *database, uint64_t xid,
			      uint64_t ret_xids[SNAPSHOT_OPEN_MAX]);

/* When the row's version was committed; INT64_MAX: it never was. */
int64_t database_committed_at(const struct database *database, int row, int64_t version);
