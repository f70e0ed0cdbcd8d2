/* The reference of a configuration file, printed from the tables that read it. Any thread. */
#pragma once

#include <stdio.h>

#include "base/schema.h"

/* Writes the reference of `schema`, and of all schemas below it, to `out` as Markdown: a section a
 * mapping, with a table of its keys. */
void schema_print_reference(const struct schema *schema, FILE *out);
