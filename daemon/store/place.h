/* A daemon's place in the fleet: a number from 0 to fleet - 1, given by the store, held by
 * heartbeats.
 *
 * Out of touch with the store it is what the daemon's own share goes by (share.h), but only once
 * the last heartbeat has surely ended: until then the others count it among the live. It is kept in
 * a file, with the token of this process: by that a restarted daemon gets its place back, and the
 * slots that its predecessor held. A daemon that has never heard of a place takes one by chance, of
 * twice as many: who does so may be many, and by chance at the same moments, but at half the rate.
 *
 * Times are local, µs of CLOCK_BOOTTIME. One owner, on the loop's thread; place_init and
 * place_given read and write the file.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
	PLACE_NONE = -1,
	PLACE_HEARTBEAT_US = 2 * 1000 * 1000, /* holds so long … */
	PLACE_BEAT_US = 500 * 1000,           /* … and is repeated so often */
	PLACE_PATH_MAX = 4096,
};

struct place {
	int number; /* PLACE_NONE: not known, or … */
	bool full;  /* … the fleet has none for us */
	uint32_t fleet;
	uint64_t token;     /* of this process */
	uint64_t before;    /* of the one before, whose last heartbeat may come after our first; 0:
			       none */
	bool kept;          /* in the file, as far as that could be written */
	int64_t gone_at_us; /* the last heartbeat that may have got through has ended by then */
	int64_t was_gone_at_us;
	char path[PLACE_PATH_MAX]; /* empty: not kept */
};

/* `state_dir` (may be NULL) is a folder that exists; `token` random, not 0. */
void place_init(struct place *place, const char *state_dir, uint32_t fleet, uint64_t token,
		int64_t local_us);

/* A heartbeat is sent, which the store refuses after `timeout_us`; it was surely not taken. */
void place_sent(struct place *place, int64_t timeout_us, int64_t local_us);
void place_not_taken(struct place *place);

/* The store has answered with this place, or PLACE_NONE: it is full. Keeps it in the file; 0, or a
   negative errno where that fails. */
int place_given(struct place *place, int number);

/* Whether the daemon has a share of its own now: its place, or one by chance, and no heartbeat can
   hold any more. Then its share is that of place `ret_place` among `ret_of`. */
bool place_is_alone(const struct place *place, int64_t local_us, uint32_t *ret_place,
		    uint32_t *ret_of);

/* What slots are marked with: the process. */
static inline uint32_t place_instance(const struct place *place)
{
	return (uint32_t)place->token;
}
