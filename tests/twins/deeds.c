/* Operations, as the core submits them: drawn so that they meet what is stored, and its edges. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/limits.h"
#include "sim/moments.h"
#include "twins.h"
#include "wire.h"

enum {
	PERMIT_LATE_US = 50 * MS, /* as in store/redis.c */
	VALUE_SMALL_MAX = 16384,  /* as in lua/lease.lua: more takes a second command */
};

/* One operation on its way through both. */
struct deed {
	struct twins *twins;
	int daemon;
	struct rng rng;
	struct store_op op; /* as it was asked for */
	int64_t delay_us;   /* on the way to the store */
	int64_t sent_us, sent_store_us, deadline_us;
};

static const struct shared_key *stored(const struct deed *deed)
{
	int key = scene_find(&deed->twins->scene, deed->op.key.bytes, deed->op.key.len);
	return &deed->twins->shared->data.keys[key];
}

/* ---- drawing ----------------------------------------------------------------------------- */

#define PICK(rng, array)                                                                           \
	(array)[rng_between(rng, 0, (int64_t)(sizeof(array) / sizeof(*(array))) - 1)]

static int64_t draw_version(struct rng *rng)
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
		0, 1, UINT64_C(0xffffffff), UINT64_C(1) << 32, UINT64_C(1) << 53,
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
	want->min_version = draw_version(&deed->rng);
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
	entry->version = entry->has_version ? draw_version(rng) : 0;
	entry->value = entry->absent || draw_chance(rng, 0.1) ? NULL : draw_value(rng);
	entry->fence = draw_chance(rng, 0.8) ? claim->lease_fence : draw_fence(deed);
	if (entry->fence == 0)
		entry->fence = 1; /* no lease has fence 0 */
	entry->covers = draw_chance(rng, 0.6) ? 0 : draw_version(rng);
	entry->generated_at_us = now_us - rng_between(rng, -SECOND, 5 * SECOND);
	entry->fresh_until_us = entry->generated_at_us + draw_length(rng);
	entry->stale_until_us = entry->fresh_until_us + draw_length(rng) - 1;
	entry->build_us = (uint32_t)rng_next(rng);
	entry->history = draw_chance(rng, 0.7) ? histories[1] : PICK(rng, histories);
	entry->definition = draw_chance(rng, 0.8) ? 17 : 23;
	entry->changed = draw_chance(rng, 0.05);
	entry->own_times = draw_chance(rng, 0.05);
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
		return;
	case ACT_FREE:
		op->verb = STORE_FREE;
		op->token = draw_slot_token(deed);
		op->slot = (int)rng_between(rng, -1, deed->twins->scene.concurrency - 1);
		return;
	case ACT_EPOCH:
		op->verb = STORE_EPOCH;
		op->length_us = draw_chance(rng, 0.3) ? 0 : op->length_us;
		return;
	case ACT_WAIT:
	case ACT_CLOCK:
	case ACT_PLACE:
	case ACT_EPOCHS:
	case ACT_BEAT:
	case ACT_SUCCEED:
	case ACT_RESTART:
	case ACT_FORGET:
	case ACT_FLUSH:
	case ACT_UNLEARN:
	case ACT_JUMP:
		break;
	}
	CHECK_MSG(false, "%s is no operation", act_name(act->kind));
}

/* ---- answers ----------------------------------------------------------------------------- */

static void print_bytes(FILE *out, const char *name, const struct value *value)
{
	uint64_t sum = 0xcbf29ce484222325u;
	for (uint32_t i = 0; value && i < value->len; i++)
		sum = (sum ^ (unsigned char)value->bytes[i]) * 0x100000001b3u;
	if (value)
		fprintf(out, " %s=%u:%08x", name, value->len, (unsigned)sum);
	else
		fprintf(out, " %s=none", name);
}

static void print_entry(FILE *out, const struct store_op *op)
{
	const struct entry *entry = &op->entry;
	fprintf(out, " entry=%d", op->has_entry);
	if (!op->has_entry)
		return;
	fprintf(out,
		" has_value=%d has_version=%d version=%" PRId64 " fence=%" PRIu64 " covers=%" PRId64
		" generated=%" PRId64 " fresh=%" PRId64 " stale=%" PRId64
		" build=%u era=%u history=%" PRIx64 " absent=%d changed=%d",
		op->has_value, entry->has_version, entry->version, entry->fence, entry->covers,
		entry->generated_at_us, entry->fresh_until_us, entry->stale_until_us,
		entry->build_us, entry->era, entry->history, entry->absent, entry->changed);
	print_bytes(out, "value", entry->value);
}

