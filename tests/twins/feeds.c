/* The origin's log of changes, as its reader hands it on: store/changes.c and its two scripts on
 * one side, sim/shared_feed.c on the other.
 */
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "deed.h"
#include "store/changes.h"

enum { CHANGES_MOST = 6 };

/* A call, with what it borrows. */
struct handover {
	struct change_call call;
	struct logged_change changes[CHANGES_MOST];
	struct policy policies[KEYSPACES]; /* as the scene's, but for what a change makes of them */
	char from[SHARED_POSITION_MAX], to[32];
	bool done;
};

/* ---- what is asked ------------------------------------------------------------------------- */

static void draw_change(struct twins *twins, struct rng *rng, struct handover *handover)
{
	int number = twins->keys[rng_between(rng, 0, TWINS_KEYS - 1)];
	const struct subject *key = &twins->scene.keys[number];
	const struct shared_key *stored = &twins->shared->data.keys[number];
	struct policy *policy = &handover->policies[key->keyspace];
	struct logged_change *change = &handover->changes[handover->call.count++];
	*change = (struct logged_change){ .key = key->bytes, .len = key->len, .policy = policy };
	if (draw_chance(rng, 0.1)) {
		change->whole = true;
		change->key = policy->name;
		change->len = (uint32_t)strlen(policy->name);
		change->spread_us = draw_chance(rng, 0.3) ? 0 : rng_between(rng, 0, 4 * SECOND);
		return;
	}
	change->has_version = draw_chance(rng, 0.8);
	change->version = deed_draw_version(rng);
	if (stored->has_entry && draw_chance(rng, 0.4))
		change->version = (int64_t)((uint64_t)stored->entry.version +
					    (uint64_t)rng_between(rng, -1, 1));
	if (stored->claim.by_row && draw_chance(rng, 0.2))
		change->version = stored->claim.floor_version;
}

static void draw_apply(struct twins *twins, struct rng *rng, struct handover *handover)
{
	const struct shared_reader *reader = &twins->shared->data.reader;
	struct change_call *call = &handover->call;
	int count = draw_chance(rng, 0.1) ? 0 : (int)rng_between(rng, 1, CHANGES_MOST);
	for (int i = 0; i < count; i++)
		draw_change(twins, rng, handover);
	strcpy(handover->from, draw_chance(rng, 0.9) ? reader->position : "elsewhere");
	snprintf(handover->to, sizeof(handover->to), "%d:0 1:%d:", twins->positions,
		 twins->positions);
	twins->positions++;
	call->changes = handover->changes;
	call->from = handover->from;
	call->to = draw_chance(rng, 0.6) ? handover->to : NULL;
}

static void draw_policies(const struct twins *twins, struct rng *rng, struct handover *handover)
{
	static const enum on_change kinds[] = { ON_CHANGE_REFRESH, ON_CHANGE_EXPIRE,
						ON_CHANGE_INVALIDATE };
	for (int i = 0; i < KEYSPACES; i++) {
		handover->policies[i] = twins->scene.policies[i];
		handover->policies[i].on_change = kinds[rng_between(rng, 0, 2)];
	}
}

/* ---- both ---------------------------------------------------------------------------------- */

static void on_done(struct change_call *call)
{
	struct handover *handover = container_of(call, struct handover, call);
	CHECK(!handover->done);
	handover->done = true;
}

static void print_answer(FILE *out, enum change_outcome outcome, int64_t left_us,
			 const char *position)
{
	fprintf(out, "outcome=%d left=%" PRId64 " position=%s", (int)outcome, left_us, position);
}

static void really(struct twins *twins, int daemon, struct handover *handover)
{
	struct change_store store = redis_store_changes(twins->daemons[daemon]);
	handover->call.done = on_done;
	store.submit(store.impl, &handover->call);
	twins_turn(twins);
	CHECK_MSG(handover->done, "a change is not answered");
}

static void hand_over(struct twins *twins, int daemon, struct handover *handover)
{
	struct redis_store *redis = twins->daemons[daemon];
	struct shared_feed_answer answer = { .outcome = CHANGE_AWAY };
	struct pair pair;
	if (twins->server_us <= redis_deadline_us(redis, &redis->control))
		shared_follow(twins->shared, &handover->call, redis->place.token, &answer);
	really(twins, daemon, handover);
	pair_open(&pair);
	print_answer(pair.sim, answer.outcome, answer.left_us, answer.position);
	print_answer(pair.real, handover->call.outcome, handover->call.left_us,
		     handover->call.position);
	pair_compare(&pair, twins, "change");
}

/* Whoever has the right to read, or else the act's own, which takes it first. */
static int find_reader(struct twins *twins, int daemon, struct rng *rng)
{
	const struct shared_reader *reader = &twins->shared->data.reader;
	static struct handover follow;
	bool holds = left_of(reader->until_us, reader->length_us, twins->server_us) > 0;
	for (int i = 0; i < twins->daemons_count && holds; i++)
		if (twins->daemons[i]->place.token == reader->token)
			return i;
	memset(&follow, 0, sizeof(follow));
	follow.call.verb = CHANGE_FOLLOW;
	if (draw_chance(rng, 0.9))
		hand_over(twins, daemon, &follow);
	return daemon;
}

void feeds_do(struct twins *twins, const struct act *act)
{
	static struct handover handover; /* large */
	struct rng rng;
	int daemon = act->daemon;
	rng_seed(&rng, act->chance);
	memset(&handover, 0, sizeof(handover));
	draw_policies(twins, &rng, &handover);
	if (act->kind == ACT_FOLLOW) {
		handover.call.verb = draw_chance(&rng, 0.8) ? CHANGE_FOLLOW : CHANGE_LEAVE;
	} else {
		if (draw_chance(&rng, 0.9))
			daemon = find_reader(twins, daemon, &rng);
		handover.call.verb = CHANGE_APPLY;
		draw_apply(twins, &rng, &handover);
	}
	hand_over(twins, daemon, &handover);
}
