/* One client's connection: its requests come in, its replies go out, and neither can grow without
 * bound.
 *
 *   SURPLUS ──────────────┐
 *                         v
 *   OPEN ──> HALF ───> LEAVING ──> FAREWELL ──> CLOSING
 *    └──────────────────^ ^             (from every state)
 *
 * Input (peer_input.c). All connections share one read buffer; only what is left of an unfinished
 * request, or of requests whose turn is over, is kept in the connection's own (`in`), which is
 * sized by what has come. One connection gets at most FRAMES_PER_TURN requests served before the
 * others' turn.
 *
 * Output (peer_output.c). Handlers write replies to peer_out(), an outbox that the connection has
 * only as long as something is unsent; what a batch of requests wrote is sent together. From
 * OUTPUT_HIGH unsent bytes on no more requests are read, until OUTPUT_LOW, and replies to requests
 * that waited are put off (call.h): a client that doesn't read stalls itself and holds no memory.
 *
 * A connection closes only at the end of its turn (peer_on_poll, peer_turn), so that no handler
 * loses it under its hands. All of it happens on the loop's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/list.h"
#include "proto/frame.h"
#include "rpc/access.h"
#include "rpc/outbox.h"
#include "rpc/users.h"

#define PEER_NEXT(NAME) (1u << PEER_##NAME)
/* X(NAME, name, what it waits for, what may follow) */
#define PEER_STATE_MAP(X)                                                                          \
	X(OPEN, open, "requests", PEER_NEXT(HALF) | PEER_NEXT(LEAVING) | PEER_NEXT(CLOSING))       \
	X(SURPLUS, surplus, "one request, to refuse it: there are too many connections",           \
	  PEER_NEXT(LEAVING) | PEER_NEXT(CLOSING))                                                 \
	X(HALF, half, "answers; its client has ended its sending",                                 \
	  PEER_NEXT(LEAVING) | PEER_NEXT(CLOSING))                                                 \
	X(LEAVING, leaving, "answers to what was read; it reads no more",                          \
	  PEER_NEXT(FAREWELL) | PEER_NEXT(CLOSING))                                                \
	X(FAREWELL, farewell, "its client to hang up; what that sends is dropped",                 \
	  PEER_NEXT(CLOSING))                                                                      \
	X(CLOSING, closing, "its handle to close", 0)

enum peer_state {
#define X(NAME, name, waits, next) PEER_##NAME,
	PEER_STATE_MAP(X)
#undef X
};
const char *peer_state_name(enum peer_state state);

struct server;

struct peer {
	uv_poll_t poll;
	struct server *server;  /* borrowed: it outlives its connections */
	struct list_node node;  /* in server->peers */
	struct list_node due;   /* in server->due */
	struct list_node leave; /* in server->leaving: in SURPLUS and FAREWELL */
	struct list_node lag;   /* in server->laggards: while something is unsent */
	int64_t leave_at_ms;    /* of the loop's clock: then it is closed */
	enum peer_state state;
	int fd;
	uint32_t number; /* tells peers apart, for fairness */
	struct access access;
	struct user *user; /* a reference; whose connections and requests these are */
	bool counted;      /* among the user's connections: not SURPLUS */

	int watched;   /* the events that `poll` watches */
	bool broken;   /* to be closed at the end of this turn */
	bool refused;  /* what it sent can't be followed: nothing more of it is served */
	bool polite;   /* then its client gets time to read the last reply */
	bool unserved; /* `in` begins with a request whose turn has not come */
	bool blocked;  /* the socket took no more: wait for UV_WRITABLE */
	bool stalled;  /* too much is unsent: no room for more */
	bool bulky;    /* what is unsent is long, or the rest of it: sent in shares */

	/* What has come and is not served. */
	char *in; /* owned; NULL when there is nothing */
	size_t in_len, in_cap;
	struct frame_scan scan; /* of the request at the beginning of `in` */

	struct outbox *out; /* owned; NULL when nothing is unsent */
	size_t out_counted; /* of it, what is in server->output_bytes */

	struct list calls;  /* requests that wait (call.h) */
	struct list parked; /* requests whose answers wait for room (call.h) */
	struct list mgets;  /* those that wait for answers (mget.h) */
	struct list walks;  /* those that can go on (mget.h) */
	struct list ops;    /* operations on the store (keyop.h) */
	uint32_t weight;    /* requests that wait; an mget counts for each of its keys */
	size_t held_bytes;  /* values that its mgets hold */
};

/* Makes a connection of an accepted, non-blocking socket and takes it and the reference to its user
 * over; `surplus`: only to refuse its first request. Where memory is missing the socket is closed,
 * and -1 returned: then the reference is still the caller's. */
int peer_open(struct server *server, int fd, const struct access *access, struct user *user,
	      bool surplus);

/* Closes at once: what waits is abandoned, what is unsent is dropped. Not from inside a handler. */
void peer_close(struct peer *peer);

/* Serves what the client has sent so far, then closes when all is answered and sent. Not from
 * inside a handler. */
void peer_drain(struct peer *peer);

/* For connections in server->due: goes on with what was left for this turn, and sends. */
void peer_turn(struct peer *peer);

/* Has peer_turn() called before the loop sleeps. */
void peer_is_due(struct peer *peer);

/* Closes the connection at the end of this turn. `why` is logged, with who is at the other end;
 * NULL: its client is gone, which is nothing to complain of. */
void peer_break(struct peer *peer, const char *why);

/* Logs what is wrong with what the client does, and who it is. */
void peer_complain(const struct peer *peer, const char *why);

/* Writes the state; asserts that it may follow. For peer*.c. */
void peer_move(struct peer *peer, enum peer_state state);

/* ---- peer_input.c ---- */

/* Reads once, and serves what that completes. */
void peer_read(struct peer *peer);

/* Serves requests whose turn had not come. */
void peer_serve_rest(struct peer *peer);

/* Drops what has been kept. */
void peer_input_drop(struct peer *peer);

/* ---- peer_output.c ---- */

/* Where to write a reply; the connection is then due. Never NULL: where memory is missing it is a
 * buffer without room, and the connection breaks. */
struct outbox *peer_out(struct peer *peer);

/* Ends a reply that began at `mark`. If writing it failed, drops it and breaks the connection, as
 * its client would wait for ever. */
void peer_out_end(struct peer *peer, struct outbox *out, const struct outbox_mark *mark);

/* Sends what is unsent, as far as the socket takes it. */
void peer_send(struct peer *peer);

/* Drops what is unsent. */
void peer_output_drop(struct peer *peer);

/* Whether one more value may be written: not too much is unsent. */
bool peer_has_room(const struct peer *peer);

/* Takes `weight` more requests that wait, and their keys, into account. False, with a static text,
 * if that is over the connection's or the server's limit. */
bool peer_admit(struct peer *peer, uint32_t weight, size_t key_bytes, const char **ret_why)
	__attribute__((warn_unused_result));
void peer_discharge(struct peer *peer, uint32_t weight, size_t key_bytes);

/* Takes bytes that an mget holds into account, or no longer. */
void peer_hold(struct peer *peer, size_t bytes);
void peer_unhold(struct peer *peer, size_t bytes);
