#include "base/sql_text.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define BLANKS " \t\n\r\f\v"

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
		const char *next = at + strspn(at, BLANKS);
		if (*next != '\'' || !memchr(at, '\n', (size_t)(next - at)))
			return at;
		at = next;
	}
}

static bool is_comment(const char *at)
{
	return (at[0] == '-' && at[1] == '-') || (at[0] == '/' && at[1] == '*');
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

const char *sql_text_skip(const char *at)
{
	if (*at == '\'' || *at == '"')
		return skip_quoted(at, false);
	if (is_comment(at))
		return *at == '-' ? at + strcspn(at, "\n\r") : skip_comment(at);
	if (starts_name(*at))
		return skip_name(at);
	if (at[0] == '$' && is_digit(at[1]))
		return at + 1 + strspn(at + 1, "0123456789");
	if (*at == '$')
		return skip_dollar(at);
	return at + 1;
}

const char *sql_text_skip_blank(const char *at)
{
	for (;;) {
		at += strspn(at, BLANKS);
		if (!is_comment(at))
			return at;
		at = sql_text_skip(at);
	}
}
