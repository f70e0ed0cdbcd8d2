#include "base/schema_value.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"

/* The types that units.c reads. */
static const struct quantity {
	enum unit_kind kind;
	const char *noun;
	const char *examples;
} quantities[] = {
	[FIELD_COUNT] = { UNIT_COUNT, "a whole number", "" },
	[FIELD_DURATION] = { UNIT_DURATION, "a duration", ", such as 800ms, 10s, 5m, 2h or 7d" },
	[FIELD_SIZE] = { UNIT_SIZE, "a size", ", such as 64KiB, 256MiB or 2GiB" },
	[FIELD_RATE] = { UNIT_RATE, "a rate", ", such as 200/s or 3/m" },
	[FIELD_PERCENT] = { UNIT_PERCENT, "a percentage", ", such as 10%" },
	[FIELD_FACTOR] = { UNIT_FACTOR, "a number", ", such as 1.5" },
};

static void quantity_store(enum field_type type, int64_t value, void *at)
{
	switch (type) {
	case FIELD_COUNT:
		*(int *)at = (int)value;
		return;
	case FIELD_DURATION:
		*(int64_t *)at = value;
		return;
	case FIELD_SIZE:
		*(size_t *)at = (size_t)value;
		return;
	case FIELD_RATE:
		*(double *)at = (double)value / UNITS_RATE_ONE;
		return;
	case FIELD_PERCENT:
		*(double *)at = (double)value / UNITS_PERCENT_ONE;
		return;
	case FIELD_FACTOR:
		*(double *)at = (double)value / UNITS_FACTOR_ONE;
		return;
	case FIELD_TEXT:
	case FIELD_BYTES:
	case FIELD_BOOL:
	case FIELD_CHOICE:
	case FIELD_MODE:
	case FIELD_MAP:
	case FIELD_LIST:
	case FIELD_WORDS:
		break;
	}
	CHECK(!"not a quantity");
}

static enum schema_value_result read_quantity(const struct field *field, const char *text,
					      size_t len, void *at)
{
	int64_t value;
	if (field->zero_word && strcmp(text, field->zero_word) == 0) {
		quantity_store(field->type, 0, at);
		return SCHEMA_VALUE_GOOD;
	}
	int r = units_parse(quantities[field->type].kind, text, len, &value);
	if (r == -ERANGE)
		return SCHEMA_VALUE_TOO_LARGE;
	if (r < 0)
		return SCHEMA_VALUE_MALFORMED;
	if (value < field->min)
		return SCHEMA_VALUE_TOO_SMALL;
	if (value > field->max)
		return SCHEMA_VALUE_TOO_LARGE;
	quantity_store(field->type, value, at);
	return SCHEMA_VALUE_GOOD;
}

static enum schema_value_result check_length(const struct field *field, size_t len)
{
	if (len < (size_t)field->min)
		return SCHEMA_VALUE_TOO_SHORT;
	return len > (size_t)field->max ? SCHEMA_VALUE_TOO_LONG : SCHEMA_VALUE_GOOD;
}

static enum schema_value_result read_text(const struct field *field, const char *text, size_t len,
					  char **at)
{
	if (memchr(text, '\0', len))
		return SCHEMA_VALUE_HAS_NUL;
	enum schema_value_result result = check_length(field, len);
	if (result != SCHEMA_VALUE_GOOD)
		return result;
	char *copy = mem_alloc(len + 1);
	if (!copy)
		return SCHEMA_VALUE_NO_MEMORY;
	memcpy(copy, text, len + 1);
	mem_free(*at);
	*at = copy;
	return SCHEMA_VALUE_GOOD;
}

static enum schema_value_result read_bytes(const struct field *field, const char *bytes, size_t len,
					   struct value **at)
{
	enum schema_value_result result = check_length(field, len);
	if (result != SCHEMA_VALUE_GOOD)
		return result;
	struct value *value = value_create(bytes, len);
	if (!value)
		return SCHEMA_VALUE_NO_MEMORY;
	value_unref(*at);
	*at = value;
	return SCHEMA_VALUE_GOOD;
}

static enum schema_value_result read_bool(const char *text, void *at)
{
	bool is_true = strcmp(text, "true") == 0;
	if (!is_true && strcmp(text, "false") != 0)
		return SCHEMA_VALUE_MALFORMED;
	*(bool *)at = is_true;
	return SCHEMA_VALUE_GOOD;
}

static enum schema_value_result read_choice(const struct field *field, const char *text, void *at)
{
	for (unsigned i = 0; field->choices[i]; i++) {
		if (strcmp(field->choices[i], text) == 0) {
			*(unsigned *)at = i;
			return SCHEMA_VALUE_GOOD;
		}
	}
	return SCHEMA_VALUE_MALFORMED;
}

/* Three or four octal digits, quoted or not: YAML's own idea of numbers does not come in. */
static enum schema_value_result read_mode(const char *text, size_t len, void *at)
{
	if (len < 3 || len > 4 || strspn(text, "01234567") != len)
		return SCHEMA_VALUE_MALFORMED;
	unsigned mode = (unsigned)strtoul(text, NULL, 8);
	if (mode > 0777)
		return SCHEMA_VALUE_TOO_LARGE;
	*(unsigned *)at = mode;
	return SCHEMA_VALUE_GOOD;
}

