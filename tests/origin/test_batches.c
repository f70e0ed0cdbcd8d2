/* Many keys in one statement: what each gets, and what the query is kept from. */
#include <string.h>

#include "harness.h"

enum { MANY = 64 };
static struct run runs[MANY];
static char wanted[MANY][64];

/* Builds these keys by one statement. */
static void start(struct rig *rig, uint32_t ks, const char *const *keys, int count)
{
	for (int i = 0; i < count; i++) {
		run_init(&runs[i], rig, ks, keys[i]);
		runs[i].build.lock_key = true;
		if (i > 0)
			runs[i - 1].build.next = &runs[i].build;
	}
	run_start(&runs[0], rig);
}

static void batch(struct rig *rig, uint32_t ks, const char *const *keys, int count)
{
	start(rig, ks, keys, count);
	run_wait(&runs[0], rig);
}

static void forget(int count)
{
	for (int i = 0; i < count; i++)
		run_free(&runs[i]);
}

#define BATCH(rig, ks, ...)                                                                        \
	batch(rig, ks, (const char *const[]){ __VA_ARGS__ },                                       \
	      sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

static uint32_t open_items(struct rig *rig, const char *query)
{
	uint32_t ks;

	server_sql(&server,
		   "CREATE TABLE IF NOT EXISTS b (id bigint PRIMARY KEY, v text, n bigint);"
		   "CREATE TABLE IF NOT EXISTS ran (id bigint); DELETE FROM b; DELETE FROM ran;"
		   "INSERT INTO b VALUES (1, 'one', 11), (2, NULL, 12), (3, '', NULL),"
		   " (4, 'four', 14);"
		   "CREATE SEQUENCE IF NOT EXISTS rows_read;"
		   "SELECT setval('rows_read', 1)");
	rig_open(rig, &server, 4);
	ks = rig_keyspace(rig, "b", "SELECT v AS value, n AS version FROM b WHERE id = $1");
	rig->policies[ks].batch = (struct batch_policy){ .query = (char *)query, .max = MANY };
	rig_start(rig);
	return ks;
}

/* Counts the rows that it reads, also where nothing comes of them. */
#define ITEMS                                                                                      \
	"SELECT id::text AS key, v AS value, n AS version FROM b"                                  \
	" WHERE id = ANY($1) AND nextval('rows_read') > 0 -- $1"

static void each_key_gets_its_own(void)
{
	struct rig rig;
	uint32_t ks = open_items(&rig, ITEMS);

	BATCH(&rig, ks, "b:3", "b:1", "b:99", "b:2");
	RUN_IS(&runs[0], "row ");
	RUN_IS(&runs[1], "row one 11");
	RUN_IS(&runs[2], "no_row");
	RUN_IS(&runs[3], "row NULL 12");
	EXPECT(runs[0].build.history == runs[2].build.history && runs[2].build.history != 0);
	EXPECT(runs[0].build.snapshot != 0 && runs[3].build.snapshot != 0);
	EXPECT(runs[1].done == 0); /* once for all */
	forget(4);
	BUILD_IS(&rig, ks, "b:4", "row four 14");
	rig_close(&rig);
}

static void as_many_as_there_may_be(void)
{
	const char *keys[MANY];
	struct rig rig;
	uint32_t ks;

	rig_open(&rig, &server, 1);
	ks = rig_keyspace(&rig, "n", "SELECT $1::int AS value");
	rig.policies[ks].batch =
		(struct batch_policy){ .query = (char *)"SELECT k AS key, k * 2 AS value"
							" FROM unnest($1::int[]) k",
				       .max = MANY };
	rig_start(&rig);
	for (int i = 0; i < MANY; i++) {
		snprintf(wanted[i], sizeof(wanted[i]), "n:%d", i - 5);
		keys[i] = wanted[i];
	}
	batch(&rig, ks, keys, MANY);
	for (int i = 0; i < MANY; i++) {
		char text[32];
		snprintf(text, sizeof(text), "row %d", 2 * (i - 5));
		RUN_IS(&runs[i], text);
	}
	forget(MANY);
	EXPECT(pool_counters(rig.pool)->connects == 1);
	rig_close(&rig);
}

/* --- arguments --- */

static void whatever_is_in_a_key_stays_data(void)
{
	struct rig rig;
	uint32_t ks;

	rig_open(&rig, &server, 2);
	ks = rig_keyspace(&rig, "t", "SELECT $1::text AS value");
	rig.policies[ks].batch =
		(struct batch_policy){ .query = (char *)"SELECT k AS key, '<' || k || '>' AS value"
							" FROM unnest($1::text[]) k",
				       .max = MANY };
	rig_start(&rig);
	BATCH(&rig, ks, "t:'", "t:\"", "t:\\", "t:a,b", "t:{}", "t:NULL", "t:", "t: x ",
	      "t:\"},{\"", "t:\\\"", "t:%3A%25", "t:\n", "t:$1", "t:€", "t:null",
	      "t:'; DROP TABLE b");
	RUN_IS(&runs[0], "row <'>");
	RUN_IS(&runs[1], "row <\">");
	RUN_IS(&runs[2], "row <\\>");
	RUN_IS(&runs[3], "row <a,b>");
	RUN_IS(&runs[4], "row <{}>");
	RUN_IS(&runs[5], "row <NULL>");
	RUN_IS(&runs[6], "row <>");
	RUN_IS(&runs[7], "row < x >");
	RUN_IS(&runs[8], "row <\"},{\">");
	RUN_IS(&runs[9], "row <\\\">");
	RUN_IS(&runs[10], "row <:%>");
	RUN_IS(&runs[11], "row <\n>");
	RUN_IS(&runs[12], "row <$1>");
	RUN_IS(&runs[13], "row <€>");
	RUN_IS(&runs[14], "row <null>");
	RUN_IS(&runs[15], "row <'; DROP TABLE b>");
	forget(16);
	rig_close(&rig);
}

static void a_key_that_does_not_fit_is_not_sent(void)
{
	struct rig rig;
	uint32_t ks = open_items(&rig, ITEMS);

	BUILD_IS(&rig, ks, "b:1", "row one 11"); /* by then it is known what fits */
	BATCH(&rig, ks, "b:1", "b:042", "b:x", "b:4", "b:1:2", "b");
	RUN_IS(&runs[0], "row one 11");
	RUN_IS(&runs[1], "bad_key bad_request argument 1 of b must be a bigint in plain decimal");
	RUN_IS(&runs[2], "bad_key bad_request argument 1 of b must be a bigint in plain decimal");
	RUN_IS(&runs[3], "row four 14");
	RUN_IS(&runs[4], "bad_key bad_request b takes 1 argument, got 2");
	RUN_IS(&runs[5], "bad_key bad_request b takes 1 argument, got 0");
	forget(6);
	BATCH(&rig, ks, "b:x", "b:y");
	EXPECT(runs[0].build.outcome == BUILD_BAD_KEY && runs[1].build.outcome == BUILD_BAD_KEY);
	forget(2);
	rig_close(&rig);
}

static void what_one_key_may_have_spoilt_goes_apart(void)
{
	struct rig rig;
	uint32_t ks = open_items(&rig, "SELECT id::text AS key, 1 / (id - 4) AS value FROM b"
				       " WHERE id = ANY($1)");

	BUILD_IS(&rig, ks, "b:1", "row one 11");
	BATCH(&rig, ks, "b:1", "b:4", "b:x");
	RUN_IS(&runs[0], "apart origin_error 22012 division by zero");
	RUN_IS(&runs[1], "apart origin_error 22012 division by zero");
	EXPECT(runs[2].build.outcome == BUILD_BAD_KEY);
	forget(3);
	BATCH(&rig, ks, "b:1", "b:2");
	RUN_IS(&runs[0], "row 0");
	forget(2);
	rig_close(&rig);
}

/* Which is the case where the two queries take their arguments as different types. */
static void a_key_that_fits_only_the_single_query_goes_apart(void)
{
	struct rig rig;
	uint32_t ks;

	rig_open(&rig, &server, 2);
	ks = rig_keyspace(&rig, "t", "SELECT 'alone' AS value FROM (SELECT $1::text) t");
	rig.policies[ks].batch =
		(struct batch_policy){ .query = (char *)"SELECT k AS key, 'both' AS value"
							" FROM unnest($1::int[]) k",
				       .max = MANY };
	rig_start(&rig);
	BATCH(&rig, ks, "t:042", "t:42", "t:5000000000");
	EXPECT(runs[0].build.outcome == BUILD_APART && runs[2].build.outcome == BUILD_APART);
	RUN_IS(&runs[1], "row both");
	forget(3);
	BATCH(&rig, ks, "t:042", "t:5000000000");
	EXPECT(runs[0].build.outcome == BUILD_APART && runs[1].build.outcome == BUILD_APART);
	forget(2);
	rig_close(&rig);
}

/* As it is for each of 1.5 and 1.50, of which WHERE id = ANY($1) brings one row. */
static void keys_that_are_given_back_as_they_came_have_their_row_however_they_are_spelled(void)
{
	struct rig rig;
	uint32_t ks;

	server_sql(&server, "CREATE TABLE sizes (id numeric PRIMARY KEY, v text);"
			    "INSERT INTO sizes VALUES (1.5, 'one and a half')");
	rig_open(&rig, &server, 2);
	ks = rig_keyspace(&rig, "s", "SELECT v AS value FROM sizes WHERE id = $1");
	rig.policies[ks].batch = (struct batch_policy){
		.query = (char *)"SELECT k AS key, v AS value FROM unnest($1::text[]) k"
				 " JOIN sizes ON id = k::numeric",
		.max = MANY
	};
	rig_start(&rig);
	BATCH(&rig, ks, "s:1.5", "s:1.50", "s:2");
	RUN_IS(&runs[0], "row one and a half");
	RUN_IS(&runs[1], "row one and a half");
	RUN_IS(&runs[2], "no_row");
	forget(3);
	rig_close(&rig);
	server_sql(&server, "DROP TABLE sizes");
}

static void a_type_that_only_postgresql_judges_goes_apart(void)
{
	struct rig rig;
	uint32_t ks;

	rig_open(&rig, &server, 2);
	ks = rig_keyspace(&rig, "i", "SELECT host($1::inet) AS value");
	rig.policies[ks].batch =
		(struct batch_policy){ .query = (char *)"SELECT k AS key, 1 AS value FROM"
							" unnest($1::text[]) k WHERE"
							" k::inet IS NOT NULL",
				       .max = MANY };
	rig_start(&rig);
	BATCH(&rig, ks, "i:10.0.0.1", "i:nonsense");
	EXPECT(runs[0].build.outcome == BUILD_APART && runs[1].build.outcome == BUILD_APART);
	forget(2);
	BATCH(&rig, ks, "i:10.0.0.1", "i:10.0.0.2");
	RUN_IS(&runs[0], "row 1");
	forget(2);
	rig_close(&rig);
}

/* --- rows that should not be --- */

static void two_rows_are_that_keys_error(void)
{
	struct rig rig;
	uint32_t ks = open_items(&rig, "SELECT id::text AS key, v AS value FROM b"
				       " JOIN generate_series(1, 2) i ON i = 1 OR id = 4"
				       " WHERE id = ANY($1)");

	BATCH(&rig, ks, "b:1", "b:4");
	RUN_IS(&runs[0], "row one");
	RUN_IS(&runs[1], "failed origin_error the batch query returned two rows for the key 4");
	forget(2);
	rig_close(&rig);
}

static void a_row_that_nobody_asked_for_has_each_built_alone(void)
{
	static const char *const cases[][2] = {
		{ "SELECT id::text AS key, v AS value FROM b",
		  "the batch query returned a row for a key that was not asked for: 3" },
		{ "SELECT '0' || id AS key, v AS value FROM b WHERE id = ANY($1)",
		  "the batch query returned a row for a key that was not asked for: 01" },
		{ "SELECT NULL::text AS key, v AS value FROM b WHERE id = ANY($1)",
		  "the batch query returned a row whose key is NULL" },
		{ "SELECT 1 AS key, 'x' AS value FROM generate_series(1, 1000) WHERE $1::bigint[]"
		  " IS NOT NULL",
		  "the batch query returned many more rows than it was asked for" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rig rig;
		uint32_t ks = open_items(&rig, cases[i][0]);
		server_sql(&server, "DELETE FROM b WHERE id NOT IN (1, 2, 3)");
		BATCH(&rig, ks, "b:1", "b:2");
		EXPECT(runs[0].build.outcome == BUILD_APART);
		EXPECT(runs[1].build.outcome == BUILD_APART);
		if (i > 0) /* without a use of $1 its type is not known */
			EXPECT(strstr(runs[0].build.text->bytes, cases[i][1]));
		forget(2);
		rig_close(&rig);
	}
}

static void values_are_bounded_each_and_in_all(void)
{
	struct rig rig;
	uint32_t ks;

	rig_open(&rig, &server, 2);
	ks = rig_keyspace(&rig, "s", "SELECT repeat('x', $1::int) AS value");
	rig.policies[ks].batch =
		(struct batch_policy){ .query = (char *)"SELECT k AS key, repeat('x', k) AS value"
							" FROM unnest($1::int[]) k ORDER BY k",
				       .max = MANY };
	rig_start(&rig);
	BATCH(&rig, ks, "s:16777217", "s:16777216", "s:10", "s:16777215", "s:20");
	RUN_IS(&runs[0],
	       "failed too_large the value is 16777217 bytes, over the limit of 16777216");
	RUN_IS(&runs[1], "apart"); /* 32 MiB and a little */
	EXPECT(runs[2].build.value->len == 10 && runs[3].build.value->len == 16777215);
	EXPECT(runs[4].build.value->len == 20);
	forget(5);
	rig_close(&rig);
}

static void rows_may_have_times_of_their_own(void)
{
	struct rig rig;
	uint32_t ks = open_items(&rig, "SELECT id AS key, v AS value, n AS version,"
				       " id * 1000 AS fresh_ms, CASE id WHEN 4 THEN -1 END"
				       " AS stale_ms FROM b WHERE id = ANY($1)");

	BATCH(&rig, ks, "b:1", "b:4");
	RUN_IS(&runs[0], "row one 11");
	EXPECT(runs[0].build.fresh_us == 1000000 && runs[0].build.stale_us == -1);
	EXPECT(runs[1].build.outcome == BUILD_FAILED &&
	       strstr(runs[1].build.text->bytes, "stale_ms is -1"));
	forget(2);
	rig_close(&rig);
}

/* --- locks --- */

static long rows_read(void)
{
	return atol(server_sql(&server, "SELECT last_value FROM rows_read"));
}

static void a_held_key_delays_only_itself(void)
{
	struct rig rig;
	uint32_t ks = open_items(&rig, ITEMS);
	PGconn *other = server_connect(&server);
	char sql[128];
	struct key key = { .bytes = "b:4", .len = 3 };

	snprintf(sql, sizeof(sql), "SELECT pg_advisory_lock(%lld)",
		 (long long)guard_key_lock("test:", &key));
	PQclear(PQexec(other, sql));
	BATCH(&rig, ks, "b:1", "b:4", "b:3");
	RUN_IS(&runs[0], "row one 11");
	RUN_IS(&runs[1], "key_held");
	RUN_IS(&runs[2], "row ");
	EXPECT(rows_read() == 3); /* it began at 1 */
	forget(3);
	/* Without the store's leases nobody takes the keys' locks. */
	run_init(&runs[0], &rig, ks, "b:1");
	run_init(&runs[1], &rig, ks, "b:4");
	runs[0].build.next = &runs[1].build;
	run_start(&runs[0], &rig);
	run_wait(&runs[0], &rig);
	RUN_IS(&runs[1], "row four 14");
	forget(2);
	PQfinish(other);
	rig_close(&rig);
}

static void the_query_does_not_run_where_nothing_is_locked(void)
{
	struct rig rig;
	/* Also what does not depend on the keys at all. */
	uint32_t ks =
		open_items(&rig, "WITH all_of_it AS MATERIALIZED (SELECT nextval('rows_read'))"
				 " SELECT b.id::text AS key, v AS value FROM b, all_of_it"
				 " WHERE b.id = ANY($1)");
	PGconn *other = server_connect(&server);
	char sql[256];
	struct key one = { .bytes = "b:1", .len = 3 }, four = { .bytes = "b:4", .len = 3 };

	snprintf(sql, sizeof(sql), "SELECT pg_advisory_lock(%lld), pg_advisory_lock(%lld)",
		 (long long)guard_key_lock("test:", &one),
		 (long long)guard_key_lock("test:", &four));
	PQclear(PQexec(other, sql));
	/* Often enough for a generic plan. */
	for (int i = 0; i < 10; i++) {
		BATCH(&rig, ks, "b:1", "b:4");
		EXPECT(runs[0].build.outcome == BUILD_KEY_HELD &&
		       runs[1].build.outcome == BUILD_KEY_HELD);
		forget(2);
	}
	EXPECT(rows_read() == 1);
	snprintf(sql, sizeof(sql), "SELECT pg_advisory_unlock_all(), pg_advisory_lock(%d, 0)",
		 guard_slot_class("test:"));
	PQclear(PQexec(other, sql));
	for (int i = 0; i < 10; i++) {
		BATCH(&rig, ks, "b:1", "b:4");
		EXPECT(runs[0].build.outcome == BUILD_SLOT_HELD &&
		       runs[1].build.outcome == BUILD_SLOT_HELD);
		forget(2);
	}
	EXPECT(rows_read() == 1);
	PQclear(PQexec(other, "SELECT pg_advisory_unlock_all()"));
	PQfinish(other);
	BATCH(&rig, ks, "b:1", "b:4");
	RUN_IS(&runs[0], "row one");
	EXPECT(rows_read() == 2);
	forget(2);
	rig_close(&rig);
}

static void a_running_batch_holds_every_keys_lock(void)
{
	static struct run single;
	struct rig rig;
	uint32_t ks = open_items(&rig, "SELECT id::text AS key, v || pg_sleep(60) AS value FROM b"
				       " WHERE id = ANY($1)");

	start(&rig, ks, (const char *const[]){ "b:1", "b:4" }, 2);
	AWAIT_SLEEPER(&rig);
	run_init(&single, &rig, ks, "b:4");
	single.build.slot = 1;
	single.build.lock_key = true;
	run_start(&single, &rig);
	run_wait(&single, &rig);
	RUN_IS(&single, "key_held");
	rig.origin.cancel(rig.origin.impl, &runs[0].build);
	run_wait(&runs[0], &rig);
	EXPECT(runs[0].build.outcome == BUILD_CANCELLED &&
	       runs[1].build.outcome == BUILD_CANCELLED);
	forget(2);
	run_free(&single);
	rig_close(&rig);
}

/* --- trouble that is nobody's fault --- */

static void a_timeout_is_everyones(void)
{
	struct rig rig;
	uint32_t ks = open_items(&rig, "SELECT id::text AS key, v || pg_sleep(60) AS value FROM b"
				       " WHERE id = ANY($1)");

	run_init(&runs[0], &rig, ks, "b:1");
	run_init(&runs[1], &rig, ks, "b:4");
	runs[0].build.next = &runs[1].build;
	runs[0].build.timeout_us = 100 * 1000;
	run_start(&runs[0], &rig);
	run_wait(&runs[0], &rig);
	for (int i = 0; i < 2; i++)
		EXPECT(runs[i].build.outcome == BUILD_FAILED &&
		       strstr(runs[i].build.text->bytes, "57014"));
	forget(2);
	rig_close(&rig);
}

static void a_lost_connection_is_everyones(void)
{
	struct rig rig;
	uint32_t ks = open_items(&rig, "SELECT id::text AS key, v || pg_sleep(60) AS value FROM b"
				       " WHERE id = ANY($1)");

	start(&rig, ks, (const char *const[]){ "b:1", "b:4" }, 2);
	AWAIT_SLEEPER(&rig);
	server_sql(&server, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
			    " WHERE wait_event = 'PgSleep'");
	run_wait(&runs[0], &rig);
	EXPECT(runs[0].build.outcome == BUILD_LOST && runs[1].build.outcome == BUILD_LOST);
	forget(2);
	rig_close(&rig);
}

static void closing_the_pool_cancels_all(void)
{
	struct rig rig;
	uint32_t ks = open_items(&rig, ITEMS);

	start(&rig, ks, (const char *const[]){ "b:1", "b:4" }, 2);
	rig_close_pool(&rig);
	run_wait(&runs[0], &rig);
	EXPECT(runs[0].build.outcome == BUILD_CANCELLED &&
	       runs[1].build.outcome == BUILD_CANCELLED);
	forget(2);
	rig_close(&rig);
}

/* --- what a batch query may be --- */

static void on_probed(struct pool *pool, void *arg)
{
	(void)pool;
	*(bool *)arg = true;
}

static void what_is_no_batch_query_is_refused_with_a_reason(void)
{
	static const struct {
		const char *single, *query, *why;
	} cases[] = {
		{ "SELECT $1::int AS value", "SELECT 1 AS value WHERE 1 = ANY($1::int[])",
		  "batch: the query returns no column named \"key\"" },
		{ "SELECT $1::int AS value", "SELECT 1 AS key WHERE 1 = ANY($1::int[])",
		  "batch: the query returns no column named \"value\"" },
		{ "SELECT $1::int AS value", "SELECT 1 AS key, 1 AS value, 2 AS other",
		  "batch: the query takes 0 parameters; expected one, the array of the keys, as in "
		  "WHERE id = ANY($1)" },
		{ "SELECT $1::int AS value", "SELECT 1 AS key, 1 AS value WHERE $1 = 1 AND $2 = 2",
		  "batch: the query takes 2 parameters; expected one, the array of the keys, as in "
		  "WHERE id = ANY($1)" },
		{ "SELECT $1::int AS value", "SELECT 1 AS key, 1 AS value WHERE $1 = 1",
		  "batch: the query's parameter is of type integer; expected the array of the "
		  "keys, "
		  "as in WHERE id = ANY($1)" },
		{ "SELECT $1::int AS value",
		  "SELECT 1 AS key, 2 AS value, 3 AS odd WHERE 1 = ANY($1::int[])",
		  "batch: the query's column \"odd\" is none that segard knows: key, value, "
		  "version, fresh_ms, stale_ms" },
		{ "SELECT $1::int + $2::int AS value",
		  "SELECT 1 AS key, 1 AS value WHERE 1 = ANY($1::int[])",
		  "batch: only keys of one argument can be built together, and the keyspace's own "
		  "query takes 2" },
		{ "SELECT 1 AS value", "SELECT 1 AS key, 1 AS value WHERE 1 = ANY($1::int[])",
		  "batch: only keys of one argument can be built together, and the keyspace's own "
		  "query takes 0" },
#define SPELLED(type, its)                                                                         \
	"batch: the query's parameter is an array of " type ": a value may have several "          \
	"spellings there, and a key that is not spelled as the row has it would be taken for "     \
	"\"no such row\"; take the keys as text, and give each back as it came: SELECT k AS key, " \
	"... FROM unnest($1::text[]) k JOIN ... ON id = k::" its
#define TAKES(type) "SELECT 1 AS key, 1 AS value WHERE $1::" type "[] IS NOT NULL"
		{ "SELECT $1::numeric AS value", TAKES("numeric"), SPELLED("numeric", "numeric") },
		{ "SELECT $1::float8 AS value", TAKES("float8"),
		  SPELLED("double precision", "double precision") },
		{ "SELECT $1::char(3) AS value", TAKES("char(3)"),
		  SPELLED("character", "character") },
		{ "SELECT $1::timestamptz AS value", TAKES("timestamptz"),
		  SPELLED("timestamp with time zone", "timestamp with time zone") },
		{ "SELECT $1::inet AS value", TAKES("inet"), SPELLED("inet", "inet") },
		{ "SELECT $1::macaddr AS value", TAKES("macaddr"),
		  SPELLED("a type that segard does not know", "its_type") },
		{ "SELECT $1::int AS value", "SELECT 1 AS key FROM nowhere",
		  "batch: 42P01 relation \"nowhere\" does not exist at character 22" },
	};
	enum { COUNT = sizeof(cases) / sizeof(cases[0]) };
	struct rig rig;
	bool probed = false;

	rig_open(&rig, &server, 2);
	for (int i = 0; i < COUNT; i++) {
		uint32_t ks = rig_keyspace(&rig, "ks", cases[i].single);
		rig.policies[ks].batch =
			(struct batch_policy){ .query = (char *)cases[i].query, .max = 2 };
	}
	rig_keyspace(&rig, "none", "SELECT $1::int AS value");
	rig_start(&rig);
	pool_probe(rig.pool, on_probed, &probed);
	RIG_AWAIT(&rig, probed);
	for (uint32_t i = 0; i < COUNT; i++) {
		const struct statement *batch = pool_batch_statement(rig.pool, i);
		EXPECT(pool_statement(rig.pool, i)->state == STATEMENT_OK);
		if (batch->state != STATEMENT_REFUSED || strcmp(batch->error, cases[i].why))
			fprintf(stderr, "# got: %s\n# not: %s\n", batch->error, cases[i].why);
		EXPECT(batch->state == STATEMENT_REFUSED && !strcmp(batch->error, cases[i].why));
	}
	EXPECT(!pool_batch_statement(rig.pool, COUNT));
	/* Each goes its own way then. */
	BATCH(&rig, 0, "ks:1", "ks:2");
	EXPECT(runs[0].build.outcome == BUILD_APART && runs[1].build.outcome == BUILD_APART);
	forget(2);
	BUILD_IS(&rig, 0, "ks:1", "row 1");
	rig_close(&rig);
}

static void the_parameter_may_stand_anywhere(void)
{
	static const char *const queries[] = {
		"SELECT id::text AS key, v AS value FROM b WHERE id = ANY($1)",
		"SELECT id::text AS key, v AS value FROM b WHERE id = ANY ( $1 )",
		"SELECT id AS key, v AS value FROM b WHERE id = any($1::bigint[])",
		"SELECT k AS key, v AS value FROM unnest($1::bigint[]) k JOIN b ON id = k",
		"WITH k AS (SELECT unnest($1::bigint[]) AS id) SELECT id AS key, v AS value"
		" FROM b JOIN k USING (id)",
		"SELECT id AS key, max(v) AS value FROM b WHERE id = ANY($1) GROUP BY id"
		" HAVING count(*) FILTER (WHERE id = ANY($1)) > 0",
		"SELECT id AS key, v AS value FROM b WHERE id = ANY($1) AND v <> '$1' /* $1 */"
		" AND v <> $a$ $1 $a$ AND v <> E'\\'$1' -- $1",
		"SELECT id AS key, v AS value FROM b WHERE id = ANY($1)"
		" UNION ALL SELECT id, v FROM b WHERE id = ANY($1) AND false",
		"SELECT id AS key, v AS value FROM b WHERE id = ANY($1)"
		" ORDER BY array_position($1, id) LIMIT cardinality($1)",
	};

	for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
		struct rig rig;
		uint32_t ks = open_items(&rig, queries[i]);
		BATCH(&rig, ks, "b:4", "b:1", "b:99");
		RUN_IS(&runs[0], "row four");
		RUN_IS(&runs[1], "row one");
		RUN_IS(&runs[2], "no_row");
		forget(3);
		rig_close(&rig);
	}
}

static void a_changed_table_is_learned_anew(void)
{
	struct rig rig;
	uint32_t ks = open_items(&rig, "SELECT id::text AS key, v AS value FROM b"
				       " WHERE id = ANY($1)");

	BATCH(&rig, ks, "b:1", "b:4");
	RUN_IS(&runs[0], "row one");
	forget(2);
	server_sql(&server, "ALTER TABLE b ALTER COLUMN v TYPE bytea USING v::bytea");
	BATCH(&rig, ks, "b:1", "b:4");
	RUN_IS(&runs[0], "row one");
	RUN_IS(&runs[1], "row four");
	forget(2);
	server_sql(&server, "DROP TABLE b");
	rig_close(&rig);
}

static void a_batch_query_that_is_taken_away_sends_each_its_own_way(void)
{
	struct rig rig;
	uint32_t ks = open_items(&rig, ITEMS);
	struct policy without = rig.policies[ks];

	without.batch.query = NULL;
	start(&rig, ks, (const char *const[]){ "b:1", "b:4" }, 2);
	EXPECT(pool_reserve(rig.pool, 1) == 0);
	pool_set(rig.pool, ks, &without);
	run_wait(&runs[0], &rig);
	EXPECT(runs[0].build.outcome == BUILD_APART && runs[1].build.outcome == BUILD_APART);
	forget(2);
	BUILD_IS(&rig, ks, "b:1", "row one 11");
	EXPECT(pool_reserve(rig.pool, 1) == 0);
	pool_set(rig.pool, ks, &rig.policies[ks]);
	BATCH(&rig, ks, "b:1", "b:4");
	RUN_IS(&runs[1], "row four 14");
	forget(2);
	rig_close(&rig);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(each_key_gets_its_own),
		TEST(as_many_as_there_may_be),
		TEST(whatever_is_in_a_key_stays_data),
		TEST(a_key_that_does_not_fit_is_not_sent),
		TEST(what_one_key_may_have_spoilt_goes_apart),
		TEST(a_type_that_only_postgresql_judges_goes_apart),
		TEST(a_key_that_fits_only_the_single_query_goes_apart),
		TEST(keys_that_are_given_back_as_they_came_have_their_row_however_they_are_spelled),
		TEST(two_rows_are_that_keys_error),
		TEST(a_row_that_nobody_asked_for_has_each_built_alone),
		TEST(values_are_bounded_each_and_in_all),
		TEST(rows_may_have_times_of_their_own),
		TEST(a_held_key_delays_only_itself),
		TEST(the_query_does_not_run_where_nothing_is_locked),
		TEST(a_running_batch_holds_every_keys_lock),
		TEST(a_timeout_is_everyones),
		TEST(a_lost_connection_is_everyones),
		TEST(closing_the_pool_cancels_all),
		TEST(what_is_no_batch_query_is_refused_with_a_reason),
		TEST(the_parameter_may_stand_anywhere),
		TEST(a_changed_table_is_learned_anew),
		TEST(a_batch_query_that_is_taken_away_sends_each_its_own_way),
	};

	return harness_run(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
