#include "trouble.h"

#include "base/check.h"
#include "fleet.h"

enum {
	TRY_AGAIN_US = 50 * MS,
	JUMP_LEAST_US = 1500 * MS,
	JUMPS_APART_US = 15 * SECOND,
	LOST_COMMITS_US = 2 * SECOND
};

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

static void reorder(struct trouble_source *source)
{
	source->fleet->weather.reorders = true;
}

static bool reorder_ends(struct trouble_source *source)
{
	source->fleet->weather.reorders = false;
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

static void flush(struct trouble_source *source)
{
	shared_flush(&source->fleet->shared);
	judge_on_epochs_kept(&source->fleet->judge);
}

static void go_down(struct trouble_source *source)
{
	source->fleet->shared.down = true;
	shared_restart(&source->fleet->shared);
	break_connections(source);
	if (draw_chance(&source->rng, 0.5))
		flush(source);
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
	judge_on_hindered(&source->fleet->judge, -1);
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

static void fill(struct trouble_source *source)
{
	source->fleet->shared.full = true;
}

static bool fill_ends(struct trouble_source *source)
{
	source->fleet->shared.full = false;
	return true;
}

/* Seconds, or most of a day. */
static void jump(struct trouble_source *source)
{
	int64_t most_us = draw_chance(&source->rng, 0.7) ? 30 * SECOND : 70000 * (int64_t)SECOND;
	struct shared *shared = &source->fleet->shared;
	int64_t jump_us, now_us = source->fleet->vtime.now_us;
	/* By then all have heard of the one before: eras do not tell of two at once. */
	if (shared->clocks_count > 0 && now_us - source->replica_us < JUMPS_APART_US)
		return;
	source->replica_us = now_us;
	/* Two that come to less than a second are none to who was away meanwhile. */
	do {
		jump_us = rng_between(&source->rng, JUMP_LEAST_US, most_us);
		if (draw_chance(&source->rng, 0.5))
			jump_us = -jump_us;
	} while (shared_clock_error(shared, shared_now(shared) + jump_us) < JUMP_LEAST_US);
	shared_restart(shared);
	shared_jump(shared, jump_us);
	/* By the new clock all leases have lapsed, or begin in the future. */
	judge_on_forgotten(&source->fleet->judge, -1);
	judge_on_jump(&source->fleet->judge);
	break_connections(source);
}

static void end_freshness(struct trouble_source *source)
{
	int keyspace = (int)rng_between(&source->rng, 0, KEYSPACES - 1);
	int64_t spread_us =
		draw_chance(&source->rng, 0.3) ? 0 : rng_between(&source->rng, 0, 4 * SECOND);
	struct node *node = draw_node(source);
	if (node->open && node->state == NODE_UP && !node->paused)
		crowd_invalidate_keyspace(node, keyspace, spread_us);
}

static void evict(struct trouble_source *source)
{
	double share = 0.1 + 0.5 * rng_unit(&source->rng);
	struct shared_data *data = &source->fleet->shared.data;
	struct shared_reader reader = data->reader;
	uint32_t era = data->era;
	shared_evict(&source->fleet->shared, &source->rng, share);
	data->era = era; /* as with a failover */
	/* Where a failover has lost changes, it takes the position to know which. */
	if (scene_has(&source->fleet->scene, TROUBLE_FAILOVER))
		data->reader = reader;
	judge_on_epochs_kept(&source->fleet->judge);
}

/* From here on the replica hears nothing; at the end it is the store. */
static void part_from_replica(struct trouble_source *source)
{
	shared_copy(&source->fleet->shared, &source->replica);
	source->replica_us = source->fleet->vtime.now_us;
}

/* The era is not lost: that would take two failovers, the first to another clock, within the time
   that writes take to the replica; its number would come again, for another clock. */
static bool fail_over(struct trouble_source *source)
{
	struct fleet *fleet = source->fleet;
	struct shared_data *data = &fleet->shared.data, *replica = &source->replica;
	if (replica->era != data->era) {
		replica->era = data->era;
		replica->era_since_us = data->era_since_us;
		replica->era_jump_us = data->era_jump_us;
	}
	shared_restore(&fleet->shared, replica);
	judge_on_rolled_back(&fleet->judge, source->replica_us);
	judge_on_epochs_kept(&fleet->judge);
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

static void lag(struct trouble_source *source)
{
	database_lag(&source->fleet->database);
}

static bool catch_up(struct trouble_source *source)
{
	database_catch_up(&source->fleet->database);
	return true;
}

/* The replica lacks what was committed last, and all connections break. */
static void promote(struct trouble_source *source)
{
	struct fleet *fleet = source->fleet;
	int64_t now_us = fleet->vtime.now_us;
	int64_t since_us = now_us - rng_between(&source->rng, 0, LOST_COMMITS_US);
	int64_t position_us = database_position(&fleet->database, now_us);
	crash(source);
	database_promote(&fleet->database, since_us < position_us ? since_us : position_us);
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
	[TROUBLE_REORDER] = { OF_STORE, reorder, reorder_ends, 6 * SECOND, 4 * SECOND },
	[TROUBLE_LOSS] = { OF_STORE, lose, lose_ends, 6 * SECOND, 4 * SECOND },
	[TROUBLE_DOUBLE] = { OF_STORE, repeat, repeat_ends, 6 * SECOND, 4 * SECOND },
	[TROUBLE_CUT] = { OF_STORE, cut, cut_ends, 10 * SECOND, 8 * SECOND },
	[TROUBLE_DOWN] = { OF_STORE, go_down, come_up, 8 * SECOND, 10 * SECOND },
	[TROUBLE_STALL] = { OF_STORE, stall, stall_ends, 6 * SECOND, 8 * SECOND },
	[TROUBLE_FLUSH] = { OF_STORE, flush, NULL, 1, 6 * SECOND },
	[TROUBLE_FAILOVER] = { OF_STORE, part_from_replica, fail_over, 1500 * MS, 8 * SECOND },
	[TROUBLE_EVICT] = { OF_STORE, evict, NULL, 1, 2 * SECOND },
	[TROUBLE_READONLY] = { OF_STORE, refuse_writes, take_writes, 6 * SECOND, 8 * SECOND },
	[TROUBLE_JUMP] = { OF_STORE, jump, NULL, 1, 12 * SECOND },
	[TROUBLE_OOM] = { OF_STORE, fill, fill_ends, 6 * SECOND, 8 * SECOND },
	[TROUBLE_EPOCH] = { OF_NODES, end_freshness, NULL, 1, 4 * SECOND },
	[TROUBLE_SLOW] = { OF_ORIGIN, slow, slow_ends, 8 * SECOND, 6 * SECOND },
	[TROUBLE_HANG] = { OF_ORIGIN, hang, hang_ends, 5 * SECOND, 6 * SECOND },
	[TROUBLE_ERROR] = { OF_ORIGIN, err, err_ends, 4 * SECOND, 6 * SECOND },
	[TROUBLE_REFUSE] = { OF_ORIGIN, refuse, refuse_ends, 4 * SECOND, 8 * SECOND },
	[TROUBLE_CRASH] = { OF_ORIGIN, crash, refuse_ends, 2 * SECOND, 8 * SECOND },
	[TROUBLE_DROP] = { OF_ORIGIN, drop, NULL, 1, 3 * SECOND },
	[TROUBLE_LAG] = { OF_ORIGIN, lag, catch_up, 5 * SECOND, 6 * SECOND },
	[TROUBLE_PROMOTE] = { OF_ORIGIN, promote, refuse_ends, 2 * SECOND, 12 * SECOND },
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
		if (!scene_has(&fleet->scene, (enum trouble_kind)i))
			continue;
		source->fleet = fleet;
		source->kind = (enum trouble_kind)i;
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
