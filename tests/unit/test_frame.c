#include "proto/frame.h"

#include <criterion/criterion.h>
#include <msgpack.h>

#include "wire_help.h"

/* The verdict on all of `hex` at once, with its length or reason. */
static enum frame_verdict scan_hex(const char *hex, size_t max, size_t *ret_len,
				   const char **ret_why)
{
	struct bytes m = bytes_from_hex(hex, NULL);
	struct frame_scan scan = { 0 };
	enum frame_verdict verdict = frame_scan(&scan, m.data, m.len, max, ret_len, ret_why);

	free(m.data);
	return verdict;
}

Test(frame, finds_the_end_wherever_the_message_is_cut)
{
	struct wire_buf b;

	wire_buf_init(&b, 1 << 20);
	for (uint64_t seed = 0; seed < 500; seed++) {
		uint64_t state = seed;

		wire_buf_rewind(&b, 0);
		put_random_value(&b, &state, 5);
		for (size_t cut = 0; cut < b.len; cut++) {
			struct bytes head = bytes_copy(b.data, cut),
				     all = bytes_copy(b.data, b.len);
			struct frame_scan scan = { 0 };
			const char *why = NULL;
			size_t len = 0;

			/* The second time the bytes lie elsewhere. */
			cr_assert_eq(frame_scan(&scan, head.data, head.len, 1 << 20, &len, &why),
				     FRAME_MORE, "seed %lu cut at %zu", seed, cut);
			cr_assert_eq(frame_scan(&scan, all.data, all.len, 1 << 20, &len, &why),
				     FRAME_COMPLETE, "seed %lu cut at %zu", seed, cut);
			cr_assert_eq(len, b.len, "seed %lu cut at %zu", seed, cut);
			free(head.data);
			free(all.data);
		}
	}
	wire_buf_close(&b);
}

Test(frame, finds_the_end_when_bytes_come_one_by_one)
{
	struct wire_buf b;

	wire_buf_init(&b, 1 << 20);
	for (uint64_t seed = 1000; seed < 3000; seed++) {
		uint64_t state = seed;
		struct frame_scan scan = { 0 };
		const char *why = NULL;
		size_t len = 0;

		wire_buf_rewind(&b, 0);
		put_random_value(&b, &state, 5);
		for (size_t got = 1; got <= b.len; got++)
			cr_assert_eq(frame_scan(&scan, b.data, got, 1 << 20, &len, &why),
				     got < b.len ? FRAME_MORE : FRAME_COMPLETE, "seed %lu", seed);
		cr_assert_eq(len, b.len);
	}
	wire_buf_close(&b);
}

Test(frame, takes_coalesced_messages_one_at_a_time)
{
	struct wire_buf b;
	size_t ends[200], at = 0;
	struct frame_scan scan = { 0 };
	uint64_t state = 42;

	wire_buf_init(&b, 1 << 20);
	for (size_t i = 0; i < 200; i++) {
		put_random_value(&b, &state, 4);
		ends[i] = b.len;
	}
	for (size_t i = 0; i < 200; i++) {
		const char *why = NULL;
		size_t len = 0;

		cr_assert_eq(frame_scan(&scan, b.data + at, b.len - at, 1 << 20, &len, &why),
			     FRAME_COMPLETE);
		at += len;
		cr_assert_eq(at, ends[i], "message %zu", i);
	}
	wire_buf_close(&b);
}

Test(frame, ends_a_message_where_msgpack_c_does)
{
	struct wire_buf b;

	wire_buf_init(&b, 1 << 20);
	for (uint64_t seed = 0; seed < 20000; seed++) {
		uint64_t state = seed;
		struct frame_scan scan = { 0 };
		enum frame_verdict verdict;
		msgpack_unpack_return theirs;
		msgpack_unpacked unpacked;
		const char *why = NULL;
		size_t len = 0, end = 0;

		/* A good message, with up to three bytes changed, and something behind it. */
		wire_buf_rewind(&b, 0);
		put_random_value(&b, &state, 5);
		for (uint64_t n = random_below(&state, 4); n > 0; n--)
			b.data[random_below(&state, b.len)] = (uint8_t)random_next(&state);
		put_random_bytes(&b, &state, random_below(&state, 8));

		/* A maximum of what there is makes counts that are not there too large, which would
		 * have msgpack-c allocate their tables. */
		verdict = frame_scan(&scan, b.data, b.len, b.len, &len, &why);
		if (verdict == FRAME_TOO_LARGE)
			continue;
		msgpack_unpacked_init(&unpacked);
		theirs = msgpack_unpack_next(&unpacked, (char *)b.data, b.len, &end);
		msgpack_unpacked_destroy(&unpacked);
		switch (verdict) {
		case FRAME_COMPLETE:
			cr_assert(theirs == MSGPACK_UNPACK_SUCCESS ||
					  theirs == MSGPACK_UNPACK_EXTRA_BYTES,
				  "seed %lu", seed);
			cr_assert_eq(len, end, "seed %lu: ours %zu, theirs %zu", seed, len, end);
			break;
		case FRAME_MORE:
			cr_assert_eq(theirs, MSGPACK_UNPACK_CONTINUE, "seed %lu", seed);
			break;
		case FRAME_BROKEN:
			cr_assert_eq(theirs, MSGPACK_UNPACK_PARSE_ERROR, "seed %lu", seed);
			break;
		case FRAME_TOO_LARGE:
			break;
		}
	}
	wire_buf_close(&b);
}

