/* What the tests of the wire share: bytes from hex, a seeded random generator, random messages. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire_buf.h"

/* Bytes in their own heap block of just their size, so that ASan sees a read past the end. */
struct bytes {
	uint8_t *data; /* owned */
	size_t len;
};

static inline struct bytes bytes_copy(const void *data, size_t len)
{
	struct bytes b = { malloc(len ? len : 1), len };

	assert(b.data);
	memcpy(b.data, data, len);
	return b;
}

static inline int hex_value(char c)
{
	const char *digits = "0123456789abcdef", *found = c ? strchr(digits, c) : NULL;

	return found ? (int)(found - digits) : -1;
}

/* The bytes that `hex` writes in pairs of digits, blanks between them ignored. Stops at what is
 * neither, and sets `ret_end` to it unless that is NULL. */
static inline struct bytes bytes_from_hex(const char *hex, const char **ret_end)
{
	struct bytes b = { malloc(strlen(hex) / 2 + 1), 0 };

	assert(b.data);
	for (;; hex++) {
		if (*hex == ' ' || *hex == '\t')
			continue;
		if (hex_value(hex[0]) < 0 || hex_value(hex[1]) < 0)
			break;
		b.data[b.len++] = (uint8_t)(hex_value(hex[0]) << 4 | hex_value(hex[1]));
		hex++;
	}
	if (ret_end)
		*ret_end = hex;
	return b;
}

/* splitmix64: small, seeded, the same everywhere. */
static inline uint64_t random_next(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static inline uint64_t random_below(uint64_t *state, uint64_t limit)
{
	return random_next(state) % limit;
}

static inline void put_byte(struct wire_buf *b, uint8_t byte)
{
	wire_buf_raw(b, &byte, 1);
}

/* `size` bytes of `number`, most significant first, behind `first`. */
static inline void put_head(struct wire_buf *b, uint8_t first, uint64_t number, unsigned size)
{
	put_byte(b, first);
	while (size-- > 0)
		put_byte(b, (uint8_t)(number >> (8 * size)));
}

static inline void put_random_bytes(struct wire_buf *b, uint64_t *state, size_t len)
{
	while (len-- > 0)
		put_byte(b, (uint8_t)random_next(state));
}

/* A random value in a random encoding of it, the wasteful ones included. */
static inline void put_random_value(struct wire_buf *b, uint64_t *state, unsigned depth)
{
	/* first byte, bytes of number behind it, what that is: a Number, Length, eXt length, Count
	 * of elements or Pairs */
	static const struct {
		uint8_t first, size;
		char what;
	} heads[] = {
		{ 0xc0, 0, 'N' }, { 0xc2, 0, 'N' }, { 0xc3, 0, 'N' }, { 0xca, 4, 'N' },
		{ 0xcb, 8, 'N' }, { 0xcc, 1, 'N' }, { 0xcd, 2, 'N' }, { 0xce, 4, 'N' },
		{ 0xcf, 8, 'N' }, { 0xd0, 1, 'N' }, { 0xd1, 2, 'N' }, { 0xd2, 4, 'N' },
		{ 0xd3, 8, 'N' }, { 0xc4, 1, 'L' }, { 0xc5, 2, 'L' }, { 0xc6, 4, 'L' },
		{ 0xd9, 1, 'L' }, { 0xda, 2, 'L' }, { 0xdb, 4, 'L' }, { 0xc7, 1, 'X' },
		{ 0xc8, 2, 'X' }, { 0xc9, 4, 'X' }, { 0xdc, 2, 'C' }, { 0xdd, 4, 'C' },
		{ 0xde, 2, 'P' }, { 0xdf, 4, 'P' },
	};
	const size_t kinds = sizeof(heads) / sizeof(heads[0]);
	const uint64_t pick = random_below(state, kinds + 6);
	uint64_t count = depth > 0 ? random_below(state, 5) : 0, len = random_below(state, 40);

	if (pick < kinds) {
		uint64_t number = random_next(state) >> random_below(state, 64);

		switch (heads[pick].what) {
		case 'N':
			put_head(b, heads[pick].first, number, heads[pick].size);
			return;
		case 'X':
			put_head(b, heads[pick].first, len, heads[pick].size);
			put_random_bytes(b, state, 1 + len);
			return;
		case 'L':
			put_head(b, heads[pick].first, len, heads[pick].size);
			put_random_bytes(b, state, len);
			return;
		default:
			put_head(b, heads[pick].first, count, heads[pick].size);
			count *= heads[pick].what == 'P' ? 2 : 1;
			break;
		}
	} else {
		switch (pick - kinds) {
		case 0:
			put_byte(b, (uint8_t)random_below(state, 0x80));
			return;
		case 1:
			put_byte(b, (uint8_t)(0xe0 + random_below(state, 0x20)));
			return;
		case 2:
			len = random_below(state, 0x20);
			put_byte(b, (uint8_t)(0xa0 + len));
			put_random_bytes(b, state, len);
			return;
		case 3:
			len = random_below(state, 5);
			put_byte(b, (uint8_t)(0xd4 + len));
			put_random_bytes(b, state, 1 + ((size_t)1 << len));
			return;
		case 4:
			put_byte(b, (uint8_t)(0x90 + count));
			break;
		default:
			put_byte(b, (uint8_t)(0x80 + count));
			count *= 2;
			break;
		}
	}
	while (count-- > 0)
		put_random_value(b, state, depth - 1);
}
