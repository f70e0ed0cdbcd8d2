/* Replies on their way out: bytes that were copied, and long values that are sent from where they
 * lie.
 *
 * Messages are written to `bytes` (proto/wire_buf.h); where a long value belongs, outbox_value()
 * notes the place and takes a reference instead of a copy. outbox_send() gathers both into as few
 * calls as it can. An outbox belongs to a connection only while that has something to send; the
 * empty ones wait in a pool, the last one used, still warm in the processor's cache, first.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/list.h"
#include "base/value.h"
#include "proto/wire_buf.h"

/* A value whose bytes come after the first `at` bytes of the outbox's own. */
struct outbox_ref {
	struct value *value; /* counted */
	size_t at;
};

struct outbox {
	struct list_node node; /* in the pool */
	struct wire_buf bytes;
	size_t bytes_sent;
	struct outbox_ref *refs; /* owned */
	size_t refs_count, refs_cap;
	size_t refs_sent;      /* of these, gone and given back */
	size_t ref_bytes_sent; /* of refs[refs_sent] */
	size_t refs_bytes;     /* of all values that are not wholly sent */
};

/* How many bytes are still to be sent. */
static inline size_t outbox_unsent(const struct outbox *outbox)
{
	return outbox->bytes.len - outbox->bytes_sent + outbox->refs_bytes - outbox->ref_bytes_sent;
}

/* How much memory is held by what is unsent; of a value that others refer to as well, this outbox's
 * share. */
size_t outbox_memory(const struct outbox *outbox);

/* A place to come back to when a message can't be finished. */
struct outbox_mark {
	size_t bytes_len, refs_count, refs_bytes;
};
struct outbox_mark outbox_mark(const struct outbox *outbox);

/* Drops what was written since, and forgets a failure. Nothing of it may have been sent. */
void outbox_rewind(struct outbox *outbox, const struct outbox_mark *mark);

/* Appends a value's bytes: short ones by copy, long ones by reference. Failing for want of memory
 * sticks in `bytes`, as any write's. */
void outbox_value(struct outbox *outbox, struct value *value);

enum outbox_sent {
	OUTBOX_EMPTY,   /* all is sent */
	OUTBOX_BLOCKED, /* the socket takes no more for now */
	OUTBOX_TURN,    /* `most` bytes are sent; there is more, and the socket may take it */
	OUTBOX_BROKEN,  /* nobody will ever read it: errno says why */
};

/* Sends to a non-blocking socket, never raising SIGPIPE, `most` bytes at most, and adds what
 * was sent to `ret_sent`. */
enum outbox_sent outbox_send(struct outbox *outbox, int fd, size_t most, size_t *ret_sent);

/* Drops what is unsent and frees what it owns. Accepts a zeroed outbox. */
void outbox_close(struct outbox *outbox);

struct outbox_pool {
	struct list spare; /* empty ones */
};

void outbox_pool_init(struct outbox_pool *pool);

/* Frees the spare ones; those that were taken must be back. */
void outbox_pool_close(struct outbox_pool *pool);

/* An empty outbox, or NULL when memory is missing. */
struct outbox *outbox_take(struct outbox_pool *pool) __attribute__((warn_unused_result));

/* Gives an outbox back, dropping what is unsent. NULL is fine. */
void outbox_give(struct outbox_pool *pool, struct outbox *outbox);
