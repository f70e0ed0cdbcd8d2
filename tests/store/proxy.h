/* A cable that can be pulled: a Unix socket that passes bytes on to another, unless it is told not
 * to. On the test's loop.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

enum { PROXY_PAIRS_MAX = 32 };

struct proxy;

struct proxy_pair {
	struct proxy *proxy;
	uv_pipe_t client, server;
	unsigned open; /* handles of the two that are not closed */
};

struct proxy {
	uv_pipe_t listener;
	const char *target; /* borrowed */
	char path[96];
	char url[128];
	struct proxy_pair pairs[PROXY_PAIRS_MAX];
	bool deaf; /* what the server says is lost */
	bool cut;  /* new connections are closed at once */
};

/* Listens at `folder`/`name`, for the socket at `target`. */
void proxy_open(struct proxy *proxy, uv_loop_t *loop, const char *folder, const char *name,
		const char *target);

/* Closes all connections, and those to come until it is mended. */
void proxy_cut(struct proxy *proxy);
void proxy_mend(struct proxy *proxy); /* undoes proxy_cut, and deafness */

/* The handles are closed when the loop has run. */
void proxy_close(struct proxy *proxy);
