/* Operations, as the core submits them: on their way through both stores, and what is answered. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/limits.h"
#include "deed.h"
#include "sim/moments.h"
#include "wire.h"

enum {
	PERMIT_LATE_US = 50 * MS, /* as in store/errand.c */
};

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
		" build=%u era=%u history=%" PRIx64 " definition=%" PRIu64
		" absent=%d changed=%d own=%d",
		op->has_value, entry->has_version, entry->version, entry->fence, entry->covers,
		entry->generated_at_us, entry->fresh_until_us, entry->stale_until_us,
		entry->build_us, entry->era, entry->history, entry->definition, entry->absent,
		entry->changed, entry->own_times);
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
		fprintf(out, " beat=%" PRIu64, op->beat);
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
		   "  %s %s token=%" PRIx64 " known=%" PRIu64 " length=%" PRId64
		   " fresh=%d after=%" PRIu64 " min_version=%d:%" PRId64
		   " hard=%d slot=%d reach=%" PRId64 " background=%d pace=%" PRIu64 ":%" PRId64
		   " given=%d heard=%" PRId64 " delay=%" PRId64,
		   store_verb_name(op->verb), op->key.bytes, op->token, op->known_fence,
		   op->length_us, op->want.fresh, op->want.fence_after, op->want.has_min_version,
		   op->want.min_version, op->hard, op->slot, op->reach_us, op->background,
		   op->pace.id, op->pace.interval_us, op->given, op->heard_us, deed->delay_us);
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
	twins->daemons[deed->daemon]->beat_store_us = deed->op.heard_us;
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

/* What is counted in an answer, and was not asked with. */
static void give_back(struct store_op *op, const struct store_op *asked)
{
	if (op->entry.value != asked->entry.value || op->verb != STORE_SAVE)
		value_unref(op->entry.value);
	if (op->failure.text != asked->failure.text || op->verb != STORE_RELEASE)
		value_unref(op->failure.text);
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
	give_back(&there, sent);
	if (op.verb == STORE_PERMIT && op.outcome == STORE_DONE)
		permit_comes(deed, &op);
	return op;
}

/* ---- both -------------------------------------------------------------------------------- */

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
	rng_seed(&deed.rng, act->chance);
	deed_draw(&deed, act);
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
