#include "base/value.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"

struct value *value_create(const void *bytes, size_t len)
{
	CHECK(len < UINT32_MAX);
	struct value *value = mem_alloc(sizeof(*value) + len + 1);
	if (!value)
		return NULL;
	value->refs = 1;
	value->len = (uint32_t)len;
	if (bytes)
		memcpy(value->bytes, bytes, len);
	value->bytes[len] = '\0';
	return value;
}

struct value *value_ref(struct value *value)
{
	if (value) {
		CHECK(value->refs > 0 && value->refs < UINT32_MAX);
		value->refs++;
	}
	return value;
}

void value_unref(struct value *value)
{
	if (!value)
		return;
	CHECK(value->refs > 0);
	if (--value->refs == 0)
		mem_free(value);
}

size_t value_cost(const struct value *value)
{
	return mem_cost(value);
}
