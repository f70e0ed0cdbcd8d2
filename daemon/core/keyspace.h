/* A keyspace at run time, and a key in it.
 *
 * The keyspace's own part (name, query, times) is the operator's policy, which a reload replaces;
 * here is what changes while the daemon runs. A keyspace lives as long as it is configured or in
 * use (core/roster.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/policy.h"
#include "core/account.h"
#include "core/epoch.h"

/* From when on a new policy counts. Entries from before come under it one after the other: key k at
   moment + hash(k) % spread; later ones at once. */
struct changeover {
	int64_t moment_us;
	int64_t spread_us;
};

struct batch;

struct keyspace {
	const struct policy *policy; /* counted */
	uint32_t index;              /* its place among the keyspaces, 0 first */
	uint32_t generation;         /* entries of another generation are not plainly fresh */
	uint32_t users; /* near entries, flights, batches, requests, operations: who points here */
	bool removed;   /* not configured any more: goes with its last user */
	unsigned log_level; /* of events of its keys, as the policy has it or the method `log` has
			       set it: 0 as all others, else enum log_level and 1 */
	struct list_node leaving;  /* among the removed ones */
	struct keyspace *namesake; /* the roster's: the next whose name hashes alike */
	struct epochs epochs;
	struct changeover bounded; /* entries live no longer than the policy in force allows */
	uint64_t definition;       /* keyspace_definition() of the policy */
	struct changeover defined; /* entries of another definition are not fresh … */
	bool superseded;    /* … unless the fleet has a later one than ours: then all are taken */
	int64_t refresh_us; /* what a refresh takes in all, smoothed; 0: unknown */
	int64_t slow_build_us;  /* an estimate of the 99th percentile of build times; 0: none yet */
	struct batch *open;     /* borrowed; the batch that may be boarded, or NULL */
	uint32_t aparts;        /* batches in a row of which nothing came but that each key is to be
				   built alone */
	int64_t apart_until_us; /* so long there are none */
	struct account account;
};

/* One key. The bytes are canonical (proto/key.h): two spellings of one key are the same bytes. */
struct key {
	struct keyspace *keyspace;
	const char
		*bytes; /* the whole key, keyspace name included; says each holder for how long */
	uint32_t len;
	uint64_t hash; /* key_hash() of the bytes under the engine's secret */
};

/* What the keyspace's values mean, as a number: two policies of which the values are the same have
   the same. Comments and white space in their queries say nothing. Never 0. Pure; any thread. */
uint64_t keyspace_definition(const struct policy *policy);

/* Over which time a change of the policy comes over the entries there are. */
int64_t keyspace_spread_us(const struct policy *policy);

/* The daemon begins to serve it: changeovers are from now on, as after a keyspace_take. */
void keyspace_begin(struct keyspace *keyspace, int64_t now_us);

/* Takes a policy, the first or another of the same name, from now on. */
void keyspace_take(struct keyspace *keyspace, const struct policy *policy, int64_t now_us);

/* The fleet's definition is this one, since then. True if that is news. */
bool keyspace_is_defined(struct keyspace *keyspace, uint64_t definition,
			 const struct changeover *since);

/* Shortens the entry's times as the keyspace's epochs, its definition and its policy's bounds ask.
   `public_hash`: key_public_hash() of its key. */
void keyspace_judge(const struct keyspace *keyspace, struct entry *entry, uint64_t public_hash);

/* The key's place in tables of this process: keyed by `secret`, so that no client can choose keys
   that collide. XXH3 with a 192-byte secret (xxhash.com). Pure; any thread. */
enum { KEY_SECRET_LEN = 192 };
uint64_t key_hash(const void *secret, const char *bytes, size_t len);

/* The key's number that all daemons agree on: names its advisory lock at the origin. XXH3, seed 0.
 */
uint64_t key_public_hash(const char *bytes, size_t len);
