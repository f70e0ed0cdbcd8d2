/* schema_compare: what differs in two objects of one schema. */
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/schema.h"

static bool same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_words(char *const *a, char *const *b)
{
	if (!a || !b)
		return a == b;
	for (; *a && *b; a++, b++)
		if (strcmp(*a, *b) != 0)
			return false;
	return *a == *b;
}

static bool same_value(const struct value *a, const struct value *b)
{
	return a && b ? a->len == b->len && memcmp(a->bytes, b->bytes, a->len) == 0 : a == b;
}

static void note_difference(void *arg, const char *path, const struct field *field)
{
	(void)path;
	(void)field;
	*(bool *)arg = true;
}

static bool same_list(const struct field *field, const void *a, const void *b)
{
	size_t count = *(const size_t *)((const char *)a + field->count_offset);
	const char *of_a = *(char *const *)((const char *)a + field->offset);
	const char *of_b = *(char *const *)((const char *)b + field->offset);
	bool differs = count != *(const size_t *)((const char *)b + field->count_offset);
	for (size_t i = 0; i < count && !differs; i++)
		schema_compare(field->schema, of_a + i * field->schema->size,
			       of_b + i * field->schema->size, "", note_difference, &differs);
	return !differs;
}

static bool same_field(const struct field *field, const void *a, const void *b)
{
	const char *in_a = (const char *)a + field->offset, *in_b = (const char *)b + field->offset;
	switch (field->type) {
	case FIELD_TEXT:
		return same_text(*(char *const *)in_a, *(char *const *)in_b);
	case FIELD_BYTES:
		return same_value(*(struct value *const *)in_a, *(struct value *const *)in_b);
	case FIELD_BOOL:
		return *(const bool *)in_a == *(const bool *)in_b;
	case FIELD_COUNT:
		return *(const int *)in_a == *(const int *)in_b;
	case FIELD_DURATION:
		return *(const int64_t *)in_a == *(const int64_t *)in_b;
	case FIELD_SIZE:
		return *(const size_t *)in_a == *(const size_t *)in_b;
	case FIELD_RATE:
	case FIELD_PERCENT:
	case FIELD_FACTOR:
		return memcmp(in_a, in_b, sizeof(double)) == 0;
	case FIELD_CHOICE:
	case FIELD_MODE:
		return *(const unsigned *)in_a == *(const unsigned *)in_b;
	case FIELD_WORDS:
		return same_words(*(char *const *const *)in_a, *(char *const *const *)in_b);
	case FIELD_LIST:
		return same_list(field, a, b);
	case FIELD_MAP:
		break;
	}
	return true;
}

void schema_compare(const struct schema *schema, const void *a, const void *b, const char *path,
		    schema_differ_fn *differ, void *arg)
{
	for (size_t i = 0; i < schema->fields_count; i++) {
		const struct field *field = &schema->fields[i];
		if (field->type != FIELD_MAP) {
			if (!same_field(field, a, b))
				differ(arg, path, field);
			continue;
		}
		char within[80];
		int n = snprintf(within, sizeof within, "%s%s.", path, field->name);
		CHECK(n > 0 && (size_t)n < sizeof within);
		schema_compare(field->schema, (const char *)a + field->offset,
			       (const char *)b + field->offset, within, differ, arg);
	}
}
