#include <string.h>

#include "base/check.h"
#include "deed.h"

enum { VALUE_SMALL_MAX = 16384 }; /* as in lua/lease.lua: more takes a second command */

static const struct shared_key *stored(const struct deed *deed)
{
	int key = scene_find(&deed->twins->scene, deed->op.key.bytes, deed->op.key.len);
	return &deed->twins->shared->data.keys[key];
}

#define PICK(rng, array)                                                                           \
	(array)[rng_between(rng, 0, (int64_t)(sizeof(array) / sizeof(*(array))) - 1)]

int64_t deed_draw_version(struct rng *rng)
{
	static const int64_t edges[] = {
		0,
		1,
		-1,
		INT64_C(1) << 32,
		(INT64_C(1) << 32) - 1,
		INT64_C(1) << 53,
		(INT64_C(1) << 53) + 1,
		-(INT64_C(1) << 53),
		-(INT64_C(1) << 53) - 1,
		INT64_MAX,
		INT64_MAX - 1,
		INT64_MIN,
		INT64_MIN + 1,
	};
	return draw_chance(rng, 0.5) ? rng_between(rng, 1, 6) : PICK(rng, edges);
}

static uint64_t draw_token(struct rng *rng)
{
	static const uint64_t edges[] = {
		UINT64_C(1) << 32, UINT64_C(1) << 53, (UINT64_C(1) << 53) + 1,
		UINT64_C(1) << 63, UINT64_MAX - 1,    UINT64_MAX,
	};
	return draw_chance(rng, 0.8) ? (uint64_t)rng_between(rng, 1, 8) : PICK(rng, edges);
}

/* Mostly near one that the key has. */
static uint64_t draw_fence(struct deed *deed)
{
	static const uint64_t edges[] = {
		0,
		1,
		UINT64_C(0xffffffff),
		UINT64_C(1) << 32,
		UINT64_C(1) << 53,
		(UINT64_C(1) << 53) + UINT64_C(0xffffffff),
	};
	const struct shared_key *key = stored(deed);
	const uint64_t near[] = { key->claim.fence, key->claim.floor, key->claim.lease_fence,
				  key->has_entry ? key->entry.fence : 0 };
	if (draw_chance(&deed->rng, 0.2))
		return PICK(&deed->rng, edges);
	uint64_t fence = PICK(&deed->rng, near);
	int64_t apart = draw_chance(&deed->rng, 0.6) ? 0 : rng_between(&deed->rng, -1, 1);
	/* The highest that can be comes after the last that a key can have: 2^63 is far enough. */
	if (draw_chance(&deed->rng, 0.002))
		return (UINT64_C(1) << 63) + (uint64_t)rng_between(&deed->rng, -1, 1);
	return fence == 0 ? 0 : fence + (uint64_t)apart;
}

/* The token that holds the key's lease, mostly. */
static uint64_t draw_lease_token(struct deed *deed)
{
	uint64_t held = stored(deed)->claim.token;
	return held != 0 && draw_chance(&deed->rng, 0.8) ? held : draw_token(&deed->rng);
}

static uint64_t draw_slot_token(struct deed *deed)
{
	const struct twins *twins = deed->twins;
	int64_t at = rng_between(&deed->rng, 0, twins->scene.concurrency - 1);
	uint64_t held = twins->shared->data.slots[at].token;
	return held != 0 && draw_chance(&deed->rng, 0.7) ? held : draw_token(&deed->rng);
}

static int64_t draw_length(struct rng *rng)
{
	static const int64_t most[] = { 1, 100 * MS, SECOND, 4 * SECOND, 20 * SECOND, 80 * SECOND };
	return rng_between(rng, 1, PICK(rng, most));
}

static struct value *draw_value(struct rng *rng)
{
	static const int64_t sizes[] = { 0, 1, 7, 100 };
	static char bytes[VALUE_SMALL_MAX + 1];
	size_t len = (size_t)PICK(rng, sizes);
	if (draw_chance(rng, 0.1))
		len = VALUE_SMALL_MAX + (size_t)rng_between(rng, 0, 1);
	memset(bytes, (int)rng_between(rng, 0, 255), len);
	struct value *value = value_create(bytes, len);
	CHECK(value);
	return value;
}

