/* A daemon's core in virtual time: the real engine, pump and memory store, and an origin and
 * clients that do as the test says. After every step the engine's invariants are walked.
 *
 * The test sends gets and refreshes, and lets time pass with world_run; what came of each request
 * stands in its `struct client`.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/answer.h"
#include "core/pump.h"
#include "store/memory.h"

enum { MS = 1000, SECOND = 1000 * 1000 };

/* What the next builds of the world's keys bring. Change it at any time: a build takes what stands
   here when it begins. */
struct script {
	enum build_outcome outcome;
	int64_t takes_us;
	int64_t version; /* 0: no version */
	uint64_t history;
	bool null;
	const char *value; /* NULL: "v" and the build's number, of all keys */
	enum status status;
	const char *text;
	const char *bad;  /* an argument that fails: its own build, or all of a batch APART */
	const char *held; /* one whose lock is held */
};

/* One request of a client: set up by world_get and world_refresh. */
struct client {
	struct request request;
	struct world *world;
	char key[64];
	bool submitted, answered, left;
	int64_t asked_at_us, answered_at_us;
	int answers;          /* must end as 1, or 0 if it left */
	struct answer answer; /* its text and value are copied below */
	char value[32];
	char text[128];
};

struct origin_build {
	struct build *build;
	struct script script;
	struct heap_node end;
	int number;

	bool cancelled;
};

enum { WORLD_BUILDS_MAX = 20000, WORLD_RUNNING_MAX = 256 };

struct world {
	int64_t now_us, wake_at_us;
	bool store_turn, stopped;
	struct policy policy; /* of the one keyspace, "k"; set up before world_open */
	struct engine_limits limits;
	struct memory_store_limits store_limits;
	struct script script;

	/* What another daemon has put into the store: loads find it. `away`: the store is, and the
	   daemon is on its own. */
	bool has_shared;
	struct entry shared; /* value counted */
	bool away;
	bool hold_saves; /* saves and releases are not carried out before world_release_save */
	struct store_op *held_save;

	bool refuses_saves;
	bool refuses_leases;      /* as out of memory: the daemon has its own, and shared permits */
	bool is_maimed;           /* the store may have lost something just now */
	int given;                /* values given back */
	uint64_t floor;           /* as the claim has it */
	bool holds_renewals;      /* they are answered only by world_answer_renewal */
	struct store_op *renewal; /* the last one held */
	int loads, values_loaded, renewals, key_locks;

	struct engine *engine;
	struct memory_store *memory;
	struct pump pump;

	struct heap ends; /* of running builds */
	struct origin_build running[WORLD_RUNNING_MAX];
	int building, building_most;
	int builds; /* statements begun */
	int keys;   /* built by them */
	int64_t began_us[WORLD_BUILDS_MAX];
};

/* Ordinary values: fresh 10 s, stale 5 s, wait 1 s, no jitter, builds of 100 ms, budget 1,000/s. */
void world_defaults(struct world *world);
void world_open(struct world *world);

/* Stops the pump, lets it end, and checks that nothing is left over. */
void world_close(struct world *world);

/* Asks; an answer at hand is there on return, any other comes while time passes. */
void world_get(struct world *world, struct client *client, const char *arg);
void world_refresh(struct world *world, struct client *client, const char *arg);
/* The same, with the query's options set by the caller in client->request.query beforehand. */
void world_ask(struct world *world, struct client *client, const char *arg);
void world_leave(struct world *world, struct client *client);
void world_invalidate(struct world *world, const char *arg, bool hard);
void world_invalidate_keyspace(struct world *world, int64_t spread_us);

/* Puts an entry into the store, built at `generated_at_us`. */
void world_share(struct world *world, const char *value, int64_t generated_at_us, uint64_t fence);
void world_release_save(struct world *world);
void world_answer_renewal(struct world *world);
/* Another daemon takes the key's lease, or gives it back. */
void world_rival_leases(struct world *world, const char *arg);
void world_rival_releases(struct world *world, const char *arg);
/* Other hosts take all permits that reach no further ahead. */
void world_rival_permits(struct world *world, int64_t reach_us);

/* Lets everything happen that is due up to `for_us` from now. */
void world_run(struct world *world, int64_t for_us);

/* Most builds begun in any window of `window_us`. */
int world_most_builds(const struct world *world, int64_t window_us);
