/* A family: a metric and where its samples come from. The tables of all there are.
 *
 * Most have one number: tables of X(where, name, type, what it is, the number) make its row, and
 * the case of a switch that reads it. The others write their samples themselves.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/policy.h"
#include "core/warmer.h"
#include "ops/hot_keys.h"
#include "ops/page.h"
#include "ops/span_file.h"
#include "origin/feed.h"
#include "origin/pool.h"
#include "rpc/server.h"
#include "store/redis.h"

/* Where the numbers come from; all borrowed. */
struct family_sources {
	const struct config *const *config; /* the one in force */
	const struct server *server;        /* and its pump's engine */
	const struct pool *pool;
	struct redis_store *redis; /* NULL: store.url is none */
	struct feed *const *feed;  /* NULL, at times: nothing is followed */
	const struct hot_keys *hot;
	const struct span_counters *spans;
	const struct warmer *warmer;       /* its list is empty before it is opened */
	const struct durations *loop_lags; /* how late the loop's timers were */
};

/* Writes the samples; of this keyspace, where it is a keyspace's (else NULL). */
typedef void family_put(struct page *page, const struct metric *metric,
			const struct family_sources *sources, const struct keyspace *keyspace);

struct family {
	struct metric metric;
	unsigned number; /* of its table … */
	family_put *put; /* … or, not NULL, what writes its samples */
};

/* Those of the daemon, and those of each keyspace. */
extern const struct family daemon_families[], keyspace_families[];
extern const uint32_t daemon_families_count, keyspace_families_count;

/* Writes one family's samples. */
void daemon_family_put(struct page *page, const struct family *family,
		       const struct family_sources *sources);
void keyspace_family_put(struct page *page, const struct family *family,
			 const struct family_sources *sources, const struct keyspace *keyspace);
