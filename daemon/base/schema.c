#include "base/schema.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <yaml.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/schema_value.h"
#include "base/suggest.h"

static int scope_preset(struct scope *scope, void *object);
static int scope_read(struct scope *scope, yaml_document_t *document, const yaml_node_t *mapping,
		      void *object);

static struct config_place place_of(yaml_mark_t mark)
{
	return (struct config_place){ .line = (int)mark.line + 1, .column = (int)mark.column + 1 };
}

static const char *node_kind(const yaml_node_t *node)
{
	switch (node->type) {
	case YAML_SCALAR_NODE:
		return "a plain value";
	case YAML_SEQUENCE_NODE:
		return "a list";
	case YAML_MAPPING_NODE:
		return "a mapping";
	case YAML_NO_NODE:
		break;
	}
	return "nothing";
}

/* "key:" with nothing behind it, "~" and "null" all say that there is no value. */
static bool node_is_null(const yaml_node_t *node)
{
	if (node->type != YAML_SCALAR_NODE || node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
		return false;
	const char *text = (const char *)node->data.scalar.value;
	return *text == '\0' || strcmp(text, "~") == 0 || strcmp(text, "null") == 0;
}

/* ---- reporting ------------------------------------------------------------------------------- */

/* Appends "origin.", "keyspaces[3]." or nothing at the top; the new length. */
static size_t path_write(const struct scope *scope, char *buf, size_t size)
{
	if (!scope->outer)
		return 0;
	size_t len = path_write(scope->outer, buf, size);
	const struct field *within = scope->within;
	int n = within->type == FIELD_LIST
			? snprintf(buf + len, size - len, "%s[%zu].", within->name, scope->index)
			: snprintf(buf + len, size - len, "%s.", within->name);
	len += (size_t)n;
	CHECK(len < size);
	return len;
}

struct scope_path {
	char text[160]; /* holds any path of the tables' own names: their depth and length are fixed
			 */
};

static struct scope_path scope_path(const struct scope *scope, const char *name)
{
	struct scope_path path;
	size_t len = path_write(scope, path.text, sizeof path.text);
	snprintf(path.text + len, sizeof path.text - len, "%s", name);
	return path;
}

/* "origin: ", to speak of the mapping itself; nothing at the top. */
static struct scope_path scope_self(const struct scope *scope)
{
	struct scope_path path = scope_path(scope, "");
	size_t len = strlen(path.text);
	if (len > 0)
		strcpy(path.text + len - 1, ": ");
	return path;
}

static size_t scope_index(const struct scope *scope, const char *name)
{
	for (size_t i = 0; i < scope->schema->fields_count; i++)
		if (strcmp(scope->schema->fields[i].name, name) == 0)
			return i;
	CHECK(!"a field that the schema does not have");
	return 0;
}

static struct config_place scope_place(const struct scope *scope, const char *name)
{
	struct config_place place = scope->places[scope_index(scope, name)];
	return place.line > 0 ? place : scope->place;
}

void scope_error(const struct scope *scope, const char *name, const char *format, ...)
{
	char text[CONFIG_FINDING_TEXT_MAX];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	config_error(scope->errors, scope_place(scope, name), "%s: %s",
		     scope_path(scope, name).text, text);
}

void scope_warning(const struct scope *scope, const char *name, const char *format, ...)
{
	char text[CONFIG_FINDING_TEXT_MAX];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	config_warning(scope->errors, scope_place(scope, name), "%s: %s",
		       scope_path(scope, name).text, text);
}

bool scope_good(const struct scope *scope, const char *name)
{
	return scope->good[scope_index(scope, name)];
}

bool scope_written(const struct scope *scope, const char *name)
{
	return scope->places[scope_index(scope, name)].line > 0;
}

/* ---- one field ------------------------------------------------------------------------------- */

static void *member(void *object, size_t offset)
{
	return (char *)object + offset;
}

static int field_read_scalar(struct scope *scope, size_t i, const yaml_node_t *node, void *object)
{
	const struct field *field = &scope->schema->fields[i];
	char expected[SCHEMA_EXPECTED_MAX];
	schema_expected(field, expected);
	scope->good[i] = false;
	if (node->type != YAML_SCALAR_NODE) {
		scope_error(scope, field->name, "is %s; expected %s", node_kind(node), expected);
		return 0;
	}
	if (node_is_null(node)) {
		if (field->required || field->preset)
			scope_error(scope, field->name, "has no value; expected %s", expected);
		return 0;
	}
	const char *text = (const char *)node->data.scalar.value;
	size_t len = node->data.scalar.length;
	enum schema_value_result result = schema_value_read(field, text, len, object);
	if (result == SCHEMA_VALUE_NO_MEMORY)
		return -ENOMEM;
	if (result != SCHEMA_VALUE_GOOD) {
		struct schema_snippet snippet = schema_snippet(text, len);
		scope_error(scope, field->name, "%s %s; expected %s%s",
			    field->secret ? "the value" : snippet.text, schema_value_fault(result),
			    expected,
			    result == SCHEMA_VALUE_MALFORMED ? schema_value_examples(field) : "");
		return 0;
	}
	scope->good[i] = !field->check || field->check(scope, field, member(object, field->offset));
	return 0;
}

static int field_read_map(struct scope *outer, size_t i, yaml_document_t *document,
			  const yaml_node_t *node, void *object)
{
	const struct field *field = &outer->schema->fields[i];
	if (node && node->type != YAML_MAPPING_NODE) {
		scope_error(outer, field->name, "is %s; expected a mapping", node_kind(node));
		return 0;
	}
	struct scope scope = {
		.errors = outer->errors,
		.root = outer->root,
		.outer = outer,
		.within = field,
		.schema = field->schema,
		.place = node ? place_of(node->start_mark) : scope_place(outer, field->name),
	};
	if (!node && field->optional)
		return scope_preset(&scope, member(object, field->offset));
	return scope_read(&scope, document, node, member(object, field->offset));
}

static int list_read_item(struct scope *outer, const struct field *field, size_t index,
			  yaml_document_t *document, const yaml_node_t *node, void *item)
{
	struct scope scope = {
		.errors = outer->errors,
		.root = outer->root,
		.outer = outer,
		.within = field,
		.index = index,
		.schema = field->schema,
		.place = place_of(node->start_mark),
	};
	if (node->type == YAML_MAPPING_NODE)
		return scope_read(&scope, document, node, item);
	config_error(outer->errors, scope.place, "%s[%zu]: is %s; expected a mapping",
		     scope_path(outer, field->name).text, index, node_kind(node));
	return 0;
}

static int field_read_list(struct scope *scope, size_t i, yaml_document_t *document,
			   const yaml_node_t *node, void *object)
{
	const struct field *field = &scope->schema->fields[i];
	if (node->type != YAML_SEQUENCE_NODE) {
		scope_error(scope, field->name, "is %s; expected a list", node_kind(node));
		return 0;
	}
	const yaml_node_item_t *start = node->data.sequence.items.start;
	size_t count = (size_t)(node->data.sequence.items.top - start);
	if (count > (size_t)field->max) {
		scope_error(scope, field->name, "has %zu items; expected at most %lld", count,
			    (long long)field->max);
		count = (size_t)field->max;
	}
	scope->good[i] = true;
	if (count == 0)
		return 0;
	char *items = mem_zalloc(count * field->schema->size);
	if (!items)
		return -ENOMEM;
	/* In place before they are read: their checks look at those before them. */
	*(void **)member(object, field->offset) = items;
	*(size_t *)member(object, field->count_offset) = count;
	for (size_t n = 0; n < count; n++) {
		int r = list_read_item(scope, field, n, document,
				       yaml_document_get_node(document, start[n]),
				       items + n * field->schema->size);
		if (r < 0)
			return r;
	}
	return 0;
}

static char *copy_word(const yaml_node_t *node)
{
	char *copy = mem_alloc(node->data.scalar.length + 1);
	return copy ? memcpy(copy, node->data.scalar.value, node->data.scalar.length + 1) : NULL;
}

static int field_read_words(struct scope *scope, size_t i, yaml_document_t *document,
			    const yaml_node_t *node, void *object)
{
	const struct field *field = &scope->schema->fields[i];
	scope->good[i] = false;
	if (node->type != YAML_SEQUENCE_NODE) {
		scope_error(scope, field->name, "is %s; expected %s", node_kind(node), field->form);
		return 0;
	}
	const yaml_node_item_t *start = node->data.sequence.items.start;
	size_t count = (size_t)(node->data.sequence.items.top - start);
	if (count == 0 || count > (size_t)field->max) {
		scope_error(scope, field->name,
			    "has %zu items; expected %s, at least one and at most %lld", count,
			    field->form, (long long)field->max);
		return 0;
	}
	char **words = mem_zalloc((count + 1) * sizeof(*words));
	if (!words)
		return -ENOMEM;
	*(char ***)member(object, field->offset) = words;
	for (size_t n = 0; n < count; n++) {
		const yaml_node_t *item = yaml_document_get_node(document, start[n]);
		if (item->type != YAML_SCALAR_NODE ||
		    strlen((const char *)item->data.scalar.value) != item->data.scalar.length) {
			config_error(scope->errors, place_of(item->start_mark),
				     "%s[%zu]: is %s; expected a name",
				     scope_path(scope, field->name).text, n, node_kind(item));
			return 0;
		}
		words[n] = copy_word(item);
		if (!words[n])
			return -ENOMEM;
	}
	scope->good[i] = !field->check || field->check(scope, field, member(object, field->offset));
	return 0;
}

static int field_read(struct scope *scope, size_t i, yaml_document_t *document,
		      const yaml_node_t *node, void *object)
{
	const struct field *field = &scope->schema->fields[i];
	bool is_part =
		field->type == FIELD_MAP || field->type == FIELD_LIST || field->type == FIELD_WORDS;
	if (node)
		scope->places[i] = place_of(node->start_mark);
	if (node && is_part && node_is_null(node))
		node = NULL;
	if (field->type == FIELD_MAP)
		return field_read_map(scope, i, document, node, object);
	if (!node) {
		char expected[SCHEMA_EXPECTED_MAX];
		if (field->required)
			scope_error(scope, field->name, "is missing; expected %s",
				    schema_expected(field, expected));
		return 0;
	}
	if (field->type == FIELD_LIST)
		return field_read_list(scope, i, document, node, object);
	if (field->type == FIELD_WORDS)
		return field_read_words(scope, i, document, node, object);
	return field_read_scalar(scope, i, node, object);
}

/* ---- one mapping ----------------------------------------------------------------------------- */

static void scope_unknown_key(const struct scope *scope, struct config_place place, const char *key,
			      size_t len)
{
	const char *names[SCHEMA_FIELDS_MAX];
	for (size_t i = 0; i < scope->schema->fields_count; i++)
		names[i] = scope->schema->fields[i].name;
	const char *near = suggest_nearest(key, names, scope->schema->fields_count);
	struct scope_path path = scope_self(scope);
	struct schema_snippet snippet = schema_snippet(key, len);
	if (near) {
		config_error(scope->errors, place, "%sunknown key %s; did you mean %s?", path.text,
			     snippet.text, near);
		return;
	}
	char known[CONFIG_FINDING_TEXT_MAX] = "";
	size_t at = 0;
	for (size_t i = 0; i < scope->schema->fields_count && at < sizeof known; i++)
		at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "",
				       names[i]);
	config_error(scope->errors, place, "%sunknown key %s; expected one of %s", path.text,
		     snippet.text, known);
}

