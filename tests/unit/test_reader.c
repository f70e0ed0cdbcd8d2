#include "proto/reader.h"

#include <criterion/criterion.h>
#include <msgpack.h>

#include "wire_help.h"

/* msgpack-c has no pointer where there are no bytes. */
static void check_bytes(struct wire_span ours, const char *theirs, uint32_t len)
{
	cr_assert_eq(ours.len, len);
	cr_assert(len == 0 || memcmp(ours.data, theirs, len) == 0);
}

/* What each encoding must be read as, and msgpack-c reads it as. */
static void check_same(struct reader *r, const msgpack_object *object)
{
	struct mp_value value;

	cr_assert(reader_next(r, &value));
	switch (object->type) {
	case MSGPACK_OBJECT_NIL:
		cr_assert_eq(value.type, MP_NIL);
		break;
	case MSGPACK_OBJECT_BOOLEAN:
		cr_assert_eq(value.type, MP_BOOL);
		cr_assert_eq(value.boolean, object->via.boolean);
		break;
	case MSGPACK_OBJECT_POSITIVE_INTEGER:
		cr_assert_eq(value.type, object->via.u64 > INT64_MAX ? MP_BIG : MP_INT);
		cr_assert_eq(value.big, object->via.u64); /* the same bits, either way */
		break;
	case MSGPACK_OBJECT_NEGATIVE_INTEGER:
		cr_assert_eq(value.type, MP_INT);
		cr_assert_eq(value.number, object->via.i64);
		break;
	case MSGPACK_OBJECT_FLOAT32:
	case MSGPACK_OBJECT_FLOAT64:
		cr_assert_eq(value.type, MP_FLOAT);
		cr_assert(value.real == object->via.f64 || value.real != value.real);
		break;
	case MSGPACK_OBJECT_STR:
		cr_assert_eq(value.type, MP_STR);
		check_bytes(value.bytes, object->via.str.ptr, object->via.str.size);
		break;
	case MSGPACK_OBJECT_BIN:
		cr_assert_eq(value.type, MP_BIN);
		check_bytes(value.bytes, object->via.bin.ptr, object->via.bin.size);
		break;
	case MSGPACK_OBJECT_EXT:
		cr_assert_eq(value.type, MP_EXT);
		check_bytes(value.bytes, object->via.ext.ptr, object->via.ext.size);
		break;
	case MSGPACK_OBJECT_ARRAY:
		cr_assert_eq(value.type, MP_ARRAY);
		cr_assert_eq(value.count, object->via.array.size);
		for (uint32_t i = 0; i < value.count; i++)
			check_same(r, &object->via.array.ptr[i]);
		break;
	case MSGPACK_OBJECT_MAP:
		cr_assert_eq(value.type, MP_MAP);
		cr_assert_eq(value.count, object->via.map.size);
		for (uint32_t i = 0; i < value.count; i++) {
			check_same(r, &object->via.map.ptr[i].key);
			check_same(r, &object->via.map.ptr[i].val);
		}
		break;
	}
}

Test(reader, reads_random_messages_as_msgpack_c_does)
{
	struct wire_buf b;

	wire_buf_init(&b, 1 << 20);
	for (uint64_t seed = 0; seed < 20000; seed++) {
		uint64_t state = seed;
		msgpack_unpacked unpacked;
		size_t end = 0;
		struct bytes m;
		struct wire_span whole;
		struct reader r;

		wire_buf_rewind(&b, 0);
		put_random_value(&b, &state, 6);
		m = bytes_copy(b.data, b.len);
		msgpack_unpacked_init(&unpacked);
		cr_assert_eq(msgpack_unpack_next(&unpacked, (char *)m.data, m.len, &end),
			     MSGPACK_UNPACK_SUCCESS, "seed %lu", seed);
		reader_init(&r, m.data, m.len);
		check_same(&r, &unpacked.data);
		cr_assert(reader_at_end(&r), "seed %lu", seed);

		reader_init(&r, m.data, m.len);
		cr_assert(reader_skip(&r, &whole));
		cr_assert_eq(whole.len, end, "seed %lu", seed);
		msgpack_unpacked_destroy(&unpacked);
		free(m.data);
	}
	wire_buf_close(&b);
}

Test(reader, takes_nothing_from_a_message_that_ends_early)
{
	struct wire_buf b;

	wire_buf_init(&b, 1 << 20);
	for (uint64_t seed = 0; seed < 300; seed++) {
		uint64_t state = seed;

		wire_buf_rewind(&b, 0);
		put_random_value(&b, &state, 4);
		for (size_t len = 0; len < b.len; len++) {
			struct bytes m = bytes_copy(b.data, len);
			struct wire_span whole = { NULL, 0 };
			struct reader r;

			reader_init(&r, m.data, len);
			cr_assert_not(reader_skip(&r, &whole), "seed %lu cut at %zu", seed, len);
			cr_assert_eq(r.at, m.data);
			cr_assert_null(whole.data);
			free(m.data);
		}
	}
	wire_buf_close(&b);
}

Test(reader, gives_up_at_once_on_counts_that_cannot_come_true)
{
	/* 4,294,967,295 pairs, and arrays of as many, nested: 14 bytes that promise 10^20 values */
	struct bytes m = bytes_from_hex("df ff ff ff ff dd ff ff ff ff dd ff ff ff ff c0", NULL);
	struct wire_span whole;
	struct reader r;

	reader_init(&r, m.data, m.len);
	cr_assert_not(reader_skip(&r, &whole));
	free(m.data);
}

