/* What happens to a key, moment by moment: for those who follow it (rpc/follow.h).
 *
 * The pump sees all of it pass, the events and the effects, and tells its listener if it has one;
 * else each moment costs one comparison, and a hit in the near cache not even that.
 */
#pragma once

#include <stdint.h>

#include "core/flight.h"
#include "core/near.h"

/* X(NAME, name, what has happened) */
#define MOMENT_MAP(X)                                                                              \
	X(ASKED, asked, "a request has to wait, and begins a flight")                              \
	X(JOINED, joined, "a request waits on the flight that there is")                           \
	X(REFRESHED, refreshed, "a flight is begun with nobody waiting")                           \
	X(LOADED, loaded, "the store has told what it has")                                        \
	X(QUEUED, queued, "there is no room for the build yet")                                    \
	X(LEASED, leased, "the store has given the lease, or not")                                 \
	X(RENEWED, renewed, "the store has lengthened it, or not")                                 \
	X(PERMITTED, permitted, "the store has given a permit, or not")                            \
	X(BUILDS, builds, "the build goes to the origin")                                          \
	X(BUILT, built, "it is over")                                                              \
	X(SAVED, saved, "the store has taken the value, or not")                                   \
	X(RELEASED, released, "the lease was given back without one")                              \
	X(ANSWERED, answered, "a request that waited has its answer")                              \
	X(CHANGED, changed, "it has changed, or was invalidated")                                  \
	X(EVICTED, evicted, "this daemon's memory has no room for it")

enum moment_kind {
#define X(NAME, name, text) MOMENT_##NAME,
	MOMENT_MAP(X)
#undef X
};
const char *moment_name(enum moment_kind kind);

struct moment {
	enum moment_kind kind;
	struct key key; /* bytes borrowed for the call */
	int64_t at_us;  /* of the fleet clock */
	const char
		*what; /* which of its kind, or how it went: a static word; NULL: nothing to say */
	int64_t took_us; /* so long it was waited for; -1: it was not */
	int64_t left_us; /* … and so long it will be yet: a permit's moment, another's lease; -1 */
	uint64_t fence;  /* of the lease, the entry or the change; 0: none */
};

struct moment_listener {
	void *impl;
	void (*told)(void *impl, const struct moment *moment); /* NULL: nobody listens */
};

/* Each tells one moment, as its arguments are when it comes. */
void moment_asked(const struct moment_listener *to, const struct request *request, int64_t now_us);
void moment_refreshed(const struct moment_listener *to, const struct flight *flight,
		      int64_t now_us);
void moment_stored(const struct moment_listener *to, const struct store_op *op, int64_t now_us);
void moment_queued(const struct moment_listener *to, const struct flight *flight, int64_t now_us);
void moment_permitted(const struct moment_listener *to, const struct batch *batch, int64_t now_us);
void moment_builds(const struct moment_listener *to, const struct build *build, int64_t now_us);
void moment_built(const struct moment_listener *to, const struct build *build, int64_t now_us);
void moment_answered(const struct moment_listener *to, const struct key *key,
		     const struct answer *answer, int64_t now_us);
void moment_changed(const struct moment_listener *to, const struct key *key, uint64_t floor,
		    const char *what, int64_t now_us);
void moment_evicted(const struct moment_listener *to, const struct near_entry *ne, int64_t now_us);
