/* A keyspace at run time, and a key in it.
 *
 * The keyspace's own part (name, query, times) is the operator's policy; here is what changes while
 * the daemon runs. Keyspaces live as long as the engine.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/policy.h"
#include "core/account.h"
#include "core/epoch.h"

struct keyspace {
	const struct policy *policy; /* borrows from the config */
	uint32_t index;              /* its place among the keyspaces, 0 first */
	uint32_t generation;         /* entries of another generation are not plainly fresh */
	struct epochs epochs;
	int64_t refresh_us;    /* what a refresh takes in all, smoothed; 0: unknown */
	int64_t slow_build_us; /* an estimate of the 99th percentile of build times; 0: none yet */
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

/* The key's place in tables of this process: keyed by `secret`, so that no client can choose keys
   that collide. XXH3 with a 192-byte secret (xxhash.com). Pure; any thread. */
enum { KEY_SECRET_LEN = 192 };
uint64_t key_hash(const void *secret, const char *bytes, size_t len);

/* The key's number that all daemons agree on: names its advisory lock at the origin. XXH3, seed 0.
 */
uint64_t key_public_hash(const char *bytes, size_t len);
