#include "core/building.h"

#include "base/check.h"
#include "core/boarding.h"
#include "core/calls.h"
#include "core/history.h"
#include "core/landing.h"
#include "core/tenure.h"
#include "core/warming.h"

enum {
	/* How far ahead a permit may be booked: further where a crowd waits, so that no flood of
	   keys that few want can keep a hot one from its build. */
	PERMIT_REACH_US = 100 * 1000,
	PERMIT_REACH_CROWD_US = 200 * 1000,
	/* A build that is sent later after its permit's moment takes another's: of what the budget
	   allows, a tenth is left free for such (store/errand.c, PERMIT_LATE_US, has the rest). */
	BUILD_LATE_US = 50 * 1000,
	PERMIT_AGAIN_US = 5 * 1000, /* a reach that ends with a deadline shrinks as fast as the
				       permit comes nearer: it is asked no sooner again */
	SLOT_MARGIN_US =
		2 * 1000 * 1000,     /* a slot ends by itself so long after the build's limit */
	HELD_RETRY_US = 1000 * 1000, /* told to who finds a lock held at the origin */
	ASK_ANEW_US = 1000 * 1000, /* a store that gives permits but no leases is asked so often */
	FAILURE_DOUBLINGS = 5,
	APARTS_LEAST = 2, /* batches in a row */
	SAVE_PATIENCE_US =
		100 * 1000, /* then those who came before the build are answered unsaved */
};

/* Until then any member is wanted. */
static int64_t end_of(const struct batch *batch)
{
	int64_t end_us = 0;
	list_foreach (&batch->members, node) {
		const struct flight *flight = container_of(node, struct flight, link);
		if (end_us < flight->last_deadline_us)
			end_us = flight->last_deadline_us;
		if (end_us < flight->patient_until_us)
			end_us = flight->patient_until_us;
	}
	return end_us;
}

static int64_t reach_most(enum priority priority)
{
	return priority == PRIORITY_CROWD ? PERMIT_REACH_CROWD_US : PERMIT_REACH_US;
}

/* A permit that starts later would come too late, and be lost for everyone. */
static int64_t reach_of(const struct batch *batch, int64_t now_us)
{
	int64_t left_us = end_of(batch) - now_us, most_us = reach_most(batch->priority);
	if (left_us <= 0 || batch_is_background(batch, now_us))
		return 0;
	return left_us < most_us ? left_us : most_us;
}

/* A warming's has no members yet. */
static void ask_for_warming(struct batch *batch, struct effects *effects)
{
	batch->op = (struct store_op){
		.verb = STORE_PERMIT,
		.token = batch->token,
		.background = true,
		.pace = batch->warming->pace,
		.length_us = batch->keyspace->policy->build_timeout_us + SLOT_MARGIN_US,
	};
	calls_push_batch(effects, EFFECT_PERMIT, batch);
}

void building_ask(struct batch *batch, int64_t now_us, struct effects *effects)
{
	if (batch->warming) {
		ask_for_warming(batch, effects);
		return;
	}
	batch->op = (struct store_op){
		.verb = STORE_PERMIT,
		.token = batch->token,
		.background = batch_is_background(batch, now_us),
		.reach_us = reach_of(batch, now_us),
		.length_us = batch_timeout_us(batch) + SLOT_MARGIN_US,
	};
	calls_push_batch(effects, EFFECT_PERMIT, batch);
}

/* Whether the flight's lease will do for a build that begins now. A lease of our own is worth
 * nothing once the shared store is back: it is asked anew. Where it gives permits but still refuses
 * leases, as one out of memory does, ours has to do: each permit given back is a build less. */
static bool is_covered(const struct engine *engine, struct flight *flight,
		       const struct store_op *op, int64_t now_us)
{
	bool is_back = flight->away && !op->away && op->outcome != STORE_AWAY &&
		       now_us >= engine->no_leases_us;
	bool overdue = op->outcome != STORE_DONE && now_us - flight->asked_anew_us >= ASK_ANEW_US;
	bool anew = is_back && (flight->asked_anew_us == 0 || overdue);
	bool covered = tenure_covers_build(flight, now_us) && !anew;
	if (anew)
		flight->asked_anew_us = now_us;
	return covered;
}

