/* What went wrong at the origin, in the daemon's words: libpq's and PostgreSQL's errors are
 * translated here, once.
 *
 *   SQLSTATE                       outcome    why
 *   53300                          NO_ROOM    too many connections: for the server, database or
 * role 57P01 57P02 57P03 57P05, 08…   LOST       shutdown, crash, starting up: the connection ends
 *   none (libpq's own)             LOST       socket errors, end of file
 *   22… in a bound argument        BAD_KEY    a type that origin/canonical.h doesn't check
 *   all others                     FAILED     the query's own: the same for all hosts
 *
 * Texts never hold the DSN or a password: libpq and PostgreSQL put neither in these messages, and
 * those about a malformed DSN, which may, are not passed on.
 */
#pragma once

#include <libpq-fe.h>
#include <stdbool.h>

#include "base/limits.h"
#include "core/origin.h"

struct trouble {
	enum build_outcome outcome;
	enum status status;
	char sqlstate[6];              /* empty: none */
	char text[ERROR_TEXT_MAX + 1]; /* one line of UTF-8, cut at a character's border */
};

/* Pure; any thread. */
void trouble_set(struct trouble *trouble, enum build_outcome outcome, enum status status,
		 const char *format, ...) __attribute__((format(printf, 4, 5)));

/* From an error result: "SQLSTATE message", and the place in the query where PostgreSQL named one
   and `with_position` is set (the text that was prepared is the operator's own). */
void trouble_from_result(struct trouble *trouble, const PGresult *result, bool with_position);

/* From PQerrorMessage of a connection that was lost, or could not be made while its verbosity was
   PQERRORS_VERBOSE (the only way to learn that error's SQLSTATE). */
void trouble_from_message(struct trouble *trouble, const char *message);

/* Whether PostgreSQL says that a prepared statement fits its tables no more, or is gone: to prepare
   again and run again is safe, the query has not begun. */
bool trouble_is_outdated(const PGresult *result);
