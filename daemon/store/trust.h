/* Trust: whether a change can have gone untold.
 *
 * One daemon of the fleet publishes numbered beats on the channel on which changes are told
 * (lua/beat.lua). Who hears them without a gap has missed nothing that was published before the
 * last. Pure. One owner.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct trust {
	bool has_last;
	uint64_t last; /* number of the last beat */
};

enum trust_beat {
	TRUST_GOES_ON,  /* the next in the row */
	TRUST_BEGINS,   /* a gap, or the first: what was known before may have changed */
	TRUST_REPEATED, /* heard already */
};
enum trust_beat trust_hear(struct trust *trust, uint64_t number);

/* The connection broke: what comes next is the first. */
void trust_lose(struct trust *trust);
