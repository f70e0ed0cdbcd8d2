#include "proto/key.h"

#include <criterion/criterion.h>
#include <stdio.h>

#include "wire_help.h"

/* Parses the `len` bytes at `text`, in blocks of just their size. The caller frees ret_key->text.
 */
static enum status parse(const char *text, size_t len, struct wire_key *ret_key,
			 struct wire_error *error)
{
	struct bytes in = bytes_copy(text, len);
	char *scratch = malloc(KEY_TEXT_MAX);
	struct wire_key key = { 0 };
	enum status status = key_parse((char *)in.data, in.len, scratch, &key, error);

	if (status == STATUS_OK) {
		*ret_key = key;
		ret_key->text = (char *)bytes_copy(key.text, key.len).data;
	}
	free(scratch);
	free(in.data);
	return status;
}

static enum status read_packed(const struct wire_buf *b, struct wire_key *ret_key,
			       struct wire_error *error)
{
	struct bytes in = bytes_copy(b->data, b->len);
	char *scratch = malloc(KEY_TEXT_MAX);
	struct wire_key key = { 0 };
	struct reader r;
	enum status status;

	reader_init(&r, in.data, in.len);
	status = key_read(&r, scratch, &key, error);
	if (status == STATUS_OK) {
		cr_assert(reader_at_end(&r));
		*ret_key = key;
		ret_key->text = (char *)bytes_copy(key.text, key.len).data;
	} else {
		cr_assert_eq(r.at, in.data);
	}
	free(scratch);
	free(in.data);
	return status;
}

static void check_key(const struct wire_key *key, const char *canonical, unsigned args_count)
{
	cr_assert_eq(key->len, strlen(canonical), "%.*s", (int)key->len, key->text);
	cr_assert_arr_eq(key->text, canonical, key->len);
	cr_assert_eq(key->args_count, args_count, "%s", canonical);
	cr_assert_eq(key->keyspace_len, strcspn(canonical, ":"));
	cr_assert_eq(key_keyspace_len(key->text, key->len), key->keyspace_len);
}

static const struct {
	const char *text, *canonical;
	unsigned args_count;
} good[] = {
	{ "ks", "ks", 0 },
	{ "ks:", "ks:", 1 },
	{ "ks::", "ks::", 2 },
	{ "ks:42", "ks:42", 1 },
	{ "A-Za.z_09:a:b", "A-Za.z_09:a:b", 2 },
	{ "ks:a%3Ab", "ks:a%3Ab", 1 },
	{ "ks:a%3ab", "ks:a%3Ab", 1 },
	{ "ks:100%25", "ks:100%25", 1 },
	{ "ks:%2525", "ks:%2525", 1 },
	{ "ks:%41%62", "ks:Ab", 1 },
	{ "ks:a%20b", "ks:a b", 1 },
	{ "ks:%C3%A9", "ks:\xc3\xa9", 1 },
	{ "ks:\xc3%a9", "ks:\xc3\xa9", 1 },
	{ "ks:\xe2\x82\xac", "ks:\xe2\x82\xac", 1 },
	{ "ks:%F0%9F%98%80", "ks:\xf0\x9f\x98\x80", 1 },
	{ "ks:'; DROP TABLE p; --", "ks:'; DROP TABLE p; --", 1 },
	{ "ks:\x01\x7f", "ks:\x01\x7f", 1 },
	{ "ks:1:2:3:4:5:6:7:8:9:a:b:c:d:e:f:g", "ks:1:2:3:4:5:6:7:8:9:a:b:c:d:e:f:g", 16 },
};

Test(key, every_way_to_write_it_has_one_canonical_text)
{
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct wire_error error;
		struct wire_key key, again;

		cr_assert_eq(parse(good[i].text, strlen(good[i].text), &key, &error), STATUS_OK,
			     "%s: %s", good[i].text, error.text);
		check_key(&key, good[i].canonical, good[i].args_count);
		/* and that of the canonical text is itself */
		cr_assert_eq(parse(key.text, key.len, &again, &error), STATUS_OK);
		check_key(&again, good[i].canonical, good[i].args_count);
		free((char *)key.text);
		free((char *)again.text);
	}
}

Test(key, without_escapes_is_not_copied)
{
	struct wire_error error;
	struct wire_key key;
	const char *text = "ks:a:b";

	cr_assert_eq(key_parse(text, 6, NULL, &key, &error), STATUS_OK);
	cr_assert_eq(key.text, text);
}

