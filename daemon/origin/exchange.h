/* One piece of work on a connection: what is said to PostgreSQL for a build, and what comes back.
 *
 * It goes in turns, of which the first is often enough:
 *   1. where the query isn't known yet: prepare it as it is and have it described; then prepare the
 *      guarded statement, which PostgreSQL has to accept too;
 *   2. prepare the guarded statement where this session hasn't, and execute it;
 * and where 2 says that the statement fits its tables no more, both once again;
 *   3. where a lock was held: end the session that holds it, if it should not any more.
 *
 * All of a turn is
 * sent at once, pipelined. After each turn exchange_next sends the next or says that the work is
 * over.
 *
 * A build that has a trace tells PostgreSQL, so that what is logged of it names it: there 2 is a
 * transaction, BEGIN, SET LOCAL application_name, the guarded statement, COMMIT. In a comment the
 * trace would make a statement of its own of each build, to be prepared anew.
 *
 * Behind a pooler each turn may meet another server session, in which nothing of ours may last: no
 * prepared statement, and no setting. There a turn is one transaction with one sync: BEGIN, SET
 * LOCAL, the guarded statement unnamed, COMMIT. What fails in a transaction leaves a failed one,
 * which exchange_clean ends before anything else is done.
 *
 * No waiting and no handles here; conn.h owns the connection.
 */
#pragma once

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/origin.h"
#include "origin/statement.h"
#include "origin/trouble.h"

/* What names the fleet's locks, and the same for all connections of a pool. */
struct exchange_locks {
	const char *lock_namespace; /* borrowed */
	int32_t slot_class;         /* guard_slot_class() of it */
	int64_t longest_ms;         /* no keyspace's builds may take longer */
};

/* The server's side of the session, as far as this side has set it. */
struct exchange_session {
	bool is_pooled;     /* the server's side is another after each transaction */
	bool is_direct;     /* it is not: the server has said so */
	bool settled;       /* the lasting settings were sent */
	bool asked_system;  /* for the system's identifier */
	bool is_hidden;     /* our role may not read the origin's history */
	uint64_t system;    /* the identifier; 0: hidden, or not known yet */
	int64_t timeout_ms; /* statement_timeout; 0: the role's own */
	uint32_t *prepared; /* borrowed; per keyspace the generation that is prepared; 0: none */
	struct statement *const *current; /* borrowed; per keyspace what is in force; NULL: none */
	uint32_t tickets;                 /* handed out so far */
};

/* What is waited for, in the order it was sent. Each ends in a sync of its own, so that an error of
   one leaves the next alone; behind a pooler, only the last of a turn. */
enum exchange_step {
	STEP_BEGIN, /* these three only behind a pooler, or with a trace */
	STEP_COMMIT,
	STEP_ROLLBACK,
	STEP_DIRECT,   /* ask the server's process for its number: a pooler's is another */
	STEP_SETTING,  /* SET of what not every server has: an error does no harm */
	STEP_SYSTEM,   /* ask which system this is: needs not be readable */
	STEP_TIMEOUT,  /* SET statement_timeout */
	STEP_NAME,     /* SET LOCAL application_name, with the trace in it */
	STEP_STRAY,    /* DEALLOCATE of what no keyspace has any more */
	STEP_DROP,     /* DEALLOCATE of what is outdated */
	STEP_QUERY,    /* prepare the bare query, unnamed … */
	STEP_DESCRIBE, /* … and ask what it takes and returns */
	STEP_PREPARE,  /* prepare the guarded statement */
	STEP_EXECUTE,  /* run it */
	STEP_EVICT,    /* end who holds its lock */
};
enum { EXCHANGE_STEPS_MAX = 10 };

struct exchange {
	struct statement *statement; /* counted; NULL: no work */
	struct build *build;         /* borrowed; NULL: only learn the statement */
	uint64_t ticket;             /* goes to the server with the build and must come back */
	uint32_t preparing;          /* the generation that STEP_PREPARE prepares */
	uint32_t stray;              /* the keyspace of STEP_STRAY */
	bool is_learned;             /* the query was described in this work */
	bool is_outdated;            /* the query has to be learned and prepared again … */
	bool is_retry;               /* … and has been, for the second time there is none */
	uint32_t doubted;            /* the generation whose run failed, maybe as outdated; or 0 */
	bool has_evicted;            /* turn 3 was sent */
	unsigned evicted;            /* sessions ended by it */
	bool has_answer;             /* the build's fields are filled */
	bool has_trouble;            /* `trouble` is the first error */
	struct trouble trouble;
	enum exchange_step steps[EXCHANGE_STEPS_MAX];
	unsigned steps_count, steps_done;
	unsigned syncs_count, syncs_done;
};

enum exchange_turn {
	EXCHANGE_PREPARES, /* sent: wait for what it, or the server, is like */
	EXCHANGE_BUILDS,   /* sent: wait for the result */
	EXCHANGE_EVICTS,   /* sent: wait for it to be done */
	EXCHANGE_ENDS,   /* nothing more to do: there is an answer, or trouble, or all is learned */
	EXCHANGE_BREAKS, /* libpq could not take it: the connection is lost */
};

void exchange_begin(struct exchange *exchange, struct exchange_session *session, PGconn *pg,
		    struct statement *statement, struct build *build);

/* The statement's time limit for this work, in ms, at least 1. */
int64_t exchange_timeout_ms(const struct exchange *exchange);

/* Sends the next turn into libpq's buffer. Only at the begin and where a turn has been answered.
   `late`: the build's moment is over; learning goes on, but the build is not sent. */
enum exchange_turn exchange_next(struct exchange *exchange, struct exchange_session *session,
				 const struct exchange_locks *locks, PGconn *pg, bool late);

enum exchange_progress {
	EXCHANGE_WAITS,    /* more has to come */
	EXCHANGE_ANSWERED, /* all that was sent is answered */
	EXCHANGE_CONFUSED, /* what came is no answer to what was sent: the connection is lost */
};

/* Takes the results that have come. */
enum exchange_progress exchange_take(struct exchange *exchange, struct exchange_session *session,
				     PGconn *pg);

/* A turn was answered. True: it has left a failed transaction, of no use to anyone; its end was
   sent, and is to be waited for. `ret_broken`: libpq could not take it. */
bool exchange_clean(struct exchange *exchange, const struct exchange_session *session, PGconn *pg,
		    bool *ret_broken);

/* Keeps `trouble` as the work's, unless it has an answer or an earlier trouble, of which this is
   but a consequence. */
void exchange_fail(struct exchange *exchange, const struct trouble *trouble);

/* Hands the answer or the trouble to the build, if there is one, and forgets the work. Returns the
   build. */
struct build *exchange_end(struct exchange *exchange);