enum schema_value_result schema_value_read(const struct field *field, const char *text, size_t len,
					   void *object)
{
	void *at = (char *)object + field->offset;
	bool may_hold_nul = field->type == FIELD_TEXT || field->type == FIELD_BYTES;
	if (!may_hold_nul && strlen(text) != len)
		return SCHEMA_VALUE_MALFORMED;
	switch (field->type) {
	case FIELD_TEXT:
		return read_text(field, text, len, at);
	case FIELD_BYTES:
		return read_bytes(field, text, len, at);
	case FIELD_BOOL:
		return read_bool(text, at);
	case FIELD_CHOICE:
		return read_choice(field, text, at);
	case FIELD_MODE:
		return read_mode(text, len, at);
	case FIELD_COUNT:
	case FIELD_DURATION:
	case FIELD_SIZE:
	case FIELD_RATE:
	case FIELD_PERCENT:
	case FIELD_FACTOR:
		return read_quantity(field, text, len, at);
	case FIELD_MAP:
	case FIELD_LIST:
	case FIELD_WORDS:
		break;
	}
	CHECK(!"not a single value");
	return SCHEMA_VALUE_MALFORMED;
}

const char *schema_value_fault(enum schema_value_result result)
{
	static const char *const faults[] = {
		[SCHEMA_VALUE_GOOD] = "is good",
		[SCHEMA_VALUE_MALFORMED] = "is not valid",
		[SCHEMA_VALUE_TOO_SMALL] = "is too small",
		[SCHEMA_VALUE_TOO_LARGE] = "is too large",
		[SCHEMA_VALUE_TOO_SHORT] = "is too short",
		[SCHEMA_VALUE_TOO_LONG] = "is too long",
		[SCHEMA_VALUE_HAS_NUL] = "holds a NUL character",
		[SCHEMA_VALUE_NO_MEMORY] = "does not fit into memory",
	};
	return faults[result];
}

const char *schema_value_examples(const struct field *field)
{
	const size_t count = sizeof quantities / sizeof *quantities;
	const char *examples = field->type < count ? quantities[field->type].examples : NULL;
	return examples ? examples : "";
}

struct schema_snippet schema_snippet(const char *text, size_t len)
{
	struct schema_snippet snippet;
	static const char mark[] = "...\"";
	size_t room = sizeof snippet.text - sizeof mark;
	size_t at = 0;
	snippet.text[at++] = '"';
	for (size_t i = 0; i < len; i++) {
		/* Whole characters only: none begins unless the longest would fit. */
		bool is_first_byte = (text[i] & 0xC0) != 0x80;
		if (at + (is_first_byte ? 4 : 1) > room) {
			memcpy(snippet.text + at, mark, sizeof mark);
			return snippet;
		}
		bool is_control = (unsigned char)text[i] < ' ' || text[i] == 0x7F;
		snippet.text[at++] = is_control ? ' ' : text[i];
	}
	snippet.text[at++] = '"';
	snippet.text[at] = '\0';
	return snippet;
}

static void expected_quantity(const struct field *field, char buf[SCHEMA_EXPECTED_MAX])
{
	const struct quantity *quantity = &quantities[field->type];
	char low[UNITS_TEXT_MAX];
	char high[UNITS_TEXT_MAX];
	snprintf(buf, SCHEMA_EXPECTED_MAX, "%s%s%s from %s to %s",
		 field->zero_word ? field->zero_word : "", field->zero_word ? ", or " : "",
		 quantity->noun, units_format(quantity->kind, field->min, low),
		 units_format(quantity->kind, field->max, high));
}

static void expected_choice(const struct field *field, char buf[SCHEMA_EXPECTED_MAX])
{
	size_t at = 0;
	for (size_t i = 0; field->choices[i]; i++) {
		const char *joint = i == 0 ? "" : field->choices[i + 1] ? ", " : " or ";
		at += (size_t)snprintf(buf + at, SCHEMA_EXPECTED_MAX - at, "%s%s", joint,
				       field->choices[i]);
		CHECK(at < SCHEMA_EXPECTED_MAX);
	}
}

const char *schema_expected(const struct field *field, char buf[SCHEMA_EXPECTED_MAX])
{
	switch (field->type) {
	case FIELD_COUNT:
	case FIELD_DURATION:
	case FIELD_SIZE:
	case FIELD_RATE:
	case FIELD_PERCENT:
	case FIELD_FACTOR:
		expected_quantity(field, buf);
		break;
	case FIELD_CHOICE:
		expected_choice(field, buf);
		break;
	case FIELD_TEXT:
	case FIELD_BYTES:
	case FIELD_WORDS:
		snprintf(buf, SCHEMA_EXPECTED_MAX, "%s", field->form);
		break;
	case FIELD_BOOL:
		strcpy(buf, "true or false");
		break;
	case FIELD_MODE:
		strcpy(buf, "permission bits in octal (such as 0660)");
		break;
	case FIELD_MAP:
		strcpy(buf, "a mapping");
		break;
	case FIELD_LIST:
		strcpy(buf, "a list");
		break;
	}
	return buf;
}
