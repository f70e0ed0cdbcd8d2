/* The Unix socket that clients connect to, as a file: who owns its path, and for how long.
 *
 * Beside the socket lies `<socket>.lock`, which the daemon holds locked (flock) from before it
 * touches the path until after it has left it. Only the holder takes over a stale socket file, so
 * that two daemons that start together can't both think it theirs. A socket that somebody listens
 * on without the lock (another program, or a lock file that was deleted) is found by connecting. A
 * path that is no socket is never touched. The lock file stays: to remove it would let two
 * daemons hold locks on two files of one name.
 *
 * A service manager can hold the socket instead, so that clients queue while the daemon restarts:
 * then the file is the manager's, and stays.
 *
 * A file that is deleted while the daemon runs is noticed by looking (listener_look), and the path
 * bound anew.
 *
 * Blocking calls on local files; for start and stop, and now and then.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/limits.h"
#include "base/policy.h"

enum listener_outcome {
	LISTENER_OK,
	LISTENER_IN_USE, /* another daemon serves there */
	LISTENER_FAILED,
};

struct listener {
	int fd;      /* listens; non-blocking, close-on-exec */
	int lock_fd; /* holds the lock */
	dev_t dev;   /* what the path named when it was ours; ino 0: it never was */
	ino_t ino;
	char path[SOCKET_PATH_MAX + 1];
};

/* Binds policy->socket with its mode and group, and listens; or does so on a listening socket that
 * lies at that path already, which it takes over (`inherited_fd`; -1: none). On failure the
 * listener is closed and `ret_text` (of `size` bytes) says why, with the path. */
enum listener_outcome listener_open(struct listener *listener, const struct listen_policy *policy,
				    int inherited_fd, char *ret_text, size_t size)
	__attribute__((warn_unused_result));

/* What lies at the path of an open listener. */
enum listener_path {
	LISTENER_PATH_OURS, /* our socket, or a service manager's: not for us to judge */
	LISTENER_PATH_GONE, /* nothing: no client finds us */
	LISTENER_PATH_OTHERS,
};
enum listener_path listener_look(const struct listener *listener);

/* Binds the path, which is GONE, anew, as listener_open did. The descriptor is the same number
 * after that, and another socket: it must not be watched meanwhile. On failure all is as it was. */
enum listener_outcome listener_rebind(struct listener *listener, const struct listen_policy *policy,
				      char *ret_text, size_t size)
	__attribute__((warn_unused_result));

/* Stops listening, removes the socket's file if it is still ours, gives the lock back. Accepts a
 * closed listener and a zeroed one. */
void listener_close(struct listener *listener);
