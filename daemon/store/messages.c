#include "store/messages.h"

#include "base/check.h"
#include "proto/key.h"
#include "store/record.h"

enum { FORMAT = 1, HEAD_LEN = 4, KEY_HEAD_LEN = 8 + 1 + 4, BEAT_LEN = HEAD_LEN + 8 + 8 };

static bool keys_are_whole(const unsigned char *at, size_t len, uint32_t count)
{
	if (count == 0 || count > MESSAGE_KEYS_MAX)
		return false;
	for (; count > 0; count--) {
		if (len < KEY_HEAD_LEN)
			return false;
		uint32_t key_len = record_get_u32(at + 9);
		if (key_len == 0 || key_len > KEY_TEXT_MAX || key_len > len - KEY_HEAD_LEN)
			return false;
		at += KEY_HEAD_LEN + key_len;
		len -= KEY_HEAD_LEN + key_len;
	}
	return len == 0;
}

bool message_read(const void *bytes, size_t len, struct message *ret_message)
{
	const unsigned char *at = bytes;
	struct message message = { .kind = MESSAGE_FOREIGN };
	if (len < HEAD_LEN)
		return false;
	bool known = at[1] == FORMAT && (at[0] == 's' || at[0] == 'c' || at[0] == 'b');
	if (known && at[0] == 'b') {
		if (len != BEAT_LEN)
			return false;
		message.kind = MESSAGE_BEAT;
		message.number = record_get_u64(at + HEAD_LEN);
		message.published_at_us = (int64_t)record_get_u64(at + HEAD_LEN + 8);
	} else if (known) {
		message.kind = at[0] == 's' ? MESSAGE_SETTLED : MESSAGE_CHANGED;
		message.keys_count = (uint32_t)at[2] << 8 | at[3];
		message.next = at + HEAD_LEN;
		if (!keys_are_whole(message.next, len - HEAD_LEN, message.keys_count))
			return false;
	}
	*ret_message = message;
	return true;
}

struct message_key message_next(struct message *message)
{
	const unsigned char *at = message->next;
	CHECK(message->keys_count > 0);
	struct message_key key = { .bytes = (const char *)at + KEY_HEAD_LEN,
				   .len = record_get_u32(at + 9),
				   .fence = record_get_u64(at),
				   .hard = at[8] != 0 };
	message->keys_count--;
	message->next = at + KEY_HEAD_LEN + key.len;
	return key;
}
