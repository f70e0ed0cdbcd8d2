/* Finds where a message ends in a stream of bytes, however the stream was cut.
 *
 * A connection keeps one frame_scan for the message that it is receiving, zeroed (frame_reset)
 * when a message begins. Each time bytes have arrived it calls frame_scan() with all of the message
 * it has so far; the scan goes on where it stopped, so that a message of n bytes costs O(n) even if
 * they come one by one. The bytes may lie elsewhere in memory each time.
 *
 * Nothing is allocated. What a message declares is believed only as far as it condemns it: a length
 * that would exceed the frame's maximum is refused before its bytes come.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/wire.h"

enum frame_verdict {
	FRAME_COMPLETE,  /* a message of *ret_len bytes is there */
	FRAME_MORE,      /* no whole message yet; nothing wrong so far */
	FRAME_TOO_LARGE, /* it is, or is going to be, over the maximum */
	FRAME_BROKEN,    /* not MessagePack, or nested too deep */
};

struct frame_scan {
	uint64_t at;      /* where the next value's head begins; can be past what came */
	uint64_t pending; /* values that must still come, in all open containers */
	uint64_t left[WIRE_DEPTH_MAX]; /* of these, in each container from the outermost on */
	unsigned depth;                /* open containers */
	bool begun;
};

/* Makes ready for a message's first byte. Zeroing does the same. */
void frame_reset(struct frame_scan *scan);

/* Looks for the end of the message that begins at `data` and of which `len` bytes have come;
 * `max` is the longest that is welcome. On FRAME_COMPLETE sets `ret_len` and is ready for the next
 * message. On the last two verdicts sets `ret_why` to a static text; the stream can't be
 * followed any further, as every later call says again. */
enum frame_verdict frame_scan(struct frame_scan *scan, const void *data, size_t len, size_t max,
			      size_t *ret_len, const char **ret_why);
