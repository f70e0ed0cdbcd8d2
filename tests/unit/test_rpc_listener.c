/* The socket's file: taken over when stale, left alone when served, given up when ours. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rpc/listener.h"

static char dir[64], path[2 * SOCKET_PATH_MAX], lock_path[2 * SOCKET_PATH_MAX + 8], text[256];
static struct listen_policy policy;

static void set_path(const char *name)
{
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	snprintf(lock_path, sizeof(lock_path), "%s.lock", path);
	policy = (struct listen_policy){ .socket = path, .mode = 0660 };
}

static void set_up(void)
{
	snprintf(dir, sizeof(dir), "/tmp/segar-test-XXXXXX");
	cr_assert(mkdtemp(dir));
	set_path("sock");
}

static void tear_down(void)
{
	unlink(path);
	unlink(lock_path);
	cr_assert_eq(rmdir(dir), 0);
}

TestSuite(rpc_listener, .init = set_up, .fini = tear_down);

static enum listener_outcome open_it(struct listener *listener)
{
	return listener_open(listener, &policy, -1, text, sizeof(text));
}

static void make_address(struct sockaddr_un *address)
{
	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(address->sun_path, path, strlen(path) + 1);
}

/* 0, or -1: nobody serves there. */
static int try_connect(void)
{
	struct sockaddr_un address;
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), ret;

	make_address(&address);
	ret = connect(fd, (struct sockaddr *)&address, sizeof(address));
	close(fd);
	return ret;
}

/* A socket file of somebody who may or may not listen; its descriptor. */
static int bind_foreign(bool listens)
{
	struct sockaddr_un address;
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	make_address(&address);
	cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	if (listens)
		cr_assert_eq(listen(fd, 1), 0);
	return fd;
}

Test(rpc_listener, has_its_mode_and_is_gone_after_close)
{
	struct listener listener;
	struct stat there;

	cr_assert_eq(open_it(&listener), LISTENER_OK, "%s", text);
	cr_assert_eq(stat(path, &there), 0);
	cr_assert_eq(there.st_mode & 07777, 0660);
	cr_assert_eq(try_connect(), 0);
	listener_close(&listener);
	cr_assert_eq(access(path, F_OK), -1);
	listener_close(&listener);
	listener_close(&(struct listener){ 0 });
}

Test(rpc_listener, takes_a_stale_socket_over)
{
	struct listener listener;

	close(bind_foreign(false));
	cr_assert_eq(access(path, F_OK), 0);
	cr_assert_eq(open_it(&listener), LISTENER_OK, "%s", text);
	cr_assert_eq(try_connect(), 0);
	listener_close(&listener);
}

Test(rpc_listener, refuses_a_live_daemons_socket)
{
	struct listener first, second;

	cr_assert_eq(open_it(&first), LISTENER_OK);
	cr_assert_eq(open_it(&second), LISTENER_IN_USE);
	cr_assert(strstr(text, path));
	cr_assert_eq(try_connect(), 0);
	listener_close(&first);
	cr_assert_eq(open_it(&second), LISTENER_OK, "%s", text);
	listener_close(&second);
}

Test(rpc_listener, refuses_a_socket_that_another_program_serves)
{
	struct listener listener;
	int fd = bind_foreign(true);

	cr_assert_eq(open_it(&listener), LISTENER_IN_USE);
	cr_assert_eq(try_connect(), 0);
	close(fd);
}

Test(rpc_listener, refuses_what_is_no_socket_and_leaves_it)
{
	struct listener listener;
	int fd = open(path, O_CREAT | O_WRONLY, 0600);

	cr_assert_eq(write(fd, "mine", 4), 4);
	close(fd);
	cr_assert_eq(open_it(&listener), LISTENER_FAILED);
	cr_assert_eq(access(path, F_OK), 0);
}

Test(rpc_listener, does_not_follow_a_link_in_place_of_the_lock)
{
	struct listener listener;

	cr_assert_eq(symlink("/tmp/segar-test-elsewhere", lock_path), 0);
	cr_assert_eq(open_it(&listener), LISTENER_FAILED);
	cr_assert_eq(access("/tmp/segar-test-elsewhere", F_OK), -1);
}

Test(rpc_listener, leaves_its_successors_socket)
{
	struct listener old, successor;

	cr_assert_eq(open_it(&old), LISTENER_OK);
	/* Somebody clears the folder under a daemon that runs, and starts another one. */
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(unlink(lock_path), 0);
	cr_assert_eq(open_it(&successor), LISTENER_OK, "%s", text);
	listener_close(&old);
	cr_assert_eq(try_connect(), 0);
	listener_close(&successor);
	cr_assert_eq(access(path, F_OK), -1);
}

