/* An `mget`: many keys asked for in one request, and one reply when the last of them is known.
 *
 *   peer->walks ──────────────> peer->mgets ──────────────> peer->walks ───────> replied, freed
 *     looks up its keys           some of them wait           all are known
 *
 * It walks its keys by a cursor, MGET_KEYS_PER_TURN a turn of the loop, looking each up as a `get`
 * would be; those that must wait become calls (call.h), which bring their answers here. When the
 * connection has room for it the reply is written, in the order of the keys.
 *
 * An answer that came early grows old while others are waited for. One that is still fresh when the
 * reply is written only tells its greater age; and so does one whose build began after the request
 * came, with ttl 0 at last, since that may always answer it. Another is asked for once more, within
 * the request's time, so that no reply carries a value past its own.
 *
 * Memory: the values of one mget are held until its reply, VALUE_BYTES_MAX in all; what is over is
 * `too_large`. What would be over REPLIES_HELD_MAX for its connection, or REPLIES_ALL_MAX for all,
 * is `overloaded`, each for its key alone. From half of that on, values are not held for clients
 * that don't read; they are asked for again when they do. The connection owns its mgets.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/request.h"
#include "proto/method.h"
#include "proto/reader.h"

struct peer;

struct mget_item {
	struct answer answer; /* its value counted; its text static, or in `text` */
	struct value *text;   /* counted, or NULL */
	int64_t at_us;        /* when the answer was given */
	bool given_up;        /* it had a value, which was not held any longer */
	uint8_t asks;         /* times it was looked up, as far as they are counted */
};

struct mget {
	struct list *list;     /* which one it is in */
	struct list_node node; /* in it */
	struct peer *peer;     /* borrowed */
	uint32_t id;
	uint32_t count;   /* of keys */
	uint32_t next;    /* to be looked up */
	uint32_t waiting; /* calls that have no answer yet */
	int64_t began_us;
	struct options options;
	struct wire_span encoded; /* the keys; behind the items */
	struct reader keys;       /* from `next` on */
	size_t value_bytes;       /* of all items */
	struct mget_item items[]; /* `count` of them */
};

/* Starts one: `keys` holds `count` encoded keys, and is borrowed for the call. Replies now, or
 * later, also where it must be refused. */
void mget_ask(struct peer *peer, uint32_t id, uint32_t count, struct wire_span keys,
	      const struct options *options);

/* Takes the answer for a key that waited. */
void mget_on_answer(struct mget *mget, uint32_t index, const struct answer *answer);

/* Lets each mget in peer->walks go on for a turn. */
void mget_walk_all(struct peer *peer);

/* Frees the connection's mgets, unanswered; their calls must be gone. */
void mget_free_all(struct peer *peer);