/* Sorts the mapping's values by field; reports keys that are unknown or there twice. */
static void scope_sort(const struct scope *scope, yaml_document_t *document,
		       const yaml_node_t *mapping, const yaml_node_t *ret_values[])
{
	const struct schema *schema = scope->schema;
	struct config_place first[SCHEMA_FIELDS_MAX];
	const yaml_node_pair_t *pair = mapping->data.mapping.pairs.start;
	for (; pair < mapping->data.mapping.pairs.top; pair++) {
		const yaml_node_t *key = yaml_document_get_node(document, pair->key);
		struct config_place place = place_of(key->start_mark);
		if (key->type != YAML_SCALAR_NODE) {
			config_error(scope->errors, place,
				     "%sa list or mapping stands for a key; expected a name",
				     scope_self(scope).text);
			continue;
		}
		const char *name = (const char *)key->data.scalar.value;
		size_t i = 0;
		while (i < schema->fields_count && strcmp(schema->fields[i].name, name) != 0)
			i++;
		if (i == schema->fields_count) {
			scope_unknown_key(scope, place, name, key->data.scalar.length);
		} else if (ret_values[i]) {
			config_error(scope->errors, place,
				     "%s: is there twice; expected only that on line %d",
				     scope_path(scope, name).text, first[i].line);
		} else {
			ret_values[i] = yaml_document_get_node(document, pair->value);
			first[i] = place;
		}
	}
}

