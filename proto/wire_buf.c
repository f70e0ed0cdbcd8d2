#include "proto/wire_buf.h"

#include <assert.h>
#include <msgpack/pack.h>
#include <stdlib.h>
#include <string.h>

enum { CAP_FIRST = 256 };

void wire_buf_init(struct wire_buf *b, size_t max)
{
	*b = (struct wire_buf){ .max = max };
}

void wire_buf_wrap(struct wire_buf *b, void *memory, size_t cap)
{
	*b = (struct wire_buf){ .data = memory, .cap = cap, .max = cap, .wrapped = true };
}

void wire_buf_close(struct wire_buf *b)
{
	if (!b->wrapped)
		free(b->data);
	*b = (struct wire_buf){ 0 };
}

void wire_buf_rewind(struct wire_buf *b, size_t len)
{
	assert(len <= b->len);
	b->len = len;
	b->failed = b->no_memory = false;
}

static bool grow(struct wire_buf *b, size_t need)
{
	size_t cap = b->cap ? b->cap : CAP_FIRST;
	uint8_t *data;

	if (b->wrapped || need > b->max)
		return false;
	while (cap < need)
		cap = cap > b->max / 2 ? b->max : 2 * cap;
	if (cap > b->max)
		cap = b->max;
	data = realloc(b->data, cap);
	if (!data) {
		b->no_memory = true;
		return false;
	}
	b->data = data;
	b->cap = cap;
	return true;
}

uint8_t *wire_buf_grow(struct wire_buf *b, size_t len)
{
	if (b->failed)
		return NULL;
	if (len > SIZE_MAX - b->len || !grow(b, b->len + len)) {
		b->failed = true;
		return NULL;
	}
	return b->data + b->len;
}

/* What msgpack-c packs ends up here; the failure is kept by the buffer, not by the packer. */
static int on_packed(void *data, const char *bytes, size_t len)
{
	wire_buf_raw(data, bytes, len);
	return 0;
}

static msgpack_packer packer(struct wire_buf *b)
{
	return (msgpack_packer){ .data = b, .callback = on_packed };
}

void wire_buf_nil(struct wire_buf *b)
{
	msgpack_packer p = packer(b);

	msgpack_pack_nil(&p);
}

void wire_buf_bool(struct wire_buf *b, bool value)
{
	msgpack_packer p = packer(b);

	if (value)
		msgpack_pack_true(&p);
	else
		msgpack_pack_false(&p);
}

void wire_buf_int(struct wire_buf *b, int64_t number)
{
	msgpack_packer p = packer(b);

	msgpack_pack_int64(&p, number);
}

void wire_buf_float(struct wire_buf *b, double number)
{
	msgpack_packer p = packer(b);

	msgpack_pack_double(&p, number);
}

void wire_buf_str(struct wire_buf *b, const char *text)
{
	wire_buf_str_len(b, text, strlen(text));
}

void wire_buf_str_len(struct wire_buf *b, const char *text, size_t len)
{
	msgpack_packer p = packer(b);

	msgpack_pack_str(&p, len);
	wire_buf_raw(b, text, len);
}

void wire_buf_bin(struct wire_buf *b, const void *bytes, size_t len)
{
	wire_buf_bin_head(b, len);
	wire_buf_raw(b, bytes, len);
}

void wire_buf_bin_head(struct wire_buf *b, size_t len)
{
	msgpack_packer p = packer(b);

	msgpack_pack_bin(&p, len);
}

void wire_buf_array(struct wire_buf *b, uint32_t count)
{
	msgpack_packer p = packer(b);

	msgpack_pack_array(&p, count);
}

void wire_buf_map(struct wire_buf *b, uint32_t pairs)
{
	msgpack_packer p = packer(b);

	msgpack_pack_map(&p, pairs);
}
