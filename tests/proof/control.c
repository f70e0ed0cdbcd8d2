/* How late this machine runs processes that do nothing wrong: one sends a byte every 5 ms, another
 * says it back. Writes for each beat, until its input ends, the wall clock's µs (u64) at which it
 * was due and the µs (u64) from then to when its byte was back.
 *
 *   control FILE
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BEAT_US = 5000 };

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
	while (read(fd, &byte, 1) == 1 && write(fd, &byte, 1) == 1)
		;
	_exit(0);
}

static bool is_over(void)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };

	return poll(&input, 1, 0) > 0;
}

int main(int argc, char **argv)
{
	const uint64_t wall_us = now_us(CLOCK_REALTIME) - now_us(CLOCK_MONOTONIC);
	FILE *out = argc == 2 ? fopen(argv[1], "wb") : NULL;
	int pair[2];

	if (!out || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
		fprintf(stderr, "usage: control FILE\n");
		return 2;
	}
	if (fork() == 0)
		say_back(pair[1]);
	close(pair[1]);
	for (uint64_t due_us = now_us(CLOCK_MONOTONIC); !is_over(); due_us += BEAT_US) {
		const struct timespec due = { .tv_sec = (time_t)(due_us / 1000000),
					      .tv_nsec = (long)(due_us % 1000000 * 1000) };
		uint64_t beat[2] = { wall_us + due_us };
		char byte = 0;

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
		if (write(pair[0], &byte, 1) != 1 || read(pair[0], &byte, 1) != 1)
			return 1;
		beat[1] = now_us(CLOCK_MONOTONIC) - due_us;
		if (fwrite(beat, sizeof(beat), 1, out) != 1)
			return 1;
	}
	return fclose(out) != 0;
}
