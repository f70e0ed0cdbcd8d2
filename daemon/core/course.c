#include "core/course.h"

#include "base/check.h"
#include "core/boarding.h"
#include "core/building.h"
#include "core/built.h"
#include "core/calls.h"
#include "core/giving.h"
#include "core/landing.h"
#include "core/leasing.h"
#include "core/loading.h"
#include "core/tenure.h"
#include "core/warming.h"

enum {
	ADVANCE_MAX = 4, /* batches let into free room, and flights moved on, per call */
};

static void load(struct engine *engine, struct flight *flight, bool whole, int64_t now_us,
		 struct effects *effects);

/* ---- start, load ------------------------------------------------------------------------- */

static void postpone(struct engine *engine, struct flight *flight, int64_t until_us)
{
	flight_move(flight, FLIGHT_HELD);
	flight->is_postponed = true;
	heap_insert(&engine->timers, &flight->timer, until_us);
}

struct flight *course_start(struct engine *engine, const struct key *key, enum priority priority,
			    int64_t delay_us, int64_t now_us, struct effects *effects)
{
	/* Each flight is a request's or one of a queue's worth of background ones. */
	if (engine->all.count >= (size_t)engine->limits.requests_max + engine->limits.queue_max ||
	    engine->key_bytes + key->len > engine->limits.key_bytes_max)
		return NULL;
	struct flight *flight = flight_create(key, priority, now_us);
	if (!flight)
		return NULL;
	flight->token = rng_next(&engine->rng);
	list_push_front(&engine->all, &flight->all);
	engine->key_bytes += key->len;
	table_insert(&engine->flights, &flight->node, key->hash);
	if (delay_us > 0)
		postpone(engine, flight, now_us + delay_us);
	else
		load(engine, flight, false, now_us, effects);
	return flight;
}

void course_look(struct engine *engine, const struct key *key, int64_t now_us,
		 struct effects *effects)
{
	struct flight *flight = course_start(engine, key, PRIORITY_WARM, 0, now_us, effects);
	if (!flight) {
		ENGINE_COUNT(engine, key->keyspace, background_dropped);
		return;
	}
	flight->cause = CAUSE_WARM;
	flight->looks_only = true;
	engine->fetching++;
}

/* `whole`: with the value, also where the near cache has one of this fence or a greater. What is
   dead there says nothing: once the store's clock has gone back its fence may have come again. */
static void load(struct engine *engine, struct flight *flight, bool whole, int64_t now_us,
		 struct effects *effects)
{
	flight->load_seq = ++engine->seq;
	calls_ask(engine, flight, STORE_LOAD, effects);
	struct near_entry *ne = near_find(&engine->near, &flight->key);
	bool known = ne && !whole && entry_phase(&ne->entry, now_us) != ENTRY_DEAD;
	flight->op.known_fence = known ? ne->entry.fence : 0;
}

static void board(struct engine *engine, struct flight *flight, int64_t now_us,
		  struct effects *effects)
{
	if (flight->looks_only && flight_is_background(flight, now_us)) {
		flight_refuse(flight, STATUS_OVERLOADED, "it was only looked for", 0);
		landing_finish(engine, flight, now_us, effects);
		return;
	}
	flight->wanted_at_us = now_us;
	if (flight->warming_boards && boarding_take_seat(engine, flight)) {
		leasing_ask(engine, flight, effects);
		return;
	}
	switch (boarding_enter(engine, flight, now_us)) {
	case BOARDING_IN:
		leasing_ask(engine, flight, effects);
		return;
	case BOARDING_QUEUED:
		flight_move(flight, FLIGHT_QUEUED);
		if (now_us < flight->patient_until_us)
			heap_insert(&engine->timers, &flight->timer, flight->patient_until_us);
		return;
	case BOARDING_FULL:
		if (!flight_is_background(flight, now_us))
			ENGINE_COUNT(engine, flight->key.keyspace, queue_refused);
		flight_refuse(flight, STATUS_OVERLOADED,
			      "too many refreshes wait for the origin already", 0);
		break;
	case BOARDING_NO_MEMORY:
		flight_refuse(flight, STATUS_OVERLOADED, "there is no memory for one more refresh",
			      0);
		break;
	case BOARDING_CUT:
		break;
	}
	landing_finish(engine, flight, now_us, effects);
}

