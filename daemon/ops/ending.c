/* The daemon's end: what is taken down after what. */
#include "base/log.h"
#include "ops/daemon_state.h"
#include "ops/service.h"

enum {
	DRAIN_MS = 5000, /* for waiting requests, after SIGTERM */
	SEND_MS = 1000,  /* then for the refusals of those that still wait */
};

void ending_close_handles(struct daemon *daemon)
{
	uv_close((uv_handle_t *)&daemon->timer, NULL);
	uv_close((uv_handle_t *)&daemon->drain, NULL);
	uv_close((uv_handle_t *)&daemon->watchdog, NULL);
	uv_close((uv_handle_t *)&daemon->status_timer, NULL);
	for (int i = 0; i < DAEMON_SIGNALS; i++)
		uv_close((uv_handle_t *)&daemon->signals[i], NULL);
	hot_keys_close(&daemon->hot_keys);
	spans_close(&daemon->spans);
	if (!daemon->reload.closing)
		reload_close(&daemon->reload);
	if (!daemon->examination.closing)
		examination_close(&daemon->examination);
}

void ending_stores_closed(void *arg)
{
	ending_close_handles(arg);
}

/* Once neither the pump nor the follower nor a warm-up asks them for anything any more. */
static void close_stores(struct daemon *daemon)
{
	if (daemon->pool || daemon->follower.feed || daemon->warmup.open)
		return;
	follower_close(&daemon->follower);
	stores_close(&daemon->stores, ending_stores_closed);
}

void ending_pool_closed(struct pool *pool, void *arg)
{
	struct daemon *daemon = arg;
	(void)pool;
	daemon->pool = NULL;
	close_stores(daemon);
}

void ending_follower_gone(void *arg)
{
	close_stores(arg);
}

void ending_warmup_over(void *arg)
{
	close_stores(arg);
}

/* Once nothing can ask it for anything any more. */
static void close_pool(struct daemon *daemon)
{
	if (daemon->pump_stopped && !daemon->serving)
		pool_close(daemon->pool, ending_pool_closed, daemon);
}

void ending_pump_stopped(void *impl)
{
	struct daemon *daemon = impl;
	daemon->pump_stopped = true;
	close_pool(daemon);
}

void ending_server_closed(struct server *server)
{
	struct daemon *daemon = server->data;
	daemon->serving = false;
	uv_timer_stop(&daemon->drain);
	if (!daemon->pump.stopping)
		pump_stop(&daemon->pump);
	close_pool(daemon);
}

/* What has not been answered by now is told why: there is still time to send that. */
static void on_drained(uv_timer_t *timer)
{
	pump_stop(&((struct daemon *)timer->data)->pump);
}

void ending_begin(struct daemon *daemon, int number)
{
	if (daemon->stopping)
		return;
	daemon->stopping = true;
	log_info("daemon.stop", LOG_INT("signal", number));
	uv_timer_stop(&daemon->status_timer);
	metrics_close(&daemon->metrics);
	reload_close(&daemon->reload);
	examination_close(&daemon->examination);
	service_stopping();
	follower_end(&daemon->follower);
	hot_keys_stop(&daemon->hot_keys);
	warmup_end(&daemon->warmup);
	if (!daemon->serving) {
		pump_stop(&daemon->pump);
		return;
	}
	uv_timer_start(&daemon->drain, on_drained, DRAIN_MS, 0);
	server_close(&daemon->server, DRAIN_MS + SEND_MS, ending_server_closed);
}
