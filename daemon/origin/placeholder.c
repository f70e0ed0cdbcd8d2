#include "origin/placeholder.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/mem.h"

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool starts_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
	       (unsigned char)c >= 0x80;
}

static bool continues_name(char c)
{
	return starts_name(c) || is_digit(c) || c == '$';
}

/* Past the closing quote; a doubled one is none. To the end where there is none. */
static const char *skip_quoted(const char *at, bool escapes)
{
	char quote = *at++;
	for (; *at; at++) {
		if (escapes && *at == '\\' && at[1])
			at++;
		else if (*at == quote && at[1] == quote)
			at++;
		else if (*at == quote)
			return at + 1;
	}
	return at;
}

/* E'…', and the parts that continue it on the next lines. */
static const char *skip_escape_string(const char *at)
{
	for (;;) {
		at = skip_quoted(at, true);
		const char *next = at + strspn(at, " \t\n\r\f");
		if (*next != '\'' || !memchr(at, '\n', (size_t)(next - at)))
			return at;
		at = next;
	}
}

/* Comments nest. */
static const char *skip_comment(const char *at)
{
	int depth = 0;
	do {
		if (at[0] == '/' && at[1] == '*') {
			depth++;
			at += 2;
		} else if (at[0] == '*' && at[1] == '/') {
			depth--;
			at += 2;
		} else {
			at++;
		}
	} while (depth > 0 && *at);
	return at;
}

/* $tag$ … $tag$; or past the dollar alone. */
static const char *skip_dollar(const char *at)
{
	const char *tag = at++;
	if (starts_name(*at))
		while (starts_name(*at) || is_digit(*at))
			at++;
	if (*at != '$')
		return tag + 1;
	size_t len = (size_t)(++at - tag);
	for (; *at; at++)
		if (strncmp(at, tag, len) == 0)
			return at + len;
	return at;
}

static const char *skip_name(const char *at)
{
	const char *name = at;
	while (continues_name(*at))
		at++;
	if (*at == '\'' && at - name == 1 && (*name == 'e' || *name == 'E'))
		return skip_escape_string(at);
	return at;
}

/* The end of what begins here: a name, a string, a comment, a number of a parameter, or one byte.
 */
static const char *skip_token(const char *at)
{
	if (*at == '\'' || *at == '"')
		return skip_quoted(at, false);
	if (at[0] == '-' && at[1] == '-')
		return at + strcspn(at, "\n\r");
	if (at[0] == '/' && at[1] == '*')
		return skip_comment(at);
	if (starts_name(*at))
		return skip_name(at);
	if (at[0] == '$' && is_digit(at[1]))
		return at + 1 + strspn(at + 1, "0123456789");
	if (*at == '$')
		return skip_dollar(at);
	return at + 1;
}

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
		end = skip_token(at);
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
