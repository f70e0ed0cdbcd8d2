/* The connection on which the log of changes is read: one turn of statements at a time.
 *
 *   CLOSED ──> DIALLING ──> IDLE <──> BUSY
 *     ^───────────┴──────────┴─────────┘ lost, or closed
 *
 * A turn's statements are sent at once and end in one sync: after an error the rest of them is not
 * run. What is sent outlives nothing: after an error inside a transaction the owner closes. Each
 * wait ends: DIALLING after FEED_CONNECT_MS, BUSY after FEED_TURN_MS.
 *
 * Embedded in its owner. All on the loop's thread; no event fires inside a call.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "origin/aside.h"
#include "origin/session.h"
#include "origin/trouble.h"

enum { FEED_CONNECT_MS = 5000, FEED_TURN_MS = 20000, FEED_PARAMS_MAX = 4, FEED_STATEMENTS_MAX = 6 };

enum feed_link_state { FEED_LINK_CLOSED, FEED_LINK_DIALLING, FEED_LINK_IDLE, FEED_LINK_BUSY };

struct feed_statement {
	const char *sql;
	const char *params[FEED_PARAMS_MAX]; /* text; sent at once */
	int params_count;
};

struct feed_link;

struct feed_link_events {
	void (*opened)(struct feed_link *link);

	/* The result of the turn's statement `n`, which went well. */
	void (*result)(struct feed_link *link, unsigned n, const PGresult *result);

	/* The turn is over; `trouble`: its first error, NULL: none. */
	void (*answered)(struct feed_link *link, const struct trouble *trouble);

	/* A notification has come. */
	void (*rang)(struct feed_link *link);

	/* It could not be made, or broke; it is closed. */
	void (*lost)(struct feed_link *link, const struct trouble *trouble);

	/* After feed_link_end: no handle is open any more. */
	void (*ended)(struct feed_link *link);
};

struct feed_link {
	enum feed_link_state state;
	const struct feed_link_events *events; /* borrowed, static */
	uv_loop_t *loop;                       /* borrowed */
	struct session session;
	struct aside *aside; /* owned; the dial under way */
	uv_async_t told;     /* … has ended */
	uv_timer_t timer;
	int handles;
	unsigned sent, done; /* statements of the turn */
	bool has_trouble;
	struct trouble trouble;
};

void feed_link_init(struct feed_link *link, uv_loop_t *loop, const struct feed_link_events *events);

/* CLOSED: begins to connect. */
void feed_link_open(struct feed_link *link, const char *dsn);

/* IDLE: sends a turn. Trouble is told by `lost`, on a turn of the loop. */
void feed_link_send(struct feed_link *link, const struct feed_statement *statements,
		    unsigned count);

/* At once; no event of it follows. Accepts a closed one. */
void feed_link_close(struct feed_link *link);

/* For good: closes, then `ended`. */
void feed_link_end(struct feed_link *link);
