/* What the store does: leases, entries, changes, epochs. */
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "fleet.h"

static struct lease *last_lease(struct key_history *history)
{
	return history->leases_count ? &history->leases[history->leases_count - 1] : NULL;
}

/* Where the token is in the set, or would be. */
static uint64_t *find_astray(const struct key_history *history, uint64_t token)
{
	uint32_t at = (uint32_t)token & (history->astray_room - 1);
	while (history->astray[at] != 0 && history->astray[at] != token)
		at = (at + 1) & (history->astray_room - 1);
	return &history->astray[at];
}

bool judge_is_astray(const struct key_history *history, uint64_t token)
{
	return history->astray_room > 0 && *find_astray(history, token) == token;
}

static void make_room(struct key_history *history)
{
	struct key_history before = *history;
	if (history->astray_count < history->astray_room / 2)
		return;
	history->astray_room = before.astray_room ? 2 * before.astray_room : 16;
	history->astray = calloc(history->astray_room, sizeof(*history->astray));
	CHECK(history->astray);
	for (uint32_t i = 0; i < before.astray_room; i++)
		if (before.astray[i] != 0)
			*find_astray(history, before.astray[i]) = before.astray[i];
	free(before.astray);
}

void judge_on_astray(struct judge *judge, int key, uint64_t token)
{
	struct key_history *history = &judge->keys[key];
	if (token == 0)
		return; /* no flight's */
	make_room(history);
	uint64_t *place = find_astray(history, token);
	if (*place == token)
		return; /* a lease of it is known as hindered */
	*place = token;
	history->astray_count++;
	struct lease *lease = judge_lease_of(history, token), *last = last_lease(history);
	if (!lease)
		return;
	lease->hindered = true;
	/* The same flight's next lease is not renewed before that is known. */
	if (last->node == lease->node)
		last->hindered = true;
}

void judge_on_hindered(struct judge *judge, int node)
{
	for (uint32_t key = 0; key < judge->fleet->scene.keys_count; key++) {
		struct lease *last = last_lease(&judge->keys[key]);
		if (last && (node < 0 || last->node == node))
			last->hindered = true;
	}
}

/* A lease is given while the last one has not come back. So it was lost by the store, or it lapsed,
   which nothing but these can make it do: this is the one build more that each may cost. */
static void check_lost_lease(struct judge *judge, int key, const struct lease *last)
{
	if (last->settled || last->lost || last->hindered)
		return;
	judge_fail(judge, "one build: each lease comes back", "key=%s node=%d leased=%.6f",
		   judge->fleet->scene.keys[key].bytes, last->node, (double)last->at_us / SECOND);
}

/* Background work takes what is free, and only where no more urgent flight has waiters that wait
   for it (stale refreshes are as urgent as refresh calls). */
static void check_background(struct judge *judge, struct node *node, enum flight_state waits,
			     enum priority priority, const struct batch *batch)
{
	list_foreach (&node->engine->all, link) {
		const struct flight *other = container_of(link, struct flight, all);
		if (other->priority < priority && other->state == waits && other->batch != batch &&
		    !list_empty(&other->waiters))
			judge_fail(judge, "independence",
				   "node=%d asks in the background, and %.*s is %s", node->number,
				   (int)other->key.len, other->key.bytes, flight_state_name(waits));
	}
}

static void note_flight(struct node *node, const struct store_op *op)
{
	const struct flight *flight = container_of(op, struct flight, op);
	int key = scene_find(&node->fleet->scene, op->key.bytes, op->key.len);
	int64_t began_us = node->fleet->vtime.now_us - (node_clock(node) - flight->created_at_us);
	if (began_us <= node->flight_last_us[key] + CLOCKS_US)
		return;
	node->flight_us[key] = node->flight_last_us[key];
	node->flight_last_us[key] = began_us - MS;
}

