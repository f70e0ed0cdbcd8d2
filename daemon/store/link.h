/* A link: one connection to Redis that is kept up.
 *
 *   RESTING ──> RESOLVING ──> CONNECTING ──> GREETING ──> READY
 *      ^            │              │             │           │
 *      └────────────┴── PARTING <──┴─────────────┴───────────┘
 *
 *   RESTING     waits before the next attempt, longer after each that failed
 *   RESOLVING   waits for the host's addresses (not for a Unix socket or an address)
 *   CONNECTING  waits for the socket
 *   GREETING    waits for AUTH, SELECT, PING, and what the owner has to ask first: a server that
 *               is stopped accepts connections, only its replies prove that it lives
 *   READY       takes calls
 *   PARTING     waits for the socket's handle to be closed
 *
 * Calls are answered in order, each once: by a reply, or with the error that ended the connection.
 * A call whose reply is overdue ends the connection. An idle link is pinged now and then; a
 * subscribed one is asked for its subscription again, since it would not answer a PING.
 *
 * The owner keeps the link in place from link_open until `closed`. All on the loop's thread.
 */
#pragma once

#include <hiredis/async.h>
#include <netdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/list.h"
#include "base/rng.h"
#include "base/store_url.h"
#include "store/adapter.h"
#include "store/store_error.h"

/* X(NAME, name, states it may go to) */
#define LINK_STATE_MAP(X)                                                                          \
	X(RESTING, resting, TO(RESOLVING) | TO(CONNECTING))                                        \
	X(RESOLVING, resolving, TO(CONNECTING) | TO(RESTING))                                      \
	X(CONNECTING, connecting, TO(GREETING) | TO(PARTING) | TO(RESTING))                        \
	X(GREETING, greeting, TO(READY) | TO(PARTING))                                             \
	X(READY, ready, TO(PARTING))                                                               \
	X(PARTING, parting, TO(RESTING))

enum link_state {
#define X(NAME, name, next) LINK_##NAME,
	LINK_STATE_MAP(X)
#undef X
};
const char *link_state_name(enum link_state state);

enum { LINK_CHANNEL_MAX = 255 };

struct link;

/* One command under way, embedded in its owner, which keeps it in place until `done`. */
struct link_call {
	struct list_node node;
	uint64_t overdue_at_ms; /* moments are of uv_hrtime */
	struct link *link;
	/* Once: with a reply (borrowed for the call, may be an error reply), or NULL and why. Never
	   inside link_send. */
	void (*done)(struct link_call *call, const redisReply *reply, enum store_error error);
};

struct link_events {
	void (*greet)(struct link *link); /* ask what there is to ask first, then link_greeted */
	void (*ready)(struct link *link);
	/* An attempt failed, or the connection was lost: `was_ready`. All its calls are answered.
	 */
	void (*down)(struct link *link, bool was_ready);
	void (*subscribed)(struct link *link); /* again with each heartbeat; may be NULL */
	void (*message)(struct link *link, const char *bytes, size_t len); /* may be NULL */
	void (*closed)(struct link *link);
};

struct link_config {
	uv_loop_t *loop;
	const struct store_url *url; /* TCP or UNIX */
	const char *name;            /* for the log and the server's CLIENT LIST */
	uint32_t connect_timeout_ms; /* until READY, and until a heartbeat is answered */
	uint32_t call_timeout_ms;
	uint32_t heartbeat_ms;
	const struct link_events *events;
	void *owner;
};

struct link_resolving;

struct link {
	struct link_config config;
	enum link_state state;
	struct rng rng;
	uv_timer_t timer; /* RESTING: the next attempt; later: what is overdue first */
	struct adapter adapter;
	redisAsyncContext *context;         /* CONNECTING to READY; hiredis' own */
	struct link_resolving *resolving;   /* owned by the request under way; RESOLVING only */
	struct list calls;                  /* of struct link_call, oldest first */
	uint64_t greeting_overdue_at_ms;    /* from RESOLVING to GREETING */
	char channel[LINK_CHANNEL_MAX + 1]; /* empty: not subscribed */
	uint64_t heartbeat_at_ms;           /* UINT64_MAX: one is under way … */
	uint64_t heartbeat_overdue_at_ms;   /* … and this is not */
	bool was_overdue;         /* something is: seen once, and since then nothing was read */
	uint32_t failures;        /* attempts since it was READY */
	uint32_t address_index;   /* which of the host's addresses is next */
	enum store_error dropped; /* why link_drop ended the connection; NONE: it didn't */
	enum store_error error;   /* why it went down last; NONE: it never did */
	char error_text[160];     /* the same, with what the server or the system said */
	bool closing;
};

/* Starts the first attempt; the config's pointers are borrowed until `closed`. */
void link_open(struct link *link, const struct link_config *config, uint64_t seed);

static inline bool link_is_ready(const struct link *link)
{
	return link->state == LINK_READY;
}

/* Whether an attempt is under way that there is no reason to give up hope of. */
bool link_is_hopeful(const struct link *link);

/* Sends a command; only in GREETING (by the owner's greet) and READY. False where the connection
   has just broken: then `done` does not fire. The arguments are copied. */
bool link_send(struct link *link, struct link_call *call, int argc, const char **argv,
	       const size_t *lens) __attribute__((warn_unused_result));

/* Ends the greeting: READY. */
void link_greeted(struct link *link);

/* Subscribes, in the greeting: READY when that is confirmed. */
void link_subscribe(struct link *link, const char *channel);

/* Gives the connection up for this reason. Its calls are answered before this returns, or, inside a
   call's `done`, after that. */
void link_drop(struct link *link, enum store_error error, const char *text);

/* Ends everything; `closed` fires once, later. Calls are answered with CLOSED. */
void link_close(struct link *link);
