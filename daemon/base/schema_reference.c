#include "base/schema_reference.h"

#include <string.h>

static bool is_part(const struct field *field)
{
	return field->type == FIELD_MAP || field->type == FIELD_LIST;
}

/* One cell of a table; the signs that would end it are escaped. */
static void print_cell(const char *text, FILE *out)
{
	for (; *text; text++) {
		if (*text == '|')
			fputc('\\', out);
		fputc(*text, out);
	}
}

static void print_field(const struct field *field, bool is_live, FILE *out)
{
	char expected[SCHEMA_EXPECTED_MAX];
	fprintf(out, "| `%s` | ", field->name);
	print_cell(schema_expected(field, expected), out);
	if (field->required)
		fputs(" | required", out);
	else if (field->preset)
		fprintf(out, " | `%s`", field->preset);
	else
		fputs(" |", out);
	fputs(is_live || field->live ? " | live | " : " | restart | ", out);
	print_cell(field->help, out);
	fputs(" |\n", out);
}

/* `is_live`: all of them are. */
static void print_values(const struct schema *schema, bool is_live, FILE *out)
{
	bool is_first = true;
	for (size_t i = 0; i < schema->fields_count; i++) {
		const struct field *field = &schema->fields[i];
		if (is_part(field))
			continue;
		if (is_first)
			fputs("\n| key | value | default | change | meaning "
			      "|\n|---|---|---|---|---|\n",
			      out);
		is_first = false;
		print_field(field, is_live, out);
	}
}

static void print_parts(const struct schema *schema, const char *prefix, FILE *out)
{
	for (size_t i = 0; i < schema->fields_count; i++) {
		const struct field *field = &schema->fields[i];
		if (!is_part(field))
			continue;
		char name[80];
		snprintf(name, sizeof name, "%s%s%s", prefix, field->name,
			 field->type == FIELD_LIST ? "[]" : "");
		fprintf(out, "\n## %s\n\n%s", name, field->help);
		if (field->type == FIELD_LIST)
			fprintf(out, " %s list of at most %lld mappings.",
				field->required ? "A required" : "A", (long long)field->max);
		if (field->optional)
			fprintf(out, " May be left out as a whole.");
		fputc('\n', out);
		print_values(field->schema, field->live, out);
		snprintf(name + strlen(name), sizeof name - strlen(name), ".");
		print_parts(field->schema, name, out);
	}
}

void schema_print_reference(const struct schema *schema, FILE *out)
{
	print_values(schema, false, out);
	print_parts(schema, "", out);
}