void judge_on_asked(struct judge *judge, struct node *node, const struct store_op *op)
{
	if (op->verb == STORE_LOAD || op->verb == STORE_LEASE)
		note_flight(node, op);
	if (node->engine->breaker.state != BREAKER_CLOSED)
		judge_on_origin_lost(node);
	if (op->verb == STORE_LEASE) {
		const struct flight *flight = container_of(op, struct flight, op);
		/* Who boards a batch that is there takes no room. */
		if (flight->gives)
			return; /* not to the origin */
		bool alone = !flight->batch || flight->batch->members.count <= 1;
		if (alone && flight_is_background(flight, node_clock(node)))
			check_background(judge, node, FLIGHT_QUEUED, flight->priority,
					 flight->batch);
	}
}

/* What the clocks of who built the entry and of who looks at it have been wrong by. */
static int64_t clocks_us(const struct judge *judge, const struct node *node, int key,
			 const struct entry *entry)
{
	const struct key_history *history = &judge->keys[key];
	for (uint32_t i = history->builds_count; i-- > 0;)
		if (judge->builds[history->builds[i]].fence == entry->fence)
			return CLOCKS_US + node->error_us +
			       judge->builds[history->builds[i]].error_us;
	return CLOCKS_US + node->error_us;
}

/* An early refresh is one of this very entry, and does not come before half of its fresh time. */
bool judge_is_early(const struct judge *judge, const struct node *node, int key,
		    const struct entry *entry, uint64_t newer_than, int64_t now_us)
{
	int64_t half_us = (entry->fresh_until_us - entry->generated_at_us) / 2;
	int64_t slack_us = 100 * MS + 2 * clocks_us(judge, node, key, entry);
	return newer_than == entry->fence && now_us >= entry->generated_at_us + half_us - slack_us;
}

/* A client has asked for a newer value, and may have waited for it when the flight began; of a
   flight that is gone (its lease was asked for twice, or late) when any did that can have sent it:
   the key's last flight here, or the one before.
 */
bool judge_is_demanded(struct node *node, int key, const struct store_op *op)
{
	struct key its = op->key;
	its.bytes = node->fleet->scene.keys[key].bytes;
	const struct flight *flight = node->engine ? engine_flight(node->engine, &its) : NULL;
	int64_t since_us = node->fleet->vtime.now_us - POST_VALUES_US;
	if (flight && flight->token == op->token)
		since_us = node->fleet->vtime.now_us - (node_clock(node) - flight->created_at_us);
	else if (node->flight_last_us[key] > 0 && since_us > node->flight_last_us[key])
		since_us =
			node->flight_us[key] > 0 ? node->flight_us[key] : node->flight_last_us[key];
	/* An invalidation whose answer was lost is one too, until it is given up and built after.
	 */
	return node->demanded_us[key] >= since_us - WAIT_MOST_US ||
	       node->invalidated_us[key] >= since_us - WAIT_MOST_US - POST_CONTROL_US;
}

/* When the flight asked the store it knew of a newer one, that was built and then not stored or
   lost again. It may have died here since. */
bool judge_knew_better(const struct judge *judge, int key, uint64_t newer_than,
		       const struct entry *entry)
{
	const struct key_history *history = &judge->keys[key];
	if (newer_than < entry->fence)
		return false;
	for (uint32_t i = history->builds_count; i-- > 0;) {
		const struct build_record *its = &judge->builds[history->builds[i]];
		bool brought =
			its->over && (its->outcome == BUILD_ROW || its->outcome == BUILD_NO_ROW);
		if (brought &&
		    (its->fence > entry->fence || (its->read.has_version && entry->has_version &&
						   its->read.version > entry->version)))
			return true;
	}
	return false;
}

/* The daemon knows better: of a newer one, built while the store was away or lost by it, or that
   this very one has changed. */
