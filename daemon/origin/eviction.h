/* Ending who holds a lock beyond its time: see GUARD_EVICT_SQL in origin/guard.h.
 *
 * Part of an exchange, after an answer that said which locks were held.
 */
#pragma once

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/origin.h"
#include "origin/exchange.h"

/* Whether any of the chained builds found its lock, or their slot's, held. */
bool eviction_is_due(const struct build *first);

/* Sends the statement, for all of these locks; what PQsendQueryParams returns. `timeout_ms`: the
   builds' own limit. */
int eviction_send(PGconn *pg, const struct build *first, const struct exchange_locks *locks,
		  int64_t timeout_ms) __attribute__((warn_unused_result));
