/* Finds the parameter $1 in an SQL text and puts another expression in its place.
 *
 * What looks like it in strings, quoted names, comments and dollar quotes stays as it is; so does
 * what is part of a name (`a$1`): see base/sql_text.h. Pure; any thread.
 */
#pragma once

/* `query` with `expression` for each $1. The caller owns it (mem_free); NULL when memory is
   missing. */
char *placeholder_replace(const char *query, const char *expression)
	__attribute__((warn_unused_result));
