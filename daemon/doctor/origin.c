/* PostgreSQL: whether it can be reached, what its role may do, the queries, the log of changes. */
#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "doctor/doctor.h"
#include "origin/dsn.h"

#define STRING(x)  STRING_(x)
#define STRING_(x) #x

enum { VERSION_LEAST = 140000, SCHEMA_VERSION = 2 };

/* NULL: it is added why not. To be finished by the caller. */
static PGconn *open_it(const char *dsn, const char *check, struct doctor_report *report)
{
	/* What stands behind the DSN overrules it. */
	const char *const keywords[] = { "dbname", "application_name", "connect_timeout",
					 "client_encoding", NULL };
	const char *const values[] = { dsn, "segard doctor", STRING(3), "UTF8", NULL };
	_Static_assert(DOCTOR_WAIT_S == 3, "as connect_timeout says");
	if (dsn_check(dsn) != 0) {
		/* Not in libpq's words, which quote parts of it. */
		doctor_advise(doctor_add(report, DOCTOR_BAD, check,
					 "it is no connection string that libpq can use"),
			      "a value with blanks goes into quotes; in a URI, signs of a password "
			      "such as @ and / are written %%40 and %%2F");
		return NULL;
	}
	PGconn *pg = PQconnectdbParams(keywords, values, 1);
	if (PQstatus(pg) == CONNECTION_OK) {
		PQclear(PQexec(pg, "SET statement_timeout = '" STRING(3) "s'"));
		return pg;
	}
	doctor_advise(
		doctor_add(report, DOCTOR_BAD, check, "%s", pg ? PQerrorMessage(pg) : "no memory"),
		"see that PostgreSQL runs and that psql reaches it with the same connection "
		"string, as "
		"the user that segard runs as");
	PQfinish(pg);
	return NULL;
}

static int64_t now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The result of what was sent. A server that hangs can't keep to its own timeouts: its connection
 * is cut then, and what follows on it fails at once. */
static PGresult *await(PGconn *pg, int sent)
{
	int64_t end_ms = now_ms() + DOCTOR_WAIT_S * 1000 + 500, left_ms;
	while (sent && PQisBusy(pg) && (left_ms = end_ms - now_ms()) > 0) {
		struct pollfd socket = { .fd = PQsocket(pg), .events = POLLIN };
		if (poll(&socket, 1, (int)left_ms) > 0 && !PQconsumeInput(pg))
			break;
	}
	if (sent && PQstatus(pg) == CONNECTION_OK && PQisBusy(pg))
		shutdown(PQsocket(pg), SHUT_RDWR);
	PGresult *result = PQgetResult(pg), *more;
	while ((more = PQgetResult(pg)))
		PQclear(more);
	return result;
}

/* The one row, or NULL: it is added why not. */
static PGresult *ask(PGconn *pg, const char *sql, const char *check, struct doctor_report *report)
{
	PGresult *result = await(pg, PQsendQuery(pg, sql));
	if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1)
		return result;
	doctor_advise(doctor_add(report, DOCTOR_BAD, check, "%s", PQerrorMessage(pg)),
		      "ask the database's administrator");
	PQclear(result);
	return NULL;
}

static bool is_true(const PGresult *result, int column)
{
	return strcmp(PQgetvalue(result, 0, column), "t") == 0;
}

static bool follows(const struct config *config)
{
	for (size_t i = 0; i < config->keyspaces_count; i++)
		if (config->keyspaces[i].on_change != ON_CHANGE_IGNORE)
			return true;
	return false;
}

/* ---- the server and its role ------------------------------------------------------------- */

enum about {
	ABOUT_VERSION,
	ABOUT_STANDBY,
	ABOUT_ROLE,
	ABOUT_SUPER,
	ABOUT_LIMIT,
	ABOUT_ROOM,
	ABOUT_HISTORY,
	ABOUT_CLOCK
};
static const char ABOUT_SQL[] =
	"SELECT current_setting('server_version_num'), pg_is_in_recovery(), rolname, rolsuper, "
	"rolconnlimit,"
	" current_setting('max_connections')::int - "
	"current_setting('superuser_reserved_connections')::int,"
	" (SELECT bool_and(has_function_privilege(f, 'execute')) FROM "
	"unnest(ARRAY['pg_control_system()',"
	" 'pg_control_checkpoint()', 'pg_control_recovery()', 'pg_walfile_name(pg_lsn)',"
	" 'pg_current_wal_insert_lsn()']) f),"
	" (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
	" FROM pg_roles WHERE rolname = session_user";

