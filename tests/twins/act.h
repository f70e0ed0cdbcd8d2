/* Acts: what is done to both stores, drawn from a seed.
 *
 * An act carries its own chance, and finds what it refers to (a token, a fence, a moment) in what
 * is stored when its turn comes: so a sequence stays a sequence when acts are left out of it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"

/* X(NAME, name, how often, what happens) */
#define ACT_MAP(X)                                                                                 \
	X(WAIT, wait, 170, "time passes, often just to the end of something")                      \
	X(LOAD, load, 110, "an operation, as all up to epoch")                                     \
	X(LEASE, lease, 200, "")                                                                   \
	X(RENEW, renew, 70, "")                                                                    \
	X(SAVE, save, 170, "")                                                                     \
	X(RELEASE, release, 70, "")                                                                \
	X(INVALIDATE, invalidate, 70, "")                                                          \
	X(PERMIT, permit, 140, "")                                                                 \
	X(FREE, free, 50, "")                                                                      \
	X(EPOCH, epoch, 40, "")                                                                    \
	X(FOLLOW, follow, 40,                                                                      \
	  "a daemon asks for the right to read the origin's log, or gives it back")                \
	X(CHANGE, change, 130, "a daemon has changes of the log applied")                          \
	X(CLOCK, clock, 30, "a daemon asks for the time")                                          \
	X(PLACE, place, 70, "a daemon's heartbeat for its place")                                  \
	X(EPOCHS, epochs, 20, "a daemon and the store tell each other their epochs")               \
	X(BEAT, beat, 50, "a daemon's heartbeat of trust")                                         \
	X(SUCCEED, succeed, 20, "a daemon frees its predecessor's slots")                          \
	X(RESTART, restart, 10, "a daemon dies, and another starts in its place")                  \
	X(FORGET, forget, 15, "a key of Redis is evicted")                                         \
	X(FLUSH, flush, 2, "all of them are")                                                      \
	X(REBORN, reborn, 5, "the server has started anew with what it had, or a replica for it")  \
	X(UNLEARN, unlearn, 2, "the server forgets the scripts")                                   \
	X(JUMP, jump, 8, "the server's clock jumps")

enum act_kind {
#define X(NAME, name, weight, text) ACT_##NAME,
	ACT_MAP(X)
#undef X
};
const char *act_name(enum act_kind kind);

struct act {
	enum act_kind kind;
	int daemon;
	int key;
	uint64_t chance; /* seed of all else */
};

struct act act_draw(struct rng *rng, int daemons, int keys);
