#include "origin/placeholder.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/mem.h"
#include "base/sql_text.h"

static bool is_first(const char *token, size_t len)
{
	if (len < 2 || token[0] != '$' || token[len - 1] != '1')
		return false;
	return strspn(token + 1, "0") == len - 2;
}

/* Writes to `to`, unless that is NULL. The length. */
static size_t replace(const char *query, const char *expression, char *to)
{
	size_t len = 0;
	for (const char *at = query, *end; *at; at = end) {
		end = sql_text_skip(at);
		bool found = is_first(at, (size_t)(end - at));
		const char *from = found ? expression : at;
		size_t part = found ? strlen(expression) : (size_t)(end - at);
		if (to)
			memcpy(to + len, from, part);
		len += part;
	}
	return len;
}

char *placeholder_replace(const char *query, const char *expression)
{
	size_t len = replace(query, expression, NULL);
	char *sql = mem_alloc(len + 1);
	if (!sql)
		return NULL;
	replace(query, expression, sql);
	sql[len] = '\0';
	return sql;
}
