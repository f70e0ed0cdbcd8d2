/* One value of a configuration file: from text into a member of a struct, by its field's type.
 *
 * The part of schema.c that knows no YAML, no places and no errors' wording but a value's own.
 */
#pragma once

#include "base/schema.h"

enum schema_value_result {
	SCHEMA_VALUE_GOOD,
	SCHEMA_VALUE_MALFORMED,
	SCHEMA_VALUE_TOO_SMALL,
	SCHEMA_VALUE_TOO_LARGE,
	SCHEMA_VALUE_TOO_SHORT,
	SCHEMA_VALUE_TOO_LONG,
	SCHEMA_VALUE_HAS_NUL,
	SCHEMA_VALUE_NO_MEMORY,
};

/* Reads `len` bytes at `text` (a NUL follows them) into the field's member of `object`; a text that
 * is there already is freed. The member is left as it was unless the result is good. Not for maps,
 * lists and later keys. */
enum schema_value_result schema_value_read(const struct field *field, const char *text, size_t len,
					   void *object) __attribute__((warn_unused_result));

/* What is wrong, to follow the value in a sentence: "is too small". */
const char *schema_value_fault(enum schema_value_result result);

/* ", such as 10s or 5m", to follow what was expected; empty for a type that needs none. */
const char *schema_value_examples(const struct field *field);

struct schema_snippet {
	char text[64];
};

/* The beginning of a text, quoted and harmless, for an error. */
struct schema_snippet schema_snippet(const char *text, size_t len);
