/* The changes of the origin's log, applied in Redis: core/change.h by two scripts. */
#pragma once

#include "core/change.h"

struct redis_store;

/* The interface that the log's reader takes; valid until redis_store_close, at which a call under
   way is AWAY. */
struct change_store redis_store_changes(struct redis_store *redis);
