/* Any bytes as what comes back from the shared store: a header, a message, epochs.
 *
 * What reads as a header encodes to the same header; nothing points beyond the bytes.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/limits.h"
#include "proto/key.h"
#include "store/epoch_book.h"
#include "store/messages.h"
#include "store/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_record(const uint8_t *data, size_t size)
{
	unsigned char again[RECORD_HEADER_LEN];
	struct entry entry, back;
	int64_t value_len, back_len;
	if (!record_decode(data, size, &entry, &value_len))
		return;
	assert(value_len >= -1 && value_len <= VALUE_BYTES_MAX);
	assert(entry.fresh_until_us <= entry.stale_until_us);
	record_encode(&entry, again);
	/* The value is not here: its length and NULL are all that may differ. */
	assert(record_decode(again, sizeof(again), &back, &back_len) && back_len == -1);
	assert(memcmp(again + 4, data + 4, RECORD_HEADER_LEN - 8) == 0);
}

static void check_message(const uint8_t *data, size_t size)
{
	const char *end = (const char *)data + size;
	struct message message;
	if (!message_read(data, size, &message))
		return;
	if (message.kind == MESSAGE_EPOCH)
		assert(message.keyspace + message.keyspace_len == end);
	assert(message.keys_count <= MESSAGE_KEYS_MAX);
	while (message.keys_count > 0) {
		struct message_key key = message_next(&message);
		assert(key.len > 0 && key.len <= KEY_TEXT_MAX && key.bytes + key.len <= end);
	}
}

static void check_epochs(const uint8_t *data, size_t size)
{
	static struct epoch_book book;
	static char form[EPOCH_BOOK_BYTES];
	const char *at = (const char *)data, *keyspace;
	int64_t store_us, spread_us;
	size_t keyspace_len, step;
	bool is_new;
	book.count = 0;
	while ((step = epoch_form_read(at, size, &store_us, &spread_us, &keyspace,
				       &keyspace_len))) {
		assert(step <= size && keyspace + keyspace_len == at + step);
		epoch_book_enter(&book, keyspace, keyspace_len, store_us, store_us, spread_us,
				 &is_new);
		at += step;
		size -= step;
	}
	assert(epoch_book_write(&book, form) <= sizeof(form));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check_record(data, size);
	check_message(data, size);
	check_epochs(data, size);
	return 0;
}
