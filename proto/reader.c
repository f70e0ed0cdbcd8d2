#include "proto/reader.h"

bool reader_next(struct reader *r, struct mp_value *ret_value)
{
	struct mp_value value;
	size_t size, left = (size_t)(r->end - r->at);

	if (mp_head(r->at, left, &value, &size) != MP_OK)
		return false;
	if (mp_body_len(&value) > left - size)
		return false;
	r->at += size + mp_body_len(&value);
	*ret_value = value;
	return true;
}

bool reader_peek(const struct reader *r, struct mp_value *ret_value)
{
	struct reader copy = *r;

	return reader_next(&copy, ret_value);
}

bool reader_skip(struct reader *r, struct wire_span *ret_bytes)
{
	struct reader ahead = *r;
	uint64_t pending =
		1; /* values still to take; no stack, since what they are in is no matter */
	struct mp_value value;

	for (; pending > 0; pending--) {
		/* Each value takes a byte at least: a count that cannot come true ends here. */
		if (pending > (uint64_t)(ahead.end - ahead.at) || !reader_next(&ahead, &value))
			return false;
		pending += mp_inside_count(&value);
	}
	*ret_bytes = (struct wire_span){ (const char *)r->at, (size_t)(ahead.at - r->at) };
	*r = ahead;
	return true;
}

bool reader_u32(struct reader *r, uint32_t *ret_number)
{
	struct reader ahead = *r;
	struct mp_value value;

	if (!reader_next(&ahead, &value) || value.type != MP_INT || value.number < 0 ||
	    value.number > UINT32_MAX)
		return false;
	*ret_number = (uint32_t)value.number;
	*r = ahead;
	return true;
}

bool reader_text(struct reader *r, struct wire_span *ret_text)
{
	struct reader ahead = *r;
	struct mp_value value;

	if (!reader_next(&ahead, &value) || (value.type != MP_STR && value.type != MP_BIN))
		return false;
	*ret_text = value.bytes;
	*r = ahead;
	return true;
}

static bool take_container(struct reader *r, enum mp_type type, uint32_t *ret_count)
{
	struct reader ahead = *r;
	struct mp_value value;

	if (!reader_next(&ahead, &value) || value.type != type)
		return false;
	*ret_count = value.count;
	*r = ahead;
	return true;
}

bool reader_array(struct reader *r, uint32_t *ret_count)
{
	return take_container(r, MP_ARRAY, ret_count);
}

bool reader_map(struct reader *r, uint32_t *ret_pairs)
{
	return take_container(r, MP_MAP, ret_pairs);
}
