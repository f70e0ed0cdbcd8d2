/* The origin's history: which system a build ran on, and on which of its timelines. */
#include <signal.h>
#include <string.h>

#include "core/entry.h"
#include "harness.h"

static uint64_t built_in(struct rig *rig)
{
	static struct run run;

	run_all(&run, rig, 0, "ks");
	RUN_IS(&run, "row 1");
	run_free(&run);
	return run.build.history;
}

static void a_promotion_under_an_open_connection_is_a_later_history(void)
{
	struct server primary, standby;
	uint64_t on_primary;
	struct rig rig, old;

	server_create(&primary, &server);
	server_start(&primary);
	rig_open(&old, &primary, 1);
	rig_keyspace(&old, "ks", "SELECT 1 AS value");
	rig_start(&old);
	on_primary = built_in(&old);
	EXPECT(on_primary != 0 && on_primary == built_in(&old));

	server_create_standby(&standby, &primary);
	server_start(&standby);
	rig_open(&rig, &standby, 1);
	rig_keyspace(&rig, "ks", "SELECT 1 AS value");
	rig_start(&rig);
	EXPECT(built_in(&rig) == on_primary);

	server_sql(&standby, "SELECT pg_promote()");
	EXPECT(history_is_later(built_in(&rig), on_primary));
	EXPECT(pool_counters(rig.pool)->connects == 1 && pool_counters(rig.pool)->lost == 0);
	EXPECT(built_in(&old) == on_primary);
	rig_close(&rig);
	rig_close(&old);
	server_stop(&standby, SIGQUIT);
	server_stop(&primary, SIGQUIT);
}

static void another_cluster_is_another_history(void)
{
	struct server other;
	uint64_t here, there;
	struct rig rig;

	server_create(&other, &server);
	server_start(&other);
	rig_open(&rig, &server, 1);
	rig_keyspace(&rig, "ks", "SELECT 1 AS value");
	rig_start(&rig);
	here = built_in(&rig);
	rig_close(&rig);
	rig_open(&rig, &other, 1);
	rig_keyspace(&rig, "ks", "SELECT 1 AS value");
	rig_start(&rig);
	there = built_in(&rig);
	rig_close(&rig);
	EXPECT(here != there && !history_is_later(here, there) && !history_is_later(there, here));
	server_stop(&other, SIGQUIT);
}

static void a_plain_role_reads_the_history_as_well(void)
{
	uint64_t as_superuser;
	struct rig rig;

	server_sql(&server, "CREATE ROLE plain LOGIN");
	rig_open(&rig, &server, 1);
	rig_keyspace(&rig, "ks", "SELECT 1 AS value");
	rig_start(&rig);
	as_superuser = built_in(&rig);
	rig_close(&rig);
	rig_open(&rig, &server, 1);
	snprintf(rig.dsn, sizeof(rig.dsn), "host=%s user=plain dbname=postgres", server.folder);
	rig_keyspace(&rig, "ks", "SELECT 1 AS value");
	rig_start(&rig);
	EXPECT(built_in(&rig) == as_superuser);
	rig_close(&rig);
	server_sql(&server, "DROP ROLE plain");
}

/* Whatever part of it: builds go on, and their history is unknown; also in the middle of it all. */
static void a_history_that_may_not_be_read_is_unknown(void)
{
	static const char *const functions[] = { "pg_control_system()", "pg_control_checkpoint()",
						 "pg_control_recovery()", "pg_walfile_name(pg_lsn)",
						 "pg_current_wal_insert_lsn()" };
	struct server own;
	struct rig rig;

	server_create(&own, &server);
	server_start(&own);
	server_sql(&own, "CREATE ROLE plain LOGIN");
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		for (int late = 0; late < 2; late++) {
			rig_open(&rig, &own, 1);
			snprintf(rig.dsn, sizeof(rig.dsn), "host=%s user=plain dbname=postgres",
				 own.folder);
			rig_keyspace(&rig, "ks", "SELECT 1 AS value");
			rig_start(&rig);
			if (late)
				EXPECT(built_in(&rig) != 0);
			server_sql(&own, "REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC", functions[i]);
			/* The identifier of an open connection is known already. */
			if (!late || i > 0)
				EXPECT(built_in(&rig) == 0);
			if (late)
				EXPECT(pool_counters(rig.pool)->connects == 1);
			rig_close(&rig);
			server_sql(&own, "GRANT EXECUTE ON FUNCTION %s TO PUBLIC", functions[i]);
		}
	}
	server_stop(&own, SIGQUIT);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(a_promotion_under_an_open_connection_is_a_later_history),
		TEST(another_cluster_is_another_history),
		TEST(a_plain_role_reads_the_history_as_well),
		TEST(a_history_that_may_not_be_read_is_unknown),
	};

	return harness_run(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
