#include "core/building.h"

#include "base/check.h"
#include "core/calls.h"
#include "core/history.h"
#include "core/landing.h"
#include "core/tenure.h"

enum {
	PERMIT_REACH_US = 200 * 1000, /* how far ahead a permit may be booked */
	SLOT_MARGIN_US =
		2 * 1000 * 1000,     /* a slot ends by itself so long after the build's limit */
	HELD_RETRY_US = 1000 * 1000, /* told to who finds a lock held at the origin */
	FAILURE_DOUBLINGS = 5,
	SAVE_PATIENCE_US =
		100 * 1000, /* then those who came before the build are answered unsaved */
};

void building_ask(struct flight *flight, int64_t now_us, struct effects *effects)
{
	calls_store(flight, STORE_PERMIT, effects);
	flight->op.background = flight_is_background(flight, now_us);
	flight->op.reach_us = flight->op.background ? 0 : PERMIT_REACH_US;
	flight->op.length_us = flight->build_timeout_us + SLOT_MARGIN_US;
}

void building_on_permitted(struct engine *engine, struct flight *flight, int64_t now_us,
			   struct effects *effects)
{
	struct store_op *op = &flight->op;
	bool granted = op->outcome == STORE_DONE, retry = op->outcome == STORE_RETRY;
	bool background = flight_is_background(flight, now_us);
	/* A lease of our own is worth nothing once the shared store is back: it is asked anew.
	   Where it still refuses leases but gives permits, as one out of memory does, ours has to
	   do. */
	bool is_back = flight->away && !op->away && op->outcome != STORE_AWAY;
	bool covered = tenure_covers_build(flight, now_us) && (!is_back || flight->asked_anew);
	flight->asked_anew |= is_back;
	int64_t left = op->left_us;
	/* What a background flight is told says nothing of those who may book ahead. */
	permits_answered(&engine->permits, retry && !op->background ? now_us + left : 0);
	if (retry)
		ENGINE_COUNT(engine, flight->key.keyspace, permits_denied);
	if (granted) {
		engine->slots++;
		permits_granted(&engine->permits, now_us);
		flight->has_slot = true;
		flight->slot = op->slot;
	}
	if (retry && covered && !background && !flight->stop)
		return; /* still at the head of its line */

	permits_leave(&engine->permits, &flight->link, flight->priority);
	if (granted && covered && !flight->stop) {
		int64_t start = now_us + left;
		if (left <= 0) {
			building_begin(engine, flight, now_us, effects);
			return;
		}
		int64_t end = flight->last_deadline_us > flight->patient_until_us
				      ? flight->last_deadline_us
				      : flight->patient_until_us;
		if (!background && start < end) {
			flight_move(flight, FLIGHT_BOOKED);
			heap_insert(&engine->timers, &flight->timer, start);
			return;
		}
	}
	if (flight->has_slot) {
		ENGINE_COUNT(engine, flight->key.keyspace, permits_given_up);
		calls_free(engine, flight, effects);
	}
	/* Without the lease the build would be one too many: ask for it anew. */
	flight->hold_next = !covered && !background && !flight->stop;
	if (flight->hold_next)
		ENGINE_COUNT(engine, flight->key.keyspace, retries_lease);
	if (op->outcome == STORE_AWAY)
		flight_refuse(
			flight, STATUS_UNAVAILABLE,
			"the shared store is away, and this daemon has no place in the fleet that "
			"would give it a share of the origin's budget",
			0);
	else if (flight->stop)
		flight_refuse(flight, STATUS_UNAVAILABLE, "the daemon is stopping", 0);
	else if (!flight->hold_next)
		flight_refuse(flight, STATUS_OVERLOADED,
			      "the origin had no room for the build in time", left);
	calls_release(engine, flight, effects);
}

void building_begin(struct engine *engine, struct flight *flight, int64_t now_us,
		    struct effects *effects)
{
	flight_move(flight, FLIGHT_BUILDING);
	ENGINE_COUNT(engine, flight->key.keyspace, builds);
	durations_add(&flight->key.keyspace->account.queue_times, now_us - flight->wanted_at_us);
	flight->build_seq = ++engine->seq;
	flight->result.generated_at_us = now_us;
	flight->definition = flight->key.keyspace->definition;
	flight->build = (struct build){ .key = flight->key,
					.slot = flight->slot,
					.lock_key = !flight->away,
					.timeout_us = flight->build_timeout_us,
					.fresh_us = -1,
					.stale_us = -1 };
	calls_push(effects, EFFECT_BUILD, flight);
}

static void take_result(struct engine *engine, struct flight *flight, int64_t now_us)
{
	struct build *built = &flight->build;
	int64_t took = now_us - flight->result.generated_at_us;
	flight->has_result = true;
	flight->source = SOURCE_ORIGIN;
	flight->result = (struct entry){
		.value = built->value,
		.version = built->version,
		.has_version = built->has_version,
		.absent = built->outcome == BUILD_NO_ROW,
		.fence = flight->fence,
		.history = built->history,
		.definition = flight->definition,
		.covers = flight->want_min_version ? flight->min_version : 0,
		.generated_at_us = flight->result.generated_at_us,
		.build_us = took < UINT32_MAX ? (uint32_t)took : UINT32_MAX,
	};
	built->value = NULL;
	tenure_measure(engine, flight->key.keyspace, took);
	entry_set_times(&flight->result, flight->key.keyspace->policy, built->fresh_us,
			built->stale_us, &engine->rng);
}