static void print_failure(FILE *out, const struct store_op *op)
{
	const struct failure *failure = &op->failure;
	fprintf(out, " failure=%d", op->has_failure);
	if (!op->has_failure)
		return;
	fprintf(out, " status=%d streak=%u left=%" PRId64 " until=%" PRId64, (int)failure->status,
		failure->streak, failure->retry_in_us, failure->until_us);
	print_bytes(out, "text", failure->text);
}

static void print_lease(FILE *out, const struct store_op *op)
{
	fprintf(out, " floor=%" PRIu64, op->floor);
	if (op->outcome == STORE_DONE)
		fprintf(out, " fence=%" PRIu64 " streak=%u", op->fence, op->failure.streak);
	else if (op->outcome == STORE_HELD)
		fprintf(out, " left=%" PRId64, op->left_us);
	else if (op->outcome == STORE_FAILED)
		print_failure(out, op);
	else
		print_entry(out, op);
}

/* All that core/store.h promises of this verb's answer. */
static void print_answer(FILE *out, const struct store_op *op)
{
	fprintf(out, "%s outcome=%d", store_verb_name(op->verb), (int)op->outcome);
	if (op->outcome == STORE_AWAY)
		return;
	switch (op->verb) {
	case STORE_LOAD:
		fprintf(out, " claim=%d fence=%" PRIu64 " floor=%" PRIu64 " left=%" PRId64,
			op->has_claim, op->fence, op->floor, op->left_us);
		print_failure(out, op);
		print_entry(out, op);
		return;
	case STORE_LEASE:
		print_lease(out, op);
		return;
	case STORE_RENEW:
		fprintf(out, " floor=%" PRIu64, op->floor);
		return;
	case STORE_SAVE:
		fprintf(out, " floor=%" PRIu64, op->floor);
		if (op->outcome == STORE_REFUSED)
			print_entry(out, op);
		return;
	case STORE_INVALIDATE:
		fprintf(out, " fence=%" PRIu64 " floor=%" PRIu64, op->fence, op->floor);
		return;
	case STORE_PERMIT:
		fprintf(out, " left=%" PRId64, op->left_us);
		if (op->outcome == STORE_DONE)
			fprintf(out, " slot=%d", op->slot);
		return;
	case STORE_EPOCH:
		fprintf(out, " moment=%" PRId64, op->moment_us);
		return;
	case STORE_FREE:
	case STORE_RELEASE:
		return;
	}
}

static void print_asked(const struct deed *deed)
{
	const struct store_op *op = &deed->op;
	twins_note(deed->twins,
		   "  %s token=%" PRIx64 " known=%" PRIu64 " length=%" PRId64
		   " fresh=%d after=%" PRIu64 " min_version=%d:%" PRId64
		   " hard=%d slot=%d reach=%" PRId64 " background=%d delay=%" PRId64,
		   store_verb_name(op->verb), op->token, op->known_fence, op->length_us,
		   op->want.fresh, op->want.fence_after, op->want.has_min_version,
		   op->want.min_version, op->hard, op->slot, op->reach_us, op->background,
		   deed->delay_us);
}

/* ---- the real one ------------------------------------------------------------------------ */

struct waiting {
	struct store_op op;
	bool done;
};

static void on_done(struct store_op *op)
{
	struct waiting *waiting = container_of(op, struct waiting, op);
	CHECK(!waiting->done);
	waiting->done = true;
}

static struct store_op really(struct deed *deed)
{
	struct twins *twins = deed->twins;
	struct store store = redis_store_iface(twins->daemons[deed->daemon]);
	struct waiting waiting = { .op = deed->op };
	waiting.op.done = on_done;
	store.submit(store.impl, &waiting.op);
	twins_stand(twins, twins->local_us + deed->delay_us, twins->server_us + deed->delay_us);
	twins_turn(twins);
	CHECK_MSG(waiting.done, "%s is not answered", store_verb_name(deed->op.verb));
	return waiting.op;
}

/* ---- the simulated one: what sim/post.c does ---------------------------------------------- */

static struct moments moments_of(const struct deed *deed)
{
	struct redis_store *redis = deed->twins->daemons[deed->daemon];
	return (struct moments){ .clock = &redis->clock,
				 .era = &redis->era,
				 .local_us = deed->twins->local_us };
}

static bool is_late(const struct deed *deed)
{
	bool ages = deed->op.verb != STORE_LOAD && deed->op.verb != STORE_FREE;
	return ages && deed->twins->server_us > deed->deadline_us;
}

