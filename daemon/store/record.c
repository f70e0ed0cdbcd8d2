#include "store/record.h"

#include <assert.h>

#include "base/limits.h"

enum { MAGIC = 'e', FORMAT = 2 };
enum {
	FLAG_VERSION = 1,
	FLAG_ABSENT = 2,
	FLAG_CHANGED = 4,
	FLAG_NULL = 8,
	FLAG_OWN_TIMES = 16,
};
enum {
	AT_FLAGS = 2,
	AT_BUILD = 4,
	AT_VERSION = 8,
	AT_FENCE = 16,
	AT_COVERS = 24,
	AT_GENERATED = 32,
	AT_FRESH = 40,
	AT_STALE = 48,
	AT_HISTORY = 56,
	AT_ERA = 64,
	AT_DEFINITION = 68,
	AT_LENGTH = 76,
};
static_assert(AT_LENGTH + sizeof(uint32_t) == RECORD_HEADER_LEN, "the header ends there");
static_assert(sizeof(((struct entry *)NULL)->version) == AT_FENCE - AT_VERSION, "as wide");
static_assert(sizeof(((struct entry *)NULL)->fence) == AT_COVERS - AT_FENCE, "as wide");
static_assert(sizeof(((struct entry *)NULL)->history) == AT_ERA - AT_HISTORY, "as wide");
static_assert(sizeof(((struct entry *)NULL)->era) == AT_DEFINITION - AT_ERA, "as wide");
static_assert(sizeof(((struct entry *)NULL)->definition) == AT_LENGTH - AT_DEFINITION, "as wide");
static_assert(sizeof(((struct entry *)NULL)->build_us) == AT_VERSION - AT_BUILD, "as wide");

void record_put_u32(unsigned char *at, uint32_t number)
{
	at[0] = (unsigned char)(number >> 24);
	at[1] = (unsigned char)(number >> 16);
	at[2] = (unsigned char)(number >> 8);
	at[3] = (unsigned char)number;
}

uint32_t record_get_u32(const unsigned char *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

void record_put_u64(unsigned char *at, uint64_t number)
{
	record_put_u32(at, (uint32_t)(number >> 32));
	record_put_u32(at + 4, (uint32_t)number);
}

uint64_t record_get_u64(const unsigned char *at)
{
	return (uint64_t)record_get_u32(at) << 32 | record_get_u32(at + 4);
}

void record_encode(const struct entry *entry, unsigned char ret_header[RECORD_HEADER_LEN])
{
	unsigned flags = (entry->has_version ? FLAG_VERSION : 0) |
			 (entry->absent ? FLAG_ABSENT : 0) | (entry->changed ? FLAG_CHANGED : 0) |
			 (entry->value ? 0 : FLAG_NULL) | (entry->own_times ? FLAG_OWN_TIMES : 0);
	ret_header[0] = MAGIC;
	ret_header[1] = FORMAT;
	ret_header[AT_FLAGS] = 0;
	ret_header[AT_FLAGS + 1] = (unsigned char)flags;
	record_put_u32(ret_header + AT_BUILD, entry->build_us);
	record_put_u64(ret_header + AT_VERSION, (uint64_t)entry->version);
	record_put_u64(ret_header + AT_FENCE, entry->fence);
	record_put_u64(ret_header + AT_COVERS, (uint64_t)entry->covers);
	record_put_u64(ret_header + AT_GENERATED, (uint64_t)entry->generated_at_us);
	record_put_u64(ret_header + AT_FRESH, (uint64_t)entry->fresh_until_us);
	record_put_u64(ret_header + AT_STALE, (uint64_t)entry->stale_until_us);
	record_put_u64(ret_header + AT_HISTORY, entry->history);
	record_put_u32(ret_header + AT_ERA, entry->era);
	record_put_u64(ret_header + AT_DEFINITION, entry->definition);
	record_put_u32(ret_header + AT_LENGTH, entry->value ? entry->value->len : 0);
}

/* Only what somebody wrote: so that sums and differences of moments never overflow. */
static bool is_sane(const struct entry *entry, unsigned flags, uint32_t value_len)
{
	bool null = flags & FLAG_NULL;
	if (value_len > VALUE_BYTES_MAX || (null && value_len > 0) || (entry->absent && !null))
		return false;
	if (entry->generated_at_us < 0 || entry->stale_until_us > INT64_MAX / 4)
		return false;
	/* A change can end freshness before the build began, by another host's clock. */
	return entry->fresh_until_us >= 0 && entry->fresh_until_us <= entry->stale_until_us;
}

bool record_decode(const void *header, size_t len, struct entry *ret_entry, int64_t *ret_value_len)
{
	const unsigned char *at = header;
	if (len < RECORD_HEADER_LEN || at[0] != MAGIC || at[1] != FORMAT)
		return false;
	unsigned flags = at[AT_FLAGS + 1];
	uint32_t value_len = record_get_u32(at + AT_LENGTH);
	struct entry entry = {
		.version = (int64_t)record_get_u64(at + AT_VERSION),
		.fence = record_get_u64(at + AT_FENCE),
		.covers = (int64_t)record_get_u64(at + AT_COVERS),
		.generated_at_us = (int64_t)record_get_u64(at + AT_GENERATED),
		.fresh_until_us = (int64_t)record_get_u64(at + AT_FRESH),
		.stale_until_us = (int64_t)record_get_u64(at + AT_STALE),
		.build_us = record_get_u32(at + AT_BUILD),
		.era = record_get_u32(at + AT_ERA),
		.history = record_get_u64(at + AT_HISTORY),
		.definition = record_get_u64(at + AT_DEFINITION),
		.has_version = flags & FLAG_VERSION,
		.absent = flags & FLAG_ABSENT,
		.changed = flags & FLAG_CHANGED,
		.own_times = flags & FLAG_OWN_TIMES,
	};
	if (!is_sane(&entry, flags, value_len))
		return false;
	*ret_entry = entry;
	*ret_value_len = flags & FLAG_NULL ? -1 : (int64_t)value_len;
	return true;
}
