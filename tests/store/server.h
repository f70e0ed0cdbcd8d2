/* A throw-away Redis: its own folder, a Unix socket in it, a direct child of the test. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct server {
	char folder[64];
	char socket[96];
	char url[128];                /* unix://… */
	pid_t pid;                    /* 0: not running */
	struct redisContext *context; /* for server_ask */
	const char *lc_all, *locpath; /* its environment; NULL: as ours */
	int64_t *skew_us;      /* its clock less the host's; NULL: server_can_skew was not asked */
	int64_t *stands_at_us; /* where its clock stands still; 0: it goes */
};

/* Whether Redis is installed; where not, the test skips itself. */
bool server_is_possible(void);

/* Makes the folder. */
void server_create(struct server *server);

/* Starts it with these options (NULL-terminated, after our own), and waits until it answers. */
void server_start(struct server *server, ...);

/* Lets the server, from its next start, go by a clock that is off by *skew_us, or stands still at
 *stands_at_us. False where the test was built without the library for that. */
bool server_can_skew(struct server *server);

/* Sends SIGKILL and waits for its end. */
void server_kill(struct server *server);

void server_pause(struct server *server);
void server_resume(struct server *server);

/* Kills it and removes the folder. */
void server_remove(struct server *server);

/* A command, its words divided by blanks, as the operator would give it; the reply as text: lists
   in brackets, nil as (nil), errors as they come. Valid until the next call. A server that does not
   answer fails the test. */
const char *server_ask(struct server *server, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
long long server_number(struct server *server, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The server's clock. */
long long server_now_us(struct server *server);
