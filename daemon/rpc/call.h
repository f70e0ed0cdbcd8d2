/* A call: a `get`, a `refresh` or one key of an `mget` that waits for its answer.
 *
 *            ┌─────────────<───────────┐ room again: asked anew
 *   (ask) ─> calls ── answered ──> parked
 *              │                     └──> replied, freed
 *              └── answered, room ──────> replied, freed
 *
 * Only what can't be answered at once becomes a call: the hot path makes none. An answer whose
 * value finds no room in its connection's output isn't kept: the call is parked without it, and
 * asks again when the client has read. So unread values cost no memory, however many were asked
 * for. The connection owns its calls; a client that goes takes them along.
 */
#pragma once

#include <stdint.h>

#include "base/list.h"
#include "core/request.h"

struct peer;
struct mget;

struct call {
	struct request request; /* its key's bytes are `bytes` */
	struct list_node node;  /* in peer->calls or peer->parked */
	struct peer *peer;      /* borrowed: it abandons its calls before it goes */
	struct mget *mget;      /* borrowed; NULL: replied to by itself */
	uint32_t index;         /* of the key in the mget */
	uint32_t id;
	int64_t began_us;
	int64_t until_us; /* its deadline */
	char bytes[];     /* the key's, and behind them its trace, if it has one */
};

/* Replies to the query of request `id`, now or later. Its key's bytes are borrowed for the call. */
void call_ask(struct peer *peer, uint32_t id, const struct query *query);

/* Lets a query of an mget wait, which pump_lookup() could not answer; the mget gets the answer by
 * mget_on_answer(). STATUS_OVERLOADED when memory is missing. */
enum status call_wait_for_mget(struct peer *peer, struct mget *mget, uint32_t index,
			       const struct query *query) __attribute__((warn_unused_result));

/* Asks again for parked calls, as far as the connection has room. */
void call_unpark(struct peer *peer);

/* Frees all calls of the connection, unanswered. */
void call_abandon_all(struct peer *peer);
