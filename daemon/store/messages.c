#include "store/messages.h"

#include "base/check.h"
#include "proto/key.h"
#include "store/record.h"

enum {
	FORMAT = 1,
	HEAD_LEN = 4,
	KEY_HEAD_LEN = 8 + 1 + 4,
	ROW_HEAD_LEN = 8 + 1 + 8 + 4,
	BEAT_LEN = HEAD_LEN + 8 + 8,
	EPOCH_HEAD_LEN = HEAD_LEN + 8 + 8 + 4,
};

static uint32_t head_len(enum message_kind kind)
{
	return kind == MESSAGE_ROW ? ROW_HEAD_LEN : KEY_HEAD_LEN;
}

static bool keys_are_whole(const unsigned char *at, size_t len, uint32_t count, uint32_t head)
{
	if (count == 0 || count > MESSAGE_KEYS_MAX)
		return false;
	for (; count > 0; count--) {
		if (len < head)
			return false;
		uint32_t key_len = record_get_u32(at + head - 4);
		if (key_len == 0 || key_len > KEY_TEXT_MAX || key_len > len - head)
			return false;
		at += head + key_len;
		len -= head + key_len;
	}
	return len == 0;
}

static bool read_beat(const unsigned char *at, size_t len, struct message *message)
{
	if (len != BEAT_LEN)
		return false;
	message->kind = MESSAGE_BEAT;
	message->emptied = at[2] != 0 || at[3] != 0;
	message->number = record_get_u64(at + HEAD_LEN);
	message->published_at_us = (int64_t)record_get_u64(at + HEAD_LEN + 8);
	return true;
}

static bool read_epoch(const unsigned char *at, size_t len, struct message *message)
{
	if (len < EPOCH_HEAD_LEN)
		return false;
	message->kind = MESSAGE_EPOCH;
	message->moment_us = (int64_t)record_get_u64(at + HEAD_LEN);
	message->spread_us = (int64_t)record_get_u64(at + HEAD_LEN + 8);
	message->keyspace_len = record_get_u32(at + HEAD_LEN + 16);
	message->keyspace = (const char *)at + EPOCH_HEAD_LEN;
	return message->keyspace_len == len - EPOCH_HEAD_LEN && message->moment_us >= 0 &&
	       message->moment_us < MESSAGE_TIME_MAX && message->spread_us >= 0 &&
	       message->spread_us < MESSAGE_TIME_MAX &&
	       key_is_keyspace_name(message->keyspace, message->keyspace_len);
}

static bool read_keys(const unsigned char *at, size_t len, struct message *message)
{
	message->kind = at[0] == 's'   ? MESSAGE_SETTLED
			: at[0] == 'c' ? MESSAGE_CHANGED
				       : MESSAGE_ROW;
	message->keys_count = (uint32_t)at[2] << 8 | at[3];
	message->next = at + HEAD_LEN;
	return keys_are_whole(message->next, len - HEAD_LEN, message->keys_count,
			      head_len(message->kind));
}

bool message_read(const void *bytes, size_t len, struct message *ret_message)
{
	const unsigned char *at = bytes;
	struct message message = { .kind = MESSAGE_FOREIGN };
	bool good = true;
	if (len < HEAD_LEN)
		return false;
	if (at[1] == FORMAT && at[0] == 'b')
		good = read_beat(at, len, &message);
	else if (at[1] == FORMAT && at[0] == 'e')
		good = read_epoch(at, len, &message);
	else if (at[1] == FORMAT && (at[0] == 's' || at[0] == 'c' || at[0] == 'v'))
		good = read_keys(at, len, &message);
	if (good)
		*ret_message = message;
	return good;
}

struct message_key message_next(struct message *message)
{
	const unsigned char *at = message->next;
	uint32_t head = head_len(message->kind);
	CHECK(message->keys_count > 0);
	struct message_key key = { .bytes = (const char *)at + head,
				   .len = record_get_u32(at + head - 4),
				   .fence = record_get_u64(at),
				   .hard = at[8] & 1 };
	if (message->kind == MESSAGE_ROW) {
		key.has_version = at[8] & 2;
		key.version = (int64_t)record_get_u64(at + 9);
	}
	message->keys_count--;
	message->next = at + head + key.len;
	return key;
}
