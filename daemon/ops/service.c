#include "ops/service.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#ifdef HAVE_SYSTEMD
#include <systemd/sd-daemon.h>

bool service_take_socket(int *ret_fd, char *ret_text, size_t size)
{
	int count = sd_listen_fds(1);
	if (count < 0) {
		snprintf(ret_text, size, "can't take the service manager's socket: %s",
			 strerror(-count));
		return false;
	}
	if (count > 1) {
		snprintf(ret_text, size,
			 "the service manager passes %d sockets; segard serves on one", count);
		return false;
	}
	if (count == 1 && sd_is_socket(SD_LISTEN_FDS_START, AF_UNIX, SOCK_STREAM, 1) <= 0) {
		snprintf(ret_text, size,
			 "what the service manager passes is no listening Unix stream socket");
		return false;
	}
	*ret_fd = count == 1 ? SD_LISTEN_FDS_START : -1;
	return true;
}

static void on_watchdog(uv_timer_t *timer)
{
	(void)timer;
	sd_notify(0, "WATCHDOG=1");
}

void service_watch(uv_loop_t *loop, uv_timer_t *watchdog)
{
	uint64_t interval_us;
	uv_timer_init(loop, watchdog);
	uv_unref((uv_handle_t *)watchdog);
	if (sd_watchdog_enabled(0, &interval_us) <= 0)
		return;
	uint64_t half_ms = interval_us / 2000 > 0 ? interval_us / 2000 : 1;
	uv_timer_start(watchdog, on_watchdog, half_ms, half_ms);
}

/* Managers of Type=notify-reload (systemd 253 and later) compare the time; others ignore it. */
void service_reloading(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRId64,
		   (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000);
}

void service_is_starting(const char *status, int64_t more_ms)
{
	sd_notifyf(0, "EXTEND_TIMEOUT_USEC=%" PRId64 "\nSTATUS=%s", more_ms * 1000, status);
}

void service_ready(const char *status)
{
	sd_notifyf(0, "READY=1\nSTATUS=%s", status);
}

void service_status(const char *status)
{
	sd_notifyf(0, "STATUS=%s", status);
}

void service_stopping(void)
{
	sd_notify(0, "STOPPING=1\nSTATUS=stopping");
}
#else
bool service_take_socket(int *ret_fd, char *ret_text, size_t size)
{
	(void)ret_text;
	(void)size;
	*ret_fd = -1;
	return true;
}

void service_watch(uv_loop_t *loop, uv_timer_t *watchdog)
{
	uv_timer_init(loop, watchdog);
	uv_unref((uv_handle_t *)watchdog);
}

void service_reloading(void)
{
}

void service_is_starting(const char *status, int64_t more_ms)
{
	(void)status;
	(void)more_ms;
}

void service_ready(const char *status)
{
	(void)status;
}

void service_status(const char *status)
{
	(void)status;
}

void service_stopping(void)
{
}
#endif
