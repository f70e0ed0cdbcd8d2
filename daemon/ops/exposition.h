/* The daemon's metrics as Prometheus reads them: text, one line a sample, all samples of a metric
 * together. Format: "Prometheus text-based exposition format", version 0.0.4.
 *
 * Made piece by piece, a metric of one keyspace at a time, so that a daemon of a thousand keyspaces
 * neither holds up its loop nor takes the memory of the whole page. Between two pieces the numbers
 * go on; each sample is right by itself. The loop's thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/durations.h"
#include "base/policy.h"
#include "core/warmer.h"
#include "origin/feed.h"
#include "origin/pool.h"
#include "rpc/server.h"
#include "store/redis.h"

/* Where the numbers come from; all borrowed. */
struct exposition_sources {
	const struct config *const *config; /* the one in force */
	const struct server *server;        /* and its pump's engine */
	const struct pool *pool;
	struct redis_store *redis;         /* NULL: store.url is none */
	struct feed *const *feed;          /* NULL, at times: nothing is followed */
	const struct warmer *warmer;       /* its list is empty before it is opened */
	const struct durations *loop_lags; /* how late the loop's timers were */
};

enum { EXPOSITION_PIECE_MAX = 32768 };

/* One reading of all of them. Zeroed but for its sources, it stands at the beginning. */
struct exposition {
	struct exposition_sources sources;
	uint32_t family;   /* the next piece: this one's … */
	uint32_t keyspace; /* … samples of this one */
	size_t len, taken; /* of the piece at hand */
	char piece[EXPOSITION_PIECE_MAX];
};

/* Writes what comes next into `buf`, at most `size` bytes. Returns how many; 0 at the end. */
size_t exposition_read(struct exposition *exposition, char *buf, size_t size);
