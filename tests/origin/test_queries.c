/* Queries: what they may be, take and return. */
#include <string.h>

#include "harness.h"

/* --- what a query returns --- */

static void a_row_a_null_and_no_row_are_told_apart(void)
{
	struct rig rig;
	uint32_t ks;

	server_sql(&server,
		   "DROP TABLE IF EXISTS t; CREATE TABLE t (id int PRIMARY KEY, v text, n bigint);"
		   "INSERT INTO t VALUES (1, 'one', 11), (2, NULL, 12), (3, '', NULL)");
	rig_open(&rig, &server, 4);
	ks = rig_keyspace(&rig, "t", "SELECT v AS value, n AS version FROM t WHERE id = $1 -- end");
	rig_start(&rig);
	BUILD_IS(&rig, ks, "t:1", "row one 11");
	BUILD_IS(&rig, ks, "t:2", "row NULL 12");
	BUILD_IS(&rig, ks, "t:3", "row ");
	BUILD_IS(&rig, ks, "t:4", "no_row");
	EXPECT(pool_counters(rig.pool)->connects == 1);
	rig_close(&rig);
}

static void values_arrive_as_their_output_or_their_bytes(void)
{
	static const struct {
		const char *sql, *text;
	} cases[] = {
		{ "'it''s'::text", "row it's" },
		{ "'ab'::char(4)", "row ab  " },
		{ "'{\"b\": 1,  \"a\":2}'::json", "row {\"b\": 1,  \"a\":2}" },
		{ "'{\"b\": 1,  \"a\":2}'::jsonb", "row {\"a\": 2, \"b\": 1}" },
		{ "42", "row 42" },
		{ "1.50::numeric", "row 1.50" },
		{ "true", "row t" },
		{ "'10.0.0.1'::inet", "row 10.0.0.1" },
		{ "ARRAY[1, NULL, 3]", "row {1,NULL,3}" },
		{ "ROW(NULL, NULL)", "row (,)" },
		{ "NULL::jsonb", "row NULL" },
		{ "NULL::int", "row NULL" },
		{ "'\\x616263'::bytea", "row abc" },
		{ "'untyped'", "row untyped" },
		{ "'€'::varchar", "row €" },
	};
	enum { COUNT = sizeof(cases) / sizeof(cases[0]) };
	static char queries[COUNT][128];
	struct rig rig;

	rig_open(&rig, &server, 2);
	for (int i = 0; i < COUNT; i++) {
		snprintf(queries[i], sizeof(queries[i]), "SELECT %s AS value", cases[i].sql);
		rig_keyspace(&rig, "ks", queries[i]);
	}
	rig_start(&rig);
	for (uint32_t i = 0; i < COUNT; i++)
		BUILD_IS(&rig, i, "ks", cases[i].text);
	rig_close(&rig);
}

static void bytea_keeps_every_byte(void)
{
	static struct run run;
	struct rig rig;
	uint32_t ks;

	rig_open(&rig, &server, 2);
	ks = rig_keyspace(&rig, "ks",
			  "SELECT decode(string_agg(lpad(to_hex(i), 2, '0'), ''), 'hex')"
			  " AS value FROM generate_series(0, 255) i");
	rig_start(&rig);
	run_all(&run, &rig, ks, "ks");
	EXPECT(run.build.outcome == BUILD_ROW && run.build.value->len == 256);
	for (int i = 0; i < 256; i++)
		EXPECT((unsigned char)run.build.value->bytes[i] == i);
	EXPECT(run.build.snapshot > 0);
	run_free(&run);
	rig_close(&rig);
}

