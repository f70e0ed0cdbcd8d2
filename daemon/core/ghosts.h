/* Ghosts: the highest version served of keys that the near cache has evicted.
 *
 * A shared store that fails over can come back with older entries than this daemon has served. As
 * long as the near cache has the key, it knows better; for the rest a ghost of 16 bytes remembers
 * the version until the entry would have died. Bounded: sets of four, the one that ends first gives
 * way, and what was pushed out before its end is counted. Only for keyspaces that versions order.
 *
 * One owner; times in µs of the fleet clock.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GHOST_SET = 4 };

struct ghost {
	uint32_t tag;     /* of the key's hash; 0: empty */
	uint32_t until_s; /* seconds, rounded up */
	int64_t version;
};

struct ghosts {
	struct ghost *at;  /* owned; `sets` of GHOST_SET */
	uint32_t sets;     /* a power of two */
	uint64_t overflow; /* pushed out before their end */
};

/* At most `bytes`, at least one set. 0, or -1 when memory is missing. */
int ghosts_init(struct ghosts *ghosts, size_t bytes) __attribute__((warn_unused_result));
void ghosts_close(struct ghosts *ghosts); /* accepts a zeroed one */

/* Forgets all: versions mean something else from now on. */
void ghosts_clear(struct ghosts *ghosts);

/* The key with this hash was served in this version, which it may be until `until_us`. */
void ghosts_note(struct ghosts *ghosts, uint64_t hash, int64_t version, int64_t until_us,
		 int64_t now_us);

/* Whether a version of the key is older than one that was served. Two keys whose hashes share set
   and tag are taken for one: then a value is built that need not be. */
bool ghosts_know_better(const struct ghosts *ghosts, uint64_t hash, int64_t version,
			int64_t now_us);