static int scope_preset(struct scope *scope, void *object)
{
	for (size_t i = 0; i < scope->schema->fields_count; i++) {
		const struct field *field = &scope->schema->fields[i];
		if (!field->preset)
			continue;
		enum schema_value_result result =
			schema_value_read(field, field->preset, strlen(field->preset), object);
		if (result == SCHEMA_VALUE_NO_MEMORY)
			return -ENOMEM;
		CHECK(result == SCHEMA_VALUE_GOOD);
		scope->good[i] = true;
	}
	return 0;
}

static int scope_read(struct scope *scope, yaml_document_t *document, const yaml_node_t *mapping,
		      void *object)
{
	const yaml_node_t *values[SCHEMA_FIELDS_MAX] = { NULL };
	CHECK(scope->schema->fields_count <= SCHEMA_FIELDS_MAX);
	int r = scope_preset(scope, object);
	if (r < 0)
		return r;
	if (mapping)
		scope_sort(scope, document, mapping, values);
	for (size_t i = 0; i < scope->schema->fields_count; i++) {
		r = field_read(scope, i, document, values[i], object);
		if (r < 0)
			return r;
	}
	if (scope->schema->check)
		scope->schema->check(scope, object);
	return 0;
}

int schema_read(const struct schema *schema, yaml_document_t *document, void *object,
		struct config_errors *errors)
{
	const yaml_node_t *root = yaml_document_get_root_node(document);
	CHECK(root && root->type == YAML_MAPPING_NODE);
	struct scope scope = {
		.errors = errors,
		.root = object,
		.schema = schema,
		.place = place_of(root->start_mark),
	};
	int r = scope_read(&scope, document, root, object);
	if (r == -ENOMEM)
		config_error(errors, (struct config_place){ 0, 0 }, "out of memory");
	return r;
}

void schema_release(const struct schema *schema, void *object)
{
	for (size_t i = 0; i < schema->fields_count; i++) {
		const struct field *field = &schema->fields[i];
		void *at = member(object, field->offset);
		if (field->type == FIELD_TEXT) {
			mem_free(*(char **)at);
			*(char **)at = NULL;
		} else if (field->type == FIELD_BYTES) {
			value_unref(*(struct value **)at);
			*(struct value **)at = NULL;
		} else if (field->type == FIELD_WORDS) {
			char **words = *(char ***)at;
			for (char **word = words; word && *word; word++)
				mem_free(*word);
			mem_free(words);
			*(char ***)at = NULL;
		} else if (field->type == FIELD_MAP) {
			schema_release(field->schema, at);
		} else if (field->type == FIELD_LIST) {
			size_t *count = member(object, field->count_offset);
			char *items = *(char **)at;
			while (*count > 0)
				schema_release(field->schema,
					       items + --*count * field->schema->size);
			mem_free(items);
			*(void **)at = NULL;
		}
	}
}
