#include "core/leasing.h"

#include "base/check.h"
#include "core/boarding.h"
#include "core/calls.h"
#include "core/giving.h"
#include "core/landing.h"
#include "core/loading.h"
#include "core/tenure.h"

enum {
	/* A store that answers, and refuses a lease, is taken to give none for so long. */
	NO_LEASES_US = 1000 * 1000,

	/* A flight that is HELD loads again after this, doubling up to LEASING_HELD_MOST_US, with
	   jitter of a half. */
	HELD_FIRST_US = 20 * 1000,
};

void leasing_ask(struct engine *engine, struct flight *flight, struct effects *effects)
{
	heap_remove(&engine->timers, &flight->timer);
	ENGINE_COUNT(engine, flight->key.keyspace, leases_asked);
	flight_move(flight, FLIGHT_LEASING);
	calls_ask(engine, flight, STORE_LEASE, effects);
	struct near_entry *ne = near_find(&engine->near, &flight->key);
	flight->op.known_fence = ne ? ne->entry.fence : 0;
	flight->op.length_us = tenure_length(flight->key.keyspace);
	flight->op.want = (struct want){ .fence_after = flight->want_newer ? flight->load_fence
									   : flight->newer_than,
					 .min_version = flight->min_version,
					 .has_min_version = flight->want_min_version,
					 .fresh = true };
}

void leasing_hold(struct engine *engine, struct flight *flight, int64_t left_us, int64_t now_us)
{
	landing_leave_lines(engine, flight);
	giving_end(engine, flight);
	flight_move(flight, FLIGHT_HELD);
	int64_t length = HELD_FIRST_US;
	for (uint32_t i = 0; i < flight->holds && length < LEASING_HELD_MOST_US; i++)
		length *= 2;
	flight->holds++;
	length = rng_between(&engine->rng, length / 2, length);
	if (left_us > 0 && left_us < length)
		length = left_us;
	heap_insert(&engine->timers, &flight->timer, now_us + length);
}

bool leasing_is_in_vain(const struct flight *flight, int64_t now_us)
{
	return flight->warming && flight->away && flight_is_background(flight, now_us);
}

void leasing_refuse_away(struct flight *flight)
{
	flight_refuse(flight, STATUS_UNAVAILABLE, "the store did not answer", 0);
}

static void on_granted(struct engine *engine, struct flight *flight, int64_t now_us,
		       struct effects *effects)
{
	tenure_begin(engine, flight, now_us);
	flight->leased_at_us = now_us;
	flight->lease_took_us = now_us - flight->op.sent_at_us;
	flight->fence = flight->op.fence;
	if (!flight->away)
		flight->asked_anew_us = 0;
	flight->streak = flight->op.failure.streak;
	if (flight->floor < flight->op.floor)
		flight->floor = flight->op.floor;
	if (flight->stop) {
		flight_refuse(flight, STATUS_UNAVAILABLE, FLIGHT_STOPPING, 0);
		calls_release(engine, flight, effects);
		return;
	}
	if (flight->gives) {
		giving_on_leased(engine, flight, now_us, effects);
		return;
	}
	if (flight->away && loading_keeps_own(engine, flight, now_us)) {
		calls_release(engine, flight, effects);
		return;
	}
	if (leasing_is_in_vain(flight, now_us)) {
		leasing_refuse_away(flight);
		calls_release(engine, flight, effects);
		return;
	}
	flight_move(flight, FLIGHT_PERMITTING);
	boarding_on_leased(engine, flight);
}

void leasing_on_answered(struct engine *engine, struct flight *flight, int64_t now_us,
			 struct effects *effects)
{
	struct store_op *op = &flight->op;
	bool loaded_away = flight->away;
	flight->away = engine->away = op->away || op->outcome == STORE_AWAY;
	/* A store out of memory answers loads and gives permits, but no leases. */
	if (!flight->away) {
		engine->no_leases_us = 0;
		loading_end_own(engine, flight, now_us);
	} else if (!loaded_away) {
		engine->no_leases_us = now_us + NO_LEASES_US;
	}
	switch (op->outcome) {
	case STORE_DONE:
		on_granted(engine, flight, now_us, effects);
		return;
	case STORE_HELD:
		ENGINE_COUNT(engine, flight->key.keyspace, leases_elsewhere);
		if (flight->stop) {
			flight_refuse(flight, STATUS_UNAVAILABLE, FLIGHT_STOPPING, 0);
			break;
		}
		if (flight_is_background(flight, now_us))
			break; /* the other one refreshes it */
		leasing_hold(engine, flight, op->left_us, now_us);
		return;
	case STORE_FAILED:
		ENGINE_COUNT(engine, flight->key.keyspace, failures_remembered);
		value_unref(flight->failure.text);
		flight->failure = op->failure;
		break;
	case STORE_ENOUGH:
		/* Without a load nobody knows what it is newer than; the next load knows of a
		   rollback, and has it built over. What was given back to a store that was flushed
		   has a new fence, though it was built before: the next load knows that fence. */
		if ((loaded_away || calls_are_old(engine, flight, op->entry.fence, now_us) ||
		     loading_is_rollback(engine, &flight->key, &op->entry, now_us) ||
		     (flight->want_newer && op->entry.generated_at_us < flight->created_at_us) ||
		     flight_wants_younger(flight, &op->entry, now_us)) &&
		    !flight->stop) {
			value_unref(op->entry.value);
			leasing_hold(engine, flight, 1, now_us);
			return;
		}
		flight->has_result = flight->saved = true;
		flight->result = op->entry;
		flight->source = SOURCE_STORE;
		break;
	case STORE_RETRY:
	case STORE_REFUSED:
	case STORE_AWAY:
		if (flight->gives && !flight->stop && !flight_is_background(flight, now_us)) {
			leasing_hold(engine, flight, 1, now_us); /* there is a value here */
			return;
		}
		leasing_refuse_away(flight);
		break;
	}
	landing_finish(engine, flight, now_us, effects);
}
