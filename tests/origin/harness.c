#include "harness.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"

enum { TEST_SECONDS_MAX = 60 };

struct server server;

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

int harness_run(int argc, char **argv, const struct test *tests, size_t count)
{
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
