/* The simulated shared store: it remembers and answers what Redis does with the shipped scripts.
 *
 * One call is one script of daemon/store/lua: atomic, at the store's own time. How messages reach
 * it, or do not, is post.h. Of a key it keeps two records, as in Redis, and each can vanish alone:
 * the entry, and the claim. Beside them what the fleet shares: permits, places, the heartbeat, the
 * era, the epochs. tests/twins holds all of it to Redis and the scripts.
 *
 * Moments in operations are by its clock: the caller translates. What it does it tells the judge.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/epoch.h"
#include "core/store.h"
#include "scene.h"

/* The store's clock: µs since an epoch. */
#define FLEET_EPOCH_US INT64_C(1700000000000000)

struct shared_claim {
	bool exists, waited, hard, stored;
	bool by_row; /* the floor is a row's change, which an entry of floor_version contains */
	uint64_t fence, floor;
	int64_t floor_version; /* 0: none tells */
	uint64_t token, lease_fence;
	int64_t granted_at_us, lease_length_us, lease_until_us;
	struct failure failure; /* text counted; status OK: none; until_us: when it is forgotten */
	int64_t failed_length_us;
	uint32_t streak; /* known for as long again as the failure was */
	int64_t ends_us; /* the record's own end, as that of an entry: shared_has_ended */
};

struct shared_key {
	bool has_entry;
	struct entry entry; /* value counted */
	bool overtaken;     /* its row changed while it was built */
	int64_t entry_ends_us;
	struct shared_claim claim;
};

/* Who reads the origin's log of changes, and how far it has been applied: the reader's own text. */
enum { SHARED_POSITION_MAX = 1024 };
struct shared_reader {
	bool exists;
	uint64_t token;
	int64_t until_us, length_us;
	char position[SHARED_POSITION_MAX];
};

struct shared_slot {
	uint64_t token, owner;
	int place;
	bool background;
	int64_t start_us, until_us; /* free once until_us has passed */
};

/* Two records in Redis, of which either can vanish: by when it ends, and who has it. */
struct shared_place {
	int64_t until_us; /* 0: nobody has had it */
	uint64_t holder;  /* the daemon's life; 0: it is not known */
};

/* When the next statement of a pace may start; id 0: none. */
struct shared_pace {
	uint64_t id;
	int64_t next_us;
};
enum { SHARED_PACES = 4 };

/* All that a failover can lose, and a flush does. */
struct shared_data {
	struct shared_key keys[KEYS_MAX];
	struct shared_slot *slots;   /* owned; scene->concurrency */
	struct shared_place *places; /* owned; scene->nodes */
	bool has_permits;
	uint64_t permits_run; /* the server that has written them */
	int64_t next_us;      /* when the next permit's start may be */
	struct shared_pace paces[SHARED_PACES];
	bool has_beat;
	uint64_t beat_holder, beat_number;
	int64_t beat_until_us;
	uint32_t era; /* 0: none */
	int64_t era_since_us, era_jump_us, era_seen_us;
	uint64_t era_witness; /* the life that saw a jump, at era_seen_us; 0: none */
	struct epochs epochs[KEYSPACES];
	uint64_t history; /* of the origin, that the fleet builds in; 0: none */
	int64_t history_built_us;
	struct shared_reader reader;
};

enum { SHARED_CLOCKS_MAX = 1000 };

struct fleet;
struct shared {
	struct fleet *fleet;
	struct shared_data data;
	uint64_t run; /* another number for each start and failover */
	bool evicts;  /* this run has evicted something */
	bool down, stalled, readonly, full;
	int64_t ahead_us; /* its clock, of FLEET_EPOCH_US */
	int64_t clocks_us[SHARED_CLOCKS_MAX];
	uint32_t clocks_count; /* what it was ahead before */
};

/* Who calls: part of the scripts' arguments. */
struct caller {
	int node; /* for the judge */
	uint64_t life;
	uint64_t before; /* the life before, while that may still hold the place; 0: none */
	int place;       /* or -1 */
	bool owes;       /* it used its own share just now */
	uint32_t era;    /* that it lives in; 0: none yet */
};

/* What the store tells by itself, to all who listen. */
enum tiding_kind { TIDING_SETTLED, TIDING_CHANGED, TIDING_ROW, TIDING_BEAT, TIDING_EPOCH };
struct tiding {
	enum tiding_kind kind;
	int key;        /* EPOCH: the keyspace */
	uint64_t fence; /* CHANGED, ROW: the floor; BEAT: its number */
	bool emptied;   /* BEAT: what there was is lost since the last */
	bool hard;
	bool has_version; /* ROW: an entry of this version contains it */
	int64_t version;
	int64_t told_us;   /* the store's clock; EPOCH: when it began */
	int64_t spread_us; /* EPOCH */
};

/* What can vanish alone: the keys of Redis. */
enum shared_part {
	SHARED_ENTRY,
	SHARED_CLAIM,
	SHARED_PERMITS,
	SHARED_PLACES,
	SHARED_HOLDERS,
	SHARED_BEAT,
	SHARED_ERA,
	SHARED_EPOCHS,
	SHARED_HISTORY,
	SHARED_READER,
};
enum { SHARED_PARTS = SHARED_READER + 1 };

