/* The method `invalidate` of a whole keyspace: {keyspace, spread_ms}. */
#pragma once

#include <stdint.h>

#include "proto/reader.h"
#include "proto/wire.h"

struct peer;

/* Reads the map, and carries it out; the reply comes later (keyop.h). Else what is wrong with it.
 */
enum status invalidate_keyspace(struct peer *peer, uint32_t id, struct reader *params,
				struct wire_error *error) __attribute__((warn_unused_result));
