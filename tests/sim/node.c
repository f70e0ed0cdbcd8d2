#include "node.h"

#include <string.h>

#include "base/check.h"
#include "fleet.h"
#include "imprint.h"

enum { BURIAL_STEPS_MAX = 1000000 };

/* ---- errands ----------------------------------------------------------------------------- */

void node_enter(struct node *node)
{
	hot_settle(node);
}

void node_leave(struct node *node)
{
	if (node->state != NODE_DOWN)
		engine_check(node->engine);
	hot_plan(node);
}

static void errand_fire(struct timer *timer)
{
	struct errand *errand = container_of(timer, struct errand, timer);
	struct node *node = errand->node;
	if (node->paused) {
		errand->parked = true;
		return;
	}
	list_remove(&node->errands, &errand->pending);
	node_enter(node);
	errand->run(errand);
	node_leave(node);
}

static void errand_set(struct node *node, struct errand *errand, void (*run)(struct errand *errand),
		       void (*drop)(struct errand *errand))
{
	node_cancel(errand);
	errand->node = node;
	errand->run = run;
	errand->drop = drop;
	errand->parked = false;
	list_push_back(&node->errands, &errand->pending);
}

void node_at(struct node *node, struct errand *errand, int64_t at_us,
	     void (*run)(struct errand *errand), void (*drop)(struct errand *errand))
{
	errand_set(node, errand, run, drop);
	vtime_set(&node->fleet->vtime, &errand->timer, at_us, errand_fire);
}

void node_at_late(struct node *node, struct errand *errand, int64_t at_us,
		  void (*run)(struct errand *errand))
{
	errand_set(node, errand, run, NULL);
	vtime_set_late(&node->fleet->vtime, &errand->timer, at_us, (uint32_t)node->number,
		       errand_fire);
}

void node_cancel(struct errand *errand)
{
	if (!errand_is_set(errand))
		return;
	list_remove(&errand->node->errands, &errand->pending);
	vtime_cancel(&errand->node->fleet->vtime, &errand->timer);
}

static void errands_drop(struct node *node)
{
	struct list_node *first;
	while ((first = list_first(&node->errands))) {
		struct errand *errand = container_of(first, struct errand, pending);
		node_cancel(errand);
		if (errand->drop)
			errand->drop(errand);
	}
}

/* ---- what the pump needs ----------------------------------------------------------------- */

static int64_t local_at(const struct node *node, int64_t true_us)
{
	int64_t since_us = true_us - node->ticked_us;
	return node->ticked_local_us + since_us + since_us * node->drift_ppm / 1000000;
}

int64_t node_local(const struct node *node)
{
	return local_at(node, node->fleet->vtime.now_us);
}

void node_drift(struct node *node, int64_t drift_ppm)
{
	node->ticked_local_us = node_local(node);
	node->ticked_us = node->fleet->vtime.now_us;
	node->drift_ppm = drift_ppm;
}

int64_t node_now(struct node *node)
{
	return fleet_clock_now(&node->post.clock, node_local(node));
}

int64_t node_now_at(const struct node *node, int64_t true_us)
{
	struct fleet_clock clock = node->post.clock;
	return fleet_clock_now(&clock, local_at(node, true_us));
}

int64_t node_clock(const struct node *node)
{
	return node_now_at(node, node->fleet->vtime.now_us);
}

static int64_t host_now(void *impl)
{
	return node_now(impl);
}

static int64_t host_fence(void *impl)
{
	const struct node *node = impl;
	return fleet_clock_passed(&node->post.clock, node_local(node));
}

static void on_turn(struct errand *errand)
{
	pump_turn(&errand->node->pump);
}

static void host_wake_at(void *impl, int64_t at_us)
{
	struct node *node = impl;
	int64_t now_us = node->fleet->vtime.now_us;
	node_cancel(&node->turn);
	if (at_us == INT64_MAX)
		return;
	/* At once is the loop's next turn: time passes where there is always more to do. */
	int64_t in_us = at_us - node_now(node);
	node_at(node, &node->turn, now_us + (at_us > 0 && in_us > 0 ? in_us : 1), on_turn, NULL);
}

static void host_stopped(void *impl)
{
	((struct node *)impl)->stopped = true;
}

static void on_memory_turn(struct errand *errand)
{
	memory_store_turn(errand->node->memory);
}

static void host_want_turn(void *impl)
{
	struct node *node = impl;
	node_at(node, &node->memory_turn, node->fleet->vtime.now_us + 1, on_memory_turn, NULL);
}

int64_t node_measure(struct node *node)
{
	int64_t error_us = shared_clock_error(&node->fleet->shared, post_store_clock(&node->post));
	if (node->post.clock.in_touch && node->error_us < error_us)
		node->error_us = error_us;
	return node->error_us;
}

/* ---- life -------------------------------------------------------------------------------- */

void node_init(struct node *node, struct fleet *fleet, int number)
{
	*node = (struct node){ .fleet = fleet, .number = number, .kept_place = PLACE_NONE };
	scene_stream(&fleet->scene, STREAM_NODE, (uint32_t)number, &node->rng);
	node->ticked_local_us = rng_between(&node->rng, 1, 1000 * (int64_t)SECOND);
	list_init(&node->errands);
	list_init(&node->calls);
	list_init(&node->statements);
	hot_init(&node->hot, node);
}