Test(frame, refuses_a_declared_length_before_its_bytes_come)
{
	/* each within its first bytes: 4 GB of string, binary, extension; 2^32-1 elements, pairs */
	const char *heads[] = { "db ff ff ff ff",    "c6 ff ff ff ff",
				"c9 ff ff ff ff 00", "dd ff ff ff ff",
				"df ff ff ff ff",    "94 00 01 a3 67 65 74 dd ff ff ff ff",
				"df 80 00 00 00",    "91 db 00 10 00 00" };

	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		const char *why = NULL;
		size_t len = 77;

		cr_assert_eq(scan_hex(heads[i], WIRE_REQUEST_MAX, &len, &why), FRAME_TOO_LARGE,
			     "%s", heads[i]);
		cr_assert_str_eq(why, "the message is too large");
		cr_assert_eq(len, 77);
	}
}

Test(frame, accepts_the_maximum_and_not_a_byte_more)
{
	const char *why = NULL;
	size_t len = 0;

	/* a binary of 4 bytes takes 6 */
	cr_assert_eq(scan_hex("c4 04 00 00 00 00", 6, &len, &why), FRAME_COMPLETE);
	cr_assert_eq(len, 6);
	cr_assert_eq(scan_hex("c4 04 00 00 00 00", 5, &len, &why), FRAME_TOO_LARGE);
	cr_assert_eq(scan_hex("c4 04", 5, &len, &why), FRAME_TOO_LARGE);
	cr_assert_eq(scan_hex("c4 04", 6, &len, &why), FRAME_MORE);
	/* three elements that take a byte at least */
	cr_assert_eq(scan_hex("93", 4, &len, &why), FRAME_MORE);
	cr_assert_eq(scan_hex("93", 3, &len, &why), FRAME_TOO_LARGE);
	/* and elements that turn out longer */
	cr_assert_eq(scan_hex("93 a1 6b", 5, &len, &why), FRAME_MORE);
	cr_assert_eq(scan_hex("93 a2 6b", 5, &len, &why), FRAME_TOO_LARGE);
}

Test(frame, refuses_what_is_nested_too_deep)
{
	char arrays[3 * WIRE_DEPTH_MAX + 4] = "", maps[6 * WIRE_DEPTH_MAX + 4] = "";
	const char *why = NULL;
	size_t len = 0;

	for (int i = 0; i < WIRE_DEPTH_MAX; i++) {
		strcat(arrays, "91 ");
		strcat(maps, "81 c0 ");
	}
	strcat(arrays, "c0");
	strcat(maps, "c0");
	cr_assert_eq(scan_hex(arrays, 1000, &len, &why), FRAME_COMPLETE);
	cr_assert_eq(scan_hex(maps, 1000, &len, &why), FRAME_COMPLETE);
	memcpy(arrays + strlen(arrays) - 2, "90", 2); /* an empty one is one, too */
	memcpy(maps + strlen(maps) - 2, "80", 2);
	cr_assert_eq(scan_hex(arrays, 1000, &len, &why), FRAME_BROKEN);
	cr_assert_str_eq(why, "the message is nested too deep");
	cr_assert_eq(scan_hex(maps, 1000, &len, &why), FRAME_BROKEN);
}

Test(frame, refuses_depth_10000_with_its_first_bytes)
{
	struct frame_scan scan = { 0 };
	uint8_t bytes[10000];
	const char *why = NULL;
	size_t len = 0, got = 0;
	enum frame_verdict verdict = FRAME_MORE;

	memset(bytes, 0x91, sizeof(bytes));
	while (verdict == FRAME_MORE && got < sizeof(bytes))
		verdict = frame_scan(&scan, bytes, ++got, sizeof(bytes) + 1, &len, &why);
	cr_assert_eq(verdict, FRAME_BROKEN);
	cr_assert_eq(got, WIRE_DEPTH_MAX + 1);
}

Test(frame, refuses_the_reserved_byte)
{
	const char *why = NULL;
	size_t len = 0;

	cr_assert_eq(scan_hex("c1", 100, &len, &why), FRAME_BROKEN);
	cr_assert_str_eq(why, "byte 0xc1 is no MessagePack");
	cr_assert_eq(scan_hex("92 00 c1", 100, &len, &why), FRAME_BROKEN);
	cr_assert_eq(scan_hex("a1 c1", 100, &len, &why), FRAME_COMPLETE); /* inside a string */
}

Test(frame, says_a_final_verdict_again)
{
	struct bytes m = bytes_from_hex("92 c1 00 00", NULL);
	struct frame_scan scan = { 0 };
	const char *why = NULL;
	size_t len = 0;

	for (int i = 0; i < 3; i++)
		cr_assert_eq(frame_scan(&scan, m.data, m.len, 100, &len, &why), FRAME_BROKEN);
	free(m.data);
}

Test(frame, costs_each_byte_once_however_slowly_they_come)
{
	/* 300,000 elements, given byte by byte: quadratic work would take minutes. Each call must
	 * begin where the last one ended: the bytes before are gone. */
	enum { COUNT = 300000 };
	struct frame_scan scan = { 0 };
	uint8_t *bytes = calloc(1, COUNT + 5);
	const char *why = NULL;
	size_t len = 0;

	cr_assert_not_null(bytes);
	memcpy(bytes, "\xdd\x00\x04\x93\xe0", 5);
	for (size_t got = 1; got < COUNT + 5; got++) {
		cr_assert_eq(frame_scan(&scan, bytes, got, COUNT + 5, &len, &why), FRAME_MORE);
		if (got > 5)
			bytes[got - 1] = 0xc1;
	}
	cr_assert_eq(frame_scan(&scan, bytes, COUNT + 5, COUNT + 5, &len, &why), FRAME_COMPLETE);
	cr_assert_eq(len, COUNT + 5);
	free(bytes);
}
