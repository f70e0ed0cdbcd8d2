/* What the origin knows of one keyspace's query: whether PostgreSQL accepts it, what it takes, what
 * it returns. Learned from the first connection that prepares it, shared by all.
 *
 *   UNKNOWN ──learn──> OK        prepared, and its columns are as they must be
 *      └───── refuse ─> REFUSED  PostgreSQL or we do not accept it: `error` says why; tried again
 * by the next build, since the table may have come meanwhile
 *
 * The query's columns: `value` (any type) and, if it likes, `version`, `fresh_ms`
 * and `stale_ms` (smallint, integer, bigint). A batch query has the column `key` (any type) too,
 * and one parameter, an array; the keyspace's other one then takes one argument.
 *
 * A changed query is another statement. Counted: the pool holds those in force, each work its own
 * until it ends. On the loop's thread.
 */
#pragma once

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/list.h"
#include "base/policy.h"
#include "origin/guard.h"

#define STATEMENT_STATE_MAP(X) X(UNKNOWN, unknown) X(OK, ok) X(REFUSED, refused)

#define X(NAME, name) STATEMENT_##NAME,
enum statement_state { STATEMENT_STATE_MAP(X) };
#undef X
const char *statement_state_name(enum statement_state state);

struct statement {
	uint32_t refs;
	struct list_node node;       /* the pool's, while it is spare */
	const struct policy *policy; /* counted */
	const char *query;           /* borrowed of the policy's two: what this is about */
	struct statement *single;    /* counted; of a batch query: its keyspace's other one; NULL:
					this is that */
	uint32_t index;              /* among all statements of a pool: origin/statements.h */
	enum statement_state state;
	uint32_t *generations; /* borrowed: the last that was given, to whichever statement */
	uint32_t generation;   /* another each time the query is learned anew; 0: never learned */
	unsigned params_count;
	uint32_t params[KEY_ARGS_MAX + GUARD_PARAMS]; /* types: the query's own, then the guard's */
	uint32_t value_type;
	unsigned columns;               /* the optional ones it has: GUARD_HAS_… */
	bool has_timeline;              /* the guarded form asks for it */
	uint64_t doubted_ms;            /* see pool_check_key; 0: not yet */
	char *sql;                      /* owned; the guarded form */
	char error[ERROR_TEXT_MAX + 1]; /* REFUSED: why */
};

/* One without a keyspace, with one reference; then it gets one. NULL when memory is missing. */
struct statement *statement_create(uint32_t *generations) __attribute__((warn_unused_result));

/* `single`: NULL for the keyspace's own query; else this is about its batch query. */
void statement_set(struct statement *statement, const struct policy *policy, uint32_t index,
		   struct statement *single);

struct statement *statement_ref(struct statement *statement);
void statement_unref(struct statement *statement); /* NULL is fine */

/* Takes what PostgreSQL says of the prepared query (PQdescribePrepared), and whether our role may
   read the origin's timeline. 0: learned; the state
   stays as it is until statement_accept, after the guarded form has been prepared too. -EINVAL: its
   columns or parameters do not do, and the statement is REFUSED. -ENOMEM: nothing has changed. */
int statement_learn(struct statement *statement, const PGresult *description, bool has_timeline)
	__attribute__((warn_unused_result));

void statement_accept(struct statement *statement);
void statement_refuse(struct statement *statement, const char *text);
