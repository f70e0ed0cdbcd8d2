/* One connection to PostgreSQL: one piece of work at a time, from its birth to its end.
 *
 *                      ┌──────────────┬─────────────┐ done
 *                      v              │             │
 *   CONNECTING ──────> IDLE ──> PREPARING <──> BUILDING
 *        │              │ └───────────┼──────────^  │
 *        │              │             v             v
 *        │              │ <────── CANCELLING <──────┘
 *        v              v             │
 *      CLOSED <──────── from all <────┘
 *
 * Who waits for what, and for how long at most (one timer; the state is its meaning):
 *   CONNECTING   the server's welcome        connect_timeout_ms
 *   IDLE         work; watched for its end   idle_ms, then closed; sooner after a large value
 *   PREPARING    the query's description     the build's timeout + CONN_GRACE_MS, then cancelled
 *   BUILDING     the result, and that who held its lock is ended: the same, PREPARING included
 *   CANCELLING   the result, and PQcancel    CONN_CANCEL_MS, then closed; behind a pooler at once
 *
 * The server ends a statement by itself at the build's timeout; ours is the backstop for a server
 * that hangs. Each build comes back by `finished`, exactly once, also where the connection breaks
 * or is closed. `closed` comes once; after `freed` the conn is gone. No event fires inside
 * conn_open; `finished`, `idle` and `closed` may fire inside the other calls.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/list.h"
#include "core/origin.h"
#include "origin/aside.h"
#include "origin/exchange.h"
#include "origin/session.h"
#include "origin/statement.h"
#include "origin/statements.h"
#include "origin/trouble.h"

/* X(NAME, name, bits of the states it may go to) */
#define CONN_STATE_MAP(X)                                                                          \
	X(CONNECTING, connecting, CONN_MAY(IDLE) | CONN_MAY(CLOSED))                               \
	X(IDLE, idle,                                                                              \
	  CONN_MAY(IDLE) | CONN_MAY(PREPARING) | CONN_MAY(BUILDING) | CONN_MAY(CLOSED))            \
	X(PREPARING, preparing,                                                                    \
	  CONN_MAY(IDLE) | CONN_MAY(BUILDING) | CONN_MAY(CANCELLING) | CONN_MAY(CLOSED))           \
	X(BUILDING, building,                                                                      \
	  CONN_MAY(IDLE) | CONN_MAY(PREPARING) | CONN_MAY(CANCELLING) | CONN_MAY(CLOSED))          \
	X(CANCELLING, cancelling, CONN_MAY(IDLE) | CONN_MAY(CLOSED))                               \
	X(CLOSED, closed, 0)
#define CONN_MAY(NAME) (1u << CONN_##NAME)

enum conn_state {
#define X(NAME, name, next) CONN_##NAME,
	CONN_STATE_MAP(X)
#undef X
};
const char *conn_state_name(enum conn_state state);

enum {
	CONN_LARGE =
		1024 * 1024, /* bytes of a value that libpq needed much memory for, which only … */
	CONN_LARGE_IDLE_MS = 1000, /* … closing gives back */
	CONN_GRACE_MS = 2000,
	CONN_CANCEL_MS = 2000,
};

struct conn;

struct conn_events {
	/* Connected; `idle` follows. */
	void (*opened)(struct conn *conn);

	/* It can take work, for the first time or again. */
	void (*idle)(struct conn *conn);

	/* The work is over. `build` has its answer; NULL: the statement was to be learned, see its
	   state, or `trouble`. */
	void (*finished)(struct conn *conn, struct build *build, const struct trouble *trouble);

	/* Of no use any more; `trouble` says why, NULL where that was asked for, or it was idle for
	   long. */
	void (*closed)(struct conn *conn, const struct trouble *trouble);

	/* All handles are closed; its memory goes when this returns. */
	void (*freed)(struct conn *conn);
};

/* What all connections of a pool share. */
struct conn_config {
	uv_loop_t *loop; /* borrowed */
	const char *dsn; /* borrowed */
	bool is_pooled;  /* a pooler answers there: exchange.h */
	struct exchange_locks locks;
	int64_t connect_timeout_ms;
	int64_t idle_ms;                     /* an idle connection is kept so long */
	struct statement *const *statements; /* borrowed; by keyspace: what is in force */
	const struct conn_events *events;    /* borrowed, static */
	void *owner;
};

enum conn_why { CONN_NOT_CANCELLED, CONN_CANCELLED_BY_OWNER, CONN_CANCELLED_BY_TIMEOUT };

struct conn {
	struct list_node node;            /* the owner's */
	struct list_node idle_node;       /* the owner's */
	uint64_t owner_mark;              /* the owner's */
	const struct conn_config *config; /* borrowed */
	enum conn_state state;
	struct session session;
	uv_timer_t timer;
	uv_async_t told; /* sent when `aside` has returned */
	int handles;     /* open ones: timer, told */
	bool was_open;   /* it has been IDLE once */
	struct exchange exchange;
	struct exchange_session server;
	struct aside *aside; /* owned; CONNECTING: the dial, else a cancel; NULL: none under way */
	enum conn_why why;
	bool is_large;                     /* the last value was over CONN_LARGE */
	uint32_t prepared[STATEMENTS_MAX]; /* see exchange_session */
};

/* Starts connecting. 0, or -1 when memory is missing. */
int conn_open(const struct conn_config *config, struct conn **ret_conn)
	__attribute__((warn_unused_result));

/* Whether an idle connection can take work: nothing has come that says otherwise. Else closes it.
 */
bool conn_is_usable(struct conn *conn);

/* Starts work on an idle connection: the build, or, if that is NULL, only to learn the statement.
   A build whose due_ns (uv_hrtime) is over before its turn to be sent is LATE. */
void conn_work(struct conn *conn, struct statement *statement, struct build *build);

/* Asks for an early end of the work. */
void conn_cancel(struct conn *conn);

/* Ends the connection now; a build under way is CANCELLED. */
void conn_close(struct conn *conn);
