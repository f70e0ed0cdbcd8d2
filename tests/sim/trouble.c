#include "trouble.h"

#include "base/check.h"
#include "fleet.h"

enum { TRY_AGAIN_US = 50 * MS };

/* ---- daemons ------------------------------------------------------------------------------ */

static struct node *draw_node(struct trouble_source *source)
{
	struct fleet *fleet = source->fleet;
	source->node = (int)rng_between(&source->rng, 0, fleet->scene.nodes - 1);
	return &fleet->nodes[source->node];
}

static void kill_one(struct trouble_source *source)
{
	node_kill(draw_node(source));
}

static void stop_one(struct trouble_source *source)
{
	node_stop(draw_node(source));
}

static bool start_again(struct trouble_source *source)
{
	struct node *node = &source->fleet->nodes[source->node];
	if (node->state == NODE_STOPPING)
		return false;
	fleet_start_node(node);
	return true;
}

static void pause_one(struct trouble_source *source)
{
	node_pause(draw_node(source));
}

static bool resume(struct trouble_source *source)
{
	node_resume(&source->fleet->nodes[source->node]);
	return true;
}

/* Hosts' clocks go wrong by up to 100 ppm. */
static void skew(struct trouble_source *source)
{
	struct fleet *fleet = source->fleet;
	for (int i = 0; i < fleet->scene.nodes; i++) {
		struct node *node = &fleet->nodes[i];
		int64_t drift_ppm = rng_between(&source->rng, -100, 100);
		if (node_runs(node))
			node_enter(node);
		node_drift(node, drift_ppm);
		if (node_runs(node))
			node_leave(node);
	}
}

/* ---- the way to the store ------------------------------------------------------------------ */

static void delay(struct trouble_source *source)
{
	source->fleet->weather.delays = true;
}

static bool delay_ends(struct trouble_source *source)
{
	source->fleet->weather.delays = false;
	return true;
}

static void lose(struct trouble_source *source)
{
	source->fleet->weather.losses = true;
}

static bool lose_ends(struct trouble_source *source)
{
	source->fleet->weather.losses = false;
	return true;
}

static void repeat(struct trouble_source *source)
{
	source->fleet->weather.doubles = true;
}

static bool repeat_ends(struct trouble_source *source)
{
	source->fleet->weather.doubles = false;
	return true;
}

static void cut(struct trouble_source *source)
{
	struct fleet *fleet = source->fleet;
	double share = 0.1 + 0.8 * rng_unit(&source->rng);
	for (int i = 0; i < fleet->scene.nodes; i++) {
		struct node *node = &fleet->nodes[i];
		bool noticed = draw_chance(&source->rng, 0.5);
		node->post.cut = draw_chance(&source->rng, share);
		if (node->post.cut && node->state != NODE_DOWN)
			post_deafen(&node->post, noticed);
	}
}

static bool cut_ends(struct trouble_source *source)
{
	for (int i = 0; i < source->fleet->scene.nodes; i++)
		source->fleet->nodes[i].post.cut = false;
	return true;
}

/* ---- the store ---------------------------------------------------------------------------- */

static void break_connections(struct trouble_source *source)
{
	struct fleet *fleet = source->fleet;
	for (int i = 0; i < fleet->scene.nodes; i++)
		if (fleet->nodes[i].state != NODE_DOWN)
			post_break(&fleet->nodes[i].post);
}

static void go_down(struct trouble_source *source)
{
	source->fleet->shared.down = true;
	shared_restart(&source->fleet->shared);
	break_connections(source);
	if (draw_chance(&source->rng, 0.5))
		shared_flush(&source->fleet->shared);
}

static bool come_up(struct trouble_source *source)
{
	source->fleet->shared.down = false;
	return true;
}

static void stall(struct trouble_source *source)
{
	source->fleet->shared.stalled = true;
}

static bool stall_ends(struct trouble_source *source)
{
	source->fleet->shared.stalled = false;
	return true;
}

static void refuse_writes(struct trouble_source *source)
{
	source->fleet->shared.readonly = true;
}

static bool take_writes(struct trouble_source *source)
{
	source->fleet->shared.readonly = false;
	return true;
}

