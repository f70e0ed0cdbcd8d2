/* How late this machine runs processes that do nothing wrong: pairs of them, one of which sends a
 * byte every 10 ms, and the other says it back. As many pairs as daemons are a fair measure: the
 * more are looked at, the later is the latest. Writes for each beat, until the input ends, the wall
 * clock's µs (u64) at which it was due and the µs (u64) from then to when its byte was back.
 *
 *   control FILE PAIRS
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BEAT_US = 10000, PAIRS_MAX = 200 };

static uint64_t now_us(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000;
}

static void say_back(int fd)
{
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setsid();
	while (read(fd, &byte, 1) == 1 && write(fd, &byte, 1) == 1)
		;
	_exit(0);
}

static bool is_over(void)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };

	return poll(&input, 1, 0) > 0;
}

/* One pair, from its first beat on; returns the process' exit code. */
static int beat(int out, uint64_t due_us)
{
	const uint64_t wall_us = now_us(CLOCK_REALTIME) - now_us(CLOCK_MONOTONIC);
	int pair[2];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setsid();
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		return 1;
	if (fork() == 0)
		say_back(pair[1]);
	close(pair[1]);
	for (; !is_over(); due_us += BEAT_US) {
		const struct timespec due = { .tv_sec = (time_t)(due_us / 1000000),
					      .tv_nsec = (long)(due_us % 1000000 * 1000) };
		uint64_t record[2] = { wall_us + due_us };
		char byte = 0;

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
		if (write(pair[0], &byte, 1) != 1 || read(pair[0], &byte, 1) != 1)
			return 1;
		record[1] = now_us(CLOCK_MONOTONIC) - due_us;
		/* appended: none is cut by another pair's */
		if (write(out, record, sizeof(record)) != sizeof(record))
			return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	const int out =
		argc == 3 ? open(argv[1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
	const int pairs = argc == 3 ? atoi(argv[2]) : 0;
	const uint64_t begin_us = now_us(CLOCK_MONOTONIC) + BEAT_US;
	int status, failed = 0;

	if (out < 0 || pairs < 1 || pairs > PAIRS_MAX) {
		fprintf(stderr, "usage: control FILE PAIRS\n");
		return 2;
	}
	for (int i = 0; i < pairs; i++)
		if (fork() == 0)
			_exit(beat(out, begin_us + (uint64_t)(i * BEAT_US / pairs)));
	while (wait(&status) > 0)
		failed |= status != 0;
	return failed;
}