static void open_core(struct node *node)
{
	const struct scene *scene = &node->fleet->scene;
	unsigned char secret[KEY_SECRET_LEN];
	for (size_t i = 0; i < sizeof(secret); i++)
		secret[i] = (unsigned char)rng_next(&node->rng);
	struct engine_limits limits = { .requests_max = 2000,
					.key_bytes_max = 1 << 20,
					.queue_max = scene->queue_max,
					.concurrency = (uint32_t)scene->concurrency,
					.near_bytes_max = scene->near_bytes,
					.answer_old_us = scene->trust_us };
	struct memory_store_limits own = { .concurrency = (uint32_t)scene->concurrency,
					   .budget_per_s = scene->budget_per_s,
					   .fleet = (uint32_t)scene->nodes,
					   .failures_max = 1000 };
	node->engine =
		engine_create(scene->policies, KEYSPACES, &limits, secret, rng_next(&node->rng));
	node->memory = memory_store_create(
		&own, &(struct memory_store_host){ node, host_now, host_want_turn, host_fence });
	CHECK(node->engine && node->memory);
}

void node_start(struct node *node)
{
	CHECK(node->state == NODE_DOWN);
	node->life = rng_next(&node->rng);
	node->stopped = node->buried = node->paused = false;
	node->error_us = 0;
	node->unsettled = false;
	node->open = false;
	memset(node->seen, 0, sizeof(node->seen));
	memset(node->heard, 0, sizeof(node->heard));
	for (int i = 0; i < KEYS_MAX; i++)
		node->flight_us[i] = node->flight_last_us[i] = node->away_us[i] = INT64_MIN / 2;
	node->permit_away_us = node->origin_lost_us = INT64_MIN / 2;
	post_open(&node->post, node, node->kept_place, node->kept_life);
	open_core(node);
	struct store shared = post_iface(&node->post), own = memory_store_iface(node->memory);
	fallback_init(&node->fallback, &shared, &own);
	struct store store = fallback_iface(&node->fallback);
	struct origin origin = server_iface(node);
	pump_init(&node->pump, node->engine, &store, &origin,
		  &(struct pump_host){ node, host_now, host_wake_at, host_stopped, NULL });
	node->state = NODE_UP;
	trace(node->fleet, "node=%d ev=start life=%" PRIx64, node->number, node->life);
	post_begin(&node->post);
	reader_open(&node->reader, node);
}

void node_opened(struct node *node)
{
	if (node->open)
		return;
	node->open = true;
	fleet_clock_begin(&node->post.clock);
	crowd_connect(node);
}

static void close_core(struct node *node)
{
	node->buried = true;
	errands_drop(node);
	judge_mix(&node->fleet->judge, imprint_of(node));
	post_abandon(&node->post);
	post_close(&node->post);
	CHECK(list_empty(&node->calls) && list_empty(&node->statements));
	engine_free(node->engine);
	memory_store_free(node->memory);
	node->engine = NULL;
	node->memory = NULL;
	node->state = NODE_DOWN;
	trace(node->fleet, "node=%d ev=gone", node->number);
}

static void on_stopped_look(struct errand *errand)
{
	struct node *node = errand->node;
	if (node->stopped && !node->reader.feed) {
		close_core(node);
		return;
	}
	node_at(node, errand, node->fleet->vtime.now_us + MS, on_stopped_look, NULL);
}

void node_stop(struct node *node)
{
	if (node->state != NODE_UP || node->paused)
		return;
	trace(node->fleet, "node=%d ev=stop", node->number);
	node_enter(node);
	node->state = NODE_STOPPING;
	node->trouble_us = node->fleet->vtime.now_us;
	hot_pause(node);
	pump_stop(&node->pump);
	reader_close(&node->reader);
	node_at(node, &node->look, node->fleet->vtime.now_us + MS, on_stopped_look, NULL);
	node_leave(node);
}

void node_kill(struct node *node)
{
	if (node->state == NODE_DOWN)
		return;
	trace(node->fleet, "node=%d ev=kill", node->number);
	judge_on_hindered(&node->fleet->judge, node->number);
	hot_settle(node);
	hot_pause(node);
	node->buried = true;
	node->paused = false;
	node->trouble_us = node->fleet->vtime.now_us;
	crowd_disconnect(node);
	errands_drop(node);
	if (!node->pump.stopping)
		pump_stop(&node->pump);
	reader_close(&node->reader);
	for (int steps = 0; !node->stopped || node->reader.feed; steps++) {
		CHECK_MSG(steps < BURIAL_STEPS_MAX, "node=%d finds no rest", node->number);
		server_abandon(node);
		post_abandon(&node->post);
		errands_drop(node);
		memory_store_turn(node->memory);
		pump_turn(&node->pump);
	}
	close_core(node);
}

void node_pause(struct node *node)
{
	if (node->state == NODE_DOWN || node->paused)
		return;
	trace(node->fleet, "node=%d ev=pause", node->number);
	judge_on_hindered(&node->fleet->judge, node->number);
	hot_settle(node);
	hot_pause(node);
	node->paused = true;
	node->trouble_us = node->fleet->vtime.now_us;
}

/* What came meanwhile is read in any order: it comes over many connections. */
void node_resume(struct node *node)
{
	if (!node->paused)
		return;
	struct vtime *vtime = &node->fleet->vtime;
	trace(node->fleet, "node=%d ev=resume", node->number);
	node->paused = false;
	node->resumed_us = node->trouble_us = vtime->now_us;
	list_foreach (&node->errands, pending) {
		struct errand *errand = container_of(pending, struct errand, pending);
		if (!errand->parked)
			continue;
		errand->parked = false;
		vtime_set(vtime, &errand->timer, vtime->now_us + rng_between(&node->rng, 0, 500),
			  errand_fire);
	}
	hot_plan(node);
}

bool node_runs(const struct node *node)
{
	return node->state != NODE_DOWN && !node->paused;
}
