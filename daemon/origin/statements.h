/* The statements in force: one for each keyspace that there is, and one more for its batch query,
 * if it has one.
 *
 * A reload reserves memory for the queries that are new, and then nothing of it can fail. Owned by
 * the pool, on the loop's thread.
 */
#pragma once

#include <stdint.h>

#include "core/roster.h"
#include "origin/statement.h"

/* A statement's index is its keyspace's, and for the batch query so much more. */
enum { STATEMENTS_BATCH = ROSTER_MAX, STATEMENTS_MAX = 2 * ROSTER_MAX };

struct statements {
	struct statement *at[STATEMENTS_MAX]; /* counted; by index; NULL: none */
	struct list spare;                    /* of struct statement, counted: for statements_set */
	uint32_t generations;                 /* of all statements, so far */
};

void statements_init(struct statements *statements);
void statements_close(struct statements *statements); /* accepts a zeroed one */

/* Memory for so many statements_set that bring another query, of either kind. 0 or -ENOMEM. */
int statements_reserve(struct statements *statements, uint32_t count)
	__attribute__((warn_unused_result));

/* The keyspace has this policy from now on, and other statements if a query is another. */
void statements_set(struct statements *statements, uint32_t index, const struct policy *policy);

/* It is gone. */
void statements_forget(struct statements *statements, uint32_t index);
