/* A PostgreSQL that goes away, hangs, restarts or has no room. */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "harness.h"

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

/* Who takes the key's lock and does `rest`, as a session of that name. Never read from. */
static PGconn *hold_key(const struct run *run, const char *name, const char *rest)
{
	char sql[256];
	PGconn *pg = server_connect(&server);

	EXPECT(PQstatus(pg) == CONNECTION_OK);
	snprintf(sql, sizeof(sql), "SET application_name = '%s'", name);
	PQclear(PQexec(pg, sql));
	snprintf(sql, sizeof(sql), "SELECT pg_advisory_xact_lock(%lld), %s",
		 (long long)guard_key_lock("test:", &run->build.key), rest);
	EXPECT(PQsendQuery(pg, sql) && PQflush(pg) == 0);
	return pg;
}

static void who_holds_a_key_and_is_stuck_sending_is_ended(void)
{
	static const char *const names[] = {
		"other", "segard", "segard 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	};
	static struct run run;
	struct rig rig;
	PGconn *stuck;

	rig_open(&rig, &server, 1);
	rig_keyspace(&rig, "ks", "SELECT 1 AS value");
	rig_start(&rig);
	for (int i = 0; i < 3; i++) {
		run_init(&run, &rig, 0, "ks");
		run.build.lock_key = true;
		stuck = hold_key(&run, names[i], "repeat('x', 16000000)");
		rig_await_sql(
			&rig, "1",
			"SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'ClientWrite'");
		run_start(&run, &rig);
		run_wait(&run, &rig);
		RUN_IS(&run, "key_held");
		EXPECT(pool_counters(rig.pool)->evictions == (uint64_t)i);
		PQfinish(stuck);
		rig_await_sql(&rig, "0",
			      "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'");
		run.done = 0;
		run_start(&run, &rig);
		run_wait(&run, &rig);
		RUN_IS(&run, "row 1");
		run_free(&run);
	}
	EXPECT(pool_counters(rig.pool)->lost == 0);
	rig_close(&rig);
}

static void who_holds_a_key_is_ended_when_its_time_is_over(void)
{
	static struct run run;
	struct rig rig;
	PGconn *slow;

	rig_open(&rig, &server, 1);
	rig_keyspace(&rig, "ks", "SELECT 1 AS value");
	rig_start(&rig);
	run_init(&run, &rig, 0, "ks");
	run.build.lock_key = true;
	slow = hold_key(&run, "segard", "pg_sleep(100)");
	AWAIT_SLEEPER(&rig);
	run_start(&run, &rig);
	run_wait(&run, &rig);
	RUN_IS(&run, "key_held");
	EXPECT(pool_counters(rig.pool)->evictions == 0);
	run.build.timeout_us = 100 * 1000; /* and two seconds more */
	while (run.build.outcome == BUILD_KEY_HELD) {
		run.done = 0;
		run_start(&run, &rig);
		run_wait(&run, &rig);
	}
	RUN_IS(&run, "row 1");
	run_free(&run);
	EXPECT(pool_counters(rig.pool)->evictions == 1);
	PQfinish(slow);
	rig_close(&rig);
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

static void after_an_outage_the_loop_is_idle(void)
{
	static struct run run;
	uint64_t turns = 0, until_ms;
	struct server own;
	struct rig rig;

	server_create(&own, &server);
	server_start(&own);
	rig_open(&rig, &own, 4);
	rig_keyspace(&rig, "ks", "SELECT 1 AS value");
	rig_start(&rig);
	BUILD_IS(&rig, 0, "ks", "row 1");
	server_stop(&own, SIGQUIT);
	run_all(&run, &rig, 0, "ks");
	EXPECT(run.build.outcome == BUILD_LOST);
	run_free(&run);
	EXPECT(pool_counters(rig.pool)->connections == 0);
	until_ms = uv_now(&rig.loop) + 500;
	for (; uv_now(&rig.loop) < until_ms; turns++)
		uv_run(&rig.loop, UV_RUN_ONCE);
	/* The rig's own tick comes every 5 ms. */
	EXPECT(turns < 150);
	rig_close(&rig);
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

static const struct test tests[] = {
	TEST(a_terminated_backend_loses_its_build_only),
	TEST(a_backend_killed_in_mid_result_is_a_lost_connection),
	TEST(who_holds_a_key_and_is_stuck_sending_is_ended),
	TEST(who_holds_a_key_is_ended_when_its_time_is_over),
	TEST(a_restarted_servers_idle_connections_are_never_used),
	TEST(without_a_server_builds_fail_at_once_and_clearly),
	TEST(after_an_outage_the_loop_is_idle),
	TEST(a_name_that_does_not_resolve_holds_nothing_up),
	TEST(a_stopped_postmaster_hangs_nothing),
	TEST(a_server_that_hangs_in_mid_build_is_given_up),
	TEST(a_server_that_ignores_its_own_timeout_is_given_up),
	TEST(no_connection_left_is_no_room),
	TEST(a_dsn_that_is_none_is_refused_without_a_word_of_it),
};

int main(int argc, char **argv)
{
	return harness_run(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
