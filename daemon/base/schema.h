/* Tables that say what a configuration file may hold, and the walk that reads one by them.
 *
 * A schema describes one mapping: its fields, and a check of those that depend on each other. From
 * the same table come the struct's values, the defaults, the errors, the release of what was
 * allocated, and the reference (schema_reference.c). A field names the struct and the member it
 * fills; a member of another type than the field's does not compile.
 *
 * The walk goes through a mapping in the order of its table, not of the file: what one part depends
 * on must stand before it. Every part gets its defaults first, so that checks always see sane
 * values. Schemas are constant data; reading is for one thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config_errors.h"
#include "base/units.h"
#include "base/value.h"

struct yaml_document_s;
struct schema;
struct scope;
struct field;

enum field_type {
	FIELD_TEXT,  /* char *, owned; NULL where not written and without default */
	FIELD_BYTES, /* struct value *, one reference; else like text, and NUL bytes may be in it */
	FIELD_BOOL,  /* bool */
	FIELD_COUNT, /* int */
	FIELD_DURATION, /* int64_t, microseconds */
	FIELD_SIZE,     /* size_t, bytes */
	FIELD_RATE,     /* double, per second */
	FIELD_PERCENT,  /* double, share of 1 */
	FIELD_FACTOR,   /* double */
	FIELD_CHOICE,   /* unsigned, an index into choices */
	FIELD_MODE,     /* unsigned, permission bits */
	FIELD_MAP,      /* a struct with a schema of its own */
	FIELD_LIST,     /* an owned array of such structs, and its size_t count */
	FIELD_WORDS,    /* char **, owned, as its texts are; NULL ends it; NULL where not written */
};

/* Looks at a value that was written, and was read into `value`; false, with a scope_error(), if it
 * will not do. */
typedef bool field_check_fn(const struct scope *scope, const struct field *field, void *value);
/* Looks at a whole mapping once it is read. */
typedef void schema_check_fn(const struct scope *scope, void *object);

struct field {
	const char *name;
	enum field_type type;
	size_t offset;       /* of the value in the schema's struct */
	size_t count_offset; /* LIST: of its count */
	bool required;
	bool optional;      /* MAP: where it is left out, nothing in it is required or checked */
	bool secret;        /* never shown in an error */
	bool live;          /* a reload can change it; else it takes a restart */
	const char *preset; /* the default, as it would be written; NULL: none */
	int64_t min, max;   /* of a number in steps of its unit; TEXT, BYTES: of its length; LIST,
			       WORDS: items */
	const char *form;   /* TEXT, BYTES, WORDS: what is expected, in words */
	const char *const *choices;  /* CHOICE: the names, NULL last */
	const char *zero_word;       /* of a number: a word that stands for 0; or NULL */
	const struct schema *schema; /* MAP, LIST */
	field_check_fn *check;       /* or NULL */
	const char *help;            /* one or two sentences */
};

struct schema {
	const struct field *fields;
	size_t fields_count;
	size_t size;            /* of the struct */
	schema_check_fn *check; /* or NULL */
};

enum { SCHEMA_FIELDS_MAX = 24 };

/* One mapping of the file, while it is read. Checks get it to report by, and may read it. */
struct scope {
	struct config_errors *errors; /* borrowed */
	void *root;                   /* borrowed; the outermost struct */
	const struct scope *outer;    /* NULL at the top */
	const struct field *within;   /* the outer's field that holds this; NULL at the top */
	size_t index;                 /* among the items, if `within` is a list */
	const struct schema *schema;
	struct config_place place;                     /* where the mapping begins */
	struct config_place places[SCHEMA_FIELDS_MAX]; /* of the values; line 0: not written */
	bool good[SCHEMA_FIELDS_MAX];                  /* the struct's member can be relied on */
};

/* offsetof(), if the member has that type. */
#define SCHEMA_AT(object, member, type)                                                            \
	(offsetof(struct object, member) + 0 * _Generic(((struct object *)NULL)->member, type : 0))

/* A line of a table: the key as written, the struct and its member, then any of the rest. */
#define TEXT(key, object, member, ...)                                                             \
	{                                                                                          \
		.name = key, .type = FIELD_TEXT, .offset = SCHEMA_AT(object, member, char *),      \
		__VA_ARGS__                                                                        \
	}
#define BYTES(key, object, member, ...)                                                            \
	{                                                                                          \
		.name = key, .type = FIELD_BYTES,                                                  \
		.offset = SCHEMA_AT(object, member, struct value *), __VA_ARGS__                   \
	}
#define BOOL(key, object, member, ...)                                                             \
	{                                                                                          \
		.name = key, .type = FIELD_BOOL, .offset = SCHEMA_AT(object, member, bool),        \
		__VA_ARGS__                                                                        \
	}
#define COUNT(key, object, member, ...)                                                            \
	{                                                                                          \
		.name = key, .type = FIELD_COUNT, .offset = SCHEMA_AT(object, member, int),        \
		__VA_ARGS__                                                                        \
	}