static void values_of_every_size_arrive_up_to_the_limit(void)
{
	static const int sizes[] = { 0, 1, 200 * 1024, VALUE_BYTES_MAX };
	static const char *const queries[] = {
		"SELECT repeat('x', $1::int) AS value",
		"SELECT convert_to(repeat('x', $1::int), 'UTF8') AS value",
		"SELECT to_json(repeat('x', $1::int - 2)) AS value",
		"SELECT ARRAY[repeat('x', $1::int - 2)] AS value",
	};
	static struct run run;
	struct rig rig;
	char key[32];

	rig_open(&rig, &server, 2);
	for (int i = 0; i < 4; i++)
		rig_keyspace(&rig, "ks", queries[i]);
	rig_start(&rig);
	for (uint32_t ks = 0; ks < 4; ks++) {
		for (int i = ks < 2 ? 0 : 2; i < 4; i++) {
			snprintf(key, sizeof(key), "ks:%d", sizes[i]);
			run_all(&run, &rig, ks, key);
			EXPECT(run.build.outcome == BUILD_ROW);
			EXPECT(run.build.value->len == (uint32_t)sizes[i]);
			for (int at = 2; at < sizes[i] - 2; at++)
				EXPECT(run.build.value->bytes[at] == 'x');
			run_free(&run);
		}
		BUILD_IS(
			&rig, ks, "ks:16777217",
			"failed too_large the value is 16777217 bytes, over the limit of 16777216");
	}
	rig_close(&rig);
}

static void two_rows_are_an_error(void)
{
	struct rig rig;
	uint32_t ks;

	rig_open(&rig, &server, 2);
	ks = rig_keyspace(&rig, "ks", "SELECT i AS value FROM generate_series(1, $1::int) i");
	rig_start(&rig);
	BUILD_IS(&rig, ks, "ks:1", "row 1");
	BUILD_IS(&rig, ks, "ks:2",
		 "failed origin_error the query returned more than one row for this key");
	BUILD_IS(&rig, ks, "ks:0", "no_row");
	rig_close(&rig);
}

static void versions_are_integers_or_null(void)
{
	struct rig rig;

	rig_open(&rig, &server, 2);
	rig_keyspace(&rig, "ks", "SELECT 1 AS value, 9223372036854775807 AS version");
	rig_keyspace(&rig, "ks", "SELECT (-7)::smallint AS version, 1 AS value");
	rig_keyspace(&rig, "ks", "SELECT 1 AS value, NULL::int AS version");
	rig_start(&rig);
	BUILD_IS(&rig, 0, "ks", "row 1 9223372036854775807");
	BUILD_IS(&rig, 1, "ks", "row 1 -7");
	BUILD_IS(&rig, 2, "ks", "row 1");
	rig_close(&rig);
}

static void the_session_is_set_up(void)
{
	struct rig rig;

	rig_open(&rig, &server, 1);
	rig_keyspace(&rig, "ks",
		     "SELECT concat_ws(' ', current_setting('statement_timeout'),"
		     " current_setting('client_connection_check_interval'),"
		     " current_setting('application_name'),"
		     " current_setting('client_encoding')) AS value");
	rig_start(&rig);
	BUILD_IS(&rig, 0, "ks", "row 10s 1s segard UTF8");
	rig_close(&rig);
}

