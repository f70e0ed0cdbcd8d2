/* The pool against a real PostgreSQL. One process, one server; each test has its own loop and pool,
 * and runs in a child of its own, so that one that fails or hangs spoils nothing.
 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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
	server_create(&server);
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
