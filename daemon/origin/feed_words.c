#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "origin/feed_state.h"
#include "origin/guard.h"

#define STRING(x)  STRING_(x)
#define STRING_(x) #x

enum { SAVE_MS = 1000, TRIM_MS = 10 * 1000 };

#define FETCH "FETCH 512 FROM segar_feed"
_Static_assert(FEED_ROWS_FETCHED == 512, "as FETCH says");

/* What is visible now and was not in the snapshot: what that counts as running, and all that came
 * after it. Not by xmin, from which a long transaction would have all be read again and again. */
static const char READ_SQL[] =
	"DECLARE segar_feed NO SCROLL CURSOR FOR"
	" SELECT key, max(version), count(*), bool_or(operation = 'T'),"
	" (extract(epoch FROM clock_timestamp() - min(changed_at)) * 1000)::bigint,"
	" max(xid::text::bigint)"
	" FROM (SELECT * FROM segar.changes WHERE xid >= pg_snapshot_xmax($1::pg_snapshot)"
	" UNION ALL SELECT * FROM segar.changes"
	" WHERE xid = ANY (ARRAY(SELECT pg_snapshot_xip($1::pg_snapshot)))) c"
	" WHERE split_part(key, ':', 1) = ANY ($2::text[])"
	" GROUP BY key";

static const char POSITION_SQL[] =
	"SELECT pg_current_snapshot()::text, (SELECT before_xid::text FROM segar.trimmed),"
	" f.position::text, f.history"
	" FROM (SELECT) one LEFT JOIN segar.fleets f ON f.name = $1";

static const char MOVE_SQL[] = "SELECT segar.move_fleet($1, $2, $3::pg_snapshot, $4::pg_snapshot)";
static const char TRIM_SQL[] = "SELECT segar.trim_changes($1::interval, 10000)";

static unsigned say_end(struct feed *feed, struct feed_statement *statements, char *history,
			size_t history_size, char *retention, size_t retention_size)
{
	const struct feed_options *options = &feed->options;
	uint64_t now_ms = uv_now(feed->loop);
	unsigned count = 0;
	statements[count++] = (struct feed_statement){ .sql = "COMMIT" };
	feed->moved = true;
	if (options->fleet && (!feed->has_db || now_ms - feed->saved_at_ms >= SAVE_MS)) {
		feed->saved_at_ms = now_ms;
		snprintf(history, history_size, "%.*s", FEED_ORIGIN_LEN, feed->at.text);
		statements[count++] = (struct feed_statement){
			.sql = MOVE_SQL,
			.params = { options->fleet, history, feed->has_db ? feed->db_text : NULL,
				    feed_position_snapshot(&feed->at) },
			.params_count = 4,
		};
		feed->moved = false;
	}
	if (now_ms - feed->trimmed_at_ms >= TRIM_MS) {
		feed->trimmed_at_ms = now_ms;
		snprintf(retention, retention_size, "%" PRId64 " ms", options->retention_us / 1000);
		statements[count++] = (struct feed_statement){ .sql = TRIM_SQL,
							       .params = { retention },
							       .params_count = 1 };
	}
	return count;
}

void feed_say(struct feed *feed, enum feed_turn turn)
{
	struct feed_statement statements[FEED_STATEMENTS_MAX];
	char history[FEED_ORIGIN_LEN + 1], retention[40];
	unsigned count = 0;
	feed->turn = turn;
	switch (turn) {
	case FEED_TURN_DIRECT:
		statements[count++] = (struct feed_statement){ .sql = "SELECT pg_backend_pid()" };
		break;
	case FEED_TURN_SET:
		statements[count++] =
			(struct feed_statement){ .sql = "SET statement_timeout = 15000" };
		statements[count++] = (struct feed_statement){
			.sql = "SET idle_in_transaction_session_timeout = 60000"
		};
		statements[count++] = (struct feed_statement){ .sql = "LISTEN segar_changes" };
		break;
	case FEED_TURN_HISTORY:
		statements[count++] = (struct feed_statement){ .sql = GUARD_HISTORY_SQL };
		break;
	case FEED_TURN_POSITION:
		statements[count++] = (struct feed_statement){
			.sql = POSITION_SQL,
			.params = { feed->options.fleet },
			.params_count = 1,
		};
		break;
	case FEED_TURN_READ:
		statements[count++] = (struct feed_statement){
			.sql = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
		};
		statements[count++] =
			(struct feed_statement){ .sql = "SELECT pg_current_snapshot()::text" };
		statements[count++] = (struct feed_statement){
			.sql = READ_SQL,
			.params = { feed_position_snapshot(&feed->at), feed->keyspaces },
			.params_count = 2,
		};
		statements[count++] = (struct feed_statement){ .sql = FETCH };
		break;
	case FEED_TURN_MORE:
		statements[count++] = (struct feed_statement){ .sql = FETCH };
		break;
	case FEED_TURN_END:
		count = say_end(feed, statements, history, sizeof(history), retention,
				sizeof(retention));
		break;
	}
	feed_link_send(&feed->link, statements, count);
}

