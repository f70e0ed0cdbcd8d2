#include "core/built.h"

#include "base/check.h"
#include "core/building.h"
#include "core/calls.h"
#include "core/history.h"
#include "core/landing.h"
#include "core/tenure.h"
#include "core/warming.h"

enum {
	HELD_RETRY_US = 1000 * 1000, /* told to who finds a lock held at the origin */
	FAILURE_DOUBLINGS = 5,
	APARTS_LEAST = 2, /* batches in a row */
	SAVE_PATIENCE_US =
		100 * 1000, /* then those who came before the build are answered unsaved */
};

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
		.own_fence = flight->away,
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

/* How many of the batch's builds ended like that. */
static size_t count_outcome(const struct batch *batch, enum build_outcome outcome)
{
	size_t count = 0;
	for (const struct build *build = batch->build; build; build = build->next)
		count += build->outcome == outcome;
	return count;
}

/* The breaker hears about the origin from every statement. */
static void report_to_breaker(struct engine *engine, struct batch *batch, int64_t now_us)
{
	size_t silent = count_outcome(batch, BUILD_CANCELLED) +
			count_outcome(batch, BUILD_BAD_KEY) + count_outcome(batch, BUILD_LATE);
	if (count_outcome(batch, BUILD_LOST) > 0)
		breaker_lost(&engine->breaker, now_us, &engine->rng);
	else if (silent == batch->members.count)
		return; /* boarding_end makes a probe void */
	else
		breaker_came_back(&engine->breaker);
	batch->is_probe = false;
}

/* A batch of which nothing comes costs a permit for nothing. Once may be one key's fault, which is
 * remembered when that is built alone; from then on there are none for a while, ever longer. */
static void note_apart(struct engine *engine, struct batch *batch, int64_t now_us)
{
	struct keyspace *keyspace = batch->keyspace;
	if (batch->members.count == 1)
		return;
	if (count_outcome(batch, BUILD_APART) < batch->members.count) {
		keyspace->aparts = 0;
		return;
	}
	ENGINE_COUNT(engine, keyspace, batches_apart);
	if (++keyspace->aparts < APARTS_LEAST)
		return;
	uint32_t doublings = keyspace->aparts - APARTS_LEAST;
	if (doublings > FAILURE_DOUBLINGS)
		doublings = FAILURE_DOUBLINGS;
	keyspace->apart_until_us = now_us + (keyspace->policy->error_us << doublings);
}

void built_on_answered(struct engine *engine, struct batch *batch, int64_t now_us,
		       struct effects *effects)
{
	CHECK(batch->state == BATCH_BUILDING && batch->calls > 0);
	batch->calls--;
	if (count_outcome(batch, BUILD_LATE) > 0 && !batch->cancelled) {
		batch->build = NULL;
		building_miss(engine, batch, now_us, effects);
		return;
	}
	report_to_breaker(engine, batch, now_us);
	note_apart(engine, batch, now_us);
	if (batch->warming)
		batch->warming->took_us = now_us - batch->warming->began_us;
	batch->build = NULL;
	building_end(engine, batch, effects);
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
	case BUILD_LATE:
	case BUILD_LOST:
		ENGINE_COUNT(engine, keyspace, builds_lost);
		return;
	case BUILD_APART:
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
	else if (flight->build.outcome == BUILD_APART)
		ENGINE_COUNT(engine, flight->key.keyspace, retries_apart);
	else
		ENGINE_COUNT(engine, flight->key.keyspace, retries_lock);
}

void built_take(struct engine *engine, struct flight *flight, int64_t now_us,
		struct effects *effects)
{
	struct build *built = &flight->build;
	int64_t retry_us = 0;
	CHECK(flight->state == FLIGHT_BUILDING);
	count_built(engine, flight, now_us);

	switch (built->outcome) {
	case BUILD_ROW:
	case BUILD_NO_ROW:
		take_result(engine, flight, now_us);
		if (!history_see_build(engine, flight->result.history,
				       flight->result.generated_at_us)) {
			release_unkept(engine, flight, effects);
			return;
		}
		landing_leave_lines(engine, flight);
		flight_move(flight, FLIGHT_SETTLING);
		calls_ask(engine, flight, STORE_SAVE, effects);
		heap_insert(&engine->timers, &flight->timer, now_us + SAVE_PATIENCE_US);
		flight->op.away = flight->away;
		flight->op.entry = flight->result;
		flight->op.snapshot = built->snapshot;
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
	case BUILD_APART:
		flight->build_seq = 0;
		flight->alone = flight->goes_apart = true;
		/* A warming's keys go on at its own pace, where nobody waits for them. */
		flight->hold_next =
			!flight->stop && !(flight->warming && flight_is_background(flight, now_us));
		if (!flight->hold_next)
			flight_refuse(flight, STATUS_OVERLOADED, "it is to be built alone", 0);
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
	case BUILD_LATE: /* and cancelled */
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