static void permit_comes(const struct deed *deed, struct store_op *op)
{
	struct amends *amends = &deed->twins->amends[deed->daemon];
	int64_t rtt_us = deed->twins->daemons[deed->daemon]->clock.rtt_us;
	op->left_us += deed->sent_us - deed->sent_store_us - deed->twins->local_us;
	if (op->background && op->left_us > 0)
		op->left_us = 0;
	if (op->left_us < -PERMIT_LATE_US - rtt_us / 2) {
		amends_add(amends, STORE_FREE, op, deed->twins->local_us + op->length_us);
		op->outcome = STORE_RETRY;
	}
	if (op->left_us < 0)
		op->left_us = 0;
}

static void fail(const struct deed *deed, struct store_op *op)
{
	amends_make(&deed->twins->amends[deed->daemon], op, STORE_ERROR_LATE,
		    deed->twins->local_us);
	op->outcome = STORE_AWAY;
}

/* `sent`: as it left. Its time has come. */
static struct store_op simulated(struct deed *deed, const struct store_op *sent)
{
	struct twins *twins = deed->twins;
	struct caller caller = twins_caller(twins, deed->daemon);
	struct store_op op = deed->op, there = *sent;
	struct moments moments = moments_of(deed);
	if (is_late(deed)) {
		fail(deed, &op);
		return op;
	}
	shared_execute(twins->shared, &there, &caller);
	moments_come(&moments, &op, &there);
	if (op.verb == STORE_PERMIT && op.outcome == STORE_DONE)
		permit_comes(deed, &op);
	return op;
}

/* ---- both -------------------------------------------------------------------------------- */

static void give_back(struct store_op *op, const struct store_op *asked)
{
	if (op->entry.value != asked->entry.value || op->verb != STORE_SAVE)
		value_unref(op->entry.value);
	if (op->failure.text != asked->failure.text || op->verb != STORE_RELEASE)
		value_unref(op->failure.text);
}

static void compare(struct deed *deed, const struct store_op *sim, const struct store_op *real)
{
	struct twins *twins = deed->twins;
	struct redis_store *redis = twins->daemons[deed->daemon];
	struct store_op mine = *real;
	struct pair pair;
	/* Out of touch by its own fault, a daemon builds on its own share (test_alone.c). */
	if (mine.verb == STORE_PERMIT && mine.away) {
		alone_free(&redis->alone, mine.token);
		mine.outcome = STORE_AWAY;
	}
	pair_open(&pair);
	print_answer(pair.sim, sim);
	print_answer(pair.real, &mine);
	fprintf(pair.sim, " amends=%zu", twins->amends[deed->daemon].list.count);
	fprintf(pair.real, " amends=%zu", redis->amends.list.count);
	pair_compare(&pair, twins, "answered");
}

void deeds_do(struct twins *twins, const struct act *act)
{
	struct deed deed = { .twins = twins, .daemon = act->daemon };
	struct redis_store *redis = twins->daemons[act->daemon];
	struct subject *subject = &twins->scene.keys[twins->keys[act->key]];
	rng_seed(&deed.rng, act->chance);
	list_node_init(&deed.op.node);
	deed.op.key = (struct key){ .keyspace = &twins->keyspaces[subject->keyspace],
				    .bytes = subject->bytes,
				    .len = subject->len };
	deed.op.length_us = draw_length(&deed.rng);
	deed.op.longest_us = TWINS_LEASE_MOST_US;
	draw(&deed, act);
	bool is_large = deed.op.verb == STORE_LOAD || deed.op.verb == STORE_SAVE;
	/* A script that is not known is sent again, with a later deadline. */
	bool learned = twins->learned & (1u << deed.op.verb);
	twins->learned |= 1u << deed.op.verb;
	if (learned && draw_chance(&deed.rng, 0.1))
		deed.delay_us = rng_between(&deed.rng, 1, is_large ? 6 * SECOND : 1200 * MS);
	deed.sent_us = twins->local_us;
	deed.sent_store_us = redis_store_clock_us(redis);
	deed.deadline_us = redis_deadline_us(redis, is_large ? &redis->values : &redis->control);
	print_asked(&deed);

	struct store_op sent = deed.op;
	struct moments moments = moments_of(&deed);
	moments_leave(&moments, &sent);
	model_draw_as(twins->shared, &redis->rng);
	struct store_op real = really(&deed);
	struct store_op sim = simulated(&deed, &sent);
	compare(&deed, &sim, &real);
	give_back(&sim, &deed.op);
	give_back(&real, &deed.op);
	value_unref(deed.op.entry.value);
	value_unref(deed.op.failure.text);
	chores_amend(twins, act->daemon);
}
