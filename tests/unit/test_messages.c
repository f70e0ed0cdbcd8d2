#include "store/messages.h"

#include <criterion/criterion.h>
#include <string.h>

#include "base/rng.h"
#include "proto/key.h"
#include "store/record.h"

#define BYTES(literal) literal, sizeof(literal) - 1

#define SETTLED_TWO                                                                                \
	"s\x01\x00\x02"                                                                            \
	"\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00\x00\x03"                                     \
	"a:1"                                                                                      \
	"\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x04"                                     \
	"b:22"

Test(messages, each_key_of_a_message_is_told)
{
	struct message message;
	cr_assert(message_read(BYTES(SETTLED_TWO), &message));
	cr_assert_eq(message.kind, MESSAGE_SETTLED);
	cr_assert_eq(message.keys_count, 2);
	struct message_key key = message_next(&message);
	cr_assert(key.len == 3 && memcmp(key.bytes, "a:1", 3) == 0 && key.fence == 9);
	key = message_next(&message);
	cr_assert(key.len == 4 && memcmp(key.bytes, "b:22", 4) == 0 && key.fence == 256);
	cr_assert_eq(message.keys_count, 0);
}

Test(messages, a_change_says_whether_it_is_hard)
{
	struct message message;
	cr_assert(message_read(BYTES("c\x01\x00\x01"
				     "\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x00\x00\x01"
				     "k"),
			       &message));
	cr_assert_eq(message.kind, MESSAGE_CHANGED);
	struct message_key key = message_next(&message);
	cr_assert(key.hard);
	cr_assert_eq(key.fence, UINT64_MAX);
}

Test(messages, a_rows_change_says_which_version_contains_it)
{
	struct message message;
	cr_assert(message_read(BYTES("v\x01\x00\x02"
				     "\x00\x00\x00\x00\x00\x00\x00\x07\x02"
				     "\x00\x00\x00\x00\x00\x00\x00\x2a\x00\x00\x00\x03"
				     "a:1"
				     "\x00\x00\x00\x00\x00\x00\x00\x08\x01"
				     "\x00\x00\x00\x00\x00\x00\x00\x2a\x00\x00\x00\x01"
				     "b"),
			       &message));
	cr_assert_eq(message.kind, MESSAGE_ROW);
	struct message_key key = message_next(&message);
	cr_assert(key.len == 3 && memcmp(key.bytes, "a:1", 3) == 0 && key.fence == 7);
	cr_assert(!key.hard && key.has_version && key.version == 42);
	key = message_next(&message);
	cr_assert(key.len == 1 && key.bytes[0] == 'b' && key.fence == 8);
	cr_assert(key.hard && !key.has_version);
}

Test(messages, a_rows_change_that_is_cut_is_none)
{
	static const char whole[] = "v\x01\x00\x01"
				    "\x00\x00\x00\x00\x00\x00\x00\x07\x02"
				    "\x00\x00\x00\x00\x00\x00\x00\x2a\x00\x00\x00\x03"
				    "a:1";
	struct message message;
	for (size_t len = 0; len < sizeof(whole) - 1; len++)
		cr_assert_not(message_read(whole, len, &message), "%zu", len);
}

Test(messages, a_beat_has_its_number_and_moment)
{
	struct message message;
	cr_assert(message_read(BYTES("b\x01\x00\x00"
				     "\x00\x00\x00\x00\x00\x00\x00\x2a"
				     "\x00\x00\x00\x00\x00\x00\x03\xe8"),
			       &message));
	cr_assert_eq(message.kind, MESSAGE_BEAT);
	cr_assert_eq(message.number, 42);
	cr_assert_eq(message.published_at_us, 1000);
}

Test(messages, an_epoch_names_its_keyspace)
{
	struct message message;
	cr_assert(message_read(BYTES("e\x01\x00\x01"
				     "\x00\x00\x00\x00\x00\x00\x03\xe8"
				     "\x00\x00\x00\x00\x00\x00\x00\x05"
				     "\x00\x00\x00\x05views"),
			       &message));
	cr_assert_eq(message.kind, MESSAGE_EPOCH);
	cr_assert_eq(message.moment_us, 1000);
	cr_assert_eq(message.spread_us, 5);
	cr_assert(message.keyspace_len == 5 && memcmp(message.keyspace, "views", 5) == 0);
}

