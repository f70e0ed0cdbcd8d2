/* What a new configuration changes in the running parts: all that a reload can change, in one step
 * of the loop.
 *
 * The loop's thread.
 */
#pragma once

#include "base/config.h"
#include "core/pump.h"
#include "ops/stores.h"
#include "origin/pool.h"
#include "rpc/server.h"

struct takeover {
	struct pump *pump;
	struct pool *pool;
	struct stores *stores;
	struct server *server;
	struct limits_policy *limits; /* the server's */
	long descriptors;             /* that the daemon may have open */
};

/* Takes over `next` in place of `before`, which has the same values of all that is not live (base/
   config.h). NULL, and `ret_counts` says of how many keyspaces; or why not: then nothing has
   changed. */
const char *takeover_do(const struct takeover *parts, const struct config *before,
			const struct config *next, struct server_reload *ret_counts);

/* The engine's limits, as the configuration has them. */
struct engine_limits takeover_engine_limits(const struct config *config);

/* The server's, as far as the descriptors allow: clients may not take those that origin and store
   need. */
struct limits_policy takeover_server_limits(const struct config *config, long descriptors);