static const struct {
	const char *text;
	size_t len; /* 0: up to the NUL */
	const char *why;
} bad[] = {
	{ "", 0, "the key names no keyspace" },
	{ ":1", 0, "the key names no keyspace" },
	{ "k s:1", 0, "\"k s\" can't be a keyspace: 1 to 64 of A-Z a-z 0-9 _ . -" },
	{ "k%73:1", 0, "\"k%73\" can't be a keyspace: 1 to 64 of A-Z a-z 0-9 _ . -" },
	{ "k\0s:1", 5, "\"k\\x00s\" can't be a keyspace: 1 to 64 of A-Z a-z 0-9 _ . -" },
	{ "ks:%", 0, "malformed % at byte 3 of the key" },
	{ "ks:a%4", 0, "malformed % at byte 4 of the key" },
	{ "ks:a%zz", 0, "malformed % at byte 4 of the key" },
	{ "ks:a%4:", 0, "malformed % at byte 4 of the key" },
	{ "ks:a%%41", 0, "malformed % at byte 4 of the key" },
	{ "ks:%41:b%", 0, "malformed % at byte 8 of the key" },
	{ "ks:a\0b", 6, "argument 1 of the key has a NUL byte" },
	{ "ks:a:%00", 0, "argument 2 of the key has a NUL byte" },
	{ "ks:a\xff\0", 6, "argument 1 of the key is not valid UTF-8" },
	{ "ks:a\0\xff", 6, "argument 1 of the key has a NUL byte" },
	{ "ks:a:\xff", 0, "argument 2 of the key is not valid UTF-8" },
	{ "ks:%ff", 0, "argument 1 of the key is not valid UTF-8" },
	{ "ks:\xc0\xaf", 0, "argument 1 of the key is not valid UTF-8" },
	{ "ks:%ED%A0%80", 0, "argument 1 of the key is not valid UTF-8" },
	{ "ks:\xc3", 0, "argument 1 of the key is not valid UTF-8" },
	{ "ks:\xc3:\xa9", 0, "argument 1 of the key is not valid UTF-8" },
	{ "ks:\xc3%3A\xa9", 0, "argument 1 of the key is not valid UTF-8" },
	{ "ks:1:2:3:4:5:6:7:8:9:a:b:c:d:e:f:g:h", 0, "the key has over 16 arguments" },
	{ "ks:1:2:3:4:5:6:7:8:9:a:b:c:d:e:f:%41:h", 0, "the key has over 16 arguments" },
};

Test(key, what_is_wrong_is_said)
{
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const size_t len = bad[i].len ? bad[i].len : strlen(bad[i].text);
		struct wire_error error = { 0 };
		struct wire_key key;

		cr_assert_eq(parse(bad[i].text, len, &key, &error), STATUS_BAD_REQUEST, "%s",
			     bad[i].text);
		cr_assert_eq(error.status, STATUS_BAD_REQUEST);
		cr_assert_str_eq(error.text, bad[i].why);
	}
}

Test(key, keyspace_names_have_their_length)
{
	char name[WIRE_KEYSPACE_MAX + 2];

	memset(name, 'k', sizeof(name));
	for (size_t len = 0; len <= WIRE_KEYSPACE_MAX + 1; len++)
		cr_assert_eq(key_is_keyspace_name(name, len), len >= 1 && len <= WIRE_KEYSPACE_MAX);
	for (int c = 0; c < 256; c++) {
		const char *taken =
			"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";

		for (int at = 0; at < 3; at++) {
			memcpy(name, "kkk", 3);
			name[at] = (char)c;
			cr_assert_eq(key_is_keyspace_name(name, 3), c && strchr(taken, c), "%d", c);
		}
	}
}

/* "ks", then `args_count` arguments of `len` bytes in all, each byte written as `byte`. */
static struct wire_buf long_key(unsigned args_count, size_t len, const char *byte)
{
	struct wire_buf b;

	wire_buf_init(&b, 1 << 20);
	wire_buf_raw(&b, "ks", 2);
	for (unsigned i = 0; i < args_count; i++) {
		size_t part = i + 1 < args_count ? len / args_count : len - len / args_count * i;

		wire_buf_raw(&b, ":", 1);
		while (part-- > 0)
			wire_buf_raw(&b, byte, strlen(byte));
	}
	return b;
}

