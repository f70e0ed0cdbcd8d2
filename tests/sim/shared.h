/* The simulated shared store: it remembers and answers what Redis does with the shipped scripts.
 *
 * One call is one script of daemon/store/lua: atomic, at the store's own time. How messages reach
 * it, or do not, is post.h. Of a key it keeps two records, as in Redis, and each can vanish alone:
 * the entry, and the claim. Beside them what the fleet shares: permits, places, the heartbeat.
 *
 * Moments in operations are by its clock: the caller translates. What it does it tells the judge.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/store.h"
#include "scene.h"

/* The store's clock: µs since an epoch. */
#define FLEET_EPOCH_US INT64_C(1700000000000000)

struct shared_claim {
	bool exists, waited, hard;
	uint64_t fence, floor;
	uint64_t token, lease_fence;
	int64_t granted_at_us, lease_length_us, lease_until_us;
	struct failure failure; /* text counted; status OK: none; until_us: when it is forgotten */
	uint32_t streak;
	int64_t streak_until_us;
	int64_t ends_us; /* the record's own end */
};

struct shared_key {
	bool has_entry;
	struct entry entry; /* value counted */
	int64_t entry_ends_us;
	struct shared_claim claim;
};

struct shared_slot {
	uint64_t token, owner;
	int place;
	bool background;
	int64_t start_us, until_us; /* free once until_us has passed */
};

struct shared_place {
	bool exists;
	uint64_t holder; /* the daemon's life */
	int64_t until_us;
};

/* All that a failover can lose, and a flush does. */
struct shared_data {
	struct shared_key keys[KEYS_MAX];
	struct shared_slot *slots;   /* owned; scene->concurrency */
	struct shared_place *places; /* owned; scene->nodes */
	bool has_permits;
	uint64_t permits_run; /* the server that has written them */
	int64_t next_us;      /* when the next permit's start may be */
	bool has_beat;
	uint64_t beat_holder, beat_number;
	int64_t beat_until_us;
};

struct fleet;
struct shared {
	struct fleet *fleet;
	struct shared_data data;
	uint64_t run; /* another number for each start and failover */
	bool down, stalled, readonly;
};

/* Who calls: part of the scripts' arguments. */
struct caller {
	int node; /* for the judge */
	uint64_t life;
	uint64_t before; /* the life before, while that may still hold the place; 0: none */
	int place;       /* or -1 */
	bool owes;       /* it used its own share just now */
};

/* What the store tells by itself, to all who listen. */
enum tiding_kind { TIDING_SETTLED, TIDING_CHANGED, TIDING_BEAT };
struct tiding {
	enum tiding_kind kind;
	int key;
	uint64_t fence; /* CHANGED: the floor; BEAT: its number */
	bool hard;
	int64_t told_us; /* the store's clock */
};

void shared_init(struct shared *shared, struct fleet *fleet);
void shared_close(struct shared *shared);

int64_t shared_now(const struct shared *shared);

/* Carries out one operation: the script of that name. Parts of the answer are counted: the
   caller's. */
void shared_execute(struct shared *shared, struct store_op *op, const struct caller *caller);

/* place.lua: the place, or -1, and whether it was the life's before. */
int shared_place(struct shared *shared, const struct caller *caller, bool *ret_succeeds);

/* beat.lua: whether the caller publishes. */
bool shared_beat(struct shared *shared, const struct caller *caller, int64_t length_us);

/* free.lua: the slots that another life took for the caller's place. */
void shared_free_before(struct shared *shared, const struct caller *caller);

/* Faults. A copy is what a replica has; restoring it is the failover, which is also a restart. */
void shared_restart(struct shared *shared);
void shared_flush(struct shared *shared);
void shared_evict(struct shared *shared, struct rng *rng, double share);
void shared_copy(const struct shared *shared, struct shared_data *ret_data);
void shared_restore(struct shared *shared, struct shared_data *data);
void shared_data_drop(const struct shared *shared, struct shared_data *data);

/* At rest: leases held and slots taken. */
int shared_leases(const struct shared *shared);
int shared_slots(const struct shared *shared);

/* shared_fleet.c, of shared.c's use */
void shared_permit(struct shared *shared, struct store_op *op, const struct caller *caller);
void shared_free(struct shared *shared, const struct store_op *op);

/* What is left of something that ends at `until_us` and is at most `length_us` long. */
static inline int64_t left_of(int64_t until_us, int64_t length_us, int64_t now_us)
{
	int64_t left_us = until_us - now_us;
	return left_us <= 0 || left_us > length_us ? 0 : left_us;
}
