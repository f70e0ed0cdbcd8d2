/* Runs tests against one PostgreSQL, each in a process of its own, so that one that fails or hangs
 * spoils nothing, and with a loop and a pool of its own. Speaks TAP.
 */
#pragma once

#include <string.h>

#include "rig.h"

/* Running in every test, for all of them: do it no harm. */
extern struct server server;

struct test {
	const char *name;
	void (*run)(void);
};
#define TEST(name)                                                                                 \
	{                                                                                          \
#name, name                                                                        \
	}

/* `argv[1]`: only tests with that in their names. Returns main's exit code. */
int harness_run(int argc, char **argv, const struct test *tests, size_t count);

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

/* Waits until one build sleeps in the keyspace's pg_sleep. */
#define AWAIT_SLEEPER(rig)                                                                         \
	rig_await_sql(rig, "1",                                                                    \
		      "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'")
