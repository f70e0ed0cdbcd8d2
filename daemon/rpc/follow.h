/* The method `trace`: a connection follows a key, and is told at each call what has happened to it
 * since the last.
 *
 * A key is followed from a connection's first call on, until that is closed. What it does not fetch
 * in time is forgotten, the oldest first, and counted. While nobody follows any key, the pump has
 * no listener.
 */
#pragma once

#include <stdint.h>

#include "core/keyspace.h"
#include "proto/wire.h"

struct peer;

/* Replies with what there is to tell, and goes on following the key, whose bytes are borrowed for
 * the call. STATUS_OVERLOADED: too many are followed already, or there is no memory. */
enum status follow_reply(struct peer *peer, uint32_t id, const struct key *key,
			 struct wire_error *error) __attribute__((warn_unused_result));

/* The connection follows nothing any more. */
void follow_end_all(struct peer *peer);
