/* Replies: from the core's answers to bytes on the wire.
 *
 * The reply_… functions write whole responses to the connection's outbox; a reply that can't be
 * written (no memory) closes the connection, so that no client waits for ever.
 */
#pragma once

#include <stdint.h>

#include "core/entry.h"
#include "core/request.h"
#include "rpc/outbox.h"

struct peer;

/* The answer to a get or a refresh. */
void reply_answer(struct peer *peer, uint32_t id, const struct query *query,
		  const struct answer *answer);

/* The same for a get that found this entry, which has a value and is fresh, in the near cache. */
void reply_fresh(struct peer *peer, uint32_t id, const struct entry *entry, int64_t now_us);

/* An error; `text` is NUL-terminated. */
void reply_error(struct peer *peer, uint32_t id, enum status status, const char *text);

/* A response whose result is written by hand: reply_begin, exactly one value to
 * the returned reply.out, reply_end. */
struct reply {
	struct peer *peer; /* borrowed */
	struct outbox *out;
	struct outbox_mark mark;
};
struct reply reply_begin(struct peer *peer, uint32_t id);
void reply_end(struct reply *reply);

/* The answer to a get as one value inside of a result: its map, or {error: "code: text"}. */
void reply_put_answer(struct outbox *out, const struct answer *answer);

/* Milliseconds of a length in µs: what has passed is rounded down, what is left or over is rounded
 * up, so that nothing looks fresher than it is and no client comes back too early. */
static inline int64_t ms_passed(int64_t us)
{
	return us / 1000;
}
static inline int64_t ms_up(int64_t us)
{
	return us / 1000 + (us % 1000 > 0);
}
