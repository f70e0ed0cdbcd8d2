/* Any bytes as a key, in both of its forms.
 *
 * What is accepted has a canonical text that is its own canonical text, and whose arguments, given
 * as an array, are the same key again.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "proto/key.h"
#include "proto/utf8.h"
#include "proto/wire_buf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_same(const struct wire_key *a, const struct wire_key *b)
{
	return a->len == b->len && a->keyspace_len == b->keyspace_len &&
	       a->args_count == b->args_count && memcmp(a->text, b->text, a->len) == 0;
}

/* The key with its arguments as the elements of an array. */
static void put_array(struct wire_buf *b, const struct wire_key *key, const char *const *args)
{
	wire_buf_array(b, 1 + key->args_count);
	wire_buf_str_len(b, key->text, key->keyspace_len);
	for (unsigned i = 0; i < key->args_count; i++)
		wire_buf_str(b, args[i]);
}

static void check_accepted(const struct wire_key *key)
{
	static char scratch[KEY_TEXT_MAX], room[KEY_ARGS_ROOM];
	const char *args[WIRE_KEY_ARGS_MAX];
	struct wire_key again;
	struct wire_error error;
	struct wire_buf b;
	struct reader r;
	size_t decoded = 0;

	assert(key->len <= KEY_TEXT_MAX);
	assert(utf8_valid_len(key->text, key->len) == key->len);
	assert(key_is_keyspace_name(key->text, key->keyspace_len));
	assert(key_parse(key->text, key->len, scratch, &again, &error) == STATUS_OK);
	assert(is_same(key, &again));

	assert(key_args(key->text, key->len, room, args) == key->args_count);
	for (unsigned i = 0; i < key->args_count; i++)
		decoded += strlen(args[i]);
	assert(decoded <= WIRE_KEY_BYTES_MAX);
	wire_buf_init(&b, 2 * KEY_TEXT_MAX);
	put_array(&b, key, args);
	reader_init(&r, b.data, b.len);
	assert(key_read(&r, scratch, &again, &error) == STATUS_OK);
	assert(is_same(key, &again));
	wire_buf_close(&b);
}

static void check_refused(const struct wire_error *error)
{
	assert(error->status == STATUS_BAD_REQUEST || error->status == STATUS_TOO_LARGE);
	assert(*error->text);
	assert(utf8_valid_len(error->text, strlen(error->text)) == strlen(error->text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char scratch[KEY_TEXT_MAX];
	struct wire_error error;
	struct wire_key key;
	struct reader r;

	if (key_parse((const char *)data, size, scratch, &key, &error) == STATUS_OK)
		check_accepted(&key);
	else
		check_refused(&error);

	reader_init(&r, data, size);
	if (key_read(&r, scratch, &key, &error) == STATUS_OK)
		check_accepted(&key);
	else
		check_refused(&error);
	return 0;
}