#define DURATION(key, object, member, ...)                                                         \
	{                                                                                          \
		.name = key, .type = FIELD_DURATION, .offset = SCHEMA_AT(object, member, int64_t), \
		__VA_ARGS__                                                                        \
	}
#define SIZE(key, object, member, ...)                                                             \
	{                                                                                          \
		.name = key, .type = FIELD_SIZE, .offset = SCHEMA_AT(object, member, size_t),      \
		__VA_ARGS__                                                                        \
	}
#define RATE(key, object, member, ...)                                                             \
	{                                                                                          \
		.name = key, .type = FIELD_RATE, .offset = SCHEMA_AT(object, member, double),      \
		__VA_ARGS__                                                                        \
	}
#define PERCENT(key, object, member, ...)                                                          \
	{                                                                                          \
		.name = key, .type = FIELD_PERCENT, .offset = SCHEMA_AT(object, member, double),   \
		__VA_ARGS__                                                                        \
	}
#define FACTOR(key, object, member, ...)                                                           \
	{                                                                                          \
		.name = key, .type = FIELD_FACTOR, .offset = SCHEMA_AT(object, member, double),    \
		__VA_ARGS__                                                                        \
	}
#define CHOICE(key, object, member, names, ...)                                                    \
	{                                                                                          \
		.name = key, .type = FIELD_CHOICE, .offset = SCHEMA_AT(object, member, unsigned),  \
		.choices = names, __VA_ARGS__                                                      \
	}
#define MODE(key, object, member, ...)                                                             \
	{                                                                                          \
		.name = key, .type = FIELD_MODE, .offset = SCHEMA_AT(object, member, unsigned),    \
		__VA_ARGS__                                                                        \
	}
#define MAP(key, object, member, part, ...)                                                        \
	{                                                                                          \
		.name = key, .type = FIELD_MAP, .offset = offsetof(struct object, member),         \
		.schema = part, __VA_ARGS__                                                        \
	}
/* A mapping whose members lie in the outer struct itself. */
#define PART(key, part, ...)                                                                       \
	{                                                                                          \
		.name = key, .type = FIELD_MAP, .schema = part, __VA_ARGS__                        \
	}
#define LIST(key, object, member, count, item, ...)                                                \
	{                                                                                          \
		.name = key, .type = FIELD_LIST, .offset = offsetof(struct object, member),        \
		.count_offset = SCHEMA_AT(object, count, size_t), .schema = item, __VA_ARGS__      \
	}
#define WORDS(key, object, member, ...)                                                            \
	{                                                                                          \
		.name = key, .type = FIELD_WORDS, .offset = SCHEMA_AT(object, member, char **),    \
		__VA_ARGS__                                                                        \
	}

#define REQUIRED             .required = true
#define OPTIONAL             .optional = true
#define SECRET               .secret = true
#define LIVE                 .live = true
#define DEFAULT(text)        .preset = text
#define RANGE(low, high)     .min = low, .max = high
#define FORM(text)           .form = text
#define CHECKED_BY(function) .check = function
/* A word that stands for 0, which the range need not hold. */
#define OR_WORD(word)        .zero_word = word
#define ACCEPTS(names)       .choices = names
#define HELP(text)           .help = text

#define SCHEMA(table, object, function)                                                            \
	{                                                                                          \
		.fields = table, .fields_count = sizeof table / sizeof *table,                     \
		.size = sizeof(struct object), .check = function                                   \
	}

/* Fills the zeroed `object` from the document's root mapping. 0 when all of it was walked (whether
 * it is good, the errors tell) or -ENOMEM. In both cases schema_release() frees what it holds. */
int schema_read(const struct schema *schema, struct yaml_document_s *document, void *object,
		struct config_errors *errors) __attribute__((warn_unused_result));

/* Frees the texts and lists in `object`, not the object. Accepts zeroed and half-read ones. */
void schema_release(const struct schema *schema, void *object);

/* Tells each field that differs in two objects: fields of a MAP by themselves, a LIST as one. Two
 * texts are the same if they read the same. `path` is what stands before the field's name
 * ("origin."), borrowed for the call. */
typedef void schema_differ_fn(void *arg, const char *path, const struct field *field);
void schema_compare(const struct schema *schema, const void *a, const void *b, const char *path,
		    schema_differ_fn *differ, void *arg);

/* Reports at the value of the field `name`, or at the mapping where that is not written. */
void scope_error(const struct scope *scope, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void scope_warning(const struct scope *scope, const char *name, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Whether the field's member holds a valid value, be it written or the default. */
bool scope_good(const struct scope *scope, const char *name);

/* Whether the file gives that field a value (right or wrong). */
bool scope_written(const struct scope *scope, const char *name);

enum { SCHEMA_EXPECTED_MAX = 200 };

/* What a field's value must look like: "a duration from 1ms to 5m". Returns `buf`.
 */
const char *schema_expected(const struct field *field, char buf[SCHEMA_EXPECTED_MAX]);
