/* The limit: a bare epoll loop that parses nothing.
 *
 *   echo SOCKET REQUEST_LEN REPLY_LEN
 *
 * Answers so many bytes that came by so many others, sent from one buffer: what a server costs that
 * has nothing to do but the kernel's calls. The connections are taken in batches as a server takes
 * them: one recv for what came, one sendmsg for all that is due.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { EVENTS = 256, READ_BUFFER = 64 * 1024, REPLIES_BUFFER = 256 * 1024 };

struct conn {
	int fd;
	size_t came;  /* of a request that is not whole */
	uint64_t due; /* bytes that are to be sent */
	bool blocked;
};

static size_t request_len, reply_len;
static char *replies; /* REPLIES_BUFFER bytes */
static int epoll;

static void watch(struct conn *conn, bool blocked)
{
	struct epoll_event event = { .events = EPOLLIN | (blocked ? EPOLLOUT : 0u),
				     .data.ptr = conn };

	if (conn->blocked != blocked)
		epoll_ctl(epoll, EPOLL_CTL_MOD, conn->fd, &event);
	conn->blocked = blocked;
}

static void conn_close(struct conn *conn)
{
	close(conn->fd);
	free(conn);
}

/* False when its client is gone. */
static bool conn_send(struct conn *conn)
{
	while (conn->due > 0) {
		const size_t len = conn->due < REPLIES_BUFFER ? conn->due : REPLIES_BUFFER;
		const ssize_t sent = send(conn->fd, replies, len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent < 0 && errno != EAGAIN)
			return false;
		conn->due -= sent > 0 ? (size_t)sent : 0;
		if (sent < (ssize_t)len)
			break;
	}
	watch(conn, conn->due > 0);
	return true;
}

static bool conn_read(struct conn *conn)
{
	static char buffer[READ_BUFFER];
	const ssize_t came = recv(conn->fd, buffer, sizeof(buffer), MSG_DONTWAIT);

	if (came <= 0)
		return came < 0 && errno == EAGAIN;
	conn->came += (size_t)came;
	conn->due += conn->came / request_len * reply_len;
	conn->came %= request_len;
	return conn_send(conn);
}

static void accept_all(int listener)
{
	struct epoll_event event = { .events = EPOLLIN };
	int fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		struct conn *conn = calloc(1, sizeof(*conn));

		if (!conn) {
			close(fd);
			return;
		}
		conn->fd = fd;
		event.data.ptr = conn;
		epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
	}
}

static int listen_on(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	unlink(path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
	    listen(fd, 4096) != 0) {
		perror(path);
		exit(1);
	}
	return fd;
}

int main(int argc, char **argv)
{
	struct epoll_event events[EVENTS], event = { .events = EPOLLIN };

	request_len = argc == 4 ? strtoull(argv[2], NULL, 10) : 0;
	reply_len = argc == 4 ? strtoull(argv[3], NULL, 10) : 0;
	if (request_len == 0 || reply_len == 0) {
		fprintf(stderr, "usage: echo SOCKET REQUEST_LEN REPLY_LEN\n");
		return 2;
	}
	replies = malloc(REPLIES_BUFFER);
	if (!replies)
		return 1;
	memset(replies, 'x', REPLIES_BUFFER);
	epoll = epoll_create1(EPOLL_CLOEXEC);
	const int listener = listen_on(argv[1]);

	epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
	for (;;) {
		const int count = epoll_wait(epoll, events, EVENTS, -1);

		for (int i = 0; i < count; i++) {
			struct conn *conn = events[i].data.ptr;

			if (!conn)
				accept_all(listener);
			else if (!(events[i].events & EPOLLOUT ? conn_send(conn) : true) ||
				 !(events[i].events & (EPOLLIN | EPOLLHUP) ? conn_read(conn)
									   : true))
				conn_close(conn);
		}
	}
}