static void on_loaded(struct engine *engine, struct flight *flight, int64_t now_us,
		      struct effects *effects)
{
	engine->away = flight->op.away || flight->op.outcome == STORE_AWAY;
	switch (loading_take(engine, flight, now_us)) {
	case LOADING_ENOUGH:
	case LOADING_FAILED:
		landing_finish(engine, flight, now_us, effects);
		return;
	case LOADING_AGAIN:
		ENGINE_COUNT(engine, flight->key.keyspace, retries_load);
		load(engine, flight, true, now_us, effects);
		return;
	case LOADING_LATER:
		if (flight_is_background(flight, now_us) || flight->stop) {
			flight_refuse(flight, STATUS_OVERLOADED, NULL, 0);
			landing_finish(engine, flight, now_us, effects);
			return;
		}
		leasing_hold(engine, flight, 0, now_us);
		return;
	case LOADING_GIVE:
		warming_on_strayed(engine, flight);
		leasing_ask(engine, flight, effects);
		return;
	case LOADING_BUILD:
		if (now_us < flight->postponed_until_us && !flight_is_background(flight, now_us)) {
			/* Else two hosts would have each other build without a pause. */
			postpone(engine, flight, flight->postponed_until_us);
			return;
		}
		if (leasing_is_in_vain(flight, now_us)) {
			leasing_refuse_away(flight);
			landing_finish(engine, flight, now_us, effects);
			return;
		}
		board(engine, flight, now_us, effects);
		return;
	}
}

/* ---- settle ------------------------------------------------------------------------------ */

static void on_settled(struct engine *engine, struct flight *flight, int64_t now_us,
		       struct effects *effects)
{
	struct store_op *op = &flight->op;
	bool gave = flight->gives && op->verb == STORE_SAVE;
	if (gave && !giving_on_saved(engine, flight))
		return;
	tenure_end(engine, flight);
	if (gave) {
		if (flight->floor < op->floor)
			flight->floor = op->floor;
		flight->hold_next = !flight->saved && !flight_is_background(flight, now_us);
	} else if (op->verb == STORE_SAVE) {
		/* Where the store is away the value is this daemon's own, by its own times. */
		flight->saved = op->outcome != STORE_REFUSED &&
				!calls_are_old(engine, flight, flight->result.fence, now_us);
		if (flight->away || op->outcome == STORE_AWAY)
			flight->reason = REASON_UNAVAILABLE;
		if (op->outcome == STORE_REFUSED)
			ENGINE_COUNT(engine, flight->key.keyspace, saves_refused);
		/* What the store has taken as fresh is, whatever was asked before. */
		if (op->outcome == STORE_DONE || flight->floor < op->floor)
			flight->floor = op->floor;
	}
	flight->begun_at_us = 0;
	bool again = flight->hold_next && !flight->stop &&
		     (flight->goes_apart || !flight_is_background(flight, now_us));
	if (flight->hold_next && !again)
		flight_refuse(flight, STATUS_OVERLOADED,
			      "a lock at the origin was held by another build",
			      LEASING_HELD_MOST_US);
	flight->hold_next = false;
	if (again) {
		flight->token = rng_next(&engine->rng);
		leasing_hold(engine, flight, flight->goes_apart || flight->gives ? 1 : 0, now_us);
		flight->goes_apart = false;
	} else {
		landing_finish(engine, flight, now_us, effects);
	}
}

/* ---- events ------------------------------------------------------------------------------ */

