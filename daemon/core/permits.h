/* The line for permits: flights that hold a lease and room, and wait for the fleet's leave to
 * build.
 *
 * Only the head asks the store, one question at a time; when told to retry, the whole line waits,
 * but for a crowd, which may book further ahead. So a store with many daemons is asked by each at
 * most once per answer.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/bulkhead.h"

struct permits {
	struct list lines[PRIORITY_COUNT];
	struct list_node *asking;  /* its question is under way; still in its line */
	enum priority asked;       /* with that priority */
	int64_t retry_at_us;       /* nobody asks before this but a crowd, … */
	int64_t crowd_retry_at_us; /* … which asks no sooner than at that */
	uint32_t waiting;
	int64_t granted_at_us; /* the last permit */
	int64_t turn_us;       /* from one permit to the next, smoothed; 0: unknown */
};

void permits_init(struct permits *permits);
void permits_join(struct permits *permits, struct list_node *link, enum priority priority);
void permits_leave(struct permits *permits, struct list_node *link, enum priority priority);

/* The one that should ask now and is henceforth asking, or NULL. */
struct list_node *permits_next(struct permits *permits, int64_t now_us);

/* The question of the asking one is answered; `retry_at_us` 0: others may ask at once. */
void permits_answered(struct permits *permits, int64_t retry_at_us);

/* When the next one may ask, if anyone is in line. */
int64_t permits_retry_at(const struct permits *permits);

/* A permit was given. */
void permits_granted(struct permits *permits, int64_t now_us);

/* When it is worth to come again for one who finds so many before it: a length, never 0. A guess
   by how fast the line moved of late. */
int64_t permits_patience_us(const struct permits *permits, uint64_t before, int64_t now_us);
