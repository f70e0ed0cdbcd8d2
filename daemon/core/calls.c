#include "core/calls.h"

#include "base/check.h"
#include "core/landing.h"

void calls_push(struct effects *effects, enum effect_type type, struct flight *flight)
{
	CHECK(effects->count < EFFECTS_MAX);
	flight->calls += type != EFFECT_CANCEL;
	effects->at[effects->count++] = (struct effect){ .type = type, .flight = flight };
}

void calls_store(struct flight *flight, enum store_verb verb, struct effects *effects)
{
	flight->op = (struct store_op){ .verb = verb, .key = flight->key, .token = flight->token };
	calls_push(effects, EFFECT_STORE, flight);
}

void calls_release(struct engine *engine, struct flight *flight, struct effects *effects)
{
	CHECK(flight->has_lease && !flight->has_slot);
	landing_leave_lines(engine, flight);
	flight_move(flight, FLIGHT_SETTLING);
	calls_store(flight, STORE_RELEASE, effects);
	flight->op.away = flight->away;
	flight->op.failure = flight->failure;
}

void calls_free(struct engine *engine, struct flight *flight, struct effects *effects)
{
	CHECK(flight->has_slot);
	flight->has_slot = false;
	engine->slots--;
	flight->free_op = (struct store_op){
		.verb = STORE_FREE, .key = flight->key, .token = flight->token, .slot = flight->slot
	};
	calls_push(effects, EFFECT_FREE, flight);
}