void course_on_store(struct engine *engine, struct flight *flight, int64_t now_us,
		     struct effects *effects)
{
	CHECK(flight->calls > 0);
	flight->calls--;
	switch (flight->op.verb) {
	case STORE_LOAD:
		CHECK(flight->state == FLIGHT_LOADING);
		on_loaded(engine, flight, now_us, effects);
		break;
	case STORE_LEASE:
		CHECK(flight->state == FLIGHT_LEASING);
		leasing_on_answered(engine, flight, now_us, effects);
		break;
	case STORE_SAVE:
	case STORE_RELEASE:
		CHECK(flight->state == FLIGHT_SETTLING);
		on_settled(engine, flight, now_us, effects);
		break;
	case STORE_RENEW:
	case STORE_PERMIT:
	case STORE_FREE:
	case STORE_INVALIDATE:
	case STORE_EPOCH:
		check_failed("verb", __FILE__, __LINE__, "%s is no flight's op",
			     store_verb_name(flight->op.verb));
	}
}

void course_on_renewal(struct engine *engine, struct flight *flight, int64_t now_us,
		       struct effects *effects)
{
	if (tenure_renew(engine, flight, now_us))
		calls_push(effects, EFFECT_RENEW, flight);
}

void course_on_renewed(struct engine *engine, struct flight *flight, int64_t now_us)
{
	CHECK(flight->calls > 0);
	flight->calls--;
	tenure_on_renewed(engine, flight, now_us);
	landing_release(engine, flight);
}

void course_on_told(struct engine *engine, struct flight *flight, int64_t now_us,
		    struct effects *effects)
{
	if (flight->state == FLIGHT_HELD) {
		if (flight->is_postponed)
			flight->postponed_until_us = flight->timer.at;
		heap_remove(&engine->timers, &flight->timer);
		course_on_timer(engine, flight, now_us, effects);
	}
}

void course_hurry(struct engine *engine, struct flight *flight, int64_t now_us,
		  struct effects *effects)
{
	if (flight->is_postponed)
		course_on_told(engine, flight, now_us, effects);
	flight->postponed_until_us = 0;
}

void course_on_timer(struct engine *engine, struct flight *flight, int64_t now_us,
		     struct effects *effects)
{
	switch (flight->state) {
	case FLIGHT_HELD:
		flight->is_postponed = false;
		ENGINE_COUNT(engine, flight->key.keyspace, retries_held);
		flight_move(flight, FLIGHT_LOADING);
		load(engine, flight, false, now_us, effects);
		return;
	case FLIGHT_QUEUED:
		course_on_left(engine, flight, now_us, effects);
		return;
	case FLIGHT_SETTLING:
		landing_outdate(engine, flight, now_us);
		loading_let_waiters_look(engine, flight);
		return;
	case FLIGHT_LOADING:
	case FLIGHT_LEASING:
	case FLIGHT_GIVING:
	case FLIGHT_PERMITTING:
	case FLIGHT_BOOKED:
	case FLIGHT_BUILDING:
	case FLIGHT_DONE:
		check_failed("timer", __FILE__, __LINE__, "a flight that is %s has no timer",
			     flight_state_name(flight->state));
	}
}

void course_on_batch_timer(struct engine *engine, struct batch *batch, int64_t now_us,
			   struct effects *effects)
{
	if (batch->state == BATCH_GATHERING)
		boarding_on_timer(engine, batch);
	else
		building_on_timer(engine, batch, now_us, effects);
}

/* Out of a state in which no call is under way. False where one is: its answer sees to it. */
static bool step_out(struct engine *engine, struct flight *flight, enum status status,
		     int64_t now_us, struct effects *effects)
{
	if (flight->state == FLIGHT_QUEUED || flight->state == FLIGHT_HELD) {
		flight_refuse(flight, status, flight->stop ? FLIGHT_STOPPING : NULL, 0);
		landing_finish(engine, flight, now_us, effects);
		return true;
	}
	/* On a batch that has room and waits for company only, it goes on: where nobody waits as
	   long as that lingers, there would never be a value. */
	bool stays = flight->batch && (engine->permits.asking == &flight->batch->link ||
				       (flight->batch->state == BATCH_GATHERING && !flight->stop));
	if (flight->state == FLIGHT_PERMITTING && !stays) {
		flight_refuse(flight, status, flight->stop ? FLIGHT_STOPPING : NULL, 0);
		calls_release(engine, flight, effects);
		return true;
	}
	return false;
}

