/* Messages: what the fleet's channel carries, as the scripts publish it.
 *
 * High bytes first; u8 kind, u8 format (1), u16 how many keys follow; then
 *
 *   's' settled   for each key: u64 fence, u8 0, u32 length, the key
 *   'c' changed   for each key: u64 floor, u8 hard, u32 length, the key
 *   'v' row       the same of a row's change, where an entry of that version contains it: for each
 *                 key: u64 floor, u8 flags (1 hard, 2 the version tells), i64 version, u32 length,
 *                 the key
 *   'e' epoch     i64 moment, i64 spread, u32 length, the keyspace: one of them
 *   'b' beat      u64 number, i64 when it was published (µs of the store's clock); in place of how
 *                 many keys: 1, if the store has lost what it had since the last one
 *
 * Anybody can publish on a channel: what does not read as a message to its last byte is none of it
 * told. Other kinds and formats are another version's, and ignored. Pure; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MESSAGE_KEYS_MAX = 1000 };

/* Moments and lengths that can be told: those that a Lua number holds. */
#define MESSAGE_TIME_MAX (INT64_C(1) << 53)

enum message_kind {
	MESSAGE_SETTLED,
	MESSAGE_CHANGED,
	MESSAGE_ROW,
	MESSAGE_EPOCH,
	MESSAGE_BEAT,
	MESSAGE_FOREIGN,
};

struct message {
	enum message_kind kind;
	uint64_t number;         /* BEAT */
	int64_t published_at_us; /* BEAT */
	bool emptied;            /* BEAT */
	int64_t moment_us;       /* EPOCH; of the store's clock, as all moments here */
	int64_t spread_us;       /* EPOCH */
	const char *keyspace;    /* EPOCH; borrows the message */
	uint32_t keyspace_len;
	uint32_t keys_count;       /* SETTLED, CHANGED, ROW */
	const unsigned char *next; /* of the keys; borrows the message */
};

struct message_key {
	const char *bytes; /* borrows the message */
	uint32_t len;
	uint64_t fence; /* SETTLED: of the entry that is there; CHANGED, ROW: the floor */
	bool hard;
	bool has_version; /* ROW */
	int64_t version;
};

/* Reads a message; false where it is malformed. */
bool message_read(const void *bytes, size_t len, struct message *ret_message)
	__attribute__((warn_unused_result));

/* The next of keys_count keys. Only for a message that message_read took. */
struct message_key message_next(struct message *message);
