/* One connection to the daemon: a non-blocking socket, and the bytes that it has brought.
 *
 * Life: zeroed → link_init → link_open ⇄ link_close, as often as need be. Nothing here waits but
 * link_wait(). All times are link_now_ms()'s.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "proto/frame.h"

struct link {
	int fd;      /* -1: closed */
	uint8_t *in; /* owned; what has come and not been taken, from in_begin on */
	size_t in_begin;
	size_t in_end;
	size_t in_cap;
	struct frame_scan scan; /* of the message at in_begin */
};

/* One message, in memory of its own. */
struct link_message {
	void *memory; /* the taker's to free */
	const uint8_t *data;
	size_t len;
};

/* Milliseconds of CLOCK_MONOTONIC. */
int64_t link_now_ms(void);

void link_init(struct link *link);

/* Closes the socket and forgets what it has brought. Takes a closed one, too. */
void link_close(struct link *link);

static inline bool link_is_open(const struct link *link)
{
	return link->fd >= 0;
}

/* Connects to a Unix socket. 0, or an errno: ECONNREFUSED, ENOENT and the like where no daemon is
 * there, EAGAIN where its queue of connections is full for now. */
int link_open(struct link *link, const char *path);

/* Waits for bytes, and for room to write if asked to, up to that time. False if nothing came. */
bool link_wait(struct link *link, bool want_write, int64_t until_ms);

/* Writes as much as goes without waiting. Bytes written, 0 if there is no room, -1 if the
 * connection is lost. Raises no signal. */
ssize_t link_write(struct link *link, const struct iovec *parts, int count);

enum link_verdict { LINK_MESSAGE, LINK_NOTHING, LINK_LOST, LINK_BROKEN, LINK_NO_MEMORY };

/* Reads once, what there is. LINK_MESSAGE if something came, LINK_NOTHING, LINK_LOST if the
 * connection ended, or LINK_NO_MEMORY. */
enum link_verdict link_read(struct link *link);

/* Takes the next whole message. LINK_BROKEN, with a static text, where the bytes are no messages.
 */
enum link_verdict link_take(struct link *link, struct link_message *ret_message,
			    const char **ret_why);
