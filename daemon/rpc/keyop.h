/* An `invalidate` or an `inspect` on its way to the store and back, a `reload` on its to the disk,
 * or a `doctor` on its way to all of them.
 *
 * Other than a call (call.h) it can't be taken back: when its client goes it stays, an orphan,
 * until the store has answered, and the server waits for it before it closes. The connection owns
 * its operations until then; an orphan owns itself.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/keyspace.h"

struct peer;

/* Start one for the key, whose bytes are borrowed for the call. The reply comes later, or at once
 * where it must be refused. */
void keyop_invalidate(struct peer *peer, uint32_t id, const struct key *key, bool hard);
void keyop_invalidate_keyspace(struct peer *peer, uint32_t id, const struct key *key,
			       int64_t spread_us);
void keyop_inspect(struct peer *peer, uint32_t id, const struct key *key);
void keyop_reload(struct peer *peer, uint32_t id);
void keyop_examine(struct peer *peer, uint32_t id);

/* Takes over `warm->keys`, which mem_alloc gave. */
struct server_warm;
void keyop_warm(struct peer *peer, uint32_t id, const struct server_warm *warm);

/* Parts the connection from its operations: they will reply to nobody. */
void keyop_orphan_all(struct peer *peer);