static void flush(struct trouble_source *source)
{
	shared_flush(&source->fleet->shared);
}

static void evict(struct trouble_source *source)
{
	double share = 0.1 + 0.5 * rng_unit(&source->rng);
	shared_evict(&source->fleet->shared, &source->rng, share);
}

/* From here on the replica hears nothing; at the end it is the store. */
static void part_from_replica(struct trouble_source *source)
{
	shared_copy(&source->fleet->shared, &source->replica);
	source->replica_us = source->fleet->vtime.now_us;
}

static bool fail_over(struct trouble_source *source)
{
	shared_restore(&source->fleet->shared, &source->replica);
	judge_on_rolled_back(&source->fleet->judge, source->replica_us);
	break_connections(source);
	return true;
}

/* ---- the origin --------------------------------------------------------------------------- */

static void slow(struct trouble_source *source)
{
	source->fleet->server.slower = (int)rng_between(&source->rng, 3, 20);
}

static bool slow_ends(struct trouble_source *source)
{
	source->fleet->server.slower = 0;
	return true;
}

static void hang(struct trouble_source *source)
{
	source->fleet->server.hangs = 0.1 + 0.9 * rng_unit(&source->rng);
}

static bool hang_ends(struct trouble_source *source)
{
	source->fleet->server.hangs = 0;
	return true;
}

static void err(struct trouble_source *source)
{
	source->fleet->server.fails = 0.1 + 0.9 * rng_unit(&source->rng);
}

static bool err_ends(struct trouble_source *source)
{
	source->fleet->server.fails = 0;
	return true;
}

static void refuse(struct trouble_source *source)
{
	source->fleet->server.refuses = true;
}

static bool refuse_ends(struct trouble_source *source)
{
	source->fleet->server.refuses = false;
	return true;
}

static void crash(struct trouble_source *source)
{
	server_crash(&source->fleet->server);
	refuse(source);
}

static void drop(struct trouble_source *source)
{
	server_drop(&source->fleet->server, 0.1 + 0.9 * rng_unit(&source->rng));
}

/* ---- clients ------------------------------------------------------------------------------ */

static void leave(struct trouble_source *source)
{
	source->fleet->crowd.leaves = true;
}

static bool leave_ends(struct trouble_source *source)
{
	source->fleet->crowd.leaves = false;
	return true;
}

/* ---- when --------------------------------------------------------------------------------- */

enum whose { OF_NODES, OF_STORE, OF_ORIGIN };

/* `end` NULL: it is over at once; false: it does not end yet. Each lasts at most `most_us`, and
   two of a kind are `apart_us` apart on average. */
static const struct kind {
	enum whose whose;
	void (*begin)(struct trouble_source *source);
	bool (*end)(struct trouble_source *source);
	int64_t most_us, apart_us;
} kinds[TROUBLE_COUNT] = {
	[TROUBLE_KILL] = { OF_NODES, kill_one, start_again, 3 * SECOND, 6 * SECOND },
	[TROUBLE_PAUSE] = { OF_NODES, pause_one, resume, 8 * SECOND, 3 * SECOND },
	[TROUBLE_RESTART] = { OF_NODES, stop_one, start_again, 3 * SECOND, 6 * SECOND },
	[TROUBLE_DELAY] = { OF_STORE, delay, delay_ends, 6 * SECOND, 4 * SECOND },
	[TROUBLE_LOSS] = { OF_STORE, lose, lose_ends, 6 * SECOND, 4 * SECOND },
	[TROUBLE_DOUBLE] = { OF_STORE, repeat, repeat_ends, 6 * SECOND, 4 * SECOND },
	[TROUBLE_CUT] = { OF_STORE, cut, cut_ends, 10 * SECOND, 8 * SECOND },
	[TROUBLE_DOWN] = { OF_STORE, go_down, come_up, 8 * SECOND, 10 * SECOND },
	[TROUBLE_STALL] = { OF_STORE, stall, stall_ends, 6 * SECOND, 8 * SECOND },
	[TROUBLE_FLUSH] = { OF_STORE, flush, NULL, 1, 6 * SECOND },
	[TROUBLE_FAILOVER] = { OF_STORE, part_from_replica, fail_over, 1500 * MS, 8 * SECOND },
	[TROUBLE_EVICT] = { OF_STORE, evict, NULL, 1, 2 * SECOND },
	[TROUBLE_READONLY] = { OF_STORE, refuse_writes, take_writes, 6 * SECOND, 8 * SECOND },
	[TROUBLE_SLOW] = { OF_ORIGIN, slow, slow_ends, 8 * SECOND, 6 * SECOND },
	[TROUBLE_HANG] = { OF_ORIGIN, hang, hang_ends, 5 * SECOND, 6 * SECOND },
	[TROUBLE_ERROR] = { OF_ORIGIN, err, err_ends, 4 * SECOND, 6 * SECOND },
	[TROUBLE_REFUSE] = { OF_ORIGIN, refuse, refuse_ends, 4 * SECOND, 8 * SECOND },
	[TROUBLE_CRASH] = { OF_ORIGIN, crash, refuse_ends, 2 * SECOND, 8 * SECOND },
	[TROUBLE_DROP] = { OF_ORIGIN, drop, NULL, 1, 3 * SECOND },
	[TROUBLE_SKEW] = { OF_NODES, skew, NULL, 1, 3 * SECOND },
	[TROUBLE_LEAVE] = { OF_NODES, leave, leave_ends, 5 * SECOND, 4 * SECOND },
};

