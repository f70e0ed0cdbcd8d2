/* The origin's rows, and all that was ever committed to them.
 *
 * A row has a version, drawn from one sequence for all rows when a transaction writes it, under the
 * row's lock: so one row's versions grow in commit order, and those of different rows do not. A
 * transaction stays open for a while, and some never commit. A key reads one row, or in
 * KEYSPACE_SUM a few neighbours, whose greatest version is its own.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

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
	uint32_t count;
	struct transaction *writer; /* owned; the open one that has locked it, or NULL */
};

struct database {
	struct fleet *fleet;
	struct rng rng;
	struct row rows[KEYS_MAX];
	int64_t sequence;
	struct timer next;
	uint32_t open; /* transactions */
};

/* What a query for a key finds at a moment. */
struct reading {
	bool exists, has_version;
	int64_t version;
};

void database_init(struct database *database, struct fleet *fleet);
void database_close(struct database *database);

struct reading database_read(const struct database *database, int key, int64_t at_us);

/* When the row's version was committed; INT64_MAX: it never was. */
int64_t database_committed_at(const struct database *database, int row, int64_t version);