void shared_init(struct shared *shared, struct fleet *fleet);
void shared_close(struct shared *shared);

int64_t shared_now(const struct shared *shared);

/* How wrong somebody is about the store's clock, or one that it had before a jump. */
int64_t shared_clock_error(const struct shared *shared, int64_t clock_us);

/* Carries out one operation: the script of that name. Parts of the answer are counted: the
   caller's. */
void shared_execute(struct shared *shared, struct store_op *op, const struct caller *caller);

/* follow.lua and change.lua: the outcome, how long another reads, and the position. What is applied
   is what change.lua is given; its policies' times are those of the scene. */
struct shared_feed_answer {
	enum change_outcome outcome;
	int64_t left_us;
	char position[SHARED_POSITION_MAX];
};
void shared_follow(struct shared *shared, const struct change_call *call, uint64_t life,
		   struct shared_feed_answer *ret_answer);

/* place.lua: the place, or -1, and whether it was the life's before. */
int shared_place(struct shared *shared, const struct caller *caller, bool *ret_succeeds);

/* beat.lua: whether the caller publishes. `row`: what it published last, and then what it has. */
struct shared_row {
	uint64_t number; /* 0: nothing */
	uint64_t run;    /* of the server, then */
};
bool shared_beat(struct shared *shared, const struct caller *caller, int64_t length_us,
		 struct shared_row *row);

/* clock.lua: `jump_us`: what the caller saw the clock jump by, or 0. */
struct shared_time {
	int64_t now_us;
	uint32_t era;
	int64_t since_us, jump_us; /* when the era began, and what the clock jumped by then */
};
struct shared_time shared_time(struct shared *shared, const struct caller *caller, int64_t jump_us);

/* epochs.lua: the store hears of an epoch that a daemon knows. */
void shared_know_epoch(struct shared *shared, const char *keyspace, int64_t moment_us,
		       int64_t spread_us);

/* free.lua: the slots that another life took for the caller's place. */
void shared_free_before(struct shared *shared, const struct caller *caller);

/* Forgets the keys' records that have ended: else that is done when they are asked for. */
void shared_sweep(struct shared *shared);

/* Faults. A copy is what a replica has; restoring it is the failover, which is also a restart. */
void shared_jump(struct shared *shared, int64_t jump_us);
void shared_restart(struct shared *shared);
void shared_flush(struct shared *shared);
void shared_forget(struct shared *shared, enum shared_part part, int key);
void shared_evict(struct shared *shared, struct rng *rng, double share);
void shared_copy(const struct shared *shared, struct shared_data *ret_data);
void shared_restore(struct shared *shared, struct shared_data *data);
void shared_data_drop(const struct shared *shared, struct shared_data *data);

/* At rest: leases held and slots taken. */
int shared_leases(const struct shared *shared);
int shared_slots(const struct shared *shared);

/* Between the files of the store. */
struct shared_key *shared_key_at(struct shared *shared, int number);
uint64_t shared_fence_after(const struct shared_key *key, uint64_t known, int64_t now_us);
void shared_claim_write(struct shared_key *key, int64_t now_us);
void shared_failure_forget(struct shared_claim *claim);

/* Whether an entry surely contains a row's change: prelude.lua has it. */
bool shared_contains(const struct entry *entry, int64_t version, bool single_row);

/* The keyspace of that name: whoever asked may be gone, and its keyspaces with it. */
uint32_t shared_keyspace(const struct shared *shared, const char *name, size_t len);

/* An epoch begins now, for all to hear. The moment it is given. */
int64_t shared_begin_epoch(struct shared *shared, uint32_t keyspace, int64_t spread_us);

/* A record vanishes, with what it counts. */
void shared_entry_forget(struct shared_key *key);
void shared_claim_forget(struct shared_claim *claim);

/* Of a claim: what is left of its lease, of its failure, and the failed builds in a row as far as
 * still known. */
int64_t shared_lease_left(const struct shared_claim *claim, int64_t now_us);
int64_t shared_failed_left(const struct shared_claim *claim, int64_t now_us);
uint32_t shared_streak(const struct shared_claim *claim, int64_t now_us);

int shared_places_live(const struct shared *shared, int64_t now_us);
void shared_epoch(struct shared *shared, struct store_op *op);
void shared_permit(struct shared *shared, struct store_op *op, const struct caller *caller);
void shared_free(struct shared *shared, const struct store_op *op);

/* What is left of something that ends at `until_us` and is at most `length_us` long. */
static inline int64_t left_of(int64_t until_us, int64_t length_us, int64_t now_us)
{
	int64_t left_us = until_us - now_us;
	return left_us <= 0 || left_us > length_us ? 0 : left_us;
}

/* Redis counts lives in ms: whether a record that ends at `ends_us`, whole ms, is gone. */
static inline bool shared_has_ended(int64_t ends_us, int64_t now_us)
{
	return now_us / 1000 > ends_us / 1000;
}
