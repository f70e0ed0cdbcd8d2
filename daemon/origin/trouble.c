#include "origin/trouble.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "proto/utf8.h"

/* One line, whole characters, single blanks. */
static void trouble_tidy(struct trouble *trouble)
{
	char *text = trouble->text;
	char *end = text;

	text[utf8_valid_len(text, strlen(text))] = '\0';
	for (const char *c = text; *c; c++) {
		bool is_blank = (unsigned char)*c <= ' ';
		if (!is_blank)
			*end++ = *c;
		else if (end > text && end[-1] != ' ')
			*end++ = ' ';
	}
	*end = '\0';
}

void trouble_set(struct trouble *trouble, enum build_outcome outcome, enum status status,
		 const char *format, ...)
{
	va_list args;

	trouble->outcome = outcome;
	trouble->status = status;
	trouble->sqlstate[0] = '\0';
	va_start(args, format);
	vsnprintf(trouble->text, sizeof(trouble->text), format, args);
	va_end(args);
	trouble_tidy(trouble);
}

static bool sqlstate_is_lost(const char *sqlstate)
{
	static const char *const ends[] = { "57P01", "57P02", "57P03", "57P05" };

	if (!strncmp(sqlstate, "08", 2))
		return true;
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (!strcmp(sqlstate, ends[i]))
			return true;
	return false;
}

/* Errors of binding come with a context line that names the portal and the parameter. It may be
 * translated, but in all languages it holds "portal" and "$1". */
static bool is_argument_error(const char *sqlstate, const PGresult *result)
{
	const char *context = PQresultErrorField(result, PG_DIAG_CONTEXT);

	return !strncmp(sqlstate, "22", 2) && context && strcasestr(context, "portal") &&
	       strchr(context, '$');
}

void trouble_from_result(struct trouble *trouble, const PGresult *result, bool with_position)
{
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	const char *position = PQresultErrorField(result, PG_DIAG_STATEMENT_POSITION);

	if (!sqlstate || !message) {
		trouble_from_message(trouble, PQresultErrorMessage(result));
		return;
	}
	if (!strcmp(sqlstate, "53300"))
		trouble_set(trouble, BUILD_NO_ROOM, STATUS_OVERLOADED, "%s %s", sqlstate, message);
	else if (sqlstate_is_lost(sqlstate))
		trouble_set(trouble, BUILD_LOST, STATUS_UNAVAILABLE, "%s %s", sqlstate, message);
	else if (is_argument_error(sqlstate, result))
		trouble_set(trouble, BUILD_BAD_KEY, STATUS_BAD_REQUEST, "%s %s", sqlstate, message);
	else if (with_position && position)
		trouble_set(trouble, BUILD_FAILED, STATUS_ORIGIN_ERROR, "%s %s at character %s",
			    sqlstate, message, position);
	else
		trouble_set(trouble, BUILD_FAILED, STATUS_ORIGIN_ERROR, "%s %s", sqlstate, message);
	snprintf(trouble->sqlstate, sizeof(trouble->sqlstate), "%s", sqlstate);
}

/* The five characters of a SQLSTATE in `severity:  SQLSTATE: text`, or NULL. */
static const char *find_sqlstate(const char *message)
{
	for (const char *at = message; (at = strstr(at, ":  ")); at++) {
		const char *code = at + 3;
		int len = 0;

		while (len < 5 && (isdigit((unsigned char)code[len]) ||
				   (code[len] >= 'A' && code[len] <= 'Z')))
			len++;
		if (len == 5 && code[5] == ':')
			return code;
	}
	return NULL;
}

void trouble_from_message(struct trouble *trouble, const char *message)
{
	const char *code = find_sqlstate(message);
	const char *location = strstr(message, "\nLOCATION:");
	int len = (int)(location ? (size_t)(location - message) : strlen(message));

	while (len > 0 && isspace((unsigned char)message[len - 1]))
		len--;
	if (code && !strncmp(code, "53300", 5))
		trouble_set(trouble, BUILD_NO_ROOM, STATUS_OVERLOADED, "%.*s", len, message);
	else if (len > 0)
		trouble_set(trouble, BUILD_LOST, STATUS_UNAVAILABLE, "%.*s", len, message);
	else
		trouble_set(trouble, BUILD_LOST, STATUS_UNAVAILABLE,
			    "the connection to PostgreSQL broke");
	if (code)
		snprintf(trouble->sqlstate, sizeof(trouble->sqlstate), "%.5s", code);
}

bool trouble_is_outdated(const PGresult *result)
{
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	const char *function = PQresultErrorField(result, PG_DIAG_SOURCE_FUNCTION);

	if (!sqlstate)
		return false;
	if (!strcmp(sqlstate, "26000"))
		return true;
	/* "cached plan must not change result type": 0A000 has other meanings, and the message
	   is translated; the function is not. */
	return !strcmp(sqlstate, "0A000") && function && !strcmp(function, "RevalidateCachedQuery");
}
