/* What `stats` tells of the parts that the server does not know: name by name into its sink. All
 * borrow for the call; the loop's thread.
 */
#pragma once

#include "base/policy.h"
#include "ops/hot_keys.h"
#include "ops/spans.h"
#include "ops/stores.h"
#include "origin/feed.h"
#include "origin/pool.h"
#include "rpc/server.h"

void stats_put_origin(const struct origin_policy *policy, const struct pool *pool,
		      struct stat_sink *sink);
void stats_put_stores(const struct stores *stores, struct stat_sink *sink);
void stats_put_hot(const struct hot_keys *hot, struct stat_sink *sink);
void stats_put_feed(const struct feed *feed, struct stat_sink *sink);
void stats_put_spans(const struct spans *spans, struct stat_sink *sink);
