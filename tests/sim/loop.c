#include "loop.h"

#include <stdlib.h>

#include "base/check.h"
#include "fleet.h"

/* A handle's errand: its timer, then its end. */
struct tick {
	struct errand errand;
	uv_timer_t *timer;
	uv_timer_cb fires;
	uv_close_cb closed;
	uint64_t repeat_ms;
};

int __wrap_uv_timer_init(uv_loop_t *loop, uv_timer_t *timer);
int __wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb fires, uint64_t ms, uint64_t repeat_ms);
int __wrap_uv_timer_stop(uv_timer_t *timer);
uint64_t __wrap_uv_now(const uv_loop_t *loop);
void __wrap_uv_close(uv_handle_t *handle, uv_close_cb closed);

static struct node *node_of(const uv_loop_t *loop)
{
	return loop->data;
}

static struct tick *tick_of(const uv_timer_t *timer)
{
	return timer->u.reserved[0];
}

void loop_init(uv_loop_t *loop, struct node *node)
{
	loop->data = node;
}

uint64_t __wrap_uv_now(const uv_loop_t *loop)
{
	return (uint64_t)node_local(node_of(loop)) / 1000;
}

int __wrap_uv_timer_init(uv_loop_t *loop, uv_timer_t *timer)
{
	struct tick *tick = calloc(1, sizeof(*tick));
	CHECK(tick);
	tick->timer = timer;
	timer->loop = loop;
	timer->type = UV_TIMER;
	timer->u.reserved[0] = tick;
	return 0;
}

static void set(struct tick *tick, uint64_t ms);

static void on_tick(struct errand *errand)
{
	struct tick *tick = container_of(errand, struct tick, errand);
	if (tick->repeat_ms > 0)
		set(tick, tick->repeat_ms);
	tick->fires(tick->timer);
}

static void set(struct tick *tick, uint64_t ms)
{
	struct node *node = node_of(tick->timer->loop);
	int64_t in_us = (int64_t)ms * 1000;
	node_at(node, &tick->errand, node->fleet->vtime.now_us + (in_us > 0 ? in_us : 1), on_tick,
		NULL);
}

int __wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb fires, uint64_t ms, uint64_t repeat_ms)
{
	struct tick *tick = tick_of(timer);
	tick->fires = fires;
	tick->repeat_ms = repeat_ms;
	set(tick, ms);
	return 0;
}

int __wrap_uv_timer_stop(uv_timer_t *timer)
{
	node_cancel(&tick_of(timer)->errand);
	return 0;
}

/* Also where the daemon has died: then at its burial. */
static void on_closed(struct errand *errand)
{
	struct tick *tick = container_of(errand, struct tick, errand);
	uv_handle_t *handle = (uv_handle_t *)tick->timer;
	uv_close_cb closed = tick->closed;
	free(tick);
	closed(handle);
}

void __wrap_uv_close(uv_handle_t *handle, uv_close_cb closed)
{
	CHECK(handle->type == UV_TIMER);
	struct tick *tick = tick_of((uv_timer_t *)handle);
	struct node *node = node_of(handle->loop);
	tick->closed = closed;
	node_at(node, &tick->errand, node->fleet->vtime.now_us + 1, on_closed, on_closed);
}
