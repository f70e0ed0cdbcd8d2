/* The metrics endpoint: HTTP on an address of its own, for Prometheus (ops/exposition.h has the
 * page).
 *
 * libmicrohttpd reads and writes; its sockets are polled by the daemon's own loop, so that there is
 * no thread. One that reads slowly or not at all holds a connection until its time is up; over the
 * limit of connections others wait. Everything happens on the loop's thread.
 */
#pragma once

#include <microhttpd.h>
#include <stdbool.h>
#include <uv.h>

#include "base/durations.h"
#include "ops/exposition.h"
#include "rpc/listener.h"

struct metrics {
	struct family_sources sources;
	struct durations loop_lags;
	struct listener listener; /* where it is a path */
	struct MHD_Daemon *http;  /* NULL: it listens nowhere */
	uv_poll_t poll;           /* of libmicrohttpd's own epoll */
	uv_timer_t timer;         /* when libmicrohttpd wants to be called */
	uv_timer_t beat;          /* measures the loop's lag */
	uint64_t beat_due_ns;
};

/* Serves at sources->config->metrics_listen; nowhere if that is NULL. What the sources point to
 * outlives it. False, with a text of `size` bytes that says why: then nothing is open. */
bool metrics_open(struct metrics *metrics, uv_loop_t *loop, const struct family_sources *sources,
		  char *ret_text, size_t size) __attribute__((warn_unused_result));

/* Ends all connections; the handles are closed on the loop's next turn. Takes a zeroed one too, and
 * one that is closed. */
void metrics_close(struct metrics *metrics);