static void draw_want(struct deed *deed)
{
	struct want *want = &deed->op.want;
	const struct shared_key *key = stored(deed);
	want->fresh = draw_chance(&deed->rng, 0.6);
	if (draw_chance(&deed->rng, 0.3))
		want->fence_after = draw_fence(deed);
	want->has_min_version = draw_chance(&deed->rng, 0.3);
	if (!want->has_min_version)
		return;
	want->min_version = deed_draw_version(&deed->rng);
	if (key->has_entry && draw_chance(&deed->rng, 0.3))
		want->min_version = key->entry.version;
	if (key->has_entry && draw_chance(&deed->rng, 0.3))
		want->min_version = key->entry.covers;
}

static void draw_entry(struct deed *deed)
{
	static const uint64_t histories[] = { 0, 1 << 24 | 1, 1 << 24 | 2, 2 << 24 | 1 };
	struct rng *rng = &deed->rng;
	struct entry *entry = &deed->op.entry;
	const struct shared_claim *claim = &stored(deed)->claim;
	int64_t now_us = redis_store_now_us(deed->twins->daemons[deed->daemon]);
	entry->absent = draw_chance(rng, 0.15);
	entry->has_version = !entry->absent && draw_chance(rng, 0.8);
	entry->version = entry->has_version ? deed_draw_version(rng) : 0;
	entry->value = entry->absent || draw_chance(rng, 0.1) ? NULL : draw_value(rng);
	entry->fence = draw_chance(rng, 0.8) ? claim->lease_fence : draw_fence(deed);
	if (entry->fence == 0)
		entry->fence = 1; /* no lease has fence 0 */
	entry->covers = draw_chance(rng, 0.6) ? 0 : deed_draw_version(rng);
	entry->generated_at_us = now_us - rng_between(rng, -SECOND, 5 * SECOND);
	entry->fresh_until_us = entry->generated_at_us + draw_length(rng);
	entry->stale_until_us = entry->fresh_until_us + draw_length(rng) - 1;
	entry->build_us = (uint32_t)rng_next(rng);
	entry->history = draw_chance(rng, 0.7) ? histories[1] : PICK(rng, histories);
	entry->definition = draw_chance(rng, 0.8) ? 17 : 23;
	entry->changed = draw_chance(rng, 0.05);
	entry->own_times = draw_chance(rng, 0.4);
}

static void draw_failure(struct deed *deed)
{
	static const uint32_t streaks[] = { 0, 1, 2, 5, UINT32_MAX };
	struct rng *rng = &deed->rng;
	struct failure *failure = &deed->op.failure;
	if (draw_chance(rng, 0.4))
		return;
	failure->status = (enum status)rng_between(rng, STATUS_OK + 1, STATUS_COUNT - 1);
	failure->streak = PICK(rng, streaks);
	failure->until_us = redis_store_now_us(deed->twins->daemons[deed->daemon]) +
			    (draw_chance(rng, 0.1) ? 0 : draw_length(rng));
	if (draw_chance(rng, 0.7))
		failure->text = value_create("division by zero", (size_t)rng_between(rng, 1, 16));
}

/* About when the key's lease was given. */
static int64_t draw_heard(struct deed *deed)
{
	const struct twins *twins = deed->twins;
	int key = scene_find(&twins->scene, deed->op.key.bytes, deed->op.key.len);
	const struct shared_claim *claim = &twins->shared->data.keys[key].claim;
	if (draw_chance(&deed->rng, 0.3))
		return twins->server_us;
	return claim->granted_at_us + rng_between(&deed->rng, -1, 1);
}

