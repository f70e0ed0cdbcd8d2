/* The origin's history: what this daemon knows of its failovers, and what it does about them.
 *
 * After a failover the origin can continue at lower versions, and may have lost what was cached.
 * The first build or entry of a later history shows it: all that was generated before then expires,
 * spread over HISTORY_SPREAD_US, and loses every comparison. Builds of an earlier history (an old
 * primary that some host still reaches) answer who waited for them and are kept by nobody.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/engine.h"

enum { HISTORY_SPREAD_US = 30 * 1000 * 1000 };

/* A build or an entry of this history was seen. False: it is of an earlier one than is known. 0 is
   unknown, and always goes. */
bool history_see(struct engine *engine, uint64_t history, int64_t now_us);