/* ---- what is heard ----------------------------------------------------------------------- */

static const char *cell(const PGresult *result, int column)
{
	return PQgetisnull(result, 0, column) ? NULL : PQgetvalue(result, 0, column);
}

/* A pooler passes on neither LISTEN nor what it brings. */
static void hear_direct(struct feed *feed, const PGresult *result)
{
	struct feed_link *link = &feed->link;
	if (session_is_direct(PQbackendPID(link->session.pg), result))
		return;
	link->has_trouble = true;
	trouble_set(
		&link->trouble, BUILD_FAILED, STATUS_ORIGIN_ERROR,
		"the feed goes through a pooler, such as PgBouncer; it takes a feed.dsn that leads "
		"to PostgreSQL itself");
}

static bool hear_history(struct feed *feed, const PGresult *result)
{
	if (PQntuples(result) == 1 && PQnfields(result) == 2 && cell(result, 0) && cell(result, 1))
		feed->history = history_of(strtoull(cell(result, 0), NULL, 10),
					   (uint32_t)strtoul(cell(result, 1), NULL, 10));
	return true;
}

static bool hear_present(struct feed *feed, const char *snapshot)
{
	if (!feed_position_make(&feed->next, feed->history, feed->followed, snapshot))
		return false;
	feed->present_xmax = feed->next.xmax;
	return true;
}

static bool hear_position(struct feed *feed, const PGresult *result)
{
	const char *position, *history;
	if (PQntuples(result) != 1 || PQnfields(result) != 4 || !cell(result, 0))
		return false;
	if (!hear_present(feed, cell(result, 0)))
		return false;
	feed->trimmed = cell(result, 1) ? strtoull(cell(result, 1), NULL, 10) : 0;
	position = cell(result, 2);
	history = cell(result, 3);
	feed->has_db = position && strlen(position) < sizeof(feed->db_text);
	feed->db_is_good = false;
	if (!feed->has_db)
		return true;
	/* What another version has written is no position, but can be replaced. */
	strcpy(feed->db_text, position);
	feed->db_is_good = feed_position_read_parts(&feed->at, history ? history : "", position);
	return true;
}

static bool hear_moved(struct feed *feed, const PGresult *result)
{
	if (PQntuples(result) != 1 || !cell(result, 0))
		return false;
	feed->moved = cell(result, 0)[0] == 't';
	if (feed->moved) {
		feed->has_db = true;
		strcpy(feed->db_text, feed_position_snapshot(&feed->at));
	}
	return true;
}

bool feed_hear(struct feed *feed, unsigned n, const PGresult *result)
{
	switch (feed->turn) {
	case FEED_TURN_DIRECT:
		hear_direct(feed, result);
		return true;
	case FEED_TURN_SET:
		return true;
	case FEED_TURN_HISTORY:
		return hear_history(feed, result);
	case FEED_TURN_POSITION:
		return hear_position(feed, result);
	case FEED_TURN_READ:
		if (n == 1)
			return PQntuples(result) == 1 && cell(result, 0) &&
			       hear_present(feed, cell(result, 0));
		return n != 3 || feed_rows_take(&feed->rows, result);
	case FEED_TURN_MORE:
		return feed_rows_take(&feed->rows, result);
	case FEED_TURN_END:
		/* The move stands behind the COMMIT, if it was due. */
		return n != 1 || feed->moved || hear_moved(feed, result);
	}
	return false;
}
