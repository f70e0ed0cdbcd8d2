#include "core/building.h"

#include "base/check.h"
#include "core/boarding.h"
#include "core/calls.h"
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
		2 * 1000 * 1000,   /* a slot ends by itself so long after the build's limit */
	ASK_ANEW_US = 1000 * 1000, /* a store that gives permits but no leases is asked so often */
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
		flight_refuse(flight, STATUS_UNAVAILABLE, FLIGHT_STOPPING, 0);
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

void building_end(struct engine *engine, struct batch *batch, struct effects *effects)
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
	building_end(engine, batch, effects);
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
			.trace = flight->has_trace ? &flight->trace : NULL,
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

void building_miss(struct engine *engine, struct batch *batch, int64_t now_us,
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
		building_end(engine, batch, effects);
	else if (now_us - batch->start_us > BUILD_LATE_US)
		building_miss(engine, batch, now_us, effects);
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
