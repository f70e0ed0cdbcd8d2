/* Bytes that are being written: a buffer that grows up to a maximum, and MessagePack into it.
 *
 * A failure (memory, or the maximum) sticks: later writes do nothing, so that a message is encoded
 * straight through and wire_buf_failed() asked once at its end. To drop the broken message and keep
 * those before it, note `len` where a message begins and wire_buf_rewind() to it.
 *
 * The owner calls wire_buf_init or wire_buf_wrap, then wire_buf_close, which also takes a zeroed
 * or a closed buffer.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct wire_buf {
	uint8_t *data; /* owned, unless `wrapped`; NULL until the first byte */
	size_t len;
	size_t cap;
	size_t max;
	bool wrapped;
	bool failed;
	bool no_memory; /* why it failed; else the maximum is reached */
};

/* An empty buffer that allocates as it grows, to `max` bytes at most. */
void wire_buf_init(struct wire_buf *b, size_t max);

/* An empty buffer in the caller's memory, which must outlive it. Never allocates. */
void wire_buf_wrap(struct wire_buf *b, void *memory, size_t cap);

/* Frees what it owns. */
void wire_buf_close(struct wire_buf *b);

static inline bool wire_buf_failed(const struct wire_buf *b)
{
	return b->failed;
}

/* Forgets what was written after the first `len` bytes, and that it failed. */
void wire_buf_rewind(struct wire_buf *b, size_t len);

/* wire_buf_reserve() where more memory is needed first. */
uint8_t *wire_buf_grow(struct wire_buf *b, size_t len);

/* Room for `len` more bytes, to be written by hand; then add what was used to b->len. The pointer
 * is good until the next call. NULL if there is no room: the buffer has failed. */
static inline uint8_t *wire_buf_reserve(struct wire_buf *b, size_t len)
{
	if (b->failed || len > b->cap - b->len)
		return wire_buf_grow(b, len);
	return b->data + b->len;
}

/* Copies `len` bytes as they are. */
static inline void wire_buf_raw(struct wire_buf *b, const void *bytes, size_t len)
{
	uint8_t *room = len > 0 ? wire_buf_reserve(b, len) : NULL;

	if (!room)
		return;
	memcpy(room, bytes, len);
	b->len += len;
}

/* Append one value, in its shortest encoding. */
void wire_buf_nil(struct wire_buf *b);
void wire_buf_bool(struct wire_buf *b, bool value);
void wire_buf_int(struct wire_buf *b, int64_t number);
void wire_buf_float(struct wire_buf *b, double number);
void wire_buf_str(struct wire_buf *b, const char *text); /* NUL-terminated UTF-8 */
void wire_buf_str_len(struct wire_buf *b, const char *text, size_t len);
void wire_buf_bin(struct wire_buf *b, const void *bytes, size_t len);

/* Append a head; what it announces must follow: `len` bytes, `count` values, `pairs` of them. */
void wire_buf_bin_head(struct wire_buf *b, size_t len);
void wire_buf_array(struct wire_buf *b, uint32_t count);
void wire_buf_map(struct wire_buf *b, uint32_t pairs);
