#include "proxy.h"

#include <criterion/criterion.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"

struct passing {
	uv_write_t request;
	char bytes[65536];
};

static void on_closed(uv_handle_t *handle)
{
	struct proxy_pair *pair = handle->data;
	pair->open--;
}

static void close_one(uv_pipe_t *pipe)
{
	if (!uv_is_closing((uv_handle_t *)pipe))
		uv_close((uv_handle_t *)pipe, on_closed);
}

static void close_pair(struct proxy_pair *pair)
{
	if (!pair->open)
		return;
	close_one(&pair->client);
	close_one(&pair->server);
}

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buf)
{
	struct passing *passing = malloc(sizeof(*passing));
	(void)handle, (void)size;
	*buf = uv_buf_init(passing->bytes, sizeof(passing->bytes));
}

static void on_passed(uv_write_t *request, int status)
{
	(void)status;
	free(container_of(request, struct passing, request));
}

static void on_read(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf)
{
	struct proxy_pair *pair = stream->data;
	bool from_server = stream == (uv_stream_t *)&pair->server;
	struct passing *passing = buf->base ? container_of(buf->base, struct passing, bytes) : NULL;
	if (len <= 0 || (from_server && pair->proxy->deaf)) {
		free(passing);
		if (len < 0)
			close_pair(pair);
		return;
	}
	uv_buf_t out = uv_buf_init(passing->bytes, (unsigned)len);
	uv_stream_t *to = (uv_stream_t *)(from_server ? &pair->client : &pair->server);
	if (uv_is_closing((uv_handle_t *)to) ||
	    uv_write(&passing->request, to, &out, 1, on_passed) != 0)
		free(passing);
}

static void on_connected(uv_connect_t *request, int status)
{
	struct proxy_pair *pair = request->handle->data;
	free(request);
	if (status == UV_ECANCELED)
		return;
	if (status != 0 || pair->proxy->cut) {
		close_pair(pair);
		return;
	}
	uv_read_start((uv_stream_t *)&pair->client, on_alloc, on_read);
	uv_read_start((uv_stream_t *)&pair->server, on_alloc, on_read);
}

static void on_connection(uv_stream_t *listener, int status)
{
	struct proxy *proxy = listener->data;
	struct proxy_pair *pair = proxy->pairs;
	cr_assert_eq(status, 0);
	while (pair->open)
		cr_assert_lt(++pair, proxy->pairs + PROXY_PAIRS_MAX);
	*pair = (struct proxy_pair){ .proxy = proxy, .open = 2 };
	uv_pipe_init(listener->loop, &pair->client, 0);
	uv_pipe_init(listener->loop, &pair->server, 0);
	pair->client.data = pair->server.data = pair;
	cr_assert_eq(uv_accept(listener, (uv_stream_t *)&pair->client), 0);
	if (proxy->cut) {
		close_pair(pair);
		return;
	}
	uv_pipe_connect(malloc(sizeof(uv_connect_t)), &pair->server, proxy->target, on_connected);
}

void proxy_open(struct proxy *proxy, uv_loop_t *loop, const char *folder, const char *name,
		const char *target)
{
	*proxy = (struct proxy){ .target = target };
	snprintf(proxy->path, sizeof(proxy->path), "%s/%s", folder, name);
	snprintf(proxy->url, sizeof(proxy->url), "unix://%s", proxy->path);
	uv_pipe_init(loop, &proxy->listener, 0);
	proxy->listener.data = proxy;
	cr_assert_eq(uv_pipe_bind(&proxy->listener, proxy->path), 0);
	cr_assert_eq(uv_listen((uv_stream_t *)&proxy->listener, 16, on_connection), 0);
}

void proxy_cut(struct proxy *proxy)
{
	proxy->cut = true;
	for (int i = 0; i < PROXY_PAIRS_MAX; i++)
		close_pair(&proxy->pairs[i]);
}

void proxy_mend(struct proxy *proxy)
{
	proxy->cut = proxy->deaf = false;
}

void proxy_close(struct proxy *proxy)
{
	proxy_cut(proxy);
	uv_close((uv_handle_t *)&proxy->listener, NULL);
	unlink(proxy->path);
}
