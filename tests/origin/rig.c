#include "rig.h"

#include <stddef.h>
#include <string.h>

#include "base/check.h"

void rig_failed(const char *expr, const char *file, int line)
{
	fprintf(stderr, "# %s:%d: expected %s\n", file, line, expr);
	fflush(NULL);
	_Exit(1);
}

static void rig_on_tick(uv_timer_t *timer)
{
	(void)timer;
}

void rig_open(struct rig *rig, struct server *server, int concurrency)
{
	*rig = (struct rig){ .server = server };
	snprintf(rig->dsn, sizeof(rig->dsn),
		 "host=%s user=postgres dbname=postgres password=geheim", server->folder);
	rig->policy = (struct origin_policy){
		.dsn = rig->dsn,
		.concurrency = concurrency,
		.budget_per_s = 1000,
		.fleet = 1,
		.pooler = getenv("SEGAR_TEST_POOLED") != NULL,
		.build_timeout_us = 10 * 1000 * 1000,
	};
	EXPECT(uv_loop_init(&rig->loop) == 0);
	EXPECT(uv_timer_init(&rig->loop, &rig->tick) == 0);
	EXPECT(uv_timer_start(&rig->tick, rig_on_tick, 0, 5) == 0);
}

uint32_t rig_keyspace(struct rig *rig, const char *name, const char *query)
{
	uint32_t index = rig->keyspaces_count++;

	EXPECT(index < RIG_KEYSPACES_MAX);
	rig->policies[index] = (struct policy){
		.name = (char *)name,
		.query = (char *)query,
		.build_timeout_us = 10 * 1000 * 1000,
	};
	rig->keyspaces[index] =
		(struct keyspace){ .policy = &rig->policies[index], .index = index };
	return index;
}

void rig_start(struct rig *rig)
{
	EXPECT(pool_create(&rig->loop, &rig->policy, rig->policies, rig->keyspaces_count,
			   "test:", &rig->pool) == 0);
	rig->origin = pool_origin(rig->pool);
}

static void rig_on_closed(struct pool *pool, void *arg)
{
	struct rig *rig = arg;

	EXPECT(pool == rig->pool && pool_counters(pool)->building == 0 &&
	       pool_counters(pool)->connections == 0);
	rig->pool = NULL;
}

void rig_close_pool(struct rig *rig)
{
	if (!rig->closed)
		pool_close(rig->pool, rig_on_closed, rig);
	rig->closed = true;
}

void rig_close(struct rig *rig)
{
	rig_close_pool(rig);
	RIG_AWAIT(rig, !rig->pool);
	/* Statements that are given up behind a pooler end a little later. */
	if (rig->policy.pooler)
		rig_await_sql(rig, "0",
			      "SELECT count(*) FROM pg_stat_activity"
			      " WHERE application_name = 'segard' AND state = 'active'");
	uv_close((uv_handle_t *)&rig->tick, NULL);
	EXPECT(uv_run(&rig->loop, UV_RUN_DEFAULT) == 0);
	EXPECT(uv_loop_close(&rig->loop) == 0);
}

static void run_on_done(struct build *build)
{
	struct run *run = container_of(build, struct run, build);

	run->done++;
	EXPECT(run->done == 1);
}

void run_init(struct run *run, struct rig *rig, uint32_t keyspace, const char *key)
{
	run->done = 0;
	snprintf(run->key, sizeof(run->key), "%s", key);
	run->build = (struct build){
		.key = { .keyspace = &rig->keyspaces[keyspace],
			 .bytes = run->key,
			 .len = (uint32_t)strlen(run->key) },
		.timeout_us = 10 * 1000 * 1000,
		.within_us = 60 * 1000 * 1000,
		.done = run_on_done,
	};
}

void run_start(struct run *run, struct rig *rig)
{
	rig->origin.build(rig->origin.impl, &run->build);
	EXPECT(!run->done);
}

void run_wait(struct run *run, struct rig *rig)
{
	RIG_AWAIT(rig, run->done);
}

void run_all(struct run *run, struct rig *rig, uint32_t keyspace, const char *key)
{
	run_init(run, rig, keyspace, key);
	run_start(run, rig);
	run_wait(run, rig);
}

void run_free(struct run *run)
{
	value_unref(run->build.value);
	value_unref(run->build.text);
	run->build.value = run->build.text = NULL;
}

const char *run_text(const struct run *run)
{
	static char text[2048];
	const struct build *build = &run->build;
	char version[32] = "";

	if (build->has_version)
		snprintf(version, sizeof(version), " %lld", (long long)build->version);
	if (build->outcome == BUILD_ROW)
		snprintf(text, sizeof(text), "row %.100s%s",
			 build->value ? build->value->bytes : "NULL", version);
	else if (build->text)
		snprintf(text, sizeof(text), "%s %s %s", build_outcome_name(build->outcome),
			 status_name(build->status), build->text->bytes);
	else
		snprintf(text, sizeof(text), "%s", build_outcome_name(build->outcome));
	return text;
}

void rig_await_sql(struct rig *rig, const char *expected, const char *sql)
{
	while (strcmp(server_sql(rig->server, "%s", sql), expected))
		uv_run(&rig->loop, UV_RUN_ONCE);
}
