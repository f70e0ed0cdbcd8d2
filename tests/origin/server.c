#include "server.h"

#include <glob.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void die(const char *what)
{
	printf("Bail out! %s\n", what);
	exit(1);
}

/* The path of one of PostgreSQL's programs, of the newest version; "": there is none. */
static const char *program(const char *name)
{
	static char path[256];
	char pattern[128];
	glob_t found;

	path[0] = '\0';
	snprintf(pattern, sizeof(pattern), "/usr/lib/postgresql/*/bin/%s", name);
	if (glob(pattern, 0, NULL, &found) == 0) {
		snprintf(path, sizeof(path), "%s", found.gl_pathv[found.gl_pathc - 1]);
		globfree(&found);
	}
	return path;
}

bool server_is_possible(void)
{
	return program("postgres")[0] && program("initdb")[0];
}

/* Starts `command` in a shell, as the server's user where we are root, in the server's folder. */
static pid_t spawn(const struct server *server, const char *command)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	if (chdir(server->folder) < 0)
		_exit(127);
	if (geteuid() == 0)
		execlp("setpriv", "setpriv", "--reuid=postgres", "--regid=postgres",
		       "--clear-groups", "--inh-caps=-all", "--pdeathsig=SIGQUIT", "sh", "-c",
		       command, (char *)NULL);
	else
		execlp("setpriv", "setpriv", "--pdeathsig=SIGQUIT", "sh", "-c", command,
		       (char *)NULL);
	_exit(127);
}

static void run(const struct server *server, const char *command)
{
	pid_t pid = spawn(server, command);
	int status;

	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
		die(command);
}

static void make_folder(struct server *server, const struct server *inside)
{
	*server = (struct server){ 0 };
	snprintf(server->folder, sizeof(server->folder), "%.40s/segar-XXXXXX",
		 inside ? inside->folder : "/tmp");
	if (!mkdtemp(server->folder))
		die("mkdtemp");
	if (geteuid() == 0) {
		const struct passwd *user = getpwnam("postgres");
		if (!user || chown(server->folder, user->pw_uid, user->pw_gid) < 0)
			die("no user postgres");
	}
}

void server_create(struct server *server, const struct server *inside)
{
	char command[512];

	make_folder(server, inside);
	snprintf(command, sizeof(command),
		 "%s -D data -U postgres -A trust -N -E UTF8 --locale=C >initdb.log 2>&1",
		 program("initdb"));
	run(server, command);
}

void server_create_standby(struct server *server, const struct server *primary)
{
	char command[512];

	make_folder(server, primary);
	snprintf(command, sizeof(command),
		 "%s -h %s -U postgres -D data -R -c fast --no-sync >backup.log 2>&1",
		 program("pg_basebackup"), primary->folder);
	run(server, command);
}

PGconn *server_connect(const struct server *server)
{
	char dsn[128];

	snprintf(dsn, sizeof(dsn), "host=%s user=postgres dbname=postgres", server->folder);
	return PQconnectdb(dsn);
}

void server_start(struct server *server)
{
	char command[1024];

	snprintf(command, sizeof(command),
		 "exec %s -D data -k %s -c listen_addresses= -c fsync=off -c max_connections=60 %s"
		 " >>log 2>&1",
		 program("postgres"), server->folder, server->settings ? server->settings : "");
	server->pid = spawn(server, command);
	for (int tries = 0; tries < 2000; tries++) {
		PGconn *pg = server_connect(server);
		bool up = PQstatus(pg) == CONNECTION_OK;

		PQfinish(pg);
		if (up)
			return;
		if (waitpid(server->pid, NULL, WNOHANG) != 0)
			die("the server did not start");
		poll(NULL, 0, 5);
	}
	die("the server does not answer");
}

void server_stop(struct server *server, int signal)
{
	if (!server->pid)
		return;
	kill(server->pid, signal);
	waitpid(server->pid, NULL, 0);
	server->pid = 0;
}

void server_remove(struct server *server)
{
	char command[128];

	server_stop(server, SIGQUIT);
	snprintf(command, sizeof(command), "rm -rf %s/*", server->folder);
	run(server, command);
	rmdir(server->folder);
}

static void ignore_notice(void *arg, const char *message)
{
	(void)arg;
	(void)message;
}

const char *server_sql(struct server *server, const char *format, ...)
{
	static char answer[256];
	char sql[4096];
	PGresult *result;
	PGconn *pg;
	va_list args;

	va_start(args, format);
	vsnprintf(sql, sizeof(sql), format, args);
	va_end(args);
	pg = server_connect(server);
	PQsetNoticeProcessor(pg, ignore_notice, NULL);
	result = PQexec(pg, sql);
	if (PQresultStatus(result) != PGRES_COMMAND_OK &&
	    PQresultStatus(result) != PGRES_TUPLES_OK) {
		fprintf(stderr, "# %s: %s\n", sql, PQerrorMessage(pg));
		die("SQL failed");
	}
	snprintf(answer, sizeof(answer), "%s", PQntuples(result) ? PQgetvalue(result, 0, 0) : "");
	PQclear(result);
	PQfinish(pg);
	return answer;
}
