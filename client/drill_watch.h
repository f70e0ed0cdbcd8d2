/* What the daemons of a drill count themselves: samples of `stats`, of all and of the keyspace, and
 * what they come to over a scene and within a second. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/drill_load.h"
#include "proto/wire.h"

/* X(name): counters of the keyspace that only grow */
#define WATCH_COUNTER_MAP(X)                                                                       \
	X(gets_total)                                                                              \
	X(builds)                                                                                  \
	X(batches)                                                                                 \
	X(locks_held)                                                                              \
	X(build_failures)                                                                          \
	X(builds_lost)                                                                             \
	X(leases_acquired)                                                                         \
	X(leases_lost)                                                                             \
	X(leases_overrun)                                                                          \
	X(changes)

/* Of the keyspace, a daemon's or the sum of all. */
struct watch_counts {
#define X(name) int64_t name;
	WATCH_COUNTER_MAP(X)
#undef X
};

/* One daemon, as it was last seen. */
struct watch_daemon {
	struct watch_counts counts;
	int64_t all_builds, all_batches; /* of all keyspaces, less those that found a lock held */
	int64_t flights, building;
	bool alone; /* its store is out of reach */
};

/* One look at all daemons: what they had begun was so at some moment from `begun_us` to `ended_us`.
 */
struct watch_look {
	int64_t begun_us, ended_us, builds, batches;
};
enum { WATCH_LOOKS = 16 };

struct watch {
	uint32_t daemons;
	struct watch_daemon seen[LOAD_SOCKETS_MAX];
	struct watch_look looks[WATCH_LOOKS]; /* the last ones, a ring */
	uint64_t looked;
	int64_t most_in_a_second; /* builds that surely began within one, over all keyspaces */
	int64_t most_at_once;     /* statements, as far as looks met them */
	int64_t places;           /* daemons that live, the most that any knew of; 0: none says */
	bool was_alone;           /* any daemon, since this was last cleared */
};

/* What `stats` said of the keyspace; of all. */
void watch_take_keyspace(struct watch *watch, uint32_t daemon, struct wire_span stats);
void watch_take_all(struct watch *watch, uint32_t daemon, struct wire_span stats);

/* Both have come from all daemons, having been asked for at `begun_us`. */
void watch_look(struct watch *watch, int64_t begun_us, int64_t ended_us);

/* The sum over the daemons. */
struct watch_counts watch_sum(const struct watch *watch);
int64_t watch_flights(const struct watch *watch);

/* after - before, each. */
struct watch_counts watch_less(struct watch_counts after, struct watch_counts before);
