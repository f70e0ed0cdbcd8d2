/* The pool against a real PostgreSQL. One process, one server; each test has its own loop and pool,
 * and runs in a child of its own, so that one that fails or hangs spoils nothing.
 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "rig.h"

static struct server server;

#define RUN_IS(run, text)                                                                          \
	do {                                                                                       \
		if (strcmp(run_text(run), text))                                                   \
			fprintf(stderr, "# got: %s\n", run_text(run));                             \
		EXPECT(!strcmp(run_text(run), text));                                              \
	} while (0)

/* Builds the key, compares the answer, forgets it. */
#define BUILD_IS(rig, keyspace, key, text)                                                         \
	do {                                                                                       \
		static struct run run_;                                                            \
		run_all(&run_, rig, keyspace, key);                                                \
		RUN_IS(&run_, text);                                                               \
		run_free(&run_);                                                                   \
	} while (0)

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

/* --- what a query returns --- */

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
	EXPECT(pool_counters(rig.pool)->connects == 1);
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
		  "the query's column \"val\" is none that segard knows: value, version" },
		{ "SELECT 1 AS version", "the query returns no column named \"value\"" },
		{ "SELECT 1 AS value, 2 AS fresh_ms",
		  "the query's column \"fresh_ms\" is not supported yet" },
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

/* --- time --- */

static void a_statement_ends_at_its_timeout(void)
{
	static struct run run;
	struct rig rig;

	rig_open(&rig, &server, 1);
	rig_keyspace(&rig, "ks", "SELECT pg_sleep($1::int) AS value");
	rig_start(&rig);
	run_init(&run, &rig, 0, "ks:100");
	run.build.timeout_us = 200 * 1000;
	run_start(&run, &rig);
	run_wait(&run, &rig);
	RUN_IS(&run, "failed origin_error 57014 canceling statement due to statement timeout"
		     " (build_timeout 0.2 s)");
	run_free(&run);
	BUILD_IS(&rig, 0, "ks:0", "row ");
	EXPECT(pool_counters(rig.pool)->connects == 1);
	rig_close(&rig);
}

static void a_locked_table_times_out_and_is_not_refused(void)
{
	static struct run run, after;
	struct rig rig;
	PGconn *other = server_connect(&server);

	server_sql(&server,
		   "DROP TABLE IF EXISTS l; CREATE TABLE l (v int); INSERT INTO l VALUES (1)");
	rig_open(&rig, &server, 1);
	rig_keyspace(&rig, "ks", "SELECT v AS value FROM l");
	rig_start(&rig);
	PQclear(PQexec(other, "BEGIN; LOCK TABLE l"));
	run_init(&run, &rig, 0, "ks");
	run.build.timeout_us = 100 * 1000;
	run_start(&run, &rig);
	run_wait(&run, &rig);
	EXPECT(run.build.outcome == BUILD_FAILED && !strncmp(run.build.text->bytes, "57014", 5));
	EXPECT(pool_statement(rig.pool, 0)->state == STATEMENT_UNKNOWN);
	run_free(&run);
	run_init(&after, &rig, 0, "ks");
	run_start(&after, &rig);
	PQfinish(other);
	run_wait(&after, &rig);
	RUN_IS(&after, "row 1");
	run_free(&after);
	rig_close(&rig);
}

#define AWAIT_SLEEPER(rig)                                                                         \
	rig_await_sql(rig, "1",                                                                    \
		      "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'")

static void a_cancelled_build_ends_and_its_connection_lives(void)
{
	static struct run run;
	struct rig rig;

	rig_open(&rig, &server, 1);
	rig_keyspace(&rig, "ks", "SELECT pg_sleep($1::int) AS value");
	rig_start(&rig);
	for (int i = 0; i < 20; i++) {
		run_init(&run, &rig, 0, "ks:100");
		run_start(&run, &rig);
		AWAIT_SLEEPER(&rig);
		rig.origin.cancel(rig.origin.impl, &run.build);
		rig.origin.cancel(rig.origin.impl, &run.build);
		EXPECT(!run.done);
		run_wait(&run, &rig);
		RUN_IS(&run, "cancelled unavailable cancelled");
		run_free(&run);
		BUILD_IS(&rig, 0, "ks:0", "row ");
	}
	EXPECT(pool_counters(rig.pool)->connects == 1);
	EXPECT(pool_counters(rig.pool)->cancels == 40);
	rig_close(&rig);
}

