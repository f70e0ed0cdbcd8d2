/* One connection by itself: what a pool cannot show in a short time. */
#include <stddef.h>

#include "base/mem.h"
#include "harness.h"
#include "origin/conn.h"
#include "origin/statements.h"

struct seen {
	int opened, idle, finished, closed, freed;
	bool has_trouble;
};

static struct seen *seen_of(struct conn *conn)
{
	return conn->config->owner;
}

static void on_opened(struct conn *conn)
{
	seen_of(conn)->opened++;
}

static void on_idle(struct conn *conn)
{
	seen_of(conn)->idle++;
}

static void on_finished(struct conn *conn, struct build *build, const struct trouble *trouble)
{
	(void)trouble;
	seen_of(conn)->finished++;
	if (build)
		build->done(build);
}

static void on_closed(struct conn *conn, const struct trouble *trouble)
{
	seen_of(conn)->closed++;
	seen_of(conn)->has_trouble = trouble != NULL;
}

static void on_freed(struct conn *conn)
{
	seen_of(conn)->freed++;
}

static const struct conn_events events = {
	.opened = on_opened,
	.idle = on_idle,
	.finished = on_finished,
	.closed = on_closed,
	.freed = on_freed,
};

static struct statements statements;

static struct conn_config config_of(struct rig *rig, struct seen *seen)
{
	return (struct conn_config){
		.loop = &rig->loop,
		.dsn = rig->dsn,
		.locks = { "test:", guard_slot_class("test:"), 30000 },
		.connect_timeout_ms = 5000,
		.idle_ms = 60000,
		.statements = statements.at,
		.events = &events,
		.owner = seen,
	};
}

static void an_idle_connection_ends_after_its_time(void)
{
	struct seen seen = { 0 };
	struct conn_config config;
	uint64_t idle_since_ms;
	struct conn *conn;
	struct rig rig;

	rig_open(&rig, &server, 1);
	config = config_of(&rig, &seen);
	config.idle_ms = 20;
	EXPECT(conn_open(&config, &conn) == 0 && conn->state == CONN_CONNECTING);
	RIG_AWAIT(&rig, seen.idle);
	idle_since_ms = uv_now(&rig.loop);
	RIG_AWAIT(&rig, seen.freed);
	EXPECT(uv_now(&rig.loop) - idle_since_ms < 2000);
	EXPECT(seen.opened == 1 && seen.idle == 1 && seen.closed == 1 && !seen.has_trouble);
	rig_start(&rig);
	rig_close(&rig);
}

static void a_large_value_does_not_keep_its_memory_for_long(void)
{
	struct seen seen = { 0 };
	struct conn_config config;
	static struct run run;
	struct conn *conn;
	struct rig rig;

	rig_open(&rig, &server, 1);
	rig_keyspace(&rig, "ks", "SELECT repeat('x', $1::int) AS value");
	statements_init(&statements);
	EXPECT(statements_reserve(&statements, 1) == 0);
	statements_set(&statements, 0, &rig.policies[0]);
	config = config_of(&rig, &seen);
	EXPECT(conn_open(&config, &conn) == 0);
	RIG_AWAIT(&rig, seen.idle);
	run_init(&run, &rig, 0, "ks:2000000");
	run.build.due_ns = UINT64_MAX; /* as the pool does */
	conn_work(conn, statements.at[0], &run.build);
	run_wait(&run, &rig);
	EXPECT(run.build.outcome == BUILD_ROW && run.build.value->len == 2000000);
	run_free(&run);
	RIG_AWAIT(&rig, seen.freed);
	EXPECT(seen.idle == 2 && seen.finished == 1 && seen.closed == 1 && !seen.has_trouble);
	statements_close(&statements);
	rig_start(&rig);
	rig_close(&rig);
}

/* Fails allocation or call n, for every n: each build ends, nothing leaks, and it works afterwards.
 */
static void missing_memory_is_an_outcome(void)
{
	static struct run run;
	int failures = 0;

	for (uint64_t n = 1;; n++) {
		struct rig rig;
		uint64_t calls;

		rig_open(&rig, &server, 1);
		rig_keyspace(&rig, "ks", "SELECT 'v' AS value");
		rig_start(&rig);
		calls = mem_calls();
		mem_fail_at(n);
		run_all(&run, &rig, 0, "ks");
		calls = mem_calls() - calls;
		mem_fail_at(0);
		if (run.build.outcome != BUILD_ROW) {
			EXPECT(run.build.outcome == BUILD_NO_ROOM ||
			       run.build.outcome == BUILD_LOST);
			failures++;
		}
		run_free(&run);
		run_all(&run, &rig, 0, "ks");
		EXPECT(run.build.outcome == BUILD_ROW);
		run_free(&run);
		rig_close(&rig);
		if (n > calls)
			break;
	}
	EXPECT(failures >= 4);
}

static const struct test tests[] = {
	TEST(an_idle_connection_ends_after_its_time),
	TEST(a_large_value_does_not_keep_its_memory_for_long),
	TEST(missing_memory_is_an_outcome),
};

int main(int argc, char **argv)
{
	return harness_run(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