Test(rpc_listener, takes_paths_of_107_bytes_and_no_longer_ones)
{
	char name[SOCKET_PATH_MAX + 1];
	struct listener listener;
	const size_t room = SOCKET_PATH_MAX - strlen(dir) - 1;

	memset(name, 'n', sizeof(name));
	name[room] = '\0';
	set_path(name);
	cr_assert_eq(open_it(&listener), LISTENER_OK, "%s", text);
	cr_assert_eq(try_connect(), 0);
	listener_close(&listener);
	unlink(lock_path);
	name[room] = 'n';
	name[room + 1] = '\0';
	set_path(name);
	cr_assert_eq(open_it(&listener), LISTENER_FAILED);
}

/* A socket as a service manager makes it. */
static int bind_managed(void)
{
	struct sockaddr_un address;
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	make_address(&address);
	cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	cr_assert_eq(listen(fd, 8), 0);
	return fd;
}

Test(rpc_listener, a_managers_socket_is_taken_over_and_its_file_left)
{
	struct listener listener;
	struct stat there;
	int managers = bind_managed();

	cr_assert_eq(chmod(path, 0777), 0);
	cr_assert_eq(listener_open(&listener, &policy, dup(managers), text, sizeof(text)),
		     LISTENER_OK, "%s", text);
	cr_assert(fcntl(listener.fd, F_GETFL) & O_NONBLOCK);
	cr_assert(fcntl(listener.fd, F_GETFD) & FD_CLOEXEC);
	cr_assert_eq(stat(path, &there), 0);
	cr_assert_eq(there.st_mode & 07777, 0660, "the configuration's mode holds");
	listener_close(&listener);
	cr_assert_eq(try_connect(), 0, "clients still queue at the manager's");
	close(managers);
}

Test(rpc_listener, a_managers_socket_elsewhere_is_refused)
{
	struct listener listener;
	int managers = bind_managed();

	set_path("other");
	cr_assert_eq(listener_open(&listener, &policy, managers, text, sizeof(text)),
		     LISTENER_FAILED);
	cr_assert(strstr(text, "lies elsewhere"), "%s", text);
	cr_assert_eq(fcntl(managers, F_GETFD), -1, "it is left open");
	unlink(lock_path);
	set_path("sock");
}

Test(rpc_listener, says_what_is_wrong_with_the_group)
{
	struct listener listener;

	policy.group = (char *)"no-such-group";
	cr_assert_eq(open_it(&listener), LISTENER_FAILED);
	cr_assert(strstr(text, "no-such-group"));
	cr_assert_eq(access(path, F_OK), -1, "the half-made socket is left");
}

/* All start at once over a stale file: one serves, the others know that they don't. */
Test(rpc_listener, of_many_that_start_together_one_serves)
{
	enum { DAEMONS = 8, ROUNDS = 30 };

	for (int round = 0; round < ROUNDS; round++) {
		int start[2], ready[2], end[2], served, status;
		char byte;

		close(bind_foreign(false));
		cr_assert(pipe(start) == 0 && pipe(ready) == 0 && pipe(end) == 0);
		for (int i = 0; i < DAEMONS; i++) {
			if (fork() > 0)
				continue;
			struct listener listener;

			close(start[1]);
			close(end[1]);
			if (read(start[0], &byte, 1) < 0)
				_exit(9);
			enum listener_outcome outcome = open_it(&listener);
			if (outcome == LISTENER_OK && write(ready[1], "", 1) == 1 &&
			    read(end[0], &byte, 1) == 0)
				listener_close(&listener);
			_exit((int)outcome);
		}
		close(start[0]);
		close(end[0]);
		close(start[1]);
		for (int i = 0; i < DAEMONS - 1; i++) {
			cr_assert(wait(&status) > 0 && WIFEXITED(status));
			cr_assert_eq(WEXITSTATUS(status), LISTENER_IN_USE);
		}
		cr_assert_eq(read(ready[0], &byte, 1), 1);
		served = try_connect() == 0;
		close(end[1]);
		close(ready[0]);
		close(ready[1]);
		cr_assert(wait(&status) > 0 && WIFEXITED(status));
		cr_assert_eq(WEXITSTATUS(status), LISTENER_OK);
		cr_assert(served);
		cr_assert_eq(access(path, F_OK), -1);
	}
}