static void a_build_that_waits_for_a_connection_can_be_cancelled(void)
{
	static struct run first, second;
	struct rig rig;

	rig_open(&rig, &server, 1);
	rig_keyspace(&rig, "ks", "SELECT pg_sleep($1::int) AS value");
	rig_start(&rig);
	run_init(&first, &rig, 0, "ks:100");
	run_init(&second, &rig, 0, "ks:0");
	run_start(&first, &rig);
	AWAIT_SLEEPER(&rig);
	run_start(&second, &rig);
	rig.origin.cancel(rig.origin.impl, &second.build);
	EXPECT(!second.done);
	run_wait(&second, &rig);
	RUN_IS(&second, "cancelled unavailable cancelled");
	EXPECT(!first.done);
	rig.origin.cancel(rig.origin.impl, &first.build);
	run_wait(&first, &rig);
	run_free(&first);
	run_free(&second);
	rig_close(&rig);
}

/* --- locks --- */

static void a_held_lock_keeps_the_query_from_running(void)
{
	static struct run run;
	struct rig rig;
	PGconn *other = server_connect(&server);
	struct key key = { .bytes = "ks:1", .len = 4 };
	char lock_slot[128], lock_key[128];

	server_sql(&server, "DROP SEQUENCE IF EXISTS runs; CREATE SEQUENCE runs");
	snprintf(lock_slot, sizeof(lock_slot), "SELECT pg_advisory_lock(%d, 3)",
		 guard_slot_class("test:"));
	snprintf(lock_key, sizeof(lock_key), "SELECT pg_advisory_lock(%lld)",
		 (long long)guard_key_lock("test:", &key));
	rig_open(&rig, &server, 4);
	rig_keyspace(&rig, "ks", "SELECT nextval('runs') AS value WHERE $1::int = 1");
	rig_start(&rig);

	PQclear(PQexec(other, lock_slot));
	for (int i = 0; i < 8; i++) {
		run_init(&run, &rig, 0, "ks:1");
		run.build.slot = 3;
		run.build.lock_key = i % 2;
		run_start(&run, &rig);
		run_wait(&run, &rig);
		RUN_IS(&run, "slot_held");
	}
	PQclear(PQexec(other, "SELECT pg_advisory_unlock_all()"));
	PQclear(PQexec(other, lock_key));
	for (int i = 0; i < 8; i++) {
		run_init(&run, &rig, 0, "ks:1");
		run.build.slot = 3;
		run.build.lock_key = true;
		run_start(&run, &rig);
		run_wait(&run, &rig);
		RUN_IS(&run, "key_held");
	}
	run.build.lock_key = false;
	run.done = 0;
	run_start(&run, &rig);
	run_wait(&run, &rig);
	RUN_IS(&run, "row 1");
	run_free(&run);
	BUILD_IS(&rig, 0, "ks:1", "row 2");
	EXPECT(!strcmp(
		server_sql(&server, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"),
		"1"));
	PQfinish(other);
	rig_close(&rig);
}

static void builds_in_one_slot_exclude_each_other(void)
{
	static struct run first, second;
	struct rig rig;

	rig_open(&rig, &server, 4);
	rig_keyspace(&rig, "ks", "SELECT pg_sleep($1::int) AS value");
	rig_start(&rig);
	run_init(&first, &rig, 0, "ks:100");
	run_start(&first, &rig);
	AWAIT_SLEEPER(&rig);
	run_init(&second, &rig, 0, "ks:0");
	run_start(&second, &rig);
	run_wait(&second, &rig);
	RUN_IS(&second, "slot_held");
	second.build.slot = 1;
	second.done = 0;
	run_start(&second, &rig);
	run_wait(&second, &rig);
	RUN_IS(&second, "row ");
	run_free(&second);
	rig.origin.cancel(rig.origin.impl, &first.build);
	run_wait(&first, &rig);
	run_free(&first);
	rig_close(&rig);
}

/* --- trouble --- */

static void a_terminated_backend_loses_its_build_only(void)
{
	static struct run lost, other;
	struct rig rig;

	rig_open(&rig, &server, 2);
	rig_keyspace(&rig, "ks", "SELECT pg_sleep($1::int) AS value");
	rig_keyspace(&rig, "wait", "SELECT pg_advisory_lock_shared(4711)::text AS value");
	rig_start(&rig);
	run_init(&lost, &rig, 0, "ks:100");
	run_start(&lost, &rig);
	AWAIT_SLEEPER(&rig);
	{
		PGconn *holder = server_connect(&server);
		PQclear(PQexec(holder, "SELECT pg_advisory_lock(4711)"));
		run_init(&other, &rig, 1, "wait");
		other.build.slot = 1;
		run_start(&other, &rig);
		rig_await_sql(&rig, "1", "SELECT count(*) FROM pg_locks WHERE NOT granted");
		server_sql(&server, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
				    " WHERE wait_event = 'PgSleep'");
		run_wait(&lost, &rig);
		RUN_IS(&lost, "lost unavailable 57P01 terminating connection due to administrator"
			      " command");
		EXPECT(!other.done);
		PQfinish(holder);
	}
	run_wait(&other, &rig);
	RUN_IS(&other, "row ");
	run_free(&lost);
	run_free(&other);
	EXPECT(pool_counters(rig.pool)->lost == 1);
	BUILD_IS(&rig, 0, "ks:0", "row ");
	rig_close(&rig);
}

static void a_backend_killed_in_mid_result_is_a_lost_connection(void)
{
	static struct run run;
	struct rig rig;
	struct server own;
	int pid;

	server_create(&own, &server);
	server_start(&own);
	rig_open(&rig, &own, 1);
	/* More than the socket takes, so that the backend hangs in its write, while we don't read.
	 */
	rig_keyspace(&rig, "ks", "SELECT repeat('x', 16000000) AS value");
	rig_start(&rig);
	run_init(&run, &rig, 0, "ks");
	run_start(&run, &rig);
	while (strcmp(server_sql(&own, "SELECT count(*) FROM pg_stat_activity WHERE"
				       " wait_event = 'ClientWrite'"),
		      "1"))
		if (!strcmp(server_sql(&own, "SELECT count(*) FROM pg_stat_activity WHERE"
					     " application_name = 'segard' AND state = 'active'"),
			    "0"))
			uv_run(&rig.loop, UV_RUN_NOWAIT);
	pid = atoi(server_sql(&own, "SELECT pid FROM pg_stat_activity WHERE"
				    " wait_event = 'ClientWrite'"));
	EXPECT(pid > 1 && kill(pid, SIGKILL) == 0);
	run_wait(&run, &rig);
	EXPECT(run.build.outcome == BUILD_LOST && run.build.status == STATUS_UNAVAILABLE);
	run_free(&run);
	/* The server restarts by itself: service returns. */
	do {
		run_all(&run, &rig, 0, "ks");
		EXPECT(run.build.outcome == BUILD_ROW || run.build.outcome == BUILD_LOST);
		run_free(&run);
	} while (run.build.outcome != BUILD_ROW);
	rig_close(&rig);
	server_stop(&own, SIGINT);
}

static void a_restarted_servers_idle_connections_are_never_used(void)
{
	static struct run runs[4];
	struct rig rig;
	struct server own;

	server_create(&own, &server);
	server_start(&own);
	rig_open(&rig, &own, 4);
	rig_keyspace(&rig, "ks", "SELECT 1 AS value");
	rig_start(&rig);
	for (int how = 0; how < 2; how++) {
		for (int i = 0; i < 4; i++) {
			run_init(&runs[i], &rig, 0, "ks");
			runs[i].build.slot = i;
			run_start(&runs[i], &rig);
		}
		for (int i = 0; i < 4; i++) {
			run_wait(&runs[i], &rig);
			RUN_IS(&runs[i], "row 1");
			run_free(&runs[i]);
		}
		/* The loop does not run meanwhile: the pool finds out when it looks. */
		server_stop(&own, how ? SIGQUIT : SIGINT);
		server_start(&own);
	}
	BUILD_IS(&rig, 0, "ks", "row 1");
	EXPECT(pool_counters(rig.pool)->lost >= 2);
	rig_close(&rig);
	server_stop(&own, SIGINT);
}

static void without_a_server_builds_fail_at_once_and_clearly(void)
{
	static struct run run;
	struct rig rig;
	struct server own;

	server_create(&own, &server);
	server_start(&own);
	rig_open(&rig, &own, 2);
	rig_keyspace(&rig, "ks", "SELECT 1 AS value");
	server_stop(&own, SIGINT);
	rig_start(&rig);
	for (int i = 0; i < 3; i++) {
		run_all(&run, &rig, 0, "ks");
		EXPECT(run.build.outcome == BUILD_LOST && run.build.status == STATUS_UNAVAILABLE);
		EXPECT(strstr(run.build.text->bytes, "No such file or directory"));
		EXPECT(!strstr(run.build.text->bytes, "geheim"));
		EXPECT(!strcmp(pool_trouble(rig.pool), run.build.text->bytes));
		run_free(&run);
	}
	server_start(&own);
	BUILD_IS(&rig, 0, "ks", "row 1");
	EXPECT(pool_counters(rig.pool)->connect_failures == 3 && !pool_trouble(rig.pool));
	rig_close(&rig);
	server_stop(&own, SIGINT);
}

static void a_name_that_does_not_resolve_holds_nothing_up(void)
{
	static struct run run;
	struct rig rig;

	rig_open(&rig, &server, 2);
	rig.policy.build_timeout_us = 200 * 1000;
	snprintf(rig.dsn, sizeof(rig.dsn), "host=name.invalid");
	rig_keyspace(&rig, "ks", "SELECT 1 AS value");
	rig_start(&rig);
	run_all(&run, &rig, 0, "ks");
	EXPECT(run.build.outcome == BUILD_LOST && run.build.status == STATUS_UNAVAILABLE);
	run_free(&run);
	rig_close(&rig);
}

static void a_stopped_postmaster_hangs_nothing(void)
{
	static struct run run;
	struct rig rig;
	struct server own;

	server_create(&own, &server);
	server_start(&own);
	rig_open(&rig, &own, 2);
	rig.policy.build_timeout_us = 200 * 1000;
	rig_keyspace(&rig, "ks", "SELECT 1 AS value");
	rig_start(&rig);
	kill(own.pid, SIGSTOP);
	run_all(&run, &rig, 0, "ks");
	RUN_IS(&run, "lost unavailable no connection to PostgreSQL within 200 ms");
	run_free(&run);
	kill(own.pid, SIGCONT);
	BUILD_IS(&rig, 0, "ks", "row 1");
	rig_close(&rig);
	server_stop(&own, SIGINT);
}

static void a_server_that_hangs_in_mid_build_is_given_up(void)
{
	static struct run run;
	struct rig rig;
	struct server own;
	int pid;

	server_create(&own, &server);
	server_start(&own);
	rig_open(&rig, &own, 1);
	rig_keyspace(&rig, "ks", "SELECT pg_sleep($1::int) AS value");
	rig_start(&rig);
	run_init(&run, &rig, 0, "ks:100");
	run.build.timeout_us = 100 * 1000 * 1000;
	run_start(&run, &rig);
	AWAIT_SLEEPER(&rig);
	pid = atoi(
		server_sql(&own, "SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'"));
	EXPECT(pid > 1 && kill(pid, SIGSTOP) == 0 && kill(own.pid, SIGSTOP) == 0);
	rig.origin.cancel(rig.origin.impl, &run.build);
	run_wait(&run, &rig);
	RUN_IS(&run, "cancelled unavailable cancelled");
	run_free(&run);
	/* The thread of the cancel hangs still; that must not hold up the end. */
	rig_close(&rig);
	kill(own.pid, SIGCONT);
	kill(pid, SIGCONT);
	server_stop(&own, SIGINT);
}

static void a_server_that_ignores_its_own_timeout_is_given_up(void)
{
	static struct run run;
	struct rig rig;
	struct server own;
	int pid;

	server_create(&own, &server);
	server_start(&own);
	rig_open(&rig, &own, 1);
	rig_keyspace(&rig, "ks", "SELECT pg_sleep($1::int) AS value");
	rig_start(&rig);
	run_init(&run, &rig, 0, "ks:100");
	run.build.timeout_us = 500 * 1000;
	run_start(&run, &rig);
	AWAIT_SLEEPER(&rig);
	pid = atoi(
		server_sql(&own, "SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'"));
	EXPECT(pid > 1 && kill(pid, SIGSTOP) == 0);
	run_wait(&run, &rig);
	kill(pid, SIGCONT);
	RUN_IS(&run, "lost unavailable PostgreSQL answers neither the query nor its cancelling");
	run_free(&run);
	BUILD_IS(&rig, 0, "ks:0", "row ");
	rig_close(&rig);
	server_stop(&own, SIGINT);
}

static void no_connection_left_is_no_room(void)
{
	static struct run first, second;
	struct rig rig;

	server_sql(&server, "DROP ROLE IF EXISTS one; CREATE ROLE one LOGIN CONNECTION LIMIT 1");
	rig_open(&rig, &server, 2);
	snprintf(rig.dsn, sizeof(rig.dsn), "host=%s user=one dbname=postgres", server.folder);
	rig_keyspace(&rig, "ks", "SELECT pg_sleep($1::int) AS value");
	rig_start(&rig);
	run_init(&first, &rig, 0, "ks:100");
	run_start(&first, &rig);
	AWAIT_SLEEPER(&rig);
	run_init(&second, &rig, 0, "ks:0");
	second.build.slot = 1;
	run_start(&second, &rig);
	run_wait(&second, &rig);
	EXPECT(second.build.outcome == BUILD_NO_ROOM && second.build.status == STATUS_OVERLOADED);
	EXPECT(strstr(second.build.text->bytes, "53300: too many connections for role \"one\""));
	EXPECT(!first.done);
	run_free(&second);
	rig.origin.cancel(rig.origin.impl, &first.build);
	run_wait(&first, &rig);
	run_free(&first);
	rig_close(&rig);
}

static void a_dsn_that_is_none_is_refused_without_a_word_of_it(void)
{
	struct rig rig;

	rig_open(&rig, &server, 2);
	snprintf(rig.dsn, sizeof(rig.dsn), "password=a secret");
	EXPECT(pool_create(&rig.loop, &rig.policy, rig.policies, 0, "x", &rig.pool) == -22);
	snprintf(rig.dsn, sizeof(rig.dsn), "host=%s", server.folder);
	rig_start(&rig);
	rig_close(&rig);
}

/* --- many --- */

enum { MANY = 16 };

struct herd {
	struct rig rig;
	struct run runs[MANY];
	unsigned seed;
	int started, outcomes[16];
};

static void herd_start(struct herd *herd, int i)
{
	struct run *run = &herd->runs[i];
	char key[64];

	snprintf(key, sizeof(key), "ks:%d:%d", herd->started, rand_r(&herd->seed) % 5);
	run_init(run, &herd->rig, 0, key);
	run->build.slot = i;
	run->build.lock_key = true;
	run_start(run, &herd->rig);
	herd->started++;
}

static void herd_check(struct herd *herd, struct run *run)
{
	const char *number = run->key + 3;

	herd->outcomes[run->build.outcome]++;
	if (run->build.outcome == BUILD_ROW)
		EXPECT(!strncmp(run->build.value->bytes, number, strcspn(number, ":")));
	else
		EXPECT(run->build.outcome == BUILD_CANCELLED);
	run_free(run);
}

static void thousands_of_builds_never_get_anothers_answer(void)
{
	static struct herd herd = { .seed = 1 };

	rig_open(&herd.rig, &server, MANY);
	rig_keyspace(&herd.rig, "ks",
		     "SELECT $1::text || repeat(' ', $1::int) AS value"
		     " FROM pg_sleep($2::int / 1000.0)");
	rig_start(&herd.rig);
	for (int i = 0; i < MANY; i++)
		herd_start(&herd, i);
	while (herd.started < 3000) {
		uv_run(&herd.rig.loop, UV_RUN_ONCE);
		for (int i = 0; i < MANY; i++) {
			if (herd.runs[i].done) {
				herd_check(&herd, &herd.runs[i]);
				herd_start(&herd, i);
			} else if (rand_r(&herd.seed) % 100 == 0) {
				herd.rig.origin.cancel(herd.rig.origin.impl, &herd.runs[i].build);
			}
		}
	}
	/* And in the middle of it, the end. */
	rig_close_pool(&herd.rig);
	for (int i = 0; i < MANY; i++) {
		run_wait(&herd.runs[i], &herd.rig);
		herd_check(&herd, &herd.runs[i]);
	}
	EXPECT(herd.outcomes[BUILD_ROW] > 1000 && herd.outcomes[BUILD_CANCELLED] > 0);
	rig_close(&herd.rig);
}

static void closing_ends_builds_in_every_state(void)
{
	static struct run running, waiting, connecting;
	struct rig rig;

	rig_open(&rig, &server, 1);
	rig_keyspace(&rig, "ks", "SELECT pg_sleep($1::int) AS value");
	rig_start(&rig);
	run_init(&running, &rig, 0, "ks:100");
	run_start(&running, &rig);
	AWAIT_SLEEPER(&rig);
	run_init(&waiting, &rig, 0, "ks:0");
	run_start(&waiting, &rig);
	rig_close_pool(&rig);
	EXPECT(!running.done && !waiting.done);
	run_wait(&running, &rig);
	run_wait(&waiting, &rig);
	RUN_IS(&running, "cancelled unavailable cancelled");
	RUN_IS(&waiting, "cancelled unavailable cancelled");
	run_free(&running);
	run_free(&waiting);
	rig_await_sql(&rig, "0",
		      "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'");
	rig_close(&rig);

	rig_open(&rig, &server, 1);
	rig_keyspace(&rig, "ks", "SELECT 1 AS value");
	rig_start(&rig);
	run_init(&connecting, &rig, 0, "ks");
	run_start(&connecting, &rig);
	uv_run(&rig.loop, UV_RUN_NOWAIT);
	EXPECT(!connecting.done);
	rig_close(&rig);
	EXPECT(connecting.done);
	run_free(&connecting);
}

/* --- probing --- */

static void on_probed(struct pool *pool, void *arg)
{
	(void)pool;
	++*(int *)arg;
}

static void a_probe_tells_the_good_from_the_bad(void)
{
	struct rig rig;
	int probed = 0;

	rig_open(&rig, &server, 2);
	rig_keyspace(&rig, "good", "SELECT 1 AS value WHERE $1::uuid IS NOT NULL");
	rig_keyspace(&rig, "bad", "SELECT nothing AS value");
	rig_keyspace(&rig, "ugly", "INSERT INTO x VALUES (1)");
	rig_keyspace(&rig, "fine", "SELECT 2 AS value");
	rig_start(&rig);
	EXPECT(pool_statement(rig.pool, 0)->state == STATEMENT_UNKNOWN);
	pool_probe(rig.pool, on_probed, &probed);
	EXPECT(!probed);
	RIG_AWAIT(&rig, probed);
	EXPECT(pool_statement(rig.pool, 0)->state == STATEMENT_OK);
	EXPECT(pool_statement(rig.pool, 0)->params_count == 1);
	EXPECT(pool_statement(rig.pool, 1)->state == STATEMENT_REFUSED);
	EXPECT(pool_statement(rig.pool, 2)->state == STATEMENT_REFUSED);
	EXPECT(pool_statement(rig.pool, 3)->state == STATEMENT_OK);
	EXPECT(!pool_trouble(rig.pool) && pool_counters(rig.pool)->connects == 1);
	pool_probe(rig.pool, on_probed, &probed);
	RIG_AWAIT(&rig, probed == 2);
	BUILD_IS(&rig, 3, "fine", "row 2");
	EXPECT(pool_counters(rig.pool)->connects == 1);
	rig_close(&rig);
}

static void a_probe_without_a_server_ends(void)
{
	struct rig rig;
	int probed = 0;

	rig_open(&rig, &server, 2);
	rig_keyspace(&rig, "ks", "SELECT 1 AS value");
	snprintf(rig.dsn, sizeof(rig.dsn), "host=/nowhere");
	rig_start(&rig);
	pool_probe(rig.pool, on_probed, &probed);
	RIG_AWAIT(&rig, probed);
	EXPECT(pool_trouble(rig.pool) && strstr(pool_trouble(rig.pool), "/nowhere"));
	EXPECT(pool_statement(rig.pool, 0)->state == STATEMENT_UNKNOWN);
	pool_probe(rig.pool, on_probed, &probed);
	rig_close(&rig);
	EXPECT(probed == 2);
}

struct test {
	const char *name;
	void (*run)(void);
};
#define TEST(name)                                                                                 \
	{                                                                                          \
#name, name                                                                        \
	}
static const struct test tests[] = {
	TEST(a_row_a_null_and_no_row_are_told_apart),
	TEST(values_arrive_as_their_output_or_their_bytes),
	TEST(bytea_keeps_every_byte),
	TEST(values_of_every_size_arrive_up_to_the_limit),
	TEST(two_rows_are_an_error),
	TEST(versions_are_integers_or_null),
	TEST(the_session_is_set_up),
	TEST(a_query_that_does_not_prepare_is_refused_alone),
	TEST(a_query_that_writes_is_refused),
	TEST(a_table_that_comes_later_heals_the_keyspace),
	TEST(a_column_that_changes_its_type_is_prepared_again),
	TEST(a_statement_that_vanished_is_prepared_again),
	TEST(names_of_the_guard_do_not_hide_the_querys_own),
	TEST(arguments_are_bound_never_spliced),
	TEST(arguments_that_do_not_fit_reach_no_query),
	TEST(an_argument_that_postgresql_cannot_read_is_a_bad_key),
	TEST(a_statement_ends_at_its_timeout),
	TEST(a_locked_table_times_out_and_is_not_refused),
	TEST(a_cancelled_build_ends_and_its_connection_lives),
	TEST(a_build_that_waits_for_a_connection_can_be_cancelled),
	TEST(a_held_lock_keeps_the_query_from_running),
	TEST(builds_in_one_slot_exclude_each_other),
	TEST(a_terminated_backend_loses_its_build_only),
	TEST(a_backend_killed_in_mid_result_is_a_lost_connection),
	TEST(a_restarted_servers_idle_connections_are_never_used),
	TEST(without_a_server_builds_fail_at_once_and_clearly),
	TEST(a_name_that_does_not_resolve_holds_nothing_up),
	TEST(a_stopped_postmaster_hangs_nothing),
	TEST(a_server_that_hangs_in_mid_build_is_given_up),
	TEST(a_server_that_ignores_its_own_timeout_is_given_up),
	TEST(no_connection_left_is_no_room),
	TEST(a_dsn_that_is_none_is_refused_without_a_word_of_it),
	TEST(thousands_of_builds_never_get_anothers_answer),
	TEST(closing_ends_builds_in_every_state),
	TEST(a_probe_tells_the_good_from_the_bad),
	TEST(a_probe_without_a_server_ends),
};

enum { TEST_SECONDS_MAX = 60 };

static bool passes(const struct test *test)
{
	pid_t pid;
	int status;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		alarm(TEST_SECONDS_MAX);
		test->run();
		exit(0);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

int main(int argc, char **argv)
{
	const size_t count = sizeof(tests) / sizeof(tests[0]);
	int failed = 0;

	if (!server_is_possible()) {
		printf("1..0 # SKIP PostgreSQL is not installed\n");
		return 0;
	}
	signal(SIGPIPE, SIG_IGN);
	log_open(STDERR_FILENO, LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	server_create(&server, NULL);
	server_start(&server);
	printf("1..%zu\n", count);
	for (size_t i = 0; i < count; i++) {
		bool ok;
		if (argc > 1 && !strstr(tests[i].name, argv[1])) {
			printf("ok %zu - %s # SKIP\n", i + 1, tests[i].name);
			continue;
		}
		ok = passes(&tests[i]);
		printf("%s %zu - %s\n", ok ? "ok" : "not ok", i + 1, tests[i].name);
		failed += !ok;
	}
	server_remove(&server);
	return failed > 0;
}
