/* A chunk of a job's keys that this daemon has claimed. Each key goes
 *
 *   TO_LOOK ──> LOOKING ──> TO_BUILD ──> BUILDING ──> DONE
 *      ^           │└── (fresh) ──────────────┼────────^
 *      └── RESTING <──────────────────────────┘  (another is at it; it failed, and has tries left)
 *
 * A chunk that is given up (another has it, its job is over) stays until the looks and statements
 * that know it have come back, and the report that is on its way. Owned by its job's list; on the
 * loop's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/flight.h"
#include "core/job.h"

struct warmer_job;

enum { WARM_FAILURES_BYTES = 16 * 1024 }; /* of a chunk: its keys that failed, with why */

enum warm_item_state {
	ITEM_TO_LOOK,
	ITEM_LOOKING,
	ITEM_TO_BUILD,
	ITEM_BUILDING,
	ITEM_RESTING,
	ITEM_DONE,
};

struct warm_item {
	uint32_t at, len; /* its key, in the chunk's bytes */
	uint8_t state;
	uint8_t tries;  /* that failed */
	bool alone;     /* no batch */
	int64_t due_us; /* RESTING */
};

struct warm_chunk {
	struct list_node node; /* in its job's */
	struct warmer_job *job;
	uint64_t seq;
	bool given_up;      /* another's by now, or nobody's */
	uint32_t under_way; /* looks and statements that know it */
	uint32_t to_look, done;
	struct job_counts counts;
	int64_t reported_us;
	char *failures; /* owned; NULL: none yet */
	uint32_t failures_len, failures_count;
	uint32_t count;
	struct warm_item items[CHUNK_KEYS_MAX];
	char bytes[];
};

/* From the answer that it was claimed by; into the job's list. NULL: no memory. */
struct warm_chunk *warm_chunk_create(struct warmer_job *job, const struct job_call *call,
				     int64_t now_us);

/* Frees it where nobody knows it any more. */
void warm_chunk_release(struct warm_chunk *chunk);

void warm_chunk_give_up(struct warm_chunk *chunk);
void warm_chunks_give_up(struct warmer_job *job); /* all of them */

/* The key, if it is one that can be built; else it has failed. Borrows the chunk's bytes. */
bool warm_item_key(struct warm_chunk *chunk, uint32_t index, struct key *ret_key);

void warm_item_move(struct warm_chunk *chunk, uint32_t index, enum warm_item_state state);
void warm_item_rest(struct warm_chunk *chunk, uint32_t index, int64_t until_us);
void warm_item_fresh(struct warm_chunk *chunk, uint32_t index); /* DONE: it is there */

/* It failed; it may be tried some times more, not before the failure is forgotten. */
void warm_item_fail(struct warm_chunk *chunk, uint32_t index, const struct failure *failure,
		    int64_t now_us);
