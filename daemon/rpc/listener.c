#include "rpc/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/check.h"
#include "rpc/limits.h"

/* Where a failure's text goes. */
struct excuse {
	char *text;
	size_t size;
};

static enum listener_outcome fail(const struct excuse *excuse, enum listener_outcome outcome,
				  const char *format, ...) __attribute__((format(printf, 3, 4)));

static enum listener_outcome fail(const struct excuse *excuse, enum listener_outcome outcome,
				  const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(excuse->text, excuse->size, format, args);
	va_end(args);
	return outcome;
}

static struct sockaddr_un address_of(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	memcpy(address.sun_path, path, strlen(path) + 1);
	return address;
}

static enum listener_outcome take_lock(struct listener *listener, const struct excuse *excuse)
{
	char path[SOCKET_PATH_MAX + sizeof(".lock")];

	snprintf(path, sizeof(path), "%s.lock", listener->path);
	listener->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (listener->lock_fd < 0)
		return fail(excuse, LISTENER_FAILED, "%s: %s", path, strerror(errno));
	if (flock(listener->lock_fd, LOCK_EX | LOCK_NB) == 0)
		return LISTENER_OK;
	if (errno == EWOULDBLOCK)
		return fail(excuse, LISTENER_IN_USE,
			    "%s: another daemon serves there (it holds %s)", listener->path, path);
	return fail(excuse, LISTENER_FAILED, "%s: %s", path, strerror(errno));
}

/* Whether somebody listens on the socket file: 1, 0, or -1 with errno. */
static int is_served(const char *path)
{
	const struct sockaddr_un address = address_of(path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int ret = 1, error;

	if (fd < 0)
		return -1;
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
		error = errno;
		/* EAGAIN: it is there, its queue is full. EPROTOTYPE: it is of another type. */
		if (error == ECONNREFUSED || error == ENOENT)
			ret = 0;
		else if (error != EAGAIN && error != EPROTOTYPE)
			ret = -1;
		errno = error;
	}
	error = errno;
	close(fd);
	errno = error;
	return ret;
}

/* Makes the path free, if what is there is a socket that nobody serves. */
static enum listener_outcome clear_path(const char *path, const struct excuse *excuse)
{
	struct stat there;
	int served;

	if (lstat(path, &there) != 0)
		return errno == ENOENT
			       ? LISTENER_OK
			       : fail(excuse, LISTENER_FAILED, "%s: %s", path, strerror(errno));
	if (!S_ISSOCK(there.st_mode))
		return fail(excuse, LISTENER_FAILED, "%s: is there and is no socket", path);
	served = is_served(path);
	if (served < 0)
		return fail(excuse, LISTENER_FAILED, "%s: %s", path, strerror(errno));
	if (served)
		return fail(excuse, LISTENER_IN_USE, "%s: another program serves there", path);
	if (unlink(path) != 0 && errno != ENOENT)
		return fail(excuse, LISTENER_FAILED, "%s: %s", path, strerror(errno));
	return LISTENER_OK;
}

/* The group's number, by name or as digits; -1 if there is none. */
static gid_t find_group(const char *name)
{
	const struct group *group = getgrnam(name);
	unsigned number;
	char rest;

	if (group)
		return group->gr_gid;
	return sscanf(name, "%u%c", &number, &rest) == 1 ? (gid_t)number : (gid_t)-1;
}

/* Nobody can connect before listen(), so that mode and group hold from the first client on. */
static enum listener_outcome set_rights(const struct listen_policy *policy,
					const struct excuse *excuse)
{
	gid_t gid;

	if (policy->group) {
		gid = find_group(policy->group);
		if (gid == (gid_t)-1)
			return fail(excuse, LISTENER_FAILED, "%s: there is no group \"%s\"",
				    policy->socket, policy->group);
		if (lchown(policy->socket, (uid_t)-1, gid) != 0)
			return fail(excuse, LISTENER_FAILED, "%s: can't give it to group %s: %s",
				    policy->socket, policy->group, strerror(errno));
	}
	if (chmod(policy->socket, policy->mode) != 0)
		return fail(excuse, LISTENER_FAILED, "%s: can't set its mode: %s", policy->socket,
			    strerror(errno));
	return LISTENER_OK;
}

static enum listener_outcome bind_and_listen(struct listener *listener,
					     const struct listen_policy *policy,
					     const struct excuse *excuse)
{
	const struct sockaddr_un address = address_of(listener->path);
	enum listener_outcome outcome;
	struct stat ours;

	listener->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (listener->fd < 0)
		return fail(excuse, LISTENER_FAILED, "can't make a socket: %s", strerror(errno));
	if (bind(listener->fd, (const struct sockaddr *)&address, sizeof(address)) != 0)
		return fail(excuse, errno == EADDRINUSE ? LISTENER_IN_USE : LISTENER_FAILED,
			    "%s: %s", listener->path, strerror(errno));
	if (lstat(listener->path, &ours) != 0)
		return fail(excuse, LISTENER_FAILED, "%s: %s", listener->path, strerror(errno));
	listener->dev = ours.st_dev;
	listener->ino = ours.st_ino;
	outcome = set_rights(policy, excuse);
	if (outcome != LISTENER_OK)
		return outcome;
	if (listen(listener->fd, LISTEN_BACKLOG) != 0)
		return fail(excuse, LISTENER_FAILED, "%s: %s", listener->path, strerror(errno));
	return LISTENER_OK;
}