static void look_at_server(const struct config *config, const PGresult *row,
			   struct doctor_report *report)
{
	int version = atoi(PQgetvalue(row, 0, ABOUT_VERSION));
	bool is_standby = is_true(row, ABOUT_STANDBY);
	struct doctor_finding *finding =
		doctor_add(report, version < VERSION_LEAST ? DOCTOR_BAD : DOCTOR_OK,
			   "origin.version", "PostgreSQL %d.%d", version / 10000, version % 10000);
	if (version < VERSION_LEAST)
		doctor_advise(finding, "segar needs PostgreSQL 14 or later");
	if (is_standby && !config->origin.standby && follows(config))
		doctor_advise(
			doctor_add(report, DOCTOR_BAD, "origin.standby",
				   "origin.dsn leads to a standby, and origin.standby is false"),
			"set origin.standby to true and feed.dsn to the primary, or origin.dsn to "
			"the primary");
	doctor_compare_clock(report, "origin.clock",
			     strtoll(PQgetvalue(row, 0, ABOUT_CLOCK), NULL, 10));
}

static void look_at_role(const struct config *config, const PGresult *row,
			 struct doctor_report *report)
{
	const char *role = PQgetvalue(row, 0, ABOUT_ROLE);
	int limit = atoi(PQgetvalue(row, 0, ABOUT_LIMIT)),
	    room = atoi(PQgetvalue(row, 0, ABOUT_ROOM));
	int wanted = config->origin.concurrency + config->origin.fleet;
	if (is_true(row, ABOUT_SUPER))
		doctor_advise(
			doctor_add(report, DOCTOR_HINT, "origin.role", "%s is a superuser", role),
			"give segard a role of its own that may only read: no limit of connections "
			"holds a "
			"superuser");
	else if (limit < 0)
		doctor_advise(doctor_add(report, DOCTOR_HINT, "origin.role",
					 "%s has no limit of connections", role),
			      "ALTER ROLE %s CONNECTION LIMIT %d, so that PostgreSQL itself bounds "
			      "what the fleet can "
			      "take",
			      role, wanted);
	else if (limit < config->origin.concurrency)
		doctor_advise(doctor_add(report, DOCTOR_BAD, "origin.role",
					 "%s may have %d connections, for %d builds "
					 "at once",
					 role, limit, config->origin.concurrency),
			      "ALTER ROLE %s CONNECTION LIMIT %d, or a lower origin.concurrency",
			      role, wanted);
	else
		doctor_add(report, DOCTOR_OK, "origin.role", "%s, %d connections", role, limit);
	if (room < config->origin.concurrency)
		doctor_advise(doctor_add(report, DOCTOR_BAD, "origin.connections",
					 "the server takes %d, for %d builds "
					 "at once",
					 room, config->origin.concurrency),
			      "a higher max_connections in postgresql.conf, or a lower "
			      "origin.concurrency");
}

static void look_at_history(const PGresult *row, struct doctor_report *report)
{
	if (is_true(row, ABOUT_HISTORY)) {
		doctor_add(report, DOCTOR_OK, "origin.history", "%s may read it",
			   PQgetvalue(row, 0, ABOUT_ROLE));
		return;
	}
	doctor_advise(doctor_add(report, DOCTOR_HINT, "origin.history",
				 "%s may not tell which server this is",
				 PQgetvalue(row, 0, ABOUT_ROLE)),
		      "GRANT EXECUTE ON FUNCTION pg_control_system(), pg_control_checkpoint(), "
		      "pg_control_recovery(), "
		      "pg_walfile_name(pg_lsn), pg_current_wal_insert_lsn() TO %s: without it a "
		      "failover that lost "
		      "commits goes unnoticed",
		      PQgetvalue(row, 0, ABOUT_ROLE));
}

/* ---- the queries ------------------------------------------------------------------------- */

static bool prepares(PGconn *pg, const char *query, const char *check, const char *key,
		     struct doctor_report *report)
{
	PGresult *result = await(pg, PQsendPrepare(pg, "", query, 0, NULL));
	bool good = PQresultStatus(result) == PGRES_COMMAND_OK;
	PQclear(result);
	if (good) {
		result = await(pg, PQsendDescribePrepared(pg, ""));
		good = PQfnumber(result, "value") >= 0;
		PQclear(result);
		if (!good)
			doctor_advise(doctor_add(report, DOCTOR_BAD, check,
						 "the %s has no column value", key),
				      "name it: SELECT … AS value");
		return good;
	}
	doctor_advise(doctor_add(report, DOCTOR_BAD, check, "%s: %s", key, PQerrorMessage(pg)),
		      "mend the query, or grant its role what it reads; segarctl reload then tries "
		      "it again");
	return false;
}

static void look_at_queries(PGconn *pg, const struct config *config, struct doctor_report *report)
{
	size_t good = 0;
	for (size_t i = 0; i < config->keyspaces_count && PQstatus(pg) == CONNECTION_OK; i++) {
		const struct policy *policy = &config->keyspaces[i];
		char check[DOCTOR_NAME_MAX];
		snprintf(check, sizeof(check), "keyspace %s", policy->name);
		good += prepares(pg, policy->query, check, "query", report) &&
			(!policy->batch.query ||
			 prepares(pg, policy->batch.query, check, "batch.query", report));
	}
	if (good == config->keyspaces_count)
		doctor_add(report, DOCTOR_OK, "keyspaces", "the queries of all %zu are fine", good);
}

