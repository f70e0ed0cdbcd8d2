#include "origin/trouble.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "proto/utf8.h"

Test(trouble, a_failed_connection_tells_its_sqlstate)
{
	static const struct {
		const char *message, *text, *sqlstate;
		enum build_outcome outcome;
	} cases[] = {
		{ "connection to server on socket \"/s\" failed: FATAL:  53300: sorry, too many "
		  "clients already\nLOCATION:  ProcStartupPacket, postmaster.c:2415\n",
		  "connection to server on socket \"/s\" failed: FATAL: 53300: sorry, too many "
		  "clients already",
		  "53300", BUILD_NO_ROOM },
		{ "failed: FATAL:  57P03: the database system is starting up\nLOCATION:  x\n",
		  "failed: FATAL: 57P03: the database system is starting up", "57P03", BUILD_LOST },
		{ "failed: FATAL:  28P01: password authentication failed for user \"u\"\n",
		  "failed: FATAL: 28P01: password authentication failed for user \"u\"", "28P01",
		  BUILD_LOST },
		{ "failed: Connection refused\n\tIs the server running on that host?\n",
		  "failed: Connection refused Is the server running on that host?", "",
		  BUILD_LOST },
		{ "", "the connection to PostgreSQL broke", "", BUILD_LOST },
		{ "\n", "the connection to PostgreSQL broke", "", BUILD_LOST },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct trouble trouble;

		trouble_from_message(&trouble, cases[i].message);
		cr_assert_eq(trouble.outcome, cases[i].outcome, "%s", cases[i].text);
		cr_assert_str_eq(trouble.text, cases[i].text);
		cr_assert_str_eq(trouble.sqlstate, cases[i].sqlstate);
	}
}

Test(trouble, a_long_text_is_cut_between_characters)
{
	static char message[4 * ERROR_TEXT_MAX];
	struct trouble trouble;

	for (int shift = 0; shift < 4; shift++) {
		size_t len;

		memset(message, 'x', (size_t)shift);
		for (size_t at = (size_t)shift; at + 4 < sizeof(message); at += 3)
			memcpy(message + at, "€", 4);
		trouble_set(&trouble, BUILD_FAILED, STATUS_ORIGIN_ERROR, "%s", message);
		len = strlen(trouble.text);
		cr_assert(len > ERROR_TEXT_MAX - 4 && len <= ERROR_TEXT_MAX);
		cr_assert_eq(utf8_valid_len(trouble.text, len), len);
	}
}