static bool is_outdated(struct node *node, const struct store_op *op, const struct entry *entry)
{
	const struct scene *scene = &node->fleet->scene;
	int key = scene_find(scene, op->key.bytes, op->key.len);
	if (!node->engine ||
	    judge_knew_better(&node->fleet->judge, key, op->want.fence_after, entry))
		return true;
	struct key its = op->key;
	its.bytes = scene->keys[key].bytes;
	const struct flight *flight = engine_flight(node->engine, &its);
	/* What it was told of a change, also by a load, or of a newer entry, a failover may have
	   lost since. */
	if (flight && flight->token == op->token &&
	    (flight->told.floor >= entry->fence || flight->floor >= entry->fence ||
	     flight->told_fence > entry->fence))
		return true;
	struct near *near = &node->engine->near;
	const struct near_entry *ne = near_find(near, &op->key);
	bool single_row = scene->policies[scene->keys[key].keyspace].single_row;
	if (ne && (entry_supersedes(&ne->entry, entry, single_row) ||
		   (ne->entry.fence == entry->fence && ne->entry.changed)))
		return true;
	return single_row && entry->has_version &&
	       ghosts_know_better(&near->ghosts, op->key.hash, entry->version, node_clock(node));
}

/* When an epoch ends the freshness of the key's build of that fence, true time. */
static int64_t epoch_end_us(const struct judge *judge, int key, uint64_t fence)
{
	const struct subject *its = &judge->fleet->scene.keys[key];
	const struct key_history *history = &judge->keys[key];
	uint64_t hash = key_public_hash(its->bytes, its->len);
	int64_t began_us = INT64_MAX, end_us = INT64_MAX;
	for (uint32_t i = history->builds_count; i-- > 0 && began_us == INT64_MAX;)
		if (judge->builds[history->builds[i]].fence == fence)
			began_us = judge->builds[history->builds[i]].began_us;
	for (uint32_t i = 0; i < judge->epochs_count; i++) {
		const struct epoch_record *epoch = &judge->epochs[i];
		int64_t spread_us = epoch->epoch.spread_us;
		int64_t spared_us = spread_us ? (int64_t)(hash % (uint64_t)spread_us) : 0;
		if (epoch->keyspace == (int)its->keyspace && began_us <= epoch->at_us + CLOCKS_US &&
		    end_us > epoch->at_us + spared_us)
			end_us = epoch->at_us + spared_us;
	}
	return end_us;
}

/* It is over, by an epoch or since it was built in a history of the origin that is; or an early
   refresh of it is due. */
static bool is_over(const struct judge *judge, int key, const struct node *node,
		    const struct entry *entry, uint64_t newer_than)
{
	const struct fleet *fleet = judge->fleet;
	int64_t now_us = fleet->vtime.now_us, clock_us = shared_now(&fleet->shared);
	int64_t end_us = epoch_end_us(judge, key, entry->fence);
	struct entry its = *entry;
	if (end_us <= now_us + CLOCKS_US ||
	    history_is_later(database_history(&fleet->database), entry->history))
		return true;
	if (end_us != INT64_MAX && its.fresh_until_us > clock_us + end_us - now_us)
		its.fresh_until_us = clock_us + end_us - now_us;
	return judge_is_early(judge, node, key, &its, newer_than, clock_us);
}

/* A lease is given over a fresh entry only to who wants a newer one. */
static void check_wanted(struct judge *judge, int key, const struct caller *caller,
			 const struct store_op *op)
{
	int node = caller->node;
	struct fleet *fleet = judge->fleet;
	const struct shared_key *its = &fleet->shared.data.keys[key];
	int64_t now_us = shared_now(&fleet->shared);
	if (!its->has_entry || entry_phase(&its->entry, now_us) != ENTRY_FRESH)
		return;
	const struct post *post = &fleet->nodes[node].post;
	if (judge->jumped || its->entry.era != caller->era ||
	    era_jump_to_tell(&post->era, post_local(post)) != 0)
		return; /* fresh, but by another clock */
	if (is_over(judge, key, &fleet->nodes[node], &its->entry, op->want.fence_after))
		return;
	if (!judge_is_demanded(&fleet->nodes[node], key, op) &&
	    !is_outdated(&fleet->nodes[node], op, &its->entry))
		judge_fail(judge, "one build",
			   "key=%s node=%d is leased with a fresh entry there, fence=%" PRIu64
			   " fence_after=%" PRIu64 " min_version=%" PRId64 " demanded=%.6f",
			   fleet->scene.keys[key].bytes, node, its->entry.fence,
			   op->want.fence_after,
			   op->want.has_min_version ? op->want.min_version : 0,
			   (double)fleet->nodes[node].demanded_us[key] / SECOND);
}

