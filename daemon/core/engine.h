/* The engine decides what happens with each request: the near cache, the flights, who may build.
 *
 * It performs no I/O: engine_step takes one event, with the time in it, and returns a short list of
 * effects for the pump to carry out. Time never passes inside; randomness comes from a seed.
 * One engine a daemon, on the loop's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/list.h"
#include "base/rng.h"
#include "base/table.h"
#include "core/bulkhead.h"
#include "core/flight.h"
#include "core/keyspace.h"
#include "core/near.h"
#include "core/permits.h"
#include "core/request.h"

/* X(name): counters that only grow, shown by `stats` */
#define ENGINE_COUNTER_MAP(X)                                                                      \
	X(hits_fresh)                                                                              \
	X(hits_stale)                                                                              \
	X(misses)                                                                                  \
	X(joined)                                                                                  \
	X(builds)                                                                                  \
	X(build_failures)                                                                          \
	X(saves_refused)                                                                           \
	X(timeouts)                                                                                \
	X(defaults)                                                                                \
	X(overloaded)                                                                              \
	X(background_dropped)                                                                      \
	X(reasked)                                                                                 \
	X(failures_remembered)                                                                     \
	X(invalidations)                                                                           \
	X(near_evictions)                                                                          \
	X(near_refused)

struct engine_counters {
#define X(name) uint64_t name;
	ENGINE_COUNTER_MAP(X)
#undef X
};

/* Limits of one engine; config and limits.h bound them. */
struct engine_limits {
	uint32_t requests_max; /* requests that wait */
	uint32_t queue_max;    /* flights waiting for room, per priority */
	uint32_t concurrency;  /* builds at once */
	size_t near_bytes_max;
};

struct engine;

/* The keyspace of that name, or NULL. */
struct keyspace *engine_keyspace(struct engine *engine, const char *name, size_t len);

/* Fills `ret_key` for canonical key bytes of a keyspace; borrows both. */
void engine_key(const struct engine *engine, struct keyspace *keyspace, const char *bytes,
		size_t len, struct key *ret_key);
