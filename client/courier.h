/* Brings calls to the daemon and their replies back: connects, writes what is queued, takes what
 * comes, and ends what is over its time. Everything that waits in libsegar waits here.
 *
 * A lost connection is made anew with jittered, growing pauses, a bounded number of times; calls
 * that may be repeated go along (client/call.h). Not for several threads at once.
 */
#pragma once

#include <stdint.h>

#include "client/call.h"
#include "client/link.h"

enum { COURIER_PATH_MAX = 107 }; /* sun_path less its NUL */

struct courier {
	char path[COURIER_PATH_MAX + 1];
	struct link link;
	struct calls calls;
	int attempts;          /* to connect, before the calls that wait end */
	int64_t away_until_ms; /* till then connecting ends with away_error at once */
	int away_error;        /* an errno */
	uint64_t random;
};

/* `c` is zeroed; the path is copied, and at most COURIER_PATH_MAX long. Does not connect. */
void courier_init(struct courier *c, const char *path);

/* Frees all calls with their replies. */
void courier_close(struct courier *c);

/* Writes what is queued as far as that goes without waiting. Failures wait for courier_advance. */
void courier_flush(struct courier *c);

/* Does what there is to do, and waits for the socket or the earliest deadline if that is nothing.
 * Each round brings a call closer to its end. */
void courier_advance(struct courier *c);
