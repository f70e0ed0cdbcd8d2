#include "store/record.h"

#include <criterion/criterion.h>
#include <string.h>

#include "base/limits.h"
#include "base/rng.h"

static struct value *text(const char *bytes)
{
	return value_create(bytes, strlen(bytes));
}

static struct entry usual(void)
{
	return (struct entry){ .version = 7,
			       .has_version = true,
			       .fence = 9,
			       .covers = 5,
			       .generated_at_us = 1000,
			       .fresh_until_us = 2000,
			       .stale_until_us = 3000,
			       .build_us = 800,
			       .history = 11,
			       .definition = 17,
			       .era = 13 };
}

static void expect_same(const struct entry *a, const struct entry *b)
{
	cr_assert_eq(a->version, b->version);
	cr_assert_eq(a->has_version, b->has_version);
	cr_assert_eq(a->fence, b->fence);
	cr_assert_eq(a->covers, b->covers);
	cr_assert_eq(a->generated_at_us, b->generated_at_us);
	cr_assert_eq(a->fresh_until_us, b->fresh_until_us);
	cr_assert_eq(a->stale_until_us, b->stale_until_us);
	cr_assert_eq(a->build_us, b->build_us);
	cr_assert_eq(a->history, b->history);
	cr_assert_eq(a->era, b->era);
	cr_assert_eq(a->absent, b->absent);
	cr_assert_eq(a->changed, b->changed);
	cr_assert_eq(a->definition, b->definition);
	cr_assert_eq(a->own_times, b->own_times);
}

static void goes_there_and_back(const struct entry *entry)
{
	unsigned char header[RECORD_HEADER_LEN];
	struct entry back;
	int64_t value_len;
	record_encode(entry, header);
	cr_assert(record_decode(header, sizeof(header), &back, &value_len));
	expect_same(entry, &back);
	cr_assert_null(back.value);
	cr_assert_eq(value_len, entry->value ? (int64_t)entry->value->len : -1);
}

Test(record, an_entry_comes_back_as_it_went)
{
	struct entry entry = usual();
	goes_there_and_back(&entry);
	entry.changed = true;
	goes_there_and_back(&entry);
	entry.own_times = true;
	goes_there_and_back(&entry);
	entry.has_version = false;
	entry.absent = true;
	goes_there_and_back(&entry);
	entry = usual();
	entry.value = text("value");
	goes_there_and_back(&entry);
	value_unref(entry.value);
	entry.value = text("");
	goes_there_and_back(&entry);
	value_unref(entry.value);
}

Test(record, numbers_keep_all_their_bits)
{
	static const int64_t versions[] = {
		0, 1, -1, INT64_MIN, INT64_MAX, (1LL << 53) - 1, 1LL << 53, (1LL << 53) + 1,
	};
	for (size_t i = 0; i < sizeof(versions) / sizeof(*versions); i++) {
		struct entry entry = usual();
		entry.version = entry.covers = versions[i];
		entry.fence = entry.history = entry.definition = (uint64_t)versions[i];
		entry.build_us = entry.era = UINT32_MAX;
		goes_there_and_back(&entry);
	}
}

Test(record, the_layout_is_the_one_that_the_scripts_know)
{
	static const unsigned char expected[RECORD_HEADER_LEN] = "e\x02\x00\x05"
								 "\x00\x00\x03\x20"
								 "\xff\xff\xff\xff\xff\xff\xff\xfe"
								 "\x01\x02\x03\x04\x05\x06\x07\x08"
								 "\x00\x00\x00\x00\x00\x00\x00\x05"
								 "\x00\x00\x00\x00\x00\x00\x03\xe8"
								 "\x00\x00\x00\x00\x00\x00\x07\xd0"
								 "\x00\x00\x00\x00\x00\x00\x0b\xb8"
								 "\x00\x00\x00\x00\x00\x00\x00\x0b"
								 "\x00\x00\x00\x0d"
								 "\x00\x00\x00\x00\x00\x00\x00\x11"
								 "\x00\x00\x00\x05";
	unsigned char header[RECORD_HEADER_LEN];
	struct entry entry = usual();
	entry.version = -2;
	entry.fence = 0x0102030405060708;
	entry.changed = true;
	entry.value = text("value");
	record_encode(&entry, header);
	cr_assert_arr_eq(header, expected, sizeof(header));
	value_unref(entry.value);
}

/* Overwrites some bytes of a good header; whether that still reads. */
static bool reads_with(size_t at, const char *bytes, size_t len)
{
	unsigned char header[RECORD_HEADER_LEN];
	struct entry entry = usual(), back;
	int64_t value_len;
	entry.value = text("value");
	record_encode(&entry, header);
	value_unref(entry.value);
	memcpy(header + at, bytes, len);
	return record_decode(header, sizeof(header), &back, &value_len);
}

Test(record, what_nobody_wrote_is_no_header)
{
	cr_assert(reads_with(0, "e\x02", 2));
	cr_assert(!reads_with(0, "c", 1));
	cr_assert(!reads_with(1, "\x01", 1), "another format");
	cr_assert(!reads_with(3, "\x08", 1), "NULL, but five bytes long");
	cr_assert(!reads_with(3, "\x02", 1), "absent, but with a value");
	cr_assert(!reads_with(32, "\x80", 1), "generated before the epoch");
	cr_assert(!reads_with(40, "\x80", 1), "fresh until before the epoch");
	cr_assert(!reads_with(40, "\x7f", 1), "fresh for longer than stale");
	cr_assert(!reads_with(48, "\x20", 1), "stale for ten thousand years");
	cr_assert(!reads_with(76, "\x01\x00\x00\x01", 4), "a value over the limit");
	cr_assert(reads_with(76, "\x01\x00\x00\x00", 4), "one of 16 MiB");
}

Test(record, no_bytes_at_all_do_harm)
{
	unsigned char header[RECORD_HEADER_LEN + 8];
	struct entry entry;
	int64_t value_len;
	struct rng rng;
	rng_seed(&rng, 1);
	unsigned good = 0;
	for (int i = 0; i < 200000; i++) {
		for (size_t at = 0; at < sizeof(header); at += 8) {
			uint64_t bits = rng_next(&rng) >> rng_between(&rng, 0, 63);
			record_put_u64(header + at, bits);
		}
		header[0] = 'e';
		header[1] = 2;
		size_t len = (size_t)rng_between(&rng, 0, sizeof(header));
		if (!record_decode(header, len, &entry, &value_len))
			continue;
		good++;
		cr_assert(len >= RECORD_HEADER_LEN);
		cr_assert(value_len >= -1 && value_len <= VALUE_BYTES_MAX);
		cr_assert(entry.fresh_until_us <= entry.stale_until_us);
	}
	cr_assert_gt(good, 0);
}
