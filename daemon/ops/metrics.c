#include "ops/metrics.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/endpoint.h"
#include "base/mem.h"

enum {
	CONNECTIONS_MAX = 16,
	CONNECTION_BYTES = 16384, /* a request with its headers; more is refused */
	IDLE_S = 30,
	BLOCK_BYTES = 32768, /* of the page, at once */
	BACKLOG = 16,
	BEAT_MS = 250,
	SOCKET_MODE = 0660,
};

/* ---- requests ----------------------------------------------------------------------------- */

static ssize_t on_read(void *arg, uint64_t pos, char *buf, size_t max)
{
	(void)pos;
	size_t len = exposition_read(arg, buf, max);
	return len > 0 ? (ssize_t)len : MHD_CONTENT_READER_END_OF_STREAM;
}

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status, const char *text,
			      const char *allow)
{
	struct MHD_Response *response =
		MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_PERSISTENT);
	if (!response)
		return MHD_NO;
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
				"text/plain; charset=utf-8");
	if (allow)
		MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, allow);
	enum MHD_Result result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result answer_page(struct MHD_Connection *connection,
				   const struct family_sources *sources)
{
	struct exposition *page = mem_zalloc(sizeof(*page));
	if (!page)
		return MHD_NO;
	page->sources = *sources;
	struct MHD_Response *response = MHD_create_response_from_callback(
		MHD_SIZE_UNKNOWN, BLOCK_BYTES, on_read, page, mem_free);
	if (!response) {
		mem_free(page);
		return MHD_NO;
	}
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
				"text/plain; version=0.0.4; charset=utf-8");
	enum MHD_Result result = MHD_queue_response(connection, MHD_HTTP_OK, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *url,
				  const char *method, const char *version, const char *upload,
				  size_t *upload_size, void **request)
{
	static int seen;
	const struct metrics *metrics = arg;
	(void)version;
	(void)upload;
	/* First with the headers alone: an answer then would cut off a body that is under way. */
	if (!*request) {
		*request = &seen;
		return MHD_YES;
	}
	if (*upload_size > 0) {
		*upload_size = 0;
		return MHD_YES;
	}
	if (strcmp(url, "/metrics") != 0)
		return answer(connection, MHD_HTTP_NOT_FOUND, "there is only /metrics\n", NULL);
	/* Not HEAD: libmicrohttpd 0.9.75 ends the answer to it with the last chunk of a body. */
	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0)
		return answer(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "it takes GET\n", "GET");
	return answer_page(connection, &metrics->sources);
}

/* ---- the loop ----------------------------------------------------------------------------- */

static void run(struct metrics *metrics);

static void on_timer(uv_timer_t *timer)
{
	run(timer->data);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	(void)status;
	(void)events;
	run(poll->data);
}

static void run(struct metrics *metrics)
{
	MHD_UNSIGNED_LONG_LONG in_ms;
	MHD_run(metrics->http);
	if (MHD_get_timeout(metrics->http, &in_ms) == MHD_YES)
		uv_timer_start(&metrics->timer, on_timer, in_ms, 0);
	else
		uv_timer_stop(&metrics->timer);
}

static void on_beat(uv_timer_t *timer)
{
	struct metrics *metrics = timer->data;
	const uint64_t now_ns = uv_hrtime();
	durations_add(&metrics->loop_lags,
		      ((int64_t)now_ns - (int64_t)metrics->beat_due_ns) / 1000);
	/* libuv counts from its own idea of now, in whole milliseconds. */
	uv_update_time(timer->loop);
	metrics->beat_due_ns = now_ns + BEAT_MS * UINT64_C(1000000);
	uv_timer_start(timer, on_beat, BEAT_MS, 0);
}

/* ---- opening and closing ------------------------------------------------------------------ */

static int bind_address(const struct endpoint *endpoint)
{
	const struct sockaddr *address = (const struct sockaddr *)&endpoint->address;
	const int yes = 1;
	int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (bind(fd, address, endpoint->len) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	int error = errno;
	close(fd);
	errno = error;
	return -1;
}

/* The listening socket, or -1 and why. */
static int open_socket(struct metrics *metrics, const char *listen, char *ret_text, size_t size)
{
	struct endpoint endpoint;
	const char *why = endpoint_parse(listen, &endpoint);
	if (why) {
		snprintf(ret_text, size, "metrics.listen %s", why);
		return -1;
	}
	if (endpoint.len == 0) {
		const struct listen_policy policy = { .socket = endpoint.path,
						      .mode = SOCKET_MODE };
		if (listener_open(&metrics->listener, &policy, -1, ret_text, size) != LISTENER_OK)
			return -1;
		return metrics->listener.fd;
	}
	int fd = bind_address(&endpoint);
	if (fd < 0)
		snprintf(ret_text, size, "metrics.listen: %s: %s", listen, strerror(errno));
	return fd;
}

/* The listener closes its own. */
static void close_socket(struct metrics *metrics, int fd)
{
	if (metrics->listener.path[0])
		listener_close(&metrics->listener);
	else if (fd >= 0)
		close(fd);
}

static void keep_silent(void *arg, const char *format, va_list args)
{
	(void)arg;
	(void)format;
	(void)args;
}

static void watch(struct metrics *metrics, uv_loop_t *loop, int epoll_fd)
{
	CHECK(uv_poll_init(loop, &metrics->poll, epoll_fd) == 0);
	uv_timer_init(loop, &metrics->timer);
	uv_timer_init(loop, &metrics->beat);
	metrics->poll.data = metrics->timer.data = metrics->beat.data = metrics;
	uv_poll_start(&metrics->poll, UV_READABLE, on_poll);
	uv_timer_start(&metrics->beat, on_beat, BEAT_MS, 0);
	metrics->beat_due_ns = uv_hrtime() + BEAT_MS * UINT64_C(1000000);
}

bool metrics_open(struct metrics *metrics, uv_loop_t *loop, const struct family_sources *sources,
		  char *ret_text, size_t size)
{
	*metrics = (struct metrics){ .sources = *sources };
	metrics->sources.loop_lags = &metrics->loop_lags;
	if (!(*sources->config)->metrics_listen)
		return true;
	int fd = open_socket(metrics, (*sources->config)->metrics_listen, ret_text, size);
	if (fd < 0)
		return false;
	metrics->http = MHD_start_daemon(
		MHD_USE_EPOLL | MHD_USE_ERROR_LOG, 0, NULL, NULL, on_request, metrics,
		MHD_OPTION_EXTERNAL_LOGGER, keep_silent, NULL, MHD_OPTION_LISTEN_SOCKET, fd,
		MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
		MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S, MHD_OPTION_END);
	const union MHD_DaemonInfo *info =
		metrics->http ? MHD_get_daemon_info(metrics->http, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
	if (!info) {
		snprintf(ret_text, size, "metrics.listen: libmicrohttpd does not start");
		close_socket(metrics, fd);
		return false;
	}
	watch(metrics, loop, info->epoll_fd);
	return true;
}

void metrics_close(struct metrics *metrics)
{
	if (!metrics->http)
		return;
	uv_close((uv_handle_t *)&metrics->poll, NULL);
	uv_close((uv_handle_t *)&metrics->timer, NULL);
	uv_close((uv_handle_t *)&metrics->beat, NULL);
	/* Takes the socket back, so that its owner closes it. */
	int fd = MHD_quiesce_daemon(metrics->http);
	MHD_stop_daemon(metrics->http);
	close_socket(metrics, fd);
	metrics->http = NULL;
}