/* The breaker hears about the origin from every build. */
static void report_to_breaker(struct engine *engine, struct flight *flight, int64_t now_us)
{
	enum build_outcome outcome = flight->build.outcome;
	if (outcome == BUILD_LOST)
		breaker_lost(&engine->breaker, now_us, &engine->rng);
	else if (outcome == BUILD_CANCELLED || outcome == BUILD_BAD_KEY)
		return; /* leave_lines makes a probe void */
	else
		breaker_came_back(&engine->breaker);
	flight->is_probe = false;
}

/* How long the failure is remembered: doubling with each in a row, up to 32 times, and a tenth of
   jitter on top, so that keys that failed together are not tried together. */
static int64_t failure_length(struct engine *engine, const struct flight *flight)
{
	uint32_t doublings =
		flight->streak < FAILURE_DOUBLINGS ? flight->streak : FAILURE_DOUBLINGS;
	int64_t length = flight->key.keyspace->policy->error_us << doublings;
	return length + rng_between(&engine->rng, 0, length / 10);
}

/* The result answers who waited for it; the store does not hear of it. */
static void release_unkept(struct engine *engine, struct flight *flight, struct effects *effects)
{
	flight->saved = false;
	calls_release(engine, flight, effects);
}

static void count_built(struct engine *engine, struct flight *flight, int64_t now_us)
{
	struct keyspace *keyspace = flight->key.keyspace;
	if (now_us > flight->lease_ends_us)
		ENGINE_COUNT(engine, keyspace, leases_overrun);
	switch (flight->build.outcome) {
	case BUILD_FAILED:
		ENGINE_COUNT(engine, keyspace, build_failures);
		break;
	case BUILD_ROW:
	case BUILD_NO_ROW:
		break;
	case BUILD_KEY_HELD:
	case BUILD_SLOT_HELD:
	case BUILD_NO_ROOM:
		ENGINE_COUNT(engine, keyspace, locks_held);
		return;
	case BUILD_LOST:
		ENGINE_COUNT(engine, keyspace, builds_lost);
		return;
	case BUILD_BAD_KEY:
	case BUILD_CANCELLED:
		return;
	}
	durations_add(&keyspace->account.build_times, now_us - flight->result.generated_at_us);
}

static void count_retry(struct engine *engine, struct flight *flight)
{
	if (flight->build.outcome == BUILD_LOST)
		ENGINE_COUNT(engine, flight->key.keyspace, retries_lost);
	else
		ENGINE_COUNT(engine, flight->key.keyspace, retries_lock);
}

void building_on_built(struct engine *engine, struct flight *flight, int64_t now_us,
		       struct effects *effects)
{
	struct build *built = &flight->build;
	int64_t retry_us = 0;
	CHECK(flight->state == FLIGHT_BUILDING && flight->calls > 0);
	flight->calls--;
	report_to_breaker(engine, flight, now_us);
	count_built(engine, flight, now_us);
	calls_free(engine, flight, effects);

	switch (built->outcome) {
	case BUILD_ROW:
	case BUILD_NO_ROW:
		take_result(engine, flight, now_us);
		if (!history_see(engine, flight->result.history, flight->result.generated_at_us)) {
			release_unkept(engine, flight, effects);
			return;
		}
		landing_leave_lines(engine, flight);
		flight_move(flight, FLIGHT_SETTLING);
		calls_ask(engine, flight, STORE_SAVE, effects);
		heap_insert(&engine->timers, &flight->timer, now_us + SAVE_PATIENCE_US);
		flight->op.away = flight->away;
		flight->op.entry = flight->result;
		return;
	case BUILD_KEY_HELD:
	case BUILD_SLOT_HELD:
	case BUILD_NO_ROOM:
		/* The build said nothing: whoever waits is as if it had not begun. */
		flight->build_seq = 0;
		flight->hold_next = !flight->stop && !flight_is_background(flight, now_us);
		if (!flight->hold_next)
			flight_fail(flight, STATUS_OVERLOADED, value_ref(built->text),
				    HELD_RETRY_US);
		break;
	case BUILD_FAILED:
		retry_us = failure_length(engine, flight);
		flight_fail(flight, built->status, value_ref(built->text), retry_us);
		flight->failure.until_us = now_us + retry_us;
		flight->failure.streak = flight->streak + 1;
		break;
	case BUILD_BAD_KEY:
		flight_fail(flight, STATUS_BAD_REQUEST, value_ref(built->text), 0);
		break;
	case BUILD_LOST:
		if (engine->breaker.state == BREAKER_CLOSED) {
			flight->build_seq = 0;
			flight->hold_next = !flight->stop && !flight_is_background(flight, now_us);
		}
		if (flight->hold_next)
			break;
		retry_us = engine->breaker.open_until_us - now_us;
		flight_fail(flight, STATUS_UNAVAILABLE, value_ref(built->text),
			    retry_us > 0 ? retry_us : 0);
		break;
	case BUILD_CANCELLED:
		flight_fail(flight, STATUS_UNAVAILABLE, value_ref(built->text), 0);
		break;
	}
	value_unref(built->text);
	built->text = NULL;
	if (flight->hold_next)
		count_retry(engine, flight);
	calls_release(engine, flight, effects);
}