void course_on_left(struct engine *engine, struct flight *flight, int64_t now_us,
		    struct effects *effects)
{
	if (flight_is_background(flight, now_us))
		step_out(engine, flight, STATUS_OVERLOADED, now_us, effects);
	else if (flight->state == FLIGHT_QUEUED && list_empty(&flight->waiters) &&
		 !flight->timer.in_heap)
		heap_insert(&engine->timers, &flight->timer, flight->patient_until_us);
	landing_release(engine, flight);
}

void course_stop(struct engine *engine, struct flight *flight, int64_t now_us,
		 struct effects *effects)
{
	flight->stop = true;
	flight->again = false;
	if (step_out(engine, flight, STATUS_UNAVAILABLE, now_us, effects))
		return;
	if (flight->state == FLIGHT_BOOKED) {
		flight_refuse(flight, STATUS_UNAVAILABLE, FLIGHT_STOPPING, 0);
		calls_release(engine, flight, effects);
	} else if (flight->state == FLIGHT_BUILDING) {
		building_cancel(flight->batch, effects);
	} else if (flight->state == FLIGHT_GIVING) {
		giving_on_beat(engine); /* which is its last */
	}
}

void course_raise(struct engine *engine, struct flight *flight, enum priority priority)
{
	if (priority >= flight->priority)
		return;
	flight->priority = priority;
	if (flight->batch)
		boarding_raise(engine, flight->batch, priority);
}

/* Onto its way after its batch was let in, or off it. */
static void move_on(struct engine *engine, struct flight *flight, int64_t now_us,
		    struct effects *effects)
{
	switch (flight->state) {
	case FLIGHT_QUEUED:
		if (flight->batch)
			leasing_ask(engine, flight, effects);
		else
			landing_finish(engine, flight, now_us, effects);
		return;
	case FLIGHT_PERMITTING:
	case FLIGHT_BOOKED:
		calls_release(engine, flight, effects);
		return;
	case FLIGHT_GIVING:
		giving_go(engine, flight, now_us, effects);
		return;
	case FLIGHT_BUILDING:
		built_take(engine, flight, now_us, effects);
		return;
	case FLIGHT_LOADING:
	case FLIGHT_LEASING:
	case FLIGHT_HELD:
	case FLIGHT_SETTLING:
	case FLIGHT_DONE:
		check_failed("moving", __FILE__, __LINE__, "a flight that is %s waits for a call",
			     flight_state_name(flight->state));
	}
}

void course_advance(struct engine *engine, int64_t now_us, struct effects *effects)
{
	struct bulkhead_ticket *ticket;
	struct list_node *node;
	for (int i = 0; i < ADVANCE_MAX && (ticket = bulkhead_next(&engine->bulkhead)); i++)
		boarding_let_in(engine, container_of(ticket, struct batch, ticket), now_us);
	for (int i = 0; i < ADVANCE_MAX && (node = list_pop_front(&engine->moving)); i++)
		move_on(engine, container_of(node, struct flight, step), now_us, effects);
	warming_advance(engine, now_us, effects);
	node = permits_next(&engine->permits, now_us);
	if (node)
		building_ask(container_of(node, struct batch, link), now_us, effects);
}

bool course_can_advance(const struct engine *engine, int64_t now_us)
{
	const struct bulkhead *bulkhead = &engine->bulkhead;
	const struct permits *permits = &engine->permits;
	return (bulkhead->queued > 0 && bulkhead->inside < bulkhead->limit) ||
	       !list_empty(&engine->moving) || warming_can_advance(engine) ||
	       (permits->waiting > 0 && !permits->asking && now_us >= permits_retry_at(permits));
}
