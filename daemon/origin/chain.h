/* Builds chained to one statement: its parameters out of their keys, and its rows to each of them.
 *
 * The keys go as one array, in a bound parameter, so that whatever is in them stays data. A key
 * whose argument does not fit is BAD_KEY at once and is not asked for; the others are, in order.
 * What each build then has is an outcome of its own:
 *
 *   its lock is held                     KEY_HELD
 *   no row has its key                   NO_ROW
 *   one row has                          as for a build alone
 *   two have                             FAILED, and the text names the key
 *   its value came after BATCH_BYTES_MAX of others   APART
 *
 * On the loop's thread.
 */
#pragma once

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/origin.h"
#include "origin/statement.h"
#include "origin/trouble.h"

/* The two arrays, as PostgreSQL reads them. Owned. */
struct chain_arrays {
	char *keys;  /* of $1's type */
	char *locks; /* bigint[] */
};
void chain_arrays_free(struct chain_arrays *arrays);

/* Judges each build's key by what the statement takes, and makes the arrays of those that fit.
   0: made, or `keys` is NULL, for none fits. -1: no memory. May be called again for the same chain:
   what an earlier call found is forgotten. */
int chain_ask(struct build *first, const struct statement *statement, const char *lock_namespace,
	      struct chain_arrays *ret_arrays) __attribute__((warn_unused_result));

/* From a result of PGRES_TUPLES_OK. 0: each build that was asked for has its outcome. -1:
   `ret_trouble` is set, the builds are untouched: a row whose key was not asked for or is NULL, or
   too many rows (BUILD_APART); or a ticket that isn't `ticket` (BUILD_LOST). */
int chain_read(struct build *first, const PGresult *result, uint64_t ticket, uint64_t system,
	       struct trouble *ret_trouble) __attribute__((warn_unused_result));

/* Sets the outcome of each build that was asked for, or of all where none was yet. `apart`: it may
   be the fault of one of them. */
void chain_fail(struct build *first, const struct trouble *trouble, bool apart);

/* Whether any has the outcome. */
bool chain_has(const struct build *first, enum build_outcome outcome);