Test(key, arguments_have_their_length_in_all)
{
	const char *bytes[] = { "a", "%41", "%3A" };

	for (size_t i = 0; i < 3; i++) {
		for (unsigned args = 1; args <= WIRE_KEY_ARGS_MAX; args += 5) {
			struct wire_buf most = long_key(args, WIRE_KEY_BYTES_MAX, bytes[i]);
			struct wire_buf more = long_key(args, WIRE_KEY_BYTES_MAX + 1, bytes[i]);
			struct wire_error error;
			struct wire_key key;

			cr_assert_eq(parse((char *)most.data, most.len, &key, &error), STATUS_OK,
				     "%s", error.text);
			cr_assert_eq(key.args_count, args);
			free((char *)key.text);
			cr_assert_eq(parse((char *)more.data, more.len, &key, &error),
				     STATUS_TOO_LARGE);
			cr_assert_str_eq(error.text, "the key's arguments are over 16384 bytes");
			wire_buf_close(&most);
			wire_buf_close(&more);
		}
	}
}

Test(key, a_megabyte_is_too_large_whatever_it_holds)
{
	const char *bytes[] = { "a", "%41", ":" };

	for (size_t i = 0; i < 3; i++) {
		struct wire_buf b = long_key(1, 300000, bytes[i]);
		struct wire_error error;
		struct wire_key key;

		cr_assert_neq(parse((char *)b.data, b.len, &key, &error), STATUS_OK);
		wire_buf_close(&b);
	}
}

Test(key, the_longest_canonical_text_fits_its_room)
{
	struct wire_buf b;
	struct wire_error error;
	struct wire_key key;

	wire_buf_init(&b, 1 << 20);
	for (int i = 0; i < WIRE_KEYSPACE_MAX; i++)
		wire_buf_raw(&b, "k", 1);
	for (int i = 0; i < WIRE_KEY_ARGS_MAX; i++) {
		wire_buf_raw(&b, ":", 1);
		for (int j = 0; j < WIRE_KEY_BYTES_MAX / WIRE_KEY_ARGS_MAX; j++)
			wire_buf_raw(&b, "%3a", 3);
	}
	cr_assert_eq(parse((char *)b.data, b.len, &key, &error), STATUS_OK);
	cr_assert_eq(key.len, KEY_TEXT_MAX);
	free((char *)key.text);
	wire_buf_close(&b);
}

Test(key, an_array_is_the_same_key_as_the_string)
{
	struct wire_buf b;
	struct wire_error error;
	struct wire_key key;

	wire_buf_init(&b, 1 << 20);
	wire_buf_array(&b, 7);
	wire_buf_bin(&b, "ks", 2);
	wire_buf_int(&b, 42);
	wire_buf_int(&b, INT64_MIN);
	wire_buf_int(&b, INT64_MAX);
	wire_buf_str(&b, "a:b%25");
	wire_buf_bin(&b, "\xc3\xa9", 2);
	wire_buf_str(&b, "");
	cr_assert_eq(read_packed(&b, &key, &error), STATUS_OK);
	check_key(&key, "ks:42:-9223372036854775808:9223372036854775807:a%3Ab%2525:\xc3\xa9:", 6);
	free((char *)key.text);

	wire_buf_rewind(&b, 0);
	wire_buf_array(&b, 1);
	wire_buf_str(&b, "ks");
	cr_assert_eq(read_packed(&b, &key, &error), STATUS_OK);
	check_key(&key, "ks", 0);
	free((char *)key.text);

	wire_buf_rewind(&b, 0);
	wire_buf_bin(&b, "ks:1", 4);
	cr_assert_eq(read_packed(&b, &key, &error), STATUS_OK);
	check_key(&key, "ks:1", 1);
	free((char *)key.text);
	wire_buf_close(&b);
}

static const struct {
	const char *hex, *why;
} bad_values[] = {
	{ "", "the key is missing" },
	{ "c0", "the key is nil; it must be a string or an array" },
	{ "05", "the key is an integer; it must be a string or an array" },
	{ "80", "the key is a map; it must be a string or an array" },
	{ "90", "a key's array begins with the name of a keyspace" },
	{ "91 05", "a key's array begins with the name of a keyspace" },
	{ "91 a0", "the key names no keyspace" },
	{ "91 a3 6b 3a 31", "\"k:1\" can't be a keyspace: 1 to 64 of A-Z a-z 0-9 _ . -" },
	{ "92 a1 6b c0", "argument 1 of the key is nil; it must be a string or an integer" },
	{ "93 a1 6b 01 c3",
	  "argument 2 of the key is a boolean; it must be a string or an integer" },
	{ "92 a1 6b ca 00 00 00 00",
	  "argument 1 of the key is a float; it must be a string or an integer" },
	{ "92 a1 6b 91 01",
	  "argument 1 of the key is an array; it must be a string or an integer" },
	{ "92 a1 6b cf ff ff ff ff ff ff ff ff",
	  "argument 1 of the key is an integer above 2^63-1; it must be a string or an integer" },
	{ "92 a1 6b a1 00", "argument 1 of the key has a NUL byte" },
	{ "92 a1 6b c4 01 ff", "argument 1 of the key is not valid UTF-8" },
	{ "93 a1 6b a1 c3 a1 a9", "argument 1 of the key is not valid UTF-8" },
	{ "92 a1 6b", "the key is not whole" },
	{ "dd ff ff ff ff a1 6b", "the key is not whole" },
	{ "dc 00 12 a1 6b 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00",
	  "the key has over 16 arguments" },
};

