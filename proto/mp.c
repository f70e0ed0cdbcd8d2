#include "proto/mp.h"

#include <endian.h>
#include <string.h>

static uint64_t load(const uint8_t *at, size_t size)
{
	uint16_t two;
	uint32_t four;
	uint64_t eight;

	switch (size) {
	case 1:
		return *at;
	case 2:
		memcpy(&two, at, 2);
		return be16toh(two);
	case 4:
		memcpy(&four, at, 4);
		return be32toh(four);
	default:
		memcpy(&eight, at, 8);
		return be64toh(eight);
	}
}

static void set_int(struct mp_value *value, int64_t number)
{
	value->type = MP_INT;
	value->number = number;
}

static void set_float(struct mp_value *value, uint64_t bits, size_t size)
{
	const uint32_t low = (uint32_t)bits;
	float real;

	value->type = MP_FLOAT;
	if (size == 8) {
		memcpy(&value->real, &bits, 8);
		return;
	}
	memcpy(&real, &low, 4);
	value->real = (double)real;
}

static void set_bytes(struct mp_value *value, enum mp_type type, const uint8_t *at, uint64_t len)
{
	value->type = type;
	value->bytes = (struct wire_span){ (const char *)at, len };
}

static void set_count(struct mp_value *value, enum mp_type type, uint64_t count)
{
	value->type = type;
	value->count = (uint32_t)count;
}

/* Heads that are one byte: all but 0xc0 to 0xdf. */
static void fixed_head(const uint8_t *at, struct mp_value *value)
{
	if (*at < 0x80)
		set_int(value, *at);
	else if (*at < 0x90)
		set_count(value, MP_MAP, *at & 0x0f);
	else if (*at < 0xa0)
		set_count(value, MP_ARRAY, *at & 0x0f);
	else if (*at < 0xc0)
		set_bytes(value, MP_STR, at + 1, *at & 0x1f);
	else
		set_int(value, (int8_t)*at);
}

/* How many bytes of number or length follow each of 0xc0 to 0xdf. */
static const uint8_t numbers[0x20] = {
	0, 0, 0, 0, 1, 2, 4, 1, 2, 4, 4, 8, 1, 2, 4, 8, /* nil, -, bool, bin, ext, float, uint */
	1, 2, 4, 8, 0, 0, 0, 0, 0, 1, 2, 4, 2, 4, 2, 4, /* int, fixext, str, array, map */
};

enum mp_verdict mp_head(const void *from, size_t len, struct mp_value *ret_value, size_t *ret_size)
{
	const uint8_t *at = from;
	size_t size, extra = 0;
	uint64_t n;

	if (len == 0)
		return MP_SHORT;
	if (*at < 0xc0 || *at > 0xdf) {
		fixed_head(at, ret_value);
		*ret_size = 1;
		return MP_OK;
	}
	size = numbers[*at - 0xc0];
	if ((*at >= 0xc7 && *at <= 0xc9) || (*at >= 0xd4 && *at <= 0xd8))
		extra = 1; /* an ext's type */
	if (len < 1 + size + extra)
		return MP_SHORT;
	n = size ? load(at + 1, size) : 0;

	switch (*at) {
	case 0xc0:
		ret_value->type = MP_NIL;
		break;
	case 0xc1:
		return MP_BAD;
	case 0xc2:
	case 0xc3:
		ret_value->type = MP_BOOL;
		ret_value->boolean = *at == 0xc3;
		break;
	case 0xc4:
	case 0xc5:
	case 0xc6:
		set_bytes(ret_value, MP_BIN, at + 1 + size, n);
		break;
	case 0xc7:
	case 0xc8:
	case 0xc9:
		set_bytes(ret_value, MP_EXT, at + 2 + size, n);
		break;
	case 0xca:
	case 0xcb:
		set_float(ret_value, n, size);
		break;
	case 0xcc:
	case 0xcd:
	case 0xce:
	case 0xcf:
		if (n <= INT64_MAX) {
			set_int(ret_value, (int64_t)n);
		} else {
			ret_value->type = MP_BIG;
			ret_value->big = n;
		}
		break;
	case 0xd0:
		set_int(ret_value, (int8_t)n);
		break;
	case 0xd1:
		set_int(ret_value, (int16_t)n);
		break;
	case 0xd2:
		set_int(ret_value, (int32_t)n);
		break;
	case 0xd3:
		set_int(ret_value, (int64_t)n);
		break;
	case 0xd4:
	case 0xd5:
	case 0xd6:
	case 0xd7:
	case 0xd8:
		set_bytes(ret_value, MP_EXT, at + 2, (uint64_t)1 << (*at - 0xd4));
		break;
	case 0xd9:
	case 0xda:
	case 0xdb:
		set_bytes(ret_value, MP_STR, at + 1 + size, n);
		break;
	case 0xdc:
	case 0xdd:
		set_count(ret_value, MP_ARRAY, n);
		break;
	default:
		set_count(ret_value, MP_MAP, n);
		break;
	}
	*ret_size = 1 + size + extra;
	return MP_OK;
}

const char *mp_type_text(enum mp_type type)
{
	static const char *const texts[] = {
		[MP_NIL] = "nil",        [MP_BOOL] = "a boolean",
		[MP_INT] = "an integer", [MP_BIG] = "an integer above 2^63-1",
		[MP_FLOAT] = "a float",  [MP_STR] = "a string",
		[MP_BIN] = "a binary",   [MP_EXT] = "an extension",
		[MP_ARRAY] = "an array", [MP_MAP] = "a map",
	};

	return texts[type];
}

/* The number's low bytes, most significant first, behind `first`. */
static uint8_t *put_sized(uint8_t *at, uint8_t first, uint64_t number, size_t size)
{
	const uint64_t ordered = htobe64(number);

	*at = first;
	memcpy(at + 1, (const uint8_t *)&ordered + sizeof(ordered) - size, size);
	return at + 1 + size;
}

uint8_t *mp_put_wide_int(uint8_t *at, int64_t number)
{
	const uint64_t bits = (uint64_t)number;

	if (number >= 0)
		return put_sized(at, 0xcf, bits, 8);
	if (number >= -32) {
		*at = (uint8_t)number;
		return at + 1;
	}
	if (number >= INT8_MIN)
		return put_sized(at, 0xd0, bits, 1);
	if (number >= INT16_MIN)
		return put_sized(at, 0xd1, bits, 2);
	if (number >= INT32_MIN)
		return put_sized(at, 0xd2, bits, 4);
	return put_sized(at, 0xd3, bits, 8);
}

uint8_t *mp_put_bin_head(uint8_t *at, uint32_t len)
{
	if (len <= UINT8_MAX)
		return put_sized(at, 0xc4, len, 1);
	if (len <= UINT16_MAX)
		return put_sized(at, 0xc5, len, 2);
	return put_sized(at, 0xc6, len, 4);
}
