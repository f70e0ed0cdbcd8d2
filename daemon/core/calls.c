#include "core/calls.h"

#include "base/check.h"
#include "core/landing.h"

void calls_push(struct effects *effects, enum effect_type type, struct flight *flight)
{
	CHECK(effects->count < EFFECTS_MAX);
	flight->calls++;
	effects->at[effects->count++] = (struct effect){ .type = type, .flight = flight };
}

void calls_push_batch(struct effects *effects, enum effect_type type, struct batch *batch)
{
	CHECK(effects->count < EFFECTS_MAX);
	batch->calls += type != EFFECT_CANCEL;
	effects->at[effects->count++] = (struct effect){ .type = type, .batch = batch };
}

void calls_store(struct flight *flight, enum store_verb verb, struct effects *effects)
{
	flight->op = (struct store_op){ .verb = verb, .key = flight->key, .token = flight->token };
	calls_push(effects, EFFECT_STORE, flight);
}

void calls_ask(const struct engine *engine, struct flight *flight, enum store_verb verb,
	       struct effects *effects)
{
	calls_store(flight, verb, effects);
	flight->asked_trusted = engine->trusted;
	flight->asked_trusts = engine->trusts;
	flight->told_fence = 0;
}

bool calls_are_vouched(const struct engine *engine, const struct flight *flight, uint64_t fence)
{
	const struct store_op *op = &flight->op;
	return !op->away && op->outcome != STORE_AWAY && flight->asked_trusted && engine->trusted &&
	       flight->asked_trusts == engine->trusts && flight->told_fence <= fence;
}

bool calls_are_old(const struct engine *engine, const struct flight *flight, uint64_t fence,
		   int64_t now_us)
{
	const struct store_op *op = &flight->op;
	int64_t most_us = engine->limits.answer_old_us;
	return most_us > 0 && !op->away && now_us - op->sent_at_us > most_us &&
	       !calls_are_vouched(engine, flight, fence);
}

void calls_release(struct engine *engine, struct flight *flight, struct effects *effects)
{
	CHECK(flight->has_lease);
	landing_leave_lines(engine, flight);
	flight_move(flight, FLIGHT_SETTLING);
	flight->settle_seq = ++engine->seq;
	calls_store(flight, STORE_RELEASE, effects);
	flight->op.away = flight->away;
	flight->op.failure = flight->failure;
}

void calls_free(struct engine *engine, struct batch *batch, struct effects *effects)
{
	CHECK(batch->has_slot);
	batch->has_slot = false;
	engine->slots--;
	batch->free_op =
		(struct store_op){ .verb = STORE_FREE, .token = batch->token, .slot = batch->slot };
	calls_push_batch(effects, EFFECT_FREE, batch);
}