Test(key, values_that_are_no_key_are_refused)
{
	for (size_t i = 0; i < sizeof(bad_values) / sizeof(bad_values[0]); i++) {
		struct bytes m = bytes_from_hex(bad_values[i].hex, NULL);
		struct wire_buf b;
		struct wire_error error = { 0 };
		struct wire_key key;

		wire_buf_wrap(&b, m.data, m.len);
		b.len = m.len;
		cr_assert_eq(read_packed(&b, &key, &error), STATUS_BAD_REQUEST, "%s",
			     bad_values[i].hex);
		cr_assert_str_eq(error.text, bad_values[i].why);
		free(m.data);
	}
}

Test(key, an_arrays_arguments_have_their_length_in_all)
{
	char *arg = calloc(1, WIRE_KEY_BYTES_MAX + 1);
	struct wire_buf b;
	struct wire_error error;
	struct wire_key key;

	memset(arg, ':', WIRE_KEY_BYTES_MAX + 1);
	for (size_t extra = 0; extra < 2; extra++) {
		wire_buf_init(&b, 1 << 20);
		wire_buf_array(&b, 3);
		wire_buf_str(&b, "ks");
		wire_buf_int(&b, 12345);
		wire_buf_str_len(&b, arg, WIRE_KEY_BYTES_MAX - 5 + extra);
		cr_assert_eq(read_packed(&b, &key, &error), extra ? STATUS_TOO_LARGE : STATUS_OK);
		if (!extra)
			free((char *)key.text);
		wire_buf_close(&b);
	}
	free(arg);
}

Test(key, arguments_come_back_as_they_were_given)
{
	struct wire_buf b;

	wire_buf_init(&b, 1 << 20);
	for (uint64_t seed = 0; seed < 5000; seed++) {
		const char *pieces[] = { ":",  "%", "%25", "a", "\xc3\xa9", "\xf0\x9f\x98\x80",
					 "\n", "0" };
		uint64_t state = seed;
		const unsigned count = (unsigned)random_below(&state, WIRE_KEY_ARGS_MAX + 1);
		char given[WIRE_KEY_ARGS_MAX][64];
		const char *args[WIRE_KEY_ARGS_MAX];
		char *room = malloc(KEY_ARGS_ROOM);
		struct wire_error error;
		struct wire_key key;

		wire_buf_rewind(&b, 0);
		wire_buf_array(&b, 1 + count);
		wire_buf_str(&b, "ks");
		for (unsigned i = 0; i < count; i++) {
			given[i][0] = '\0';
			for (uint64_t n = random_below(&state, 10); n > 0; n--)
				strcat(given[i], pieces[random_below(&state, 8)]);
			wire_buf_str(&b, given[i]);
		}
		cr_assert_eq(read_packed(&b, &key, &error), STATUS_OK);
		cr_assert_eq(key.args_count, count);
		cr_assert_eq(key_args(key.text, key.len, room, args), count);
		for (unsigned i = 0; i < count; i++)
			cr_assert_str_eq(args[i], given[i]);
		free((char *)key.text);
		free(room);
	}
	wire_buf_close(&b);
}

Test(key, arguments_of_the_largest_key_fit_their_room)
{
	struct wire_buf b = long_key(WIRE_KEY_ARGS_MAX, WIRE_KEY_BYTES_MAX, "%25");
	const char *args[WIRE_KEY_ARGS_MAX];
	char *room = malloc(KEY_ARGS_ROOM);
	size_t sum = 0;

	cr_assert_eq(key_args((char *)b.data, b.len, room, args), WIRE_KEY_ARGS_MAX);
	for (int i = 0; i < WIRE_KEY_ARGS_MAX; i++)
		sum += strlen(args[i]);
	cr_assert_eq(sum, WIRE_KEY_BYTES_MAX);
	free(room);
	wire_buf_close(&b);
}
