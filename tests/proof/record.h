/* What the crowd writes down of every request, for check.py: a file of these, as they lie in memory
 * (x86-64 and arm64 are both little-endian).
 */
#pragma once

#include <assert.h>
#include <stdint.h>

enum {
	/* beside the errors of replies: what came instead of one */
	RECORD_NOT_CONNECTED = 20, /* the daemon took no connection when it was due */
	RECORD_HUNG_UP = 21,
	RECORD_LOST = 22, /* no reply until the end */
	RECORD_BROKEN = 23,

	/* flags */
	RECORD_OTHER_VERSION = 1, /* the value is not of the version that the reply says */
	RECORD_OTHER_KEY = 2,
	RECORD_SECOND = 4,         /* a reply to no request that is under way */
	RECORD_TIMELINE_SHIFT = 4, /* from here on: the low bits of the origin's timeline */
};

struct record {
	uint64_t due_us;  /* wall clock */
	uint32_t sent_us; /* after it was due */
	uint32_t took_us; /* from when it was due to the reply */
	uint32_t key;
	uint32_t connection; /* no other has the number */
	uint16_t daemon;
	uint8_t stream;
	uint8_t flags;
	uint8_t state, reason, source, error; /* reply.h */
	int64_t version;
	uint64_t built_us; /* what the value says of its build's begin; 0: no value */
	uint32_t age_ms, ttl_ms, stale_ms;
	uint32_t turn_us; /* how long ago the crowd had last looked for replies */
};
static_assert(sizeof(struct record) == 64, "check.py reads records of 64 bytes");