/* One kind of number in all of its encodings. */
static const struct {
	const char *hex;
	int64_t number;
} numbers[] = {
	{ "05", 5 },
	{ "cc 05", 5 },
	{ "cd 00 05", 5 },
	{ "ce 00 00 00 05", 5 },
	{ "cf 00 00 00 00 00 00 00 05", 5 },
	{ "d0 05", 5 },
	{ "d1 00 05", 5 },
	{ "d2 00 00 00 05", 5 },
	{ "d3 00 00 00 00 00 00 00 05", 5 },
	{ "7f", 127 },
	{ "ff", -1 },
	{ "e0", -32 },
	{ "d0 80", -128 },
	{ "d1 80 00", INT16_MIN },
	{ "d2 80 00 00 00", INT32_MIN },
	{ "d3 80 00 00 00 00 00 00 00", INT64_MIN },
	{ "cc ff", UINT8_MAX },
	{ "cd ff ff", UINT16_MAX },
	{ "ce ff ff ff ff", UINT32_MAX },
	{ "cf 7f ff ff ff ff ff ff ff", INT64_MAX },
};

Test(reader, reads_every_encoding_of_an_integer)
{
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		struct bytes m = bytes_from_hex(numbers[i].hex, NULL);
		const bool fits = numbers[i].number >= 0 && numbers[i].number <= UINT32_MAX;
		struct mp_value value;
		uint32_t u32 = 77;
		struct reader r;

		reader_init(&r, m.data, m.len);
		cr_assert(reader_peek(&r, &value));
		cr_assert_eq(value.type, MP_INT);
		cr_assert_eq(value.number, numbers[i].number, "%s", numbers[i].hex);
		cr_assert_eq(reader_u32(&r, &u32), fits, "%s", numbers[i].hex);
		cr_assert_eq(u32, fits ? numbers[i].number : 77);
		cr_assert_eq(reader_at_end(&r), fits);
		free(m.data);
	}
}

Test(reader, tells_integers_above_2_63_from_the_others)
{
	struct bytes m = bytes_from_hex("cf 80 00 00 00 00 00 00 00", NULL);
	struct mp_value value;
	struct reader r;
	uint32_t u32;

	reader_init(&r, m.data, m.len);
	cr_assert_not(reader_u32(&r, &u32));
	cr_assert(reader_next(&r, &value));
	cr_assert_eq(value.type, MP_BIG);
	cr_assert_eq(value.big, (uint64_t)1 << 63);
	free(m.data);
}

Test(reader, reads_every_encoding_of_a_text)
{
	const char *texts[] = {
		"a2 6b 73",    "d9 02 6b 73",    "da 00 02 6b 73",      "db 00 00 00 02 6b 73",
		"c4 02 6b 73", "c5 00 02 6b 73", "c6 00 00 00 02 6b 73"
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct bytes m = bytes_from_hex(texts[i], NULL);
		struct wire_span text;
		struct reader r;

		reader_init(&r, m.data, m.len);
		cr_assert(reader_text(&r, &text), "%s", texts[i]);
		cr_assert_eq(text.len, 2);
		cr_assert_arr_eq(text.data, "ks", 2);
		cr_assert(reader_at_end(&r));
		free(m.data);
	}
}

Test(reader, leaves_what_is_of_another_kind)
{
	struct bytes m = bytes_from_hex("c3", NULL);
	struct wire_span text;
	struct reader r;
	uint32_t n;

	reader_init(&r, m.data, m.len);
	cr_assert_not(reader_text(&r, &text));
	cr_assert_not(reader_u32(&r, &n));
	cr_assert_not(reader_array(&r, &n));
	cr_assert_not(reader_map(&r, &n));
	cr_assert_eq(r.at, m.data);
	free(m.data);
}

Test(reader, every_first_byte_but_0xc1_begins_a_value)
{
	for (unsigned first = 0; first < 256; first++) {
		uint8_t bytes[16] = { (uint8_t)first };
		struct mp_value value;
		size_t size = 0;

		cr_assert_eq(mp_head(bytes, sizeof(bytes), &value, &size),
			     first == 0xc1 ? MP_BAD : MP_OK, "0x%02x", first);
		/* and ends neither a byte sooner nor later than its head says */
		for (size_t len = 0; first != 0xc1 && len < size; len++)
			cr_assert_eq(mp_head(bytes, len, &value, &(size_t){ 0 }), MP_SHORT,
				     "0x%02x", first);
	}
	cr_assert_eq(mp_head("\xc1", 1, &(struct mp_value){ 0 }, &(size_t){ 0 }), MP_BAD);
}

Test(reader, writes_numbers_in_their_shortest_encoding)
{
	struct wire_buf b;

	wire_buf_init(&b, 1 << 20);
	for (unsigned bit = 0; bit < 64; bit++) {
		for (int64_t off = -2; off <= 2; off++) {
			for (int sign = -1; sign <= 1; sign += 2) {
				const int64_t n =
					sign * (int64_t)(((uint64_t)1 << bit >> (bit == 63)) +
							 (uint64_t)off);
				uint8_t ours[MP_NUMBER_MAX];
				size_t len = (size_t)(mp_put_int(ours, n) - ours);

				wire_buf_rewind(&b, 0);
				wire_buf_int(&b, n); /* by msgpack-c */
				cr_assert_eq(len, b.len, "%ld", n);
				cr_assert_arr_eq(ours, b.data, len, "%ld", n);
			}
		}
	}
	for (uint64_t len = 0; len <= UINT32_MAX; len = 2 * len + 1) {
		uint8_t ours[MP_NUMBER_MAX];

		wire_buf_rewind(&b, 0);
		wire_buf_bin_head(&b, len);
		cr_assert_eq((size_t)(mp_put_bin_head(ours, (uint32_t)len) - ours), b.len);
		cr_assert_arr_eq(ours, b.data, b.len);
	}
	wire_buf_close(&b);
}
