/* A warming: keys of one keyspace that a warm-up wants built, and the one statement that builds
 * them.
 *
 *   ASKING ──> BOARDING ──> BUILDING ──> over
 *      └──────────┴── (no permit is free; or all of it came too late) ──^
 *
 *   ASKING     its batch has a place in the bulkhead, and stands last in line for a permit
 *   BOARDING   it has the permit: its keys' flights start, look at the store, and take their leases
 *   BUILDING   as any batch; each key ends as its flight does
 *
 * It takes its permit before its leases, the other way round than a batch that someone waits for:
 * whoever asks for one of its keys meanwhile, here or on another host, waits for a build and never
 * for a permit that is kept for when nothing else goes on. It takes what is free now, and only
 * while nobody here waits for room or for a permit; else it is told to come again LATER.
 *
 * The engine borrows it from EVENT_WARM until it is in engine->warmed: then it is the owner's
 * again.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/list.h"
#include "core/engine.h"
#include "core/store.h"

/* What became of a key. */
enum warm_result {
	WARM_PENDING,
	WARM_BUILT,
	WARM_FRESH,  /* somebody had it built */
	WARM_FAILED, /* `failure` says why, and when it may be tried again */
	WARM_AGAIN,  /* nothing: another is at it, or there was no room; look at it again */
	WARM_APART, /* nothing came of the statement, perhaps by another key's fault: build it alone
		     */
};

struct warming_key {
	struct key key;          /* bytes: the owner's */
	enum warm_result result; /* out, as the next */
	struct failure failure;  /* text counted, the owner's */
};

struct warming {
	struct warming_key keys[BATCH_KEYS_MAX];
	uint32_t count; /* 1 where the keyspace has no batches */
	struct pace pace;
	bool alone; /* no store knows what has been built since the look: the near cache does */
	void (*done)(struct warming *warming); /* pump_warm: once, later */

	/* What came of it. */
	bool later; /* nothing: no key was touched; come again in `retry_us` */
	int64_t retry_us;
	int64_t took_us; /* the statement; 0: there was none */

	/* The engine's own. */
	struct list_node node; /* among those that start flights, or those that are over */
	struct batch *batch;   /* borrowed; NULL: none any more */
	uint32_t next;         /* the key whose flight is started next */
	uint32_t arriving;     /* keys that are neither on the batch yet nor done */
	uint32_t left;         /* keys that are not done */
	int64_t began_us;
	struct pump *pump; /* borrowed; the pump's own */
};

/* Whether the key's value is near, and fresh. */
bool warming_is_fresh_here(struct engine *engine, const struct key *key, int64_t now_us);

void warming_start(struct engine *engine, struct warming *warming, int64_t now_us);

/* The answer to its permit; building.c has counted it. */
void warming_on_permitted(struct engine *engine, struct batch *batch, int64_t now_us,
			  struct effects *effects);

/* Whether it has no answer to its permit yet. */
bool warming_is_asking(const struct warming *warming);

/* Starts a few of the flights that are to be started. */
void warming_advance(struct engine *engine, int64_t now_us, struct effects *effects);
bool warming_can_advance(const struct engine *engine);

/* A flight goes another way than to the batch, which needn't wait for it; fine for those of no
   warming. */
void warming_on_strayed(struct engine *engine, struct flight *flight);

/* A flight of it is on the batch; has come to its end; the batch is over. */
void warming_on_seated(struct engine *engine, struct flight *flight);
void warming_on_landed(struct engine *engine, struct flight *flight, enum refresh_outcome outcome);
void warming_on_over(struct engine *engine, struct batch *batch);
