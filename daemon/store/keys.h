/* Names in Redis.
 *
 *   PREFIX e:{KEY}         a key's entry
 *   PREFIX c:{KEY}         a key's claim
 *   PREFIX changes:DB      the channel
 *   PREFIX {fleet}:permits, {fleet}:pace:ID    rate and slots; a warm-up's rate
 *   PREFIX {fleet}:places, {fleet}:holders     heartbeats; whose place is whose
 *   PREFIX {fleet}:era, {fleet}:beat           the clock's; the heartbeat of trust
 *   PREFIX {fleet}:epochs, {fleet}:definitions of keyspaces
 *   PREFIX {fleet}:history                     the origin's
 *   PREFIX {fleet}:feed, {fleet}:floors        who reads the log of changes, and how far; the last
 *                                              of a whole keyspace, where builds read a standby
 *   PREFIX {fleet}:jobs, {fleet}:job:NAME      warm-ups
 *
 * What is in braces decides on the Cluster slot: so that those of others have no say, braces in the
 * prefix and in the key are written %7B and %7D, which no canonical key holds. Channels, unlike
 * keys, are shared by all databases of a server.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
	KEYS_PREFIX_MAX = 64, /* bytes, as configured */
	KEYS_FLEET_MAX = 3 * KEYS_PREFIX_MAX + 32,
};

struct keys {
	char prefix[3 * KEYS_PREFIX_MAX + 1]; /* escaped */
	char permits[KEYS_FLEET_MAX];
	char places[KEYS_FLEET_MAX];
	char holders[KEYS_FLEET_MAX];
	char era[KEYS_FLEET_MAX];
	char beat[KEYS_FLEET_MAX];
	char epochs[KEYS_FLEET_MAX];
	char feed[KEYS_FLEET_MAX];
	char history[KEYS_FLEET_MAX];
	char floors[KEYS_FLEET_MAX];
	char definitions[KEYS_FLEET_MAX];
	char jobs[KEYS_FLEET_MAX];
	char job[KEYS_FLEET_MAX]; /* … but for its name */
	char channel[KEYS_FLEET_MAX];
	char pace[KEYS_FLEET_MAX]; /* until the next keys_pace */

	/* Of one key: until the next keys_name. */
	char *entry, *claim; /* owned */
	size_t len;          /* of each */
};

/* 0, or -1 when memory is missing. The prefix is at most KEYS_PREFIX_MAX bytes. */
int keys_init(struct keys *keys, const char *prefix, uint32_t db)
	__attribute__((warn_unused_result));
void keys_close(struct keys *keys); /* accepts a zeroed one */

/* Sets `entry`, `claim` and `len` to the names for a canonical key. */
void keys_name(struct keys *keys, const char *key, size_t len);

/* Sets `pace` to the name of that pace. */
void keys_pace(struct keys *keys, uint64_t id);
