/* What passes between the daemon and its service manager: readiness, a line of status, signs of
 * life, and a socket that the manager holds open while the daemon restarts (sd_notify(3),
 * sd_watchdog_enabled(3), sd_listen_fds(3)).
 *
 * Where segard was built without libsystemd, or runs under no manager, nothing is told and nothing
 * is passed. The loop's thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

/* Takes the socket that the manager has passed: `ret_fd`, or -1 if it passed none. False, and a
 * text of `size` bytes, if it passed what the daemon can't serve on. Once, before other threads. */
bool service_take_socket(int *ret_fd, char *ret_text, size_t size)
	__attribute__((warn_unused_result));

/* Signs of life for a manager that asked for them, twice in its interval: from a timer of the loop,
 * so that a loop that hangs sends none. `watchdog` is initialized either way, and does not keep
 * the loop alive. */
void service_watch(uv_loop_t *loop, uv_timer_t *watchdog);

/* The configuration is read anew, until the next service_ready. */
void service_reloading(void);

/* It serves, but is not ready yet, and won't be for so long: it is not to be given up meanwhile.
 */
void service_is_starting(const char *status, int64_t more_ms);

/* Each with the status line that people see. */
void service_ready(const char *status);
void service_status(const char *status);
void service_stopping(void);