/* The judge knows what can be excused. */
static void note(struct trouble_source *source, int more)
{
	struct judge *judge = &source->fleet->judge;
	switch (kinds[source->kind].whose) {
	case OF_NODES:
		break;
	case OF_STORE:
		judge->store_troubles += more;
		judge->store_trouble_us = source->fleet->vtime.now_us;
		break;
	case OF_ORIGIN:
		judge->origin_troubles += more;
		judge->origin_trouble_us = source->fleet->vtime.now_us;
		break;
	}
}

static void next(struct trouble_source *source);

static void on_end(struct timer *timer)
{
	struct trouble_source *source = container_of(timer, struct trouble_source, timer);
	const struct kind *kind = &kinds[source->kind];
	struct vtime *vtime = &source->fleet->vtime;
	if (kind->end && !kind->end(source)) {
		vtime_set(vtime, timer, vtime->now_us + TRY_AGAIN_US, on_end);
		return;
	}
	trace(source->fleet, "ev=calm kind=%s", trouble_name(source->kind));
	note(source, -1);
	next(source);
}

static void on_begin(struct timer *timer)
{
	struct trouble_source *source = container_of(timer, struct trouble_source, timer);
	const struct kind *kind = &kinds[source->kind];
	struct vtime *vtime = &source->fleet->vtime;
	int64_t end_us = vtime->now_us + rng_between(&source->rng, 1, kind->most_us);
	if (end_us > source->fleet->scene.healed_us)
		return;
	trace(source->fleet, "ev=trouble kind=%s until=%.6f", trouble_name(source->kind),
	      (double)end_us / SECOND);
	note(source, 1);
	kind->begin(source);
	vtime_set(vtime, timer, end_us, on_end);
}

static void next(struct trouble_source *source)
{
	struct vtime *vtime = &source->fleet->vtime;
	double apart_us = (double)kinds[source->kind].apart_us;
	vtime_set(vtime, &source->timer, vtime->now_us + draw_exponential(&source->rng, apart_us),
		  on_begin);
}

void troubles_init(struct troubles *troubles, struct fleet *fleet)
{
	*troubles = (struct troubles){ 0 };
	for (int i = 0; i < TROUBLE_COUNT; i++) {
		struct trouble_source *source = &troubles->sources[i];
		if (!scene_has(&fleet->scene, (enum trouble)i))
			continue;
		source->fleet = fleet;
		source->kind = (enum trouble)i;
		scene_stream(&fleet->scene, STREAM_TROUBLE, (uint32_t)i, &source->rng);
		next(source);
	}
}

void troubles_close(struct troubles *troubles)
{
	struct trouble_source *source = &troubles->sources[TROUBLE_FAILOVER];
	if (source->replica.slots)
		shared_data_drop(&source->fleet->shared, &source->replica);
}
