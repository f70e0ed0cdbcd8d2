/* Loaded into a Redis server: its clock is that of the host and as many µs as a file's first number
 * says; or, where the second is not 0, it stands at that moment.
 */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct orders {
	int64_t skew_us, stands_at_us;
};

static const volatile struct orders *read_orders(void)
{
	static const volatile struct orders none, *orders;
	if (!orders) {
		const char *path = getenv("SEGAR_SKEW_FILE");
		int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
		void *map = fd >= 0 ? mmap(NULL, sizeof(*orders), PROT_READ, MAP_SHARED, fd, 0)
				    : MAP_FAILED;
		if (fd >= 0)
			close(fd);
		if (map == MAP_FAILED)
			return &none;
		orders = map;
	}
	return orders;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	const volatile struct orders *orders = read_orders();
	struct timespec host;
	(void)zone;
	syscall(SYS_clock_gettime, CLOCK_REALTIME, &host);
	int64_t us = (int64_t)host.tv_sec * 1000000 + host.tv_nsec / 1000 + orders->skew_us;
	if (orders->stands_at_us != 0)
		us = orders->stands_at_us;
	*now = (struct timeval){ .tv_sec = us / 1000000, .tv_usec = us % 1000000 };
	return 0;
}