/* Whoever asked for it is paused since, or was killed. */
static bool is_gone(const struct judge *judge, const struct caller *caller)
{
	const struct node *node = &judge->fleet->nodes[caller->node];
	return node->paused || node->state == NODE_DOWN || node->life != caller->life;
}

void judge_on_leased(struct judge *judge, int key, const struct caller *caller,
		     const struct store_op *op)
{
	struct key_history *history = &judge->keys[key];
	struct lease *last = last_lease(history);
	if (last)
		check_lost_lease(judge, key, last);
	check_wanted(judge, key, caller, op);
	history->leases =
		judge_grow(history->leases, history->leases_count, sizeof(*history->leases));
	history->leases[history->leases_count++] =
		(struct lease){ .token = op->token,
				.node = caller->node,
				.at_us = judge->fleet->vtime.now_us,
				.hindered = judge_is_astray(history, op->token) ||
					    is_gone(judge, caller) };
}

struct lease *judge_lease_of(struct key_history *history, uint64_t token)
{
	for (uint32_t i = history->leases_count; i-- > 0;)
		if (history->leases[i].token == token)
			return &history->leases[i];
	return NULL;
}

void judge_on_settled(struct judge *judge, int key, uint64_t token)
{
	struct lease *lease = judge_lease_of(&judge->keys[key], token);
	CHECK(lease);
	lease->settled = true;
}

/* The build that an entry is of; 0: nobody's. */
static uint32_t build_of(const struct judge *judge, int key, const struct entry *entry)
{
	const struct key_history *history = &judge->keys[key];
	for (uint32_t i = history->builds_count; i-- > 0;)
		if (judge->builds[history->builds[i]].fence == entry->fence)
			return history->builds[i];
	return 0;
}

/* Its moments have gone by the giver's clock, too, from the store and back. */
void judge_on_given(struct judge *judge, int key, int node, const struct entry *entry)
{
	struct node *giver = &judge->fleet->nodes[node];
	struct build_record *record = &judge->builds[build_of(judge, key, entry)];
	record->error_us += node_measure(giver);
	record->unsettled |= giver->unsettled || giver->doubted_us >= record->began_us;
}

void judge_on_saved(struct judge *judge, int key, const struct entry *entry)
{
	struct key_history *history = &judge->keys[key];
	uint32_t number = build_of(judge, key, entry);
	if (!number)
		judge_fail(judge, "no rollback", "key=%s: an entry that nobody built is stored",
			   judge->fleet->scene.keys[key].bytes);
	history->saves = judge_grow(history->saves, history->saves_count, sizeof(*history->saves));
	history->saves[history->saves_count++] =
		(struct saved){ .at_us = judge->fleet->vtime.now_us, .build = number };
}

void judge_on_changed(struct judge *judge, int key, uint64_t floor, bool hard)
{
	struct key_history *history = &judge->keys[key];
	history->changes =
		judge_grow(history->changes, history->changes_count, sizeof(*history->changes));
	int64_t now_us = judge->fleet->vtime.now_us;
	history->changes[history->changes_count++] =
		(struct change){ .at_us = now_us, .from_us = now_us, .floor = floor, .hard = hard };
}