void doctor_look_at_origin(const struct config *config, struct doctor_report *report)
{
	PGconn *pg = open_it(config->origin.dsn, "origin.dsn", report);
	PGresult *row = pg ? ask(pg, ABOUT_SQL, "origin.role", report) : NULL;
	if (row) {
		look_at_server(config, row, report);
		look_at_role(config, row, report);
		look_at_history(row, report);
	}
	if (pg)
		look_at_queries(pg, config, report);
	PQclear(row);
	PQfinish(pg);
}

/* ---- the log of changes ------------------------------------------------------------------ */

/* A schema of ours, the log of changes, the right to read it; the role. */
static const char FEED_SQL[] = "SELECT to_regprocedure('segar.schema_version()') IS NOT NULL, "
			       "to_regclass('segar.changes') IS NOT NULL,"
			       " coalesce(has_table_privilege(to_regclass('segar.changes'), "
			       "'select'), false), session_user,"
			       " pg_is_in_recovery()";

static bool look_at_schema(PGconn *pg, struct doctor_report *report)
{
	PGresult *row = ask(pg, FEED_SQL, "feed", report);
	bool has_schema = row && is_true(row, 0) && is_true(row, 1),
	     may_read = row && is_true(row, 2);
	if (row && is_true(row, 4)) {
		doctor_advise(doctor_add(report, DOCTOR_BAD, "feed.dsn", "it leads to a standby"),
			      "the log of changes is read on the primary: set feed.dsn to it");
	} else if (row && !has_schema) {
		doctor_advise(doctor_add(report, DOCTOR_BAD, "feed.schema",
					 "the schema segar is not installed here"),
			      "psql -f sql/install.sql, as a role that may create schemas "
			      "(sql/README.md)");
	} else if (row && !may_read) {
		doctor_advise(
			doctor_add(report, DOCTOR_BAD, "feed.rights",
				   "%s may not read the log of changes", PQgetvalue(row, 0, 3)),
			"SELECT segar.allow_feed('%s'), as the role that installed the schema",
			PQgetvalue(row, 0, 3));
	}
	PQclear(row);
	return has_schema;
}

static void look_at_release(PGconn *pg, struct doctor_report *report)
{
	PGresult *row = ask(pg, "SELECT segar.schema_version()", "feed.schema", report);
	int version = row ? atoi(PQgetvalue(row, 0, 0)) : 0;
	if (row && version != SCHEMA_VERSION)
		doctor_advise(doctor_add(report, DOCTOR_BAD, "feed.schema",
					 "release %d is installed, this daemon is for "
					 "%d",
					 version, SCHEMA_VERSION),
			      version < SCHEMA_VERSION
				      ? "psql -f sql/install.sql brings it up to date"
				      : "a newer segard, as the others of the fleet have");
	else if (row)
		doctor_add(report, DOCTOR_OK, "feed.schema", "release %d", version);
	PQclear(row);
}

static void look_at_tables(PGconn *pg, const struct policy *policy, struct doctor_report *report)
{
	static const char sql[] =
		"SELECT count(*) FROM segar.tracked WHERE split_part(key_template, ':', 1) = $1 OR "
		"$1 = ANY (keyspaces)";
	const char *const params[] = { policy->name };
	PGresult *row = await(pg, PQsendQueryParams(pg, sql, 1, NULL, params, NULL, NULL, 0));
	char check[DOCTOR_NAME_MAX];
	snprintf(check, sizeof(check), "keyspace %s", policy->name);
	if (PQresultStatus(row) == PGRES_TUPLES_OK && strcmp(PQgetvalue(row, 0, 0), "0") == 0)
		doctor_advise(doctor_add(report, DOCTOR_BAD, check,
					 "it has on_change, and no table feeds it"),
			      "SELECT segar.track('TABLE', '%s:{COLUMN}'), as the table's owner",
			      policy->name);
	PQclear(row);
}

void doctor_look_at_feed(const struct config *config, struct doctor_report *report)
{
	if (!follows(config))
		return;
	PGconn *pg = open_it(config->feed.dsn ? config->feed.dsn : config->origin.dsn, "feed.dsn",
			     report);
	if (pg && look_at_schema(pg, report)) {
		look_at_release(pg, report);
		for (size_t i = 0; i < config->keyspaces_count; i++)
			if (config->keyspaces[i].on_change != ON_CHANGE_IGNORE)
				look_at_tables(pg, &config->keyspaces[i], report);
	}
	PQfinish(pg);
}
