/* The pool's builds: their ends, their locks, many at once. */
#include <string.h>

#include "harness.h"

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

static void a_cancelled_build_ends_and_its_connection_lives(void)
{
	static const struct trace trace = { .id = { 1 }, .parent = { 2 } };
	static struct run run;
	struct rig rig;

	rig_open(&rig, &server, 1);
	rig_keyspace(&rig, "ks", "SELECT pg_sleep($1::int) AS value");
	rig_start(&rig);
	for (int i = 0; i < 20; i++) {
		run_init(&run, &rig, 0, "ks:100");
		run.build.trace = i % 2 ? &trace : NULL;
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

/* The first finds no connection, and its moment is over when there is one: nothing of it is sent.
 */
static void a_late_build_is_not_sent_and_leaves_its_connection_to_the_next(void)
{
	static struct run run;
	struct rig rig;

	server_sql(&server,
		   "DROP TABLE IF EXISTS late; CREATE TABLE late (v int);"
		   "CREATE OR REPLACE FUNCTION late() RETURNS int LANGUAGE sql VOLATILE AS "
		   "'INSERT INTO late VALUES (1) RETURNING v'");
	rig_open(&rig, &server, 1);
	rig_keyspace(&rig, "ks", "SELECT late() + count(*) AS value FROM late");
	rig_start(&rig);
	run_init(&run, &rig, 0, "ks");
	run.build.within_us = 0;
	run_start(&run, &rig);
	run_wait(&run, &rig);
	RUN_IS(&run, "late overloaded the connection to PostgreSQL came too late for the build");
	run_free(&run);
	BUILD_IS(&rig, 0, "ks", "row 1");
	EXPECT(pool_counters(rig.pool)->connects == 1);
	rig_close(&rig);
}

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
	/* The slot comes first: only it tells that an older build still takes up room. */
	PQclear(PQexec(other, lock_slot));
	run.done = 0;
	run_start(&run, &rig);
	run_wait(&run, &rig);
	RUN_IS(&run, "slot_held");
	run.build.slot = 2;
	run.build.lock_key = false;
	run.done = 0;
	run_start(&run, &rig);
	run_wait(&run, &rig);
	RUN_IS(&run, "row 1");
	run_free(&run);
	BUILD_IS(&rig, 0, "ks:1", "row 2");
	EXPECT(!strcmp(
		server_sql(&server, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"),
		"2"));
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

static const struct test tests[] = {
	TEST(a_statement_ends_at_its_timeout),
	TEST(a_locked_table_times_out_and_is_not_refused),
	TEST(a_cancelled_build_ends_and_its_connection_lives),
	TEST(a_build_that_waits_for_a_connection_can_be_cancelled),
	TEST(a_late_build_is_not_sent_and_leaves_its_connection_to_the_next),
	TEST(a_held_lock_keeps_the_query_from_running),
	TEST(builds_in_one_slot_exclude_each_other),
	TEST(thousands_of_builds_never_get_anothers_answer),
	TEST(closing_ends_builds_in_every_state),
	TEST(a_probe_tells_the_good_from_the_bad),
	TEST(a_probe_without_a_server_ends),
};

int main(int argc, char **argv)
{
	return harness_run(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
