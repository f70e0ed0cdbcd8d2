/* The rows that have been read of the log, as changes for the store: some at a time.
 *
 * Owned by the feed; what it hands out borrows the rows.
 */
#pragma once

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/change.h"

enum { FEED_ROWS_FETCHED = 512 }; /* at once */

/* The columns of a row: one key. */
enum feed_row_column {
	FEED_ROW_KEY,
	FEED_ROW_VERSION, /* the greatest */
	FEED_ROW_COUNT,   /* how many changes */
	FEED_ROW_WHOLE,   /* t: all of the keyspace changed */
	FEED_ROW_AGE_MS,  /* since the first of them began */
	FEED_ROW_XID,     /* the last transaction's */
	FEED_ROW_COLUMNS
};

struct feed_rows {
	const struct policy *policies; /* borrowed */
	size_t policies_count;
	PGresult *result; /* owned; NULL: none */
	int next, count;
	uint64_t bad_keys; /* of no form that a key has, or too long: nobody can ask for them */
	struct logged_change changes[CHANGES_MAX];
};

/* Takes the rows of a FETCH, a copy of them; false where memory is missing or they are none. */
bool feed_rows_take(struct feed_rows *rows, const PGresult *result)
	__attribute__((warn_unused_result));

/* Fills `changes` with the next of them; how many. 0: there are no more. */
uint32_t feed_rows_next(struct feed_rows *rows);

/* Fills it with one change of all keys of the followed keyspaces from the `*at`th policy on, of
   which this is the transaction. */
uint32_t feed_rows_expire_all(struct feed_rows *rows, size_t *at, int64_t spread_us, uint64_t xid);

void feed_rows_drop(struct feed_rows *rows);

/* The age of the oldest of them, in ms. */
int64_t feed_rows_age_ms(const struct feed_rows *rows);
