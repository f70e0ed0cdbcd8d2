/* What a test of the pool stands on: a loop, a pool, the keyspaces under test, builds. */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "origin/pool.h"
#include "server.h"

/* Ends the test with the reason. */
#define EXPECT(expr)                                                                               \
	do {                                                                                       \
		if (!(expr))                                                                       \
			rig_failed(#expr, __FILE__, __LINE__);                                     \
	} while (0)
void rig_failed(const char *expr, const char *file, int line);

enum { RIG_KEYSPACES_MAX = 24 };

struct rig {
	struct server *server;
	char dsn[256];
	uv_loop_t loop;
	uv_timer_t tick; /* wakes the loop, so that conditions are looked at */
	struct origin_policy policy;
	struct policy policies[RIG_KEYSPACES_MAX];
	struct keyspace keyspaces[RIG_KEYSPACES_MAX];
	uint32_t keyspaces_count;
	struct pool *pool;
	struct origin origin;
	bool closed;
};

struct run {
	struct build build;
	char key[KEY_BYTES_MAX * 3 + 256];
	int done; /* how often */
};

/* A rig without a pool yet; then its keyspaces, then its pool. With SEGAR_TEST_POOLED in the
   environment all is said as behind a pooler, and must come to the same. */
void rig_open(struct rig *rig, struct server *server, int concurrency);
uint32_t rig_keyspace(struct rig *rig, const char *name, const char *query);
void rig_start(struct rig *rig);

/* Closes what is open and proves that nothing is left: the loop must close. */
void rig_close(struct rig *rig);
void rig_close_pool(struct rig *rig);

/* Starts a build of the key, with slot 0, 10 s and no key lock; change rig->build before. */
void run_init(struct run *run, struct rig *rig, uint32_t keyspace, const char *key);
void run_start(struct run *run, struct rig *rig);
/* Runs the loop until the build is done. */
void run_wait(struct run *run, struct rig *rig);
/* All three, freeing nothing. */
void run_all(struct run *run, struct rig *rig, uint32_t keyspace, const char *key);
/* Gives back the answer's references. */
void run_free(struct run *run);

/* The answer as text: "row VALUE version", "row NULL", "no_row", "failed origin_error TEXT", … */
const char *run_text(const struct run *run);

/* Runs the loop until the SQL returns `expected`. */
void rig_await_sql(struct rig *rig, const char *expected, const char *sql);

/* Runs the loop until the condition holds. */
#define RIG_AWAIT(rig, condition)                                                                  \
	while (!(condition))                                                                       \
	uv_run(&(rig)->loop, UV_RUN_ONCE)