/* The session has its own name again afterwards, whatever came of the build. */
static void a_traced_build_is_named_for_its_time(void)
{
	static const char text[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
	static struct run run;
	struct trace trace;
	struct rig rig;

	EXPECT(!trace_parse(text, TRACE_TEXT_LEN, &trace));
	rig_open(&rig, &server, 1);
	rig_keyspace(&rig, "ks",
		     "SELECT 1 / $1::int || current_setting('application_name') AS value");
	rig_start(&rig);
	for (int i = 0; i < 3; i++) {
		run_init(&run, &rig, 0, "ks:1");
		run.build.trace = &trace;
		run_start(&run, &rig);
		run_wait(&run, &rig);
		RUN_IS(&run, "row 1segard 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
		run_free(&run);
		BUILD_IS(&rig, 0, "ks:1", "row 1segard");
		run_init(&run, &rig, 0, "ks:0");
		run.build.trace = &trace;
		run_start(&run, &rig);
		run_wait(&run, &rig);
		RUN_IS(&run, "failed origin_error 22012 division by zero");
		run_free(&run);
		BUILD_IS(&rig, 0, "ks:1", "row 1segard");
	}
	EXPECT(pool_counters(rig.pool)->connects == 1);
	rig_close(&rig);
}

/* --- what a query may be --- */

static void a_query_that_does_not_prepare_is_refused_alone(void)
{
	static const struct {
		const char *query, *text;
	} cases[] = {
		{ "SELEC 1 AS value", "42601 syntax error at or near \"SELEC\" at character 1" },
		{ "SELECT v AS value FROM nowhere",
		  "42P01 relation \"nowhere\" does not exist at character 24" },
		{ "SELECT 1 AS val",
		  "the query's column \"val\" is none that segard knows: value, version, "
		  "fresh_ms, stale_ms" },
		{ "SELECT 1 AS version", "the query returns no column named \"value\"" },
		{ "SELECT 1 AS value, 'x' AS fresh_ms",
		  "the query's column \"fresh_ms\" must be smallint, integer or bigint" },
		{ "SELECT 1 AS value, 'x' AS version",
		  "the query's column \"version\" must be smallint, integer or bigint" },
		{ "SELECT 1 AS value, 2 AS value", "the query returns a column twice" },
		{ "SELECT $2::int AS value",
		  "42P18 could not determine data type of parameter $1" },
		{ "SELECT 1 AS value; SELECT 2",
		  "42601 cannot insert multiple commands into a prepared statement" },
		{ "CREATE TABLE x (i int)", "the query returns no column named \"value\"" },
	};
	enum { COUNT = sizeof(cases) / sizeof(cases[0]) };
	struct rig rig;
	uint32_t good;

	rig_open(&rig, &server, 2);
	for (int i = 0; i < COUNT; i++)
		rig_keyspace(&rig, "bad", cases[i].query);
	good = rig_keyspace(&rig, "good", "SELECT 1 AS value");
	rig_start(&rig);
	for (uint32_t i = 0; i < COUNT; i++) {
		char expected[256];
		snprintf(expected, sizeof(expected), "failed origin_error %s", cases[i].text);
		BUILD_IS(&rig, i, "bad", expected);
		EXPECT(pool_statement(rig.pool, i)->state == STATEMENT_REFUSED);
		EXPECT(!strcmp(pool_statement(rig.pool, i)->error, cases[i].text));
	}
	BUILD_IS(&rig, good, "good", "row 1");
	EXPECT(pool_counters(rig.pool)->connects == 1);
	rig_close(&rig);
}

static void a_value_is_computed_once(void)
{
	struct rig rig;

	rig_open(&rig, &server, 2);
	server_sql(&server, "DROP SEQUENCE IF EXISTS n; CREATE SEQUENCE n");
	server_sql(&server, "CREATE OR REPLACE FUNCTION counted() RETURNS numeric STABLE "
			    "LANGUAGE plpgsql AS 'BEGIN RETURN nextval(''n''); END'");
	rig_keyspace(&rig, "ks", "SELECT (SELECT counted()) AS value");
	rig_start(&rig);
	BUILD_IS(&rig, 0, "ks", "row 1");
	BUILD_IS(&rig, 0, "ks", "row 2");
	rig_close(&rig);
}

static void a_rows_own_times_have_bounds(void)
{
	struct rig rig;
	uint32_t fresh, stale;

	rig_open(&rig, &server, 2);
	fresh = rig_keyspace(&rig, "fresh", "SELECT 1 AS value, 0 AS fresh_ms");
	stale = rig_keyspace(&rig, "stale", "SELECT 1 AS value, -1::bigint AS stale_ms");
	rig_start(&rig);
	BUILD_IS(&rig, fresh, "fresh",
		 "failed origin_error the row's fresh_ms is 0; expected 1 to 315360000000");
	BUILD_IS(&rig, stale, "stale",
		 "failed origin_error the row's stale_ms is -1; expected 0 to 315360000000");
	rig_close(&rig);
}

static void a_query_that_writes_is_refused(void)
{
	static struct run run;
	struct rig rig;

	rig_open(&rig, &server, 2);
	server_sql(&server, "DROP TABLE IF EXISTS w; CREATE TABLE w (value int)");
	rig_keyspace(&rig, "ks", "INSERT INTO w VALUES (1) RETURNING value");
	rig_start(&rig);
	run_all(&run, &rig, 0, "ks");
	EXPECT(run.build.outcome == BUILD_FAILED);
	EXPECT(!strncmp(run.build.text->bytes, "42601 syntax error", 18));
	run_free(&run);
	rig_close(&rig);
	EXPECT(!strcmp(server_sql(&server, "SELECT count(*) FROM w"), "0"));
}

static void a_table_that_comes_later_heals_the_keyspace(void)
{
	struct rig rig;

	server_sql(&server, "DROP TABLE IF EXISTS late");
	rig_open(&rig, &server, 2);
	rig_keyspace(&rig, "late", "SELECT v AS value FROM late WHERE id = $1");
	rig_start(&rig);
	BUILD_IS(&rig, 0, "late:1",
		 "failed origin_error 42P01 relation \"late\" does not exist at character 24");
	server_sql(&server,
		   "CREATE TABLE late (id int, v text); INSERT INTO late VALUES (1, 'here')");
	BUILD_IS(&rig, 0, "late:1", "row here");
	EXPECT(pool_statement(rig.pool, 0)->state == STATEMENT_OK);
	server_sql(&server, "DROP TABLE late");
	BUILD_IS(&rig, 0, "late:1",
		 "failed origin_error 42P01 relation \"late\" does not exist at character 24");
	server_sql(&server,
		   "CREATE TABLE late (id int, v text); INSERT INTO late VALUES (1, 'back')");
	BUILD_IS(&rig, 0, "late:1", "row back");
	EXPECT(pool_statement(rig.pool, 0)->state == STATEMENT_OK);
	server_sql(&server, "DROP TABLE late");
	server_sql(&server, "CREATE TABLE late (id uuid, v text); INSERT INTO late VALUES"
			    " ('00000000-0000-0000-0000-000000000001', 'again')");
	BUILD_IS(&rig, 0, "late:1",
		 "bad_key bad_request argument 1 of late must be a uuid in lower case with four "
		 "hyphens");
	BUILD_IS(&rig, 0, "late:00000000-0000-0000-0000-000000000001", "row again");
	EXPECT(pool_counters(rig.pool)->connects == 1);
	rig_close(&rig);
}

static void a_column_that_changes_its_type_is_prepared_again(void)
{
	struct rig rig;

	server_sql(&server, "DROP TABLE IF EXISTS c; CREATE TABLE c (v varchar(9));"
			    "INSERT INTO c VALUES ('12')");
	rig_open(&rig, &server, 2);
	rig_keyspace(&rig, "c", "SELECT v AS value FROM c");
	rig_start(&rig);
	BUILD_IS(&rig, 0, "c", "row 12");
	server_sql(&server, "ALTER TABLE c ALTER v TYPE varchar(20)");
	BUILD_IS(&rig, 0, "c", "row 12");
	server_sql(&server, "ALTER TABLE c ALTER v TYPE bytea USING convert_to(v, 'UTF8')");
	BUILD_IS(&rig, 0, "c", "row 12");
	server_sql(&server, "ALTER TABLE c ALTER v TYPE int USING 13");
	BUILD_IS(&rig, 0, "c", "row 13");
	server_sql(&server, "ALTER TABLE c ALTER v TYPE char(3)");
	BUILD_IS(&rig, 0, "c", "row 13 ");
	EXPECT(pool_counters(rig.pool)->connects == 1);
	rig_close(&rig);
}

static void a_statement_that_vanished_is_prepared_again(void)
{
	struct rig rig;

	server_sql(&server, "CREATE OR REPLACE FUNCTION forget() RETURNS text LANGUAGE plpgsql AS"
			    " $$BEGIN EXECUTE 'DEALLOCATE ALL'; RETURN 'forgotten'; END$$");
	rig_open(&rig, &server, 1);
	rig_keyspace(&rig, "ks", "SELECT forget() AS value");
	rig_start(&rig);
	for (int i = 0; i < 3; i++)
		BUILD_IS(&rig, 0, "ks", "row forgotten");
	rig_close(&rig);
}

static void an_error_from_within_the_query_is_no_reason_to_run_it_twice(void)
{
	struct rig rig;

	server_sql(&server,
		   "DROP SEQUENCE IF EXISTS tries; CREATE SEQUENCE tries;"
		   "CREATE OR REPLACE FUNCTION stumble() RETURNS text LANGUAGE plpgsql AS $$"
		   "BEGIN PERFORM nextval('tries'); EXECUTE 'SELECT nothing'; END$$");
	rig_open(&rig, &server, 1);
	rig_keyspace(&rig, "ks", "SELECT stumble() AS value");
	rig_start(&rig);
	for (int i = 0; i < 3; i++)
		BUILD_IS(&rig, 0, "ks",
			 "failed origin_error 42703 column \"nothing\" does not exist");
	EXPECT(!strcmp(server_sql(&server, "SELECT last_value FROM tries"), "3"));
	rig_close(&rig);
}

static void names_of_the_guard_do_not_hide_the_querys_own(void)
{
	struct rig rig;

	server_sql(&server,
		   "DROP TABLE IF EXISTS g, q, s; CREATE TABLE g AS SELECT 5 AS held;"
		   "CREATE TABLE q AS SELECT 6 AS found; CREATE TABLE s AS SELECT 7 AS value");
	rig_open(&rig, &server, 1);
	rig_keyspace(&rig, "ks",
		     "WITH x AS (SELECT 1) SELECT held + found + s.value AS value FROM g, q, s, x"
		     " -- ) comment");
	rig_keyspace(&rig, "ks", "SELECT segar_held AS value");
	rig_start(&rig);
	BUILD_IS(&rig, 0, "ks", "row 18");
	BUILD_IS(&rig, 1, "ks",
		 "failed origin_error 42703 column \"segar_held\" does not exist at character 8");
	rig_close(&rig);
}

/* --- arguments --- */

static void arguments_are_bound_never_spliced(void)
{
	static const char *const args[] = {
		"'", "''; DROP TABLE t; --", "$1", "\\", "%25", "%3A", "é€😀", " ", "", "{}\"\n\t"
	};
	static const char *const values[] = {
		"'", "''; DROP TABLE t; --", "$1", "\\", "%", ":", "é€😀", " ", "", "{}\"\n\t"
	};
	static struct run run;
	static char big[10 * 1024 + 8];
	struct rig rig;

	rig_open(&rig, &server, 2);
	rig_keyspace(&rig, "echo", "SELECT $1::text AS value");
	rig_start(&rig);
	for (size_t i = 0; i < sizeof(args) / sizeof(args[0]); i++) {
		char key[64];
		snprintf(key, sizeof(key), "echo:%s", args[i]);
		run_all(&run, &rig, 0, key);
		EXPECT(run.build.outcome == BUILD_ROW &&
		       !strcmp(run.build.value->bytes, values[i]));
		run_free(&run);
	}
	memset(big, 'k', sizeof(big) - 1);
	memcpy(big, "echo:", 5);
	run_all(&run, &rig, 0, big);
	EXPECT(run.build.outcome == BUILD_ROW && !strcmp(run.build.value->bytes, big + 5));
	run_free(&run);
	rig_close(&rig);
}

static void arguments_that_do_not_fit_reach_no_query(void)
{
	struct rig rig;
	struct key key = { .bytes = "two:042:x", .len = 9 };
	char text[128];

	server_sql(&server, "DROP SEQUENCE IF EXISTS runs; CREATE SEQUENCE runs");
	rig_open(&rig, &server, 2);
	rig_keyspace(&rig, "two",
		     "SELECT nextval('runs') AS value WHERE $1::int > 0 AND $2::text <> ''");
	rig_start(&rig);
	key.keyspace = &rig.keyspaces[0];
	EXPECT(rig.origin.check_key(rig.origin.impl, &key, text, sizeof(text)) == STATUS_OK);
	for (int i = 0; i < 2; i++) {
		BUILD_IS(&rig, 0, "two:042:x",
			 "bad_key bad_request argument 1 of two must be an integer in plain "
			 "decimal");
		BUILD_IS(&rig, 0, "two:1", "bad_key bad_request two takes 2 arguments, got 1");
		BUILD_IS(&rig, 0, "two", "bad_key bad_request two takes 2 arguments, got 0");
		BUILD_IS(&rig, 0, "two:1:2:3", "bad_key bad_request two takes 2 arguments, got 3");
	}
	EXPECT(rig.origin.check_key(rig.origin.impl, &key, text, sizeof(text)) ==
	       STATUS_BAD_REQUEST);
	EXPECT(!strcmp(text, "argument 1 of two must be an integer in plain decimal"));
	BUILD_IS(&rig, 0, "two:1:x", "row 1");
	rig_close(&rig);
}

static void a_key_that_does_not_fit_old_knowledge_gets_through_in_time(void)
{
	static const char uuid[] = "k:00000000-0000-0000-0000-000000000001";
	struct key key = { .bytes = uuid, .len = sizeof(uuid) - 1 };
	struct statement *statement;
	char text[128];
	struct rig rig;

	server_sql(&server, "DROP TABLE IF EXISTS k; CREATE TABLE k (id int, v text)");
	rig_open(&rig, &server, 2);
	rig_keyspace(&rig, "k", "SELECT v AS value FROM k WHERE id = $1");
	rig_start(&rig);
	key.keyspace = &rig.keyspaces[0];
	BUILD_IS(&rig, 0, "k:1", "no_row");
	server_sql(&server, "DROP TABLE k; CREATE TABLE k (id uuid, v text);"
			    "INSERT INTO k VALUES ('00000000-0000-0000-0000-000000000001', 'new')");
	EXPECT(rig.origin.check_key(rig.origin.impl, &key, text, sizeof(text)) ==
	       STATUS_BAD_REQUEST);
	/* As if ten seconds had passed. */
	statement = (struct statement *)pool_statement(rig.pool, 0);
	statement->doubted_ms -= 10 * 1000;
	EXPECT(rig.origin.check_key(rig.origin.impl, &key, text, sizeof(text)) == STATUS_OK);
	BUILD_IS(&rig, 0, uuid, "row new");
	EXPECT(rig.origin.check_key(rig.origin.impl, &key, text, sizeof(text)) == STATUS_OK);
	rig_close(&rig);
}

static void an_argument_that_postgresql_cannot_read_is_a_bad_key(void)
{
	struct rig rig;

	rig_open(&rig, &server, 1);
	rig_keyspace(&rig, "ks", "SELECT $1::timestamptz AS value");
	rig_keyspace(&rig, "ks", "SELECT $1::text::int AS value");
	rig_start(&rig);
	BUILD_IS(&rig, 0, "ks:noon?",
		 "bad_key bad_request 22007 invalid input syntax for type timestamp with time zone:"
		 " \"noon?\"");
	BUILD_IS(&rig, 1, "ks:x",
		 "failed origin_error 22P02 invalid input syntax for type integer: \"x\"");
	rig_close(&rig);
}

static const struct test tests[] = {
	TEST(a_row_a_null_and_no_row_are_told_apart),
	TEST(values_arrive_as_their_output_or_their_bytes),
	TEST(bytea_keeps_every_byte),
	TEST(values_of_every_size_arrive_up_to_the_limit),
	TEST(two_rows_are_an_error),
	TEST(versions_are_integers_or_null),
	TEST(the_session_is_set_up),
	TEST(a_traced_build_is_named_for_its_time),
	TEST(a_query_that_does_not_prepare_is_refused_alone),
	TEST(a_value_is_computed_once),
	TEST(a_rows_own_times_have_bounds),
	TEST(a_query_that_writes_is_refused),
	TEST(a_table_that_comes_later_heals_the_keyspace),
	TEST(a_column_that_changes_its_type_is_prepared_again),
	TEST(a_statement_that_vanished_is_prepared_again),
	TEST(an_error_from_within_the_query_is_no_reason_to_run_it_twice),
	TEST(names_of_the_guard_do_not_hide_the_querys_own),
	TEST(arguments_are_bound_never_spliced),
	TEST(arguments_that_do_not_fit_reach_no_query),
	TEST(a_key_that_does_not_fit_old_knowledge_gets_through_in_time),
	TEST(an_argument_that_postgresql_cannot_read_is_a_bad_key),
};

int main(int argc, char **argv)
{
	return harness_run(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
