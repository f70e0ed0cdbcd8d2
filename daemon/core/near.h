/* The near cache: entries in the daemon's own memory, bounded by what they really cost.
 *
 * Eviction is SIEVE: a queue in order of insertion, and a hand that walks from its old end, sparing
 * (once) what was read since it last came by. Source: Zhang, Yang, Yue, Vigfusson, Rashmi, "SIEVE
 * is simpler than LRU", NSDI 2024.
 *
 * "No such row" has a queue and a share of the memory of its own, an eighth: keys that were made up
 * evict only each other.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/table.h"
#include "core/entry.h"
#include "core/ghosts.h"
#include "core/keyspace.h"
#include "core/request.h"

/* What comes at next_at, while the entry is fresh. */
enum early {
	EARLY_TO_DRAW, /* the moment of the early refresh is to be drawn */
	EARLY_DRAWN,   /* it has come: refresh */
	EARLY_OVER,    /* nothing more before fresh_until */
};

struct near_entry {
	struct table_node node;
	struct list_node link;     /* in the queue */
	struct keyspace *keyspace; /* borrowed */
	/* The two comparisons of the hot path: plainly fresh while now < next_at and the generation
	   is the keyspace's own. Whatever ends plain freshness moves next_at. */
	int64_t next_at_us;
	int64_t put_at_us; /* since when the hits are counted */
	uint64_t hits;
	int64_t retry_at_us; /* a stale entry starts no refresh before this */
	uint32_t generation;
	/* The engine's count of trusts when it was confirmed; another: look it up. */
	uint32_t trust;
	uint16_t key_len;
	enum early early : 8;
	/* Why the last refresh brought nothing; NONE: no such trouble. */
	enum answer_reason trouble : 8;
	uint8_t cause; /* of the refresh that brought it */
	bool unread;   /* built with nobody waiting: wasted unless it is hit */
	bool visited;
	struct entry entry; /* its value is counted */
	char key[];
};

/* A SIEVE queue. */
struct near_segment {
	struct list queue;      /* newest first */
	struct list_node *hand; /* the next to be judged; NULL: start at the old end */
	size_t bytes;
};

enum {
	NEAR_ABSENT_SHARE = 8, /* an eighth is for "no such row" */
	NEAR_GHOST_SHARE = 64, /* and this part for ghosts */
};

struct near {
	struct table table;
	struct near_segment rows;
	struct near_segment absent;
	size_t bytes_max;    /* of both, the table and the ghosts */
	size_t bytes_wanted; /* less: bytes_max comes down to it as near_shrink goes on */
	size_t bytes_ever;   /* the most that it was to hold; the ghosts are as many as that asks */
	struct near_segment *sweeping; /* what near_sweep goes through; NULL: nothing */
	struct list_node *sweep;       /* the next it looks at; NULL: the old end */
	bool walking;                  /* near_walk has not come to the end */
	struct list_node *walk;        /* the row it comes to next */
	struct ghosts ghosts;          /* of what was evicted */
	/* Told of what is about to be evicted; NULL: nobody cares. */
	void (*evicts)(void *arg, const struct near_entry *ne);
	void *evicts_arg;
	uint64_t evictions;
	uint64_t refused; /* entries that did not fit at all */
};

/* 0, or -1 when memory is missing. */
int near_init(struct near *near, size_t bytes_max) __attribute__((warn_unused_result));
void near_close(struct near *near);

/* The key's entry, whatever its phase, or NULL. Valid until the next put or remove. */
struct near_entry *near_find(const struct near *near, const struct key *key);

/* The same for canonical key bytes, if the entry has a value and is plainly fresh; that is a hit,
   and counted as one. Else NULL, with nothing changed, and the long way knows why: engine_lookup.
 */
struct near_entry *near_hit(const struct near *near, uint64_t hash, const char *bytes, size_t len,
			    int64_t now_us);

/* Has the processor fetch what near_hit() of these hashes will read. Changes nothing. */
void near_prefetch(const struct near *near, const uint64_t *hashes, uint32_t count);

/* Makes `entry` the key's, in place of what was there, evicting others for room. Takes a reference
   of its own to the value. NULL when it doesn't fit, memory is missing or the keyspace is removed:
   then the key has no entry. */
struct near_entry *near_put(struct near *near, const struct key *key, const struct entry *entry,
			    int64_t now_us);

void near_remove(struct near *near, struct near_entry *ne);

/* What a refresh of it takes: as measured in its keyspace or, before this daemon has built anything
   there, as long as its own build took, wherever that was. 0: unknown. */
int64_t near_refresh_us(const struct near_entry *ne);

/* Nobody will read it any more: counts it as wasted if nobody has. */
void near_settle(struct near_entry *ne, bool wasted);

/* The same, but its version is not forgotten. */
void near_drop(struct near *near, struct near_entry *ne, int64_t now_us);

/* So much may be used from now on. What is over is evicted by near_shrink, a few a call; until it
   has come so far, new entries take the place of others. At least near_least: what was made for
   the greatest size that it had, table and ghosts, stays. */
void near_resize(struct near *near, size_t bytes_max);
size_t near_least(const struct near *near);
bool near_is_shrinking(const struct near *near);
void near_shrink(struct near *near, int most, int64_t now_us);

/* Drops the entries of removed keyspaces: near_sweep goes on over `most` entries a call, as long as
   near_is_sweeping. */
void near_sweep_begin(struct near *near);
bool near_is_sweeping(const struct near *near);
void near_sweep(struct near *near, int most, int64_t now_us);

/* Goes through the rows there are, the oldest first: each call gives the next one, or NULL where
   the end has come. */
void near_walk_begin(struct near *near);
void near_walk_end(struct near *near);
bool near_is_walking(const struct near *near);
struct near_entry *near_walk(struct near *near);

/* Bytes in use, the table's own included. */
size_t near_cost(const struct near *near);