/* Without a permit, or without what it takes to use one. */
static void refuse(struct flight *flight, const struct store_op *op)
{
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
			      "the origin had no room for the build in time", op->left_us);
}

/* The members get off: those whose lease will not do, which ask for it anew, and those that are to
 * stop; `all`: the others too. */
static void part(struct engine *engine, struct batch *batch, bool all, int64_t now_us)
{
	struct list_node *next;
	for (struct list_node *node = list_first(&batch->members); node; node = next) {
		struct flight *flight = container_of(node, struct flight, link);
		next = node->next != &batch->members.head ? node->next : NULL;
		bool covered = all || is_covered(engine, flight, &batch->op, now_us);
		if (covered && !all && !flight->stop)
			continue;
		/* Without the lease the build would be one too many. */
		flight->hold_next =
			!covered && !flight->stop && !flight_is_background(flight, now_us);
		if (flight->hold_next)
			ENGINE_COUNT(engine, batch->keyspace, retries_lease);
		refuse(flight, &batch->op);
		boarding_part(engine, flight);
	}
}

static void end(struct engine *engine, struct batch *batch, struct effects *effects)
{
	if (batch->has_slot)
		calls_free(engine, batch, effects);
	boarding_end(engine, batch);
}

/* Until its moment, if that comes in time for anyone. */
static bool book(struct engine *engine, struct batch *batch, int64_t start_us)
{
	if (start_us >= end_of(batch))
		return false;
	permits_leave(&engine->permits, &batch->link, batch->priority);
	batch_move(batch, BATCH_BOOKED);
	batch->start_us = start_us;
	heap_insert(&engine->batch_timers, &batch->timer, start_us);
	list_foreach (&batch->members, node)
		flight_move(container_of(node, struct flight, link), FLIGHT_BOOKED);
	return true;
}

void building_on_permitted(struct engine *engine, struct batch *batch, int64_t now_us,
			   struct effects *effects)
{
	struct store_op *op = &batch->op;
	bool granted = op->outcome == STORE_DONE, retry = op->outcome == STORE_RETRY;
	int64_t left = op->left_us;
	CHECK(batch->state == BATCH_PERMITTING && batch->calls > 0);
	batch->calls--;
	/* What a background flight is told says nothing of those who may book ahead. */
	bool is_bound = op->reach_us < reach_most(engine->permits.asked);
	int64_t again = is_bound && left < PERMIT_AGAIN_US ? PERMIT_AGAIN_US : left;
	permits_answered(&engine->permits, retry && !op->background ? now_us + again : 0);
	if (retry)
		ENGINE_COUNT(engine, batch->keyspace, permits_denied);
	if (granted) {
		engine->slots++;
		permits_granted(&engine->permits, now_us);
		batch->has_slot = true;
		batch->slot = op->slot;
	}
	if (batch->warming) {
		warming_on_permitted(engine, batch, now_us, effects);
		return;
	}
	part(engine, batch, false, now_us);
	bool empty = list_empty(&batch->members);
	bool background = batch_is_background(batch, now_us);
	if (retry && !background) {
		boarding_catch_up(engine, batch); /* still in line, perhaps in a better one */
		return;
	}
	if (granted && !empty && left <= 0) {
		batch->start_us = now_us;
		building_begin(engine, batch, now_us, effects);
		return;
	}
	if (granted && !empty && !background && book(engine, batch, now_us + left))
		return;
	if (batch->has_slot)
		ENGINE_COUNT(engine, batch->keyspace, permits_given_up);
	part(engine, batch, true, now_us);
	end(engine, batch, effects);
}