/* Whether the socket lies at the path that the clients know. */
static bool lies_at(int fd, const char *path)
{
	struct sockaddr_un address;
	socklen_t len = sizeof(address);

	if (getsockname(fd, (struct sockaddr *)&address, &len) != 0)
		return false;
	return len > offsetof(struct sockaddr_un, sun_path) &&
	       strncmp(address.sun_path, path, sizeof(address.sun_path)) == 0;
}

/* Only what differs is set: a daemon without rights over the manager's file may serve on it. */
static bool has_rights(const struct listen_policy *policy)
{
	struct stat there;

	return lstat(policy->socket, &there) == 0 && (there.st_mode & 07777) == policy->mode &&
	       (!policy->group || there.st_gid == find_group(policy->group));
}

static enum listener_outcome adopt(const struct listener *listener,
				   const struct listen_policy *policy, const struct excuse *excuse)
{
	const int fd = listener->fd;
	const int flags = fcntl(fd, F_GETFL);

	if (!lies_at(fd, listener->path))
		return fail(excuse, LISTENER_FAILED,
			    "listen.socket is %s, but the service manager's socket lies elsewhere",
			    listener->path);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
	    fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
		return fail(excuse, LISTENER_FAILED, "%s: %s", listener->path, strerror(errno));
	return has_rights(policy) ? LISTENER_OK : set_rights(policy, excuse);
}

enum listener_outcome listener_open(struct listener *listener, const struct listen_policy *policy,
				    int inherited_fd, char *ret_text, size_t size)
{
	const struct excuse excuse = { ret_text, size };
	enum listener_outcome outcome;

	*listener = (struct listener){ .fd = -1, .lock_fd = -1 };
	if (strlen(policy->socket) > SOCKET_PATH_MAX) {
		if (inherited_fd >= 0)
			close(inherited_fd);
		return fail(&excuse, LISTENER_FAILED, "%s: a socket's path has at most %d bytes",
			    policy->socket, SOCKET_PATH_MAX);
	}
	memcpy(listener->path, policy->socket, strlen(policy->socket) + 1);
	listener->fd = inherited_fd;
	outcome = take_lock(listener, &excuse);
	if (outcome == LISTENER_OK && inherited_fd >= 0) {
		outcome = adopt(listener, policy, &excuse);
	} else if (outcome == LISTENER_OK) {
		outcome = clear_path(listener->path, &excuse);
		if (outcome == LISTENER_OK)
			outcome = bind_and_listen(listener, policy, &excuse);
	}
	if (outcome != LISTENER_OK)
		listener_close(listener);
	return outcome;
}

/* Only what was seen there after our own bind() is ours to remove. */
static bool path_is_ours(const struct listener *listener)
{
	struct stat there;

	return listener->ino != 0 && lstat(listener->path, &there) == 0 &&
	       there.st_dev == listener->dev && there.st_ino == listener->ino;
}

enum listener_path listener_look(const struct listener *listener)
{
	struct stat there;

	if (listener->ino == 0 || path_is_ours(listener))
		return LISTENER_PATH_OURS;
	return lstat(listener->path, &there) != 0 && errno == ENOENT ? LISTENER_PATH_GONE
								     : LISTENER_PATH_OTHERS;
}

/* Whether the lock's file is still the one that we hold. */
static bool lock_is_ours(const struct listener *listener)
{
	char path[SOCKET_PATH_MAX + sizeof(".lock")];
	struct stat there, ours;

	snprintf(path, sizeof(path), "%s.lock", listener->path);
	return lstat(path, &there) == 0 && fstat(listener->lock_fd, &ours) == 0 &&
	       there.st_dev == ours.st_dev && there.st_ino == ours.st_ino;
}

enum listener_outcome listener_rebind(struct listener *listener, const struct listen_policy *policy,
				      char *ret_text, size_t size)
{
	const struct excuse excuse = { ret_text, size };
	struct listener next = *listener;
	enum listener_outcome outcome = LISTENER_OK;

	next.fd = -1;
	next.ino = 0;
	if (!lock_is_ours(listener)) {
		next.lock_fd = -1;
		outcome = take_lock(&next, &excuse);
	}
	if (outcome == LISTENER_OK)
		outcome = bind_and_listen(&next, policy, &excuse);
	if (outcome == LISTENER_OK && dup3(next.fd, listener->fd, O_CLOEXEC) < 0)
		outcome = fail(&excuse, LISTENER_FAILED, "%s: %s", next.path, strerror(errno));
	if (next.fd >= 0)
		close(next.fd);
	if (outcome != LISTENER_OK) {
		if (path_is_ours(&next))
			unlink(next.path);
		if (next.lock_fd >= 0 && next.lock_fd != listener->lock_fd)
			close(next.lock_fd);
		return outcome;
	}
	if (next.lock_fd != listener->lock_fd)
		close(listener->lock_fd);
	next.fd = listener->fd;
	*listener = next;
	return LISTENER_OK;
}

void listener_close(struct listener *listener)
{
	if (listener->path[0] == '\0')
		return;
	if (path_is_ours(listener))
		unlink(listener->path);
	if (listener->fd >= 0)
		close(listener->fd);
	if (listener->lock_fd >= 0)
		close(listener->lock_fd);
	*listener = (struct listener){ .fd = -1, .lock_fd = -1 };
}
