/* The ceilings of the socket's side, and the memory that they allow together.
 *
 * Of one connection at most
 *   READ_HOLD_MAX                          requests that have come but are not read yet
 * + OUTPUT_HIGH + VALUE_BYTES_MAX          replies that the client has not taken
 * + REPLIES_HELD_MAX                       values that wait in an mget for its slower keys
 * + requests_per_connection * a request's size
 * and of all of them together READ_HOLD_ALL_MAX, REPLIES_ALL_MAX unsent, as much again held, and
 * the configured number of requests. A connection that idles has none of it.
 */
#pragma once

#include "base/limits.h"

enum {
	SPREAD_MS_MAX = 24 * 3600 * 1000, /* over which a keyspace may be invalidated */

	LISTEN_BACKLOG = 4096,
	ACCEPTS_PER_TURN = 64,
	ACCEPT_PAUSE_MS = 100, /* when there is no file descriptor left to refuse with */
	PATH_LOOK_MS = 5000,   /* between two looks at the socket's path */
	SURPLUS_MAX = 64,      /* connections over the limit that are kept to be told so */
	FAREWELL_MS = 2000,    /* for a refused client to ask, for a closed one to hang up */

	READ_BUFFER = 64 * 1024, /* shared by all connections */
	READ_SMALL = 4 * 1024, /* a part of a request up to here is read on in the shared buffer */
	READ_KEEP_MIN = 64,    /* the least room for one */
	READ_HOLD_MAX = FRAME_BYTES_MAX + READ_BUFFER,
	READ_HOLD_ALL_MAX = 64 * 1024 * 1024,
	FRAMES_PER_TURN = 256, /* requests of one connection before the next one's turn */

	VALUE_COPY_MAX = 4 * 1024 - 1, /* longer values are written from where they lie */
	OUTPUT_HIGH = 1024 * 1024,     /* unsent bytes at which a connection is read no further */
	OUTPUT_LOW = OUTPUT_HIGH / 2,  /* and below which it is again */
	OUTPUT_COPIED_MAX = 64 * 1024 * 1024, /* of an outbox's own bytes */
	/* Bytes of long outputs, of all connections, after which a turn of the loop begins no more
	   of them, so that others need not wait long: the kernel copies some 5 bytes a nanosecond.
	 */
	OUTPUT_PER_TURN = 256 * 1024,
	OUTPUT_BESIDE = 64 * 1024,       /* the same in a turn after one with short outputs */
	OUTPUT_SHORT = 32 * 1024,        /* what is no longer is always sent */
	OUTBOX_SPARE_MAX = 8,            /* empty outboxes kept */
	OUTBOX_SPARE_BYTES = 256 * 1024, /* and the largest that is worth keeping */
	REPLIES_HELD_MAX = 2 * VALUE_BYTES_MAX,
	REPLIES_ALL_MAX = 512 * 1024 * 1024,

	FOLLOWS_MAX = 16,         /* keys that are followed … */
	FOLLOWS_PER_PEER_MAX = 4, /* … by one connection */
	FOLLOW_MOMENTS_MAX = 256, /* of each, untold: 48 bytes a moment, 200 KiB in all */

	MGET_KEYS_PER_TURN = 256, /* keys of one mget before others' turn */
};
