#include "server.h"

#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"

enum { OPTIONS_MAX = 32, WORDS_MAX = 64 };

bool server_is_possible(void)
{
	return access("/usr/bin/redis-server", X_OK) == 0;
}

void server_create(struct server *server)
{
	*server = (struct server){ .folder = "/tmp/segar-store-XXXXXX" };
	CHECK(mkdtemp(server->folder) != NULL);
	snprintf(server->socket, sizeof(server->socket), "%s/redis.sock", server->folder);
	snprintf(server->url, sizeof(server->url), "unix://%s", server->socket);
}

static void run(const struct server *server, const char **argv)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (chdir(server->folder) != 0 || !freopen("log", "a", stdout) ||
	    !freopen("log", "a", stderr))
		_exit(127);
	if (server->lc_all)
		setenv("LC_ALL", server->lc_all, 1);
	if (server->locpath)
		setenv("LOCPATH", server->locpath, 1);
	/* execv's own promise: it changes none of them. */
	if (server->skew_us) {
		setenv("LD_PRELOAD", getenv("SEGAR_SKEW_LIBRARY"), 1);
		setenv("SEGAR_SKEW_FILE", "skew", 1);
	}
	execv("/usr/bin/redis-server", (char **)argv);
	_exit(127);
}

static bool is_up(struct server *server)
{
	redisContext *context = redisConnectUnix(server->socket);
	bool up = context && !context->err;
	if (context)
		redisFree(context);
	return up;
}

void server_start(struct server *server, ...)
{
	const char *argv[OPTIONS_MAX] = { "redis-server", "--port", "0",
					  "--save",       "",       "--unixsocket" };
	int argc = 6;
	va_list options;
	argv[argc++] = server->socket;
	va_start(options, server);
	while (argc < OPTIONS_MAX - 1 && (argv[argc] = va_arg(options, const char *)))
		argc++;
	va_end(options);
	unlink(server->socket);
	server->pid = fork();
	CHECK(server->pid >= 0);
	if (server->pid == 0)
		run(server, argv);
	while (!is_up(server)) {
		CHECK_MSG(waitpid(server->pid, NULL, WNOHANG) == 0, "redis-server ended");
		poll(NULL, 0, 2);
	}
}

bool server_can_skew(struct server *server)
{
	char path[96];
	if (!getenv("SEGAR_SKEW_LIBRARY"))
		return false;
	snprintf(path, sizeof(path), "%s/skew", server->folder);
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	CHECK(fd >= 0 && ftruncate(fd, 2 * sizeof(int64_t)) == 0);
	server->skew_us =
		mmap(NULL, 2 * sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(server->skew_us != MAP_FAILED);
	server->stands_at_us = server->skew_us + 1;
	close(fd);
	return true;
}

void server_kill(struct server *server)
{
	if (!server->pid)
		return;
	kill(server->pid, SIGKILL);
	waitpid(server->pid, NULL, 0);
	server->pid = 0;
	if (server->context)
		redisFree(server->context);
	server->context = NULL;
}

void server_pause(struct server *server)
{
	kill(server->pid, SIGSTOP);
}

void server_resume(struct server *server)
{
	kill(server->pid, SIGCONT);
}

void server_remove(struct server *server)
{
	static const char *const names[] = { "redis.sock", "log", "skew", "dump.rdb" };
	char path[128];
	server_kill(server);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		snprintf(path, sizeof(path), "%s/%s", server->folder, names[i]);
		unlink(path);
	}
	rmdir(server->folder);
}

static void print(const redisReply *reply, FILE *out)
{
	switch (reply->type) {
	case REDIS_REPLY_INTEGER:
		fprintf(out, "%lld", reply->integer);
		break;
	case REDIS_REPLY_NIL:
		fputs("(nil)", out);
		break;
	case REDIS_REPLY_ARRAY:
		fputc('[', out);
		for (size_t i = 0; i < reply->elements; i++) {
			fputs(i ? " " : "", out);
			print(reply->element[i], out);
		}
		fputc(']', out);
		break;
	default:
		fwrite(reply->str, 1, reply->len, out);
	}
}

static const char *ask(struct server *server, const char *format, va_list args)
	__attribute__((format(printf, 2, 0)));

static const char *ask(struct server *server, const char *format, va_list args)
{
	static char text[65536];
	char command[4096];
	vsnprintf(command, sizeof(command), format, args);
	if (!server->context)
		server->context = redisConnectUnix(server->socket);
	CHECK_MSG(server->context && !server->context->err, "%s", server->context->errstr);
	const char *argv[WORDS_MAX];
	int argc = 0;
	for (char *word = strtok(command, " "); word; word = strtok(NULL, " ")) {
		CHECK(argc < WORDS_MAX);
		argv[argc++] = word;
	}
	redisReply *reply = redisCommandArgv(server->context, argc, argv, NULL);
	CHECK_MSG(reply, "%s: %s", argv[0], server->context->errstr);
	FILE *out = fmemopen(text, sizeof(text), "w");
	print(reply, out);
	fclose(out);
	freeReplyObject(reply);
	return text;
}

const char *server_ask(struct server *server, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	const char *text = ask(server, format, args);
	va_end(args);
	return text;
}

long long server_number(struct server *server, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	const char *text = ask(server, format, args);
	va_end(args);
	char *end;
	long long number = strtoll(text, &end, 10);
	CHECK_MSG(end != text && *end == '\0', "%s is no number", text);
	return number;
}

long long server_now_us(struct server *server)
{
	long long seconds, us;
	CHECK(sscanf(server_ask(server, "TIME"), "[%lld %lld]", &seconds, &us) == 2);
	return seconds * 1000000 + us;
}