Test(messages, those_of_another_version_are_ignored)
{
	struct message message;
	cr_assert(message_read(BYTES("z\x01\x00\x00"), &message));
	cr_assert_eq(message.kind, MESSAGE_FOREIGN);
	cr_assert(message_read(BYTES("s\x02 whatever comes"), &message));
	cr_assert_eq(message.kind, MESSAGE_FOREIGN);
}

Test(messages, what_is_malformed_is_none_of_it_told)
{
	static const struct {
		const char *bytes;
		size_t len;
	} bad[] = {
		{ BYTES("") },
		{ BYTES("s\x01\x00") },
		{ BYTES("s\x01\x00\x00") },
		{ BYTES("s\x01\x00\x01") },
		{ BYTES("s\x01\x00\x01\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00\x00\x00") },
		{ BYTES("s\x01\x00\x01\x00\x00\x00\x00\x00\x00\x00\x09\x00\x00\x00\x00\x03"
			"a") },
		{ BYTES("s\x01\x00\x01\x00\x00\x00\x00\x00\x00\x00\x09\x00\xff\xff\xff\xff"
			"a") },
		{ BYTES(SETTLED_TWO "x") },
		{ BYTES("b\x01\x00\x00\x00") },
		{ BYTES("b\x01\x00\x00"
			"\x00\x00\x00\x00\x00\x00\x00\x2a\x00\x00\x00\x00\x00\x00\x03\xe8x") },
		{ BYTES("e\x01\x00\x01"
			"\x00\x00\x00\x00\x00\x00\x03\xe8\x00\x00\x00\x00\x00\x00\x00\x05"
			"\x00\x00\x00\x05view") },
		{ BYTES("e\x01\x00\x01"
			"\x00\x00\x00\x00\x00\x00\x03\xe8\x00\x00\x00\x00\x00\x00\x00\x05"
			"\x00\x00\x00\x05vi:ws") },
		{ BYTES("e\x01\x00\x01"
			"\x80\x00\x00\x00\x00\x00\x03\xe8\x00\x00\x00\x00\x00\x00\x00\x05"
			"\x00\x00\x00\x05views") },
		{ BYTES("e\x01\x00\x01"
			"\x00\x00\x00\x00\x00\x00\x03\xe8\x40\x00\x00\x00\x00\x00\x00\x05"
			"\x00\x00\x00\x05views") },
	};
	struct message message = { .kind = MESSAGE_FOREIGN };
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		cr_assert(!message_read(bad[i].bytes, bad[i].len, &message), "case %zu", i);
	cr_assert_eq(message.kind, MESSAGE_FOREIGN, "untouched");
}

Test(messages, no_bytes_at_all_do_harm)
{
	unsigned char bytes[128];
	struct message message;
	struct rng rng;
	unsigned keys = 0;
	rng_seed(&rng, 1);
	for (int i = 0; i < 500000; i++) {
		size_t len = (size_t)rng_between(&rng, 0, sizeof(bytes));
		for (size_t at = 0; at < sizeof(bytes); at += 8)
			record_put_u64(bytes + at, rng_next(&rng) >> rng_between(&rng, 0, 63));
		memcpy(bytes, rng_next(&rng) % 2 ? "s\x01\x00\x01" : "c\x01\x00\x02", 4);
		/* In a block of its own size, so that the sanitizer sees who reads beyond. */
		unsigned char *exact = malloc(len ? len : 1);
		memcpy(exact, bytes, len);
		if (message_read(exact, len, &message)) {
			while (message.keys_count > 0) {
				struct message_key key = message_next(&message);
				cr_assert(key.len > 0 && key.len <= KEY_TEXT_MAX);
				cr_assert(key.bytes + key.len <= (char *)exact + len);
				keys++;
			}
		}
		free(exact);
	}
	cr_assert_gt(keys, 0);
}
