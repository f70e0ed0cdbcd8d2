#include "client/link.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
	READ_MIN = 64 * 1024, /* room for one read */
	HAND_OVER_MIN =
		32 * 1024 /* a longer message takes the buffer with it, a shorter is copied */
};

int64_t link_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void link_init(struct link *link)
{
	*link = (struct link){ .fd = -1 };
}

void link_close(struct link *link)
{
	if (link->fd >= 0)
		close(link->fd);
	free(link->in);
	link_init(link);
}

int link_open(struct link *link, const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	assert(link->fd < 0 && strlen(path) < sizeof(address.sun_path));
	memcpy(address.sun_path, path, strlen(path));
	link->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (link->fd < 0)
		return errno;
	/* A Unix socket connects at once or not at all, without blocking too. */
	if (connect(link->fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		const int error = errno;

		link_close(link);
		return error;
	}
	return 0;
}

bool link_wait(struct link *link, bool want_write, int64_t until_ms)
{
	struct pollfd poll_fd = { .fd = link->fd, .events = POLLIN | (want_write ? POLLOUT : 0) };
	const int64_t left = until_ms - link_now_ms();
	const int most = 3600 * 1000;

	/* Signals, like errors, are found out by the read or the clock that follows. */
	return poll(&poll_fd, 1, left <= 0 ? 0 : left < most ? (int)left : most) > 0;
}

ssize_t link_write(struct link *link, const struct iovec *parts, int count)
{
	const struct msghdr message = { .msg_iov = (struct iovec *)parts,
					.msg_iovlen = (size_t)count };
	const ssize_t written = sendmsg(link->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (written >= 0)
		return written;
	return errno == EAGAIN || errno == EINTR ? 0 : -1;
}

/* Room for a read behind what is there; the buffer starts over where nothing is left in it. */
static bool make_room(struct link *link)
{
	const size_t have = link->in_end - link->in_begin;
	size_t cap = link->in_cap ? link->in_cap : READ_MIN;
	uint8_t *grown;

	if (link->in_cap - link->in_end >= READ_MIN)
		return true;
	if (link->in_begin > 0)
		memmove(link->in, link->in + link->in_begin, have);
	link->in_begin = 0;
	link->in_end = have;
	while (cap - have < READ_MIN)
		cap *= 2;
	if (cap == link->in_cap)
		return true;
	grown = realloc(link->in, cap);
	if (!grown)
		return false;
	link->in = grown;
	link->in_cap = cap;
	return true;
}

enum link_verdict link_read(struct link *link)
{
	ssize_t got;

	if (!make_room(link))
		return LINK_NO_MEMORY;
	got = recv(link->fd, link->in + link->in_end, link->in_cap - link->in_end, MSG_DONTWAIT);
	if (got > 0) {
		link->in_end += (size_t)got;
		return LINK_MESSAGE;
	}
	return got < 0 && (errno == EAGAIN || errno == EINTR) ? LINK_NOTHING : LINK_LOST;
}

/* A long message keeps the buffer that it came in, and the link begins a new one. */
static bool hand_over(struct link *link, size_t len, struct link_message *ret_message)
{
	const size_t behind = link->in_end - link->in_begin - len;
	uint8_t *fresh = NULL;

	if (behind > 0) {
		fresh = malloc(behind + READ_MIN);
		if (!fresh)
			return false;
		memcpy(fresh, link->in + link->in_begin + len, behind);
	}
	*ret_message = (struct link_message){ link->in, link->in + link->in_begin, len };
	link->in = fresh;
	link->in_begin = 0;
	link->in_end = behind;
	link->in_cap = fresh ? behind + READ_MIN : 0;
	return true;
}

static bool copy_out(struct link *link, size_t len, struct link_message *ret_message)
{
	uint8_t *copy = malloc(len);

	if (!copy)
		return false;
	memcpy(copy, link->in + link->in_begin, len);
	*ret_message = (struct link_message){ copy, copy, len };
	link->in_begin += len;
	return true;
}

enum link_verdict link_take(struct link *link, struct link_message *ret_message,
			    const char **ret_why)
{
	size_t len;
	bool taken;

	if (link->in_begin == link->in_end)
		return LINK_NOTHING;
	switch (frame_scan(&link->scan, link->in + link->in_begin, link->in_end - link->in_begin,
			   WIRE_REPLY_MAX, &len, ret_why)) {
	case FRAME_MORE:
		return LINK_NOTHING;
	case FRAME_TOO_LARGE:
	case FRAME_BROKEN:
		return LINK_BROKEN;
	case FRAME_COMPLETE:
		break;
	}
	taken = len >= HAND_OVER_MIN ? hand_over(link, len, ret_message)
				     : copy_out(link, len, ret_message);
	return taken ? LINK_MESSAGE : LINK_NO_MEMORY;
}