void judge_on_row_changed(struct judge *judge, int key, uint64_t floor, bool hard, int64_t version)
{
	const struct changelog *log = &judge->fleet->database.log;
	struct change *change;
	judge_on_changed(judge, key, floor, hard);
	change = &judge->keys[key].changes[judge->keys[key].changes_count - 1];
	change->row = true;
	for (uint32_t i = log->of_key_count[key]; i-- > 0;) {
		const struct logged *row = &log->rows[log->of_key[key][i]];
		if (row->version != version || row->lost)
			continue;
		change->from_us = row->at_us;
		change->history = row->history;
		return;
	}
	change->lost = true; /* by the origin, since it was read */
}

void judge_on_forgotten(struct judge *judge, int key)
{
	for (int i = 0; i < (int)judge->fleet->scene.keys_count; i++) {
		struct key_history *history = &judge->keys[i];
		if ((key < 0 || key == i) && last_lease(history))
			last_lease(history)->lost = true;
	}
}

void judge_on_rolled_back(struct judge *judge, int64_t to_us)
{
	for (uint32_t key = 0; key < judge->fleet->scene.keys_count; key++) {
		struct key_history *history = &judge->keys[key];
		for (uint32_t i = history->saves_count; i-- > 0 && history->saves[i].at_us > to_us;)
			history->saves[i].lost = true;
		for (uint32_t i = history->changes_count;
		     i-- > 0 && history->changes[i].at_us > to_us;)
			history->changes[i].lost = true;
	}
	judge_on_unapplied(judge, to_us);
	judge_on_forgotten(judge, -1);
}

/* ---- the clock --------------------------------------------------------------------------- */

void judge_on_jump(struct judge *judge)
{
	judge->jumped = true;
}

void judge_on_seen_jump(struct judge *judge, int64_t jump_us)
{
	const struct shared *shared = &judge->fleet->shared;
	int64_t before_us = shared_now(shared) - jump_us;
	int64_t error_us = INT64_MAX;
	if (shared->clocks_count == 0)
		judge_fail(judge, "one build", "a jump by %" PRId64 " us is seen, and was none",
			   jump_us);
	for (uint32_t i = 0; i < shared->clocks_count; i++) {
		int64_t was_us = shared_now(shared) - shared->ahead_us + shared->clocks_us[i];
		if (llabs(was_us - before_us) < error_us)
			error_us = llabs(was_us - before_us);
	}
	if (judge->era_error_us < error_us)
		judge->era_error_us = error_us;
}

void judge_on_era(struct judge *judge, int64_t jump_us)
{
	judge_on_seen_jump(judge, jump_us);
	judge->jumped = false;
}

/* ---- epochs ------------------------------------------------------------------------------ */

void judge_on_epoch(struct judge *judge, int keyspace, const struct epoch *epoch)
{
	judge->epochs = judge_grow(judge->epochs, judge->epochs_count, sizeof(*judge->epochs));
	judge->epochs[judge->epochs_count++] =
		(struct epoch_record){ .keyspace = keyspace,
				       .epoch = *epoch,
				       .at_us = judge->fleet->vtime.now_us,
				       .kept_since_us = judge->fleet->vtime.now_us };
}

void judge_on_epochs_kept(struct judge *judge)
{
	int64_t now_us = judge->fleet->vtime.now_us;
	for (uint32_t i = 0; i < judge->epochs_count; i++) {
		struct epoch_record *its = &judge->epochs[i];
		const struct epochs *kept = &judge->fleet->shared.data.epochs[its->keyspace];
		bool is_kept = false;
		for (uint32_t j = 0; j < kept->count && !is_kept; j++)
			is_kept = kept->at[j].moment_us == its->epoch.moment_us;
		if (!is_kept)
			its->kept_since_us = INT64_MAX;
		else if (its->kept_since_us == INT64_MAX)
			its->kept_since_us = now_us;
	}
}
