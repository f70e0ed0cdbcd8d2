/* MessagePack's encoding of single values, both ways: the one place that knows its bytes.
 *
 * A value begins with a head: a byte that tells its type, and the number or length behind it. The
 * bytes of a string follow its head; so do the elements of an array or map, each with a head of
 * its own.
 */
#pragma once

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "proto/wire.h"

enum mp_type {
	MP_NIL,
	MP_BOOL,
	MP_INT, /* any integer that fits an int64_t */
	MP_BIG, /* an unsigned integer above INT64_MAX */
	MP_FLOAT,
	MP_STR,
	MP_BIN,
	MP_EXT,
	MP_ARRAY,
	MP_MAP,
};

/* One value; of a container, only its head. */
struct mp_value {
	enum mp_type type;
	union {
		bool boolean;           /* MP_BOOL */
		int64_t number;         /* MP_INT */
		uint64_t big;           /* MP_BIG */
		double real;            /* MP_FLOAT */
		uint32_t count;         /* MP_ARRAY: elements that follow; MP_MAP: pairs */
		struct wire_span bytes; /* MP_STR, MP_BIN, MP_EXT (its type left out): borrowed */
	};
};

enum mp_verdict {
	MP_OK,
	MP_SHORT, /* the bytes end inside the head */
	MP_BAD,   /* 0xc1, which MessagePack reserves */
};

/* Decodes the head at `at`, of which `len` bytes may be read, into `ret_value`, and how many bytes
 * it takes into `ret_size`. The bytes of a string are not looked at: they may lie past `len`.
 * Nothing is set unless it returns MP_OK. */
enum mp_verdict mp_head(const void *at, size_t len, struct mp_value *ret_value, size_t *ret_size);

static inline bool mp_is_container(const struct mp_value *value)
{
	return value->type == MP_ARRAY || value->type == MP_MAP;
}

/* How many bytes follow the head of a string, binary or extension; 0 for all others. */
static inline size_t mp_body_len(const struct mp_value *value)
{
	return value->type == MP_STR || value->type == MP_BIN || value->type == MP_EXT
		       ? value->bytes.len
		       : 0;
}

/* How many values follow the head of an array or map; 0 for all others. */
static inline uint64_t mp_inside_count(const struct mp_value *value)
{
	if (value->type == MP_ARRAY)
		return value->count;
	return value->type == MP_MAP ? 2 * (uint64_t)value->count : 0;
}

/* The name of a type for error texts ("a string"). Static storage, never NULL. */
const char *mp_type_text(enum mp_type type);

/* Room for any number. */
enum { MP_NUMBER_MAX = 9 };

/* mp_put_int() of what is not 0 to UINT32_MAX. */
uint8_t *mp_put_wide_int(uint8_t *at, int64_t number);

/* Writes a number in its shortest encoding to `at`, where MP_NUMBER_MAX bytes must be free, and
 * returns where it ends. */
static inline uint8_t *mp_put_int(uint8_t *at, int64_t number)
{
	const uint64_t bits = (uint64_t)number;

	if (bits > UINT32_MAX)
		return mp_put_wide_int(at, number);
	if (bits > UINT16_MAX) {
		*at = 0xce;
		memcpy(at + 1, &(uint32_t){ htobe32((uint32_t)bits) }, 4);
		return at + 5;
	}
	if (bits > UINT8_MAX) {
		*at = 0xcd;
		memcpy(at + 1, &(uint16_t){ htobe16((uint16_t)bits) }, 2);
		return at + 3;
	}
	if (bits < 128) {
		*at = (uint8_t)bits;
		return at + 1;
	}
	*at = 0xcc;
	at[1] = (uint8_t)bits;
	return at + 2;
}

/* Likewise the head of a binary of `len` bytes. */
uint8_t *mp_put_bin_head(uint8_t *at, uint32_t len);
