#include "store/adapter.h"

#include <stddef.h>

#include "base/check.h"

static void adapter_on_poll(uv_poll_t *handle, int status, int events)
{
	struct adapter *adapter = container_of(handle, struct adapter, poll);
	if (status < 0)
		events = adapter->watched;
	if (adapter->context && (events & UV_READABLE))
		redisAsyncHandleRead(adapter->context);
	if (adapter->context && (events & UV_WRITABLE))
		redisAsyncHandleWrite(adapter->context);
	/* libuv has stopped watching a socket that it reported an error of. */
	if (adapter->context && status < 0)
		CHECK(uv_poll_start(handle, adapter->watched, adapter_on_poll) == 0);
}

static void adapter_watch(struct adapter *adapter, int events)
{
	if (adapter->watched == events || !adapter->context)
		return;
	adapter->watched = events;
	if (events)
		CHECK(uv_poll_start(&adapter->poll, events, adapter_on_poll) == 0);
	else
		CHECK(uv_poll_stop(&adapter->poll) == 0);
}

static void adapter_add_read(void *arg)
{
	struct adapter *adapter = arg;
	adapter_watch(adapter, adapter->watched | UV_READABLE);
}

static void adapter_del_read(void *arg)
{
	struct adapter *adapter = arg;
	adapter_watch(adapter, adapter->watched & ~UV_READABLE);
}

static void adapter_add_write(void *arg)
{
	struct adapter *adapter = arg;
	adapter_watch(adapter, adapter->watched | UV_WRITABLE);
}

static void adapter_del_write(void *arg)
{
	struct adapter *adapter = arg;
	adapter_watch(adapter, adapter->watched & ~UV_WRITABLE);
}

static void adapter_on_closed(uv_handle_t *handle)
{
	struct adapter *adapter = container_of(handle, struct adapter, poll);
	adapter->events->closed(adapter);
}

static void adapter_cleanup(void *arg)
{
	struct adapter *adapter = arg;
	const redisAsyncContext *context = adapter->context;
	if (!context)
		return;
	adapter->context = NULL;
	adapter->events->detached(adapter, context);
	uv_close((uv_handle_t *)&adapter->poll, adapter_on_closed);
}

int adapter_attach(struct adapter *adapter, uv_loop_t *loop, redisAsyncContext *context,
		   const struct adapter_events *events)
{
	int error = uv_poll_init(loop, &adapter->poll, context->c.fd);
	if (error)
		return error;
	adapter->context = context;
	adapter->watched = 0;
	adapter->events = events;
	context->ev.data = adapter;
	context->ev.addRead = adapter_add_read;
	context->ev.delRead = adapter_del_read;
	context->ev.addWrite = adapter_add_write;
	context->ev.delWrite = adapter_del_write;
	context->ev.cleanup = adapter_cleanup;
	return 0;
}