void building_begin(struct engine *engine, struct batch *batch, int64_t now_us,
		    struct effects *effects)
{
	struct build *last = NULL;
	int64_t timeout_us = batch_timeout_us(batch);
	if (batch->state == BATCH_PERMITTING)
		permits_leave(&engine->permits, &batch->link, batch->priority);
	batch_move(batch, BATCH_BUILDING);
	list_foreach (&batch->members, node) {
		struct flight *flight = container_of(node, struct flight, link);
		flight_move(flight, FLIGHT_BUILDING);
		ENGINE_COUNT(engine, batch->keyspace, builds);
		durations_add(&batch->keyspace->account.queue_times, now_us - flight->wanted_at_us);
		flight->build_seq = ++engine->seq;
		flight->result.generated_at_us = flight->begun_at_us = now_us;
		flight->definition = batch->keyspace->definition;
		flight->build = (struct build){
			.key = flight->key,
			.slot = batch->slot,
			.lock_key = !flight->away,
			.timeout_us = timeout_us,
			.within_us = batch->start_us + BUILD_LATE_US - now_us,
			.fresh_us = -1,
			.stale_us = -1,
		};
		*(last ? &last->next : &batch->build) = &flight->build;
		last = &flight->build;
	}
	if (batch->members.count > 1)
		ENGINE_COUNT(engine, batch->keyspace, batches);
	if (batch->warming)
		batch->warming->began_us = now_us;
	calls_push_batch(effects, EFFECT_BUILD, batch);
}

/* A warming keeps no lease without a permit: who waits for one of its keys goes on alone. */
static void part_late(struct engine *engine, struct batch *batch, int64_t now_us)
{
	struct list_node *node;
	while ((node = list_first(&batch->members))) {
		struct flight *flight = container_of(node, struct flight, link);
		flight->hold_next = !flight->stop && !flight_is_background(flight, now_us);
		if (!flight->hold_next)
			flight_refuse(flight, STATUS_OVERLOADED, "the permit came too late", 0);
		boarding_part(engine, flight);
	}
}

/* The permit is void: nothing was sent in its time. The leases stay. */
static void miss(struct engine *engine, struct batch *batch, int64_t now_us,
		 struct effects *effects)
{
	ENGINE_COUNT(engine, batch->keyspace, retries_late);
	batch_move(batch, BATCH_MISSED);
	calls_free(engine, batch, effects);
	batch->token = rng_next(&engine->rng);
	list_foreach (&batch->members, node) {
		struct flight *flight = container_of(node, struct flight, link);
		flight_move(flight, FLIGHT_PERMITTING);
		flight->build_seq = 0;
		flight->begun_at_us = 0;
		value_unref(flight->build.text);
		flight->build.text = NULL;
	}
	if (batch->warming)
		part_late(engine, batch, now_us);
}

void building_on_freed(struct engine *engine, struct batch *batch)
{
	batch->calls--;
	if (batch->state != BATCH_MISSED)
		boarding_release(engine, batch);
	else if (list_empty(&batch->members))
		boarding_end(engine, batch);
	else
		boarding_line_up(engine, batch);
}

/* Later than asked for, where the daemon was paused. */
void building_on_timer(struct engine *engine, struct batch *batch, int64_t now_us,
		       struct effects *effects)
{
	if (list_empty(&batch->members))
		end(engine, batch, effects);
	else if (now_us - batch->start_us > BUILD_LATE_US)
		miss(engine, batch, now_us, effects);
	else
		building_begin(engine, batch, now_us, effects);
}

void building_cancel(struct batch *batch, struct effects *effects)
{
	if (batch->state != BATCH_BUILDING || batch->cancelled)
		return;
	batch->cancelled = true;
	calls_push_batch(effects, EFFECT_CANCEL, batch);
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

void building_on_answered(struct engine *engine, struct batch *batch, int64_t now_us,
			  struct effects *effects)
{
	CHECK(batch->state == BATCH_BUILDING && batch->calls > 0);
	batch->calls--;
	if (count_outcome(batch, BUILD_LATE) > 0 && !batch->cancelled) {
		batch->build = NULL;
		miss(engine, batch, now_us, effects);
		return;
	}
	report_to_breaker(engine, batch, now_us);
	note_apart(engine, batch, now_us);
	if (batch->warming)
		batch->warming->took_us = now_us - batch->warming->began_us;
	batch->build = NULL;
	end(engine, batch, effects);
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

void building_on_built(struct engine *engine, struct flight *flight, int64_t now_us,
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
