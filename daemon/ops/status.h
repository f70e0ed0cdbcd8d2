/* The daemon's state in one line, for people who ask the service manager: how many keyspaces are
 * served, how many requests the near cache answered, whether store and origin are in reach.
 */
#pragma once

#include "core/engine.h"
#include "origin/pool.h"
#include "store/redis.h"

enum { STATUS_LINE_MAX = 256 };

/* Fills `ret_line`, of STATUS_LINE_MAX bytes, on one line whatever the parts' messages hold;
   `redis` may be NULL: the store is this host's own. */
void status_line(const struct engine *engine, const struct pool *pool, struct redis_store *redis,
		 char *ret_line);
