/* A throw-away PostgreSQL: its own folder, its own socket in it, a child of the test. */
#pragma once

#include <libpq-fe.h>
#include <stdbool.h>
#include <sys/types.h>

struct server {
	char folder[64];
	const char *settings; /* for postgres' command line, besides our own; NULL: none */
	pid_t pid;            /* 0: not running */
};

/* Whether PostgreSQL is installed at all. */
bool server_is_possible(void);

/* Makes the folder, inside another server's where that isn't NULL, and an empty cluster in it. Ends
   the test program where that fails. */
void server_create(struct server *server, const struct server *inside);

/* The same with a copy of a running server, which it follows once started. */
void server_create_standby(struct server *server, const struct server *primary);

/* Starts it and waits until it answers. */
void server_start(struct server *server);

/* Sends the postmaster a signal and waits for its end: SIGINT stops it in order, SIGQUIT as if it
   had crashed. */
void server_stop(struct server *server, int signal);

/* Stops it and removes the folder. */
void server_remove(struct server *server);

/* A superuser's connection; the caller ends it with PQfinish. */
PGconn *server_connect(const struct server *server);

/* Runs SQL as the superuser; returns the first column of the first row ("" if none), valid until
   the next call. Ends the test program on an error. */
const char *server_sql(struct server *server, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