static void draw(struct deed *deed, const struct act *act)
{
	struct rng *rng = &deed->rng;
	struct store_op *op = &deed->op;
	switch (act->kind) {
	case ACT_LOAD:
		op->verb = STORE_LOAD;
		op->known_fence = draw_chance(rng, 0.5) ? 0 : draw_fence(deed);
		return;
	case ACT_LEASE:
		op->verb = STORE_LEASE;
		op->token = draw_token(rng);
		op->known_fence = draw_chance(rng, 0.5) ? 0 : draw_fence(deed);
		draw_want(deed);
		return;
	case ACT_RENEW:
		op->verb = STORE_RENEW;
		op->token = draw_lease_token(deed);
		return;
	case ACT_SAVE:
		op->verb = STORE_SAVE;
		op->token = draw_lease_token(deed);
		draw_entry(deed);
		op->given = draw_chance(rng, 0.3);
		op->heard_us = draw_heard(deed);
		return;
	case ACT_RELEASE:
		op->verb = STORE_RELEASE;
		op->token = draw_lease_token(deed);
		draw_failure(deed);
		return;
	case ACT_INVALIDATE:
		op->verb = STORE_INVALIDATE;
		op->known_fence = draw_chance(rng, 0.5) ? 0 : draw_fence(deed);
		op->hard = draw_chance(rng, 0.3);
		return;
	case ACT_PERMIT:
		op->verb = STORE_PERMIT;
		op->token = draw_chance(rng, 0.8) ? draw_token(rng) : draw_slot_token(deed);
		op->background = draw_chance(rng, 0.3);
		op->reach_us = op->background ? 0 : 200 * MS;
		if (draw_chance(rng, 0.2))
			op->pace = (struct pace){ (uint64_t)rng_between(rng, 1, TWINS_PACES),
						  rng_between(rng, 1, 400) * MS };
		return;
	case ACT_FREE:
		op->verb = STORE_FREE;
		op->token = draw_slot_token(deed);
		op->slot = (int)rng_between(rng, -1, deed->twins->scene.concurrency - 1);
		return;
	case ACT_EPOCH:
		op->verb = STORE_EPOCH;
		op->length_us = draw_chance(rng, 0.3) ? 0 : op->length_us;
		op->key.bytes = op->key.keyspace->policy->name;
		op->key.len = (uint32_t)strlen(op->key.bytes);
		return;
	case ACT_WAIT:
	case ACT_FOLLOW:
	case ACT_CHANGE:
	case ACT_CLOCK:
	case ACT_PLACE:
	case ACT_EPOCHS:
	case ACT_BEAT:
	case ACT_SUCCEED:
	case ACT_RESTART:
	case ACT_FORGET:
	case ACT_FLUSH:
	case ACT_REBORN:
	case ACT_UNLEARN:
	case ACT_JUMP:
		break;
	}
	CHECK_MSG(false, "%s is no operation", act_name(act->kind));
}

/* What is about a lease meets one, mostly: the first key from the act's own on that is leased. */
static struct subject *draw_subject(struct deed *deed, const struct act *act)
{
	struct twins *twins = deed->twins;
	bool needs_lease = act->kind == ACT_RENEW || act->kind == ACT_SAVE ||
			   act->kind == ACT_RELEASE || act->kind == ACT_INVALIDATE;
	int key = act->key;
	if (act->kind == ACT_EPOCH && draw_chance(&deed->rng, 0.7))
		key = 0; /* so that a keyspace has too many of them */
	for (int i = 0; i < TWINS_KEYS && needs_lease && draw_chance(&deed->rng, 0.9); i++) {
		int other = (act->key + i) % TWINS_KEYS;
		const struct shared_claim *claim =
			&twins->shared->data.keys[twins->keys[other]].claim;
		if (shared_lease_left(claim, twins->server_us) > 0) {
			key = other;
			break;
		}
	}
	return &twins->scene.keys[twins->keys[key]];
}

void deed_draw(struct deed *deed, const struct act *act)
{
	const struct subject *subject = draw_subject(deed, act);
	list_node_init(&deed->op.node);
	deed->op.key = (struct key){ .keyspace = &deed->twins->keyspaces[subject->keyspace],
				     .bytes = subject->bytes,
				     .len = subject->len };
	deed->op.length_us = draw_length(&deed->rng);
	deed->op.longest_us = TWINS_LEASE_MOST_US;
	draw(deed, act);
}
