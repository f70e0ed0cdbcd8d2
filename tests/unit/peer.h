/* A daemon for the tests of clients: a thread that serves one connection after the other, by
 * script.
 *
 * peer_start → clients connect to `path` → peer_stop, which waits for the thread. The script is
 * called with each connection that is accepted; when it returns, the connection is closed.
 */
#pragma once

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/frame.h"
#include "proto/result.h"
#include "proto/rpc.h"

struct peer;

/* One connection, as the script sees it. */
struct peer_conn {
	struct peer *peer;
	int fd;
	int number;  /* from 0 on */
	uint8_t *in; /* owned */
	size_t in_len, in_cap, taken;
	struct frame_scan scan;
	struct rpc_message message; /* the last that was taken; borrows `in` */
	struct wire_buf out;        /* for the script's replies */
};
typedef void (*peer_script)(struct peer_conn *conn);

struct peer {
	char dir[32];
	char path[64];
	int listen_fd;
	pthread_t thread;
	peer_script script;
	int connections; /* read it after peer_stop() */
	void *arg;       /* the test's own */
};

/* Waits for the next message. False when the client has closed. */
static inline bool peer_take(struct peer_conn *conn)
{
	const char *why = NULL;
	size_t len;

	memmove(conn->in, conn->in + conn->taken, conn->in_len - conn->taken);
	conn->in_len -= conn->taken;
	conn->taken = 0;
	for (;;) {
		ssize_t got;

		switch (frame_scan(&conn->scan, conn->in, conn->in_len, WIRE_REQUEST_MAX, &len,
				   &why)) {
		case FRAME_COMPLETE:
			conn->taken = len;
			assert(rpc_parse(conn->in, len, &conn->message, &why) == RPC_PARSED);
			return true;
		case FRAME_MORE:
			break;
		case FRAME_TOO_LARGE:
		case FRAME_BROKEN:
			assert(!"the client's bytes are no messages");
		}
		if (conn->in_cap - conn->in_len < 4096) {
			conn->in_cap = 2 * conn->in_cap + 65536;
			conn->in = realloc(conn->in, conn->in_cap);
			assert(conn->in);
		}
		got = read(conn->fd, conn->in + conn->in_len, conn->in_cap - conn->in_len);
		if (got <= 0)
			return false;
		conn->in_len += (size_t)got;
	}
}

/* Sends what the script has put into conn->out. */
static inline void peer_send(struct peer_conn *conn)
{
	size_t sent = 0;

	assert(!wire_buf_failed(&conn->out));
	while (sent < conn->out.len) {
		ssize_t n =
			send(conn->fd, conn->out.data + sent, conn->out.len - sent, MSG_NOSIGNAL);

		if (n < 0)
			break; /* the client has gone, as some tests want it to */
		sent += (size_t)n;
	}
	wire_buf_rewind(&conn->out, 0);
}

/* Puts a fresh result with that value as the reply to `id`. */
static inline void peer_put_value(struct peer_conn *conn, uint32_t id, const void *value,
				  size_t len)
{
	const struct result result = { .state = RESULT_FRESH,
				       .source = RESULT_SOURCE_NEAR,
				       .has_value = true,
				       .value_len = (uint32_t)len,
				       .has_version = true,
				       .version = 7,
				       .ttl_ms = 1000 };

	rpc_put_response(&conn->out, id);
	result_put(&conn->out, &result);
	wire_buf_raw(&conn->out, value, len);
}

static inline void *peer_run(void *arg)
{
	struct peer *peer = arg;

	for (;;) {
		struct peer_conn conn = { .peer = peer, .number = peer->connections };

		conn.fd = accept(peer->listen_fd, NULL, NULL);
		if (conn.fd < 0)
			return NULL;
		peer->connections++;
		conn.in_cap = 65536;
		conn.in = malloc(conn.in_cap);
		wire_buf_init(&conn.out, (size_t)64 << 20);
		peer->script(&conn);
		close(conn.fd);
		free(conn.in);
		wire_buf_close(&conn.out);
	}
}

/* A path in a folder of its own where nobody listens. */
static inline void peer_init(struct peer *peer, peer_script script)
{
	*peer = (struct peer){ .script = script, .listen_fd = -1, .dir = "/tmp/segar-test-XXXXXX" };
	assert(mkdtemp(peer->dir));
	snprintf(peer->path, sizeof(peer->path), "%s/sock", peer->dir);
}

static inline void peer_listen(struct peer *peer)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	peer->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	strcpy(address.sun_path, peer->path);
	assert(bind(peer->listen_fd, (struct sockaddr *)&address, sizeof(address)) == 0);
	assert(listen(peer->listen_fd, 100) == 0);
	assert(pthread_create(&peer->thread, NULL, peer_run, peer) == 0);
}

static inline void peer_start(struct peer *peer, peer_script script)
{
	peer_init(peer, script);
	peer_listen(peer);
}

/* Ends the thread once the script has returned; clients must have closed if it waits for that. */
static inline void peer_stop(struct peer *peer)
{
	if (peer->listen_fd >= 0) {
		shutdown(peer->listen_fd, SHUT_RDWR);
		pthread_join(peer->thread, NULL);
		close(peer->listen_fd);
	}
	unlink(peer->path);
	rmdir(peer->dir);
}
