#include "core/course.h"

#include "base/check.h"
#include "core/landing.h"
#include "core/loading.h"
#include "core/tenure.h"

enum {
	ADVANCE_MAX = 4, /* flights let into free room, per call */

	/* A flight that is HELD loads again after this, doubling up to that, with jitter of a half.
	 */
	HELD_FIRST_US = 20 * 1000,
	HELD_MOST_US = 1000 * 1000,

	FAILURE_DOUBLINGS = 5,
	PERMIT_REACH_US = 200 * 1000, /* how far ahead a permit may be booked */
	SLOT_MARGIN_US =
		2 * 1000 * 1000, /* a slot ends by itself so long after the build's limit */
};

static void load(struct engine *engine, struct flight *flight, struct effects *effects);
static void build(struct engine *engine, struct flight *flight, int64_t now_us,
		  struct effects *effects);

static void effects_push(struct effects *effects, enum effect_type type, struct flight *flight)
{
	CHECK(effects->count < EFFECTS_MAX);
	flight->calls += type != EFFECT_CANCEL;
	effects->at[effects->count++] = (struct effect){ .type = type, .flight = flight };
}

static void push_op(struct flight *flight, enum store_verb verb, struct effects *effects)
{
	flight->op = (struct store_op){ .verb = verb, .key = flight->key, .token = flight->token };
	effects_push(effects, EFFECT_STORE, flight);
}

/* Nobody waits, and nobody asked for it to be done later: it takes what is free, or goes. */
static bool is_background(const struct flight *flight, int64_t now_us)
{
	return list_empty(&flight->waiters) && now_us >= flight->patient_until_us;
}

static void fail(struct flight *flight, enum status status, struct value *text, int64_t retry_in_us)
{
	value_unref(flight->failure.text);
	flight->failure =
		(struct failure){ .status = status, .text = text, .retry_in_us = retry_in_us };
}

/* ---- start, load ------------------------------------------------------------------------- */

struct flight *course_start(struct engine *engine, const struct key *key, enum priority priority,
			    int64_t now_us, struct effects *effects)
{
	/* Each flight is a request's or one of a queue's worth of background ones. */
	if (engine->all.count >= (size_t)engine->limits.requests_max + engine->limits.queue_max)
		return NULL;
	struct flight *flight = flight_create(key, priority, now_us);
	if (!flight)
		return NULL;
	flight->token = rng_next(&engine->rng);
	list_push_front(&engine->all, &flight->all);
	table_insert(&engine->flights, &flight->node, key->hash);
	load(engine, flight, effects);
	return flight;
}

static void load(struct engine *engine, struct flight *flight, struct effects *effects)
{
	flight->load_seq = ++engine->seq;
	push_op(flight, STORE_LOAD, effects);
	struct near_entry *ne = near_find(&engine->near, &flight->key);
	flight->op.known_fence = ne ? ne->entry.fence : 0;
}

static void lease(struct engine *engine, struct flight *flight, int64_t now_us,
		  struct effects *effects)
{
	flight->in_bulkhead = true;
	if (!breaker_admits(&engine->breaker, now_us)) {
		fail(flight, STATUS_UNAVAILABLE, NULL, engine->breaker.open_until_us - now_us);
		landing_finish(engine, flight, now_us, effects);
		return;
	}
	flight->is_probe = engine->breaker.state == BREAKER_PROBING;
	flight_move(flight, FLIGHT_LEASING);
	push_op(flight, STORE_LEASE, effects);
	struct near_entry *ne = near_find(&engine->near, &flight->key);
	flight->op.known_fence = ne ? ne->entry.fence : 0;
	flight->op.length_us = tenure_length(flight->key.keyspace);
	flight->op.want = (struct want){ .fence_after = flight->want_newer ? flight->load_fence
									   : flight->newer_than,
					 .min_version = flight->min_version,
					 .has_min_version = flight->want_min_version,
					 .fresh = true };
}

/* Waits for another's build to end, which the store tells if all goes well; else looks again, at
   the latest when the lease lapses. `left_us` 0: unknown. */
static void hold(struct engine *engine, struct flight *flight, int64_t left_us, int64_t now_us)
{
	landing_leave_lines(engine, flight);
	flight_move(flight, FLIGHT_HELD);
	int64_t length = HELD_FIRST_US;
	for (uint32_t i = 0; i < flight->holds && length < HELD_MOST_US; i++)
		length *= 2;
	flight->holds++;
	length = rng_between(&engine->rng, length / 2, length);
	if (left_us > 0 && left_us < length)
		length = left_us;
	heap_insert(&engine->timers, &flight->timer, now_us + length);
}

static void enter_bulkhead(struct engine *engine, struct flight *flight, int64_t now_us,
			   struct effects *effects)
{
	bool patient = !is_background(flight, now_us);
	switch (bulkhead_enter(&engine->bulkhead, &flight->ticket, flight->priority, flight->client,
			       patient)) {
	case ADMISSION_IN:
		lease(engine, flight, now_us, effects);
		return;
	case ADMISSION_QUEUED:
		flight_move(flight, FLIGHT_QUEUED);
		if (now_us < flight->patient_until_us)
			heap_insert(&engine->timers, &flight->timer, flight->patient_until_us);
		return;
	case ADMISSION_FULL:
		fail(flight, STATUS_OVERLOADED, NULL, 0);
		landing_finish(engine, flight, now_us, effects);
		return;
	}
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
		load(engine, flight, effects);
		return;
	case LOADING_BUILD:
		enter_bulkhead(engine, flight, now_us, effects);
		return;
	}
}

/* ---- lease, permit ----------------------------------------------------------------------- */

/* Gives back what the flight holds, remembering its failure if that has a time; then DONE or HELD.
 */
static void release(struct engine *engine, struct flight *flight, struct effects *effects)
{
	CHECK(flight->has_lease && !flight->has_slot);
	landing_leave_lines(engine, flight);
	flight_move(flight, FLIGHT_SETTLING);
	push_op(flight, STORE_RELEASE, effects);
	flight->op.away = flight->away;
	flight->op.failure = flight->failure;
}

static void free_slot(struct engine *engine, struct flight *flight, struct effects *effects)
{
	CHECK(flight->has_slot);
	flight->has_slot = false;
	engine->slots--;
	flight->free_op = (struct store_op){
		.verb = STORE_FREE, .key = flight->key, .token = flight->token, .slot = flight->slot
	};
	effects_push(effects, EFFECT_FREE, flight);
}

static void on_granted(struct engine *engine, struct flight *flight, int64_t now_us,
		       struct effects *effects)
{
	tenure_begin(engine, flight, now_us);
	flight->fence = flight->op.fence;
	flight->streak = flight->op.failure.streak;
	if (flight->floor < flight->op.floor)
		flight->floor = flight->op.floor;
	if (flight->stop) {
		fail(flight, STATUS_UNAVAILABLE, NULL, 0);
		release(engine, flight, effects);
		return;
	}
	flight_move(flight, FLIGHT_PERMITTING);
	permits_join(&engine->permits, &flight->link, flight->priority);
}

static void on_leased(struct engine *engine, struct flight *flight, int64_t now_us,
		      struct effects *effects)
{
	struct store_op *op = &flight->op;
	flight->away = engine->away = op->away || op->outcome == STORE_AWAY;
	switch (op->outcome) {
	case STORE_DONE:
		on_granted(engine, flight, now_us, effects);
		return;
	case STORE_HELD:
		if (flight->stop || is_background(flight, now_us))
			break; /* the other one refreshes it */
		hold(engine, flight, op->left_us, now_us);
		return;
	case STORE_FAILED:
		engine->counters.failures_remembered++;
		value_unref(flight->failure.text);
		flight->failure = op->failure;
		break;
	case STORE_ENOUGH:
		flight->has_result = flight->saved = true;
		flight->result = op->entry;
		flight->source = SOURCE_STORE;
		break;
	case STORE_RETRY:
	case STORE_REFUSED:
	case STORE_AWAY:
		fail(flight, STATUS_UNAVAILABLE, NULL, 0);
		break;
	}
	landing_finish(engine, flight, now_us, effects);
}

static void ask_permit(struct flight *flight, int64_t now_us, struct effects *effects)
{
	push_op(flight, STORE_PERMIT, effects);
	flight->op.background = is_background(flight, now_us);
	flight->op.reach_us = flight->op.background ? 0 : PERMIT_REACH_US;
	flight->op.length_us = flight->key.keyspace->policy->build_timeout_us + SLOT_MARGIN_US;
}

static void on_permitted(struct engine *engine, struct flight *flight, int64_t now_us,
			 struct effects *effects)
{
	struct store_op *op = &flight->op;
	bool granted = op->outcome == STORE_DONE, retry = op->outcome == STORE_RETRY;
	bool background = is_background(flight, now_us);
	int64_t left = op->left_us;
	/* What a background flight is told says nothing of those who may book ahead. */
	permits_answered(&engine->permits, retry && !op->background ? now_us + left : 0);
	if (granted) {
		engine->slots++;
		flight->has_slot = true;
		flight->slot = op->slot;
	}
	if (retry && !background && !flight->stop)
		return; /* still at the head of its line */

	permits_leave(&engine->permits, &flight->link, flight->priority);
	if (granted && !flight->stop) {
		int64_t start = now_us + left;
		if (left <= 0) {
			build(engine, flight, now_us, effects);
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
	if (flight->has_slot)
		free_slot(engine, flight, effects);
	if (op->outcome == STORE_AWAY)
		fail(flight, STATUS_UNAVAILABLE, NULL, 0);
	else
		fail(flight, flight->stop ? STATUS_UNAVAILABLE : STATUS_OVERLOADED, NULL, left);
	release(engine, flight, effects);
}

/* ---- build ------------------------------------------------------------------------------- */

static void build(struct engine *engine, struct flight *flight, int64_t now_us,
		  struct effects *effects)
{
	flight_move(flight, FLIGHT_BUILDING);
	engine->counters.builds++;
	flight->build_seq = ++engine->seq;
	flight->result.generated_at_us = now_us;
	flight->build =
		(struct build){ .key = flight->key,
				.slot = flight->slot,
				.lock_key = !flight->away,
				.timeout_us = flight->key.keyspace->policy->build_timeout_us };
	effects_push(effects, EFFECT_BUILD, flight);
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
		.covers = flight->want_min_version ? flight->min_version : 0,
		.generated_at_us = flight->result.generated_at_us,
		.build_us = took < UINT32_MAX ? (uint32_t)took : UINT32_MAX,
	};
	built->value = NULL;
	tenure_measure(engine, flight->key.keyspace, took);
	entry_set_times(&flight->result, flight->key.keyspace->policy,
			flight->result.generated_at_us, &engine->rng);
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

void course_on_built(struct engine *engine, struct flight *flight, int64_t now_us,
		     struct effects *effects)
{
	struct build *built = &flight->build;
	int64_t retry_us = 0;
	CHECK(flight->state == FLIGHT_BUILDING && flight->calls > 0);
	flight->calls--;
	report_to_breaker(engine, flight, now_us);
	free_slot(engine, flight, effects);

	switch (built->outcome) {
	case BUILD_ROW:
	case BUILD_NO_ROW:
		take_result(engine, flight, now_us);
		landing_leave_lines(engine, flight);
		flight_move(flight, FLIGHT_SETTLING);
		push_op(flight, STORE_SAVE, effects);
		flight->op.away = flight->away;
		flight->op.entry = flight->result;
		return;
	case BUILD_KEY_HELD:
	case BUILD_SLOT_HELD:
	case BUILD_NO_ROOM:
		engine->counters.locks_held++;
		/* The build said nothing: whoever waits is as if it had not begun. */
		flight->build_seq = 0;
		flight->hold_next = !flight->stop && !is_background(flight, now_us);
		if (!flight->hold_next)
			fail(flight, STATUS_OVERLOADED, value_ref(built->text), HELD_MOST_US);
		break;
	case BUILD_FAILED:
		engine->counters.build_failures++;
		retry_us = failure_length(engine, flight);
		fail(flight, built->status, value_ref(built->text), retry_us);
		flight->failure.until_us = now_us + retry_us;
		flight->failure.streak = flight->streak + 1;
		break;
	case BUILD_BAD_KEY:
		fail(flight, STATUS_BAD_REQUEST, value_ref(built->text), 0);
		break;
	case BUILD_LOST:
		engine->counters.builds_lost++;
		retry_us = engine->breaker.open_until_us - now_us;
		fail(flight, STATUS_UNAVAILABLE, value_ref(built->text),
		     retry_us > 0 ? retry_us : 0);
		break;
	case BUILD_CANCELLED:
		fail(flight, STATUS_UNAVAILABLE, value_ref(built->text), 0);
		break;
	}
	value_unref(built->text);
	built->text = NULL;
	release(engine, flight, effects);
}

/* ---- settle ------------------------------------------------------------------------------ */

static void on_settled(struct engine *engine, struct flight *flight, int64_t now_us,
		       struct effects *effects)
{
	struct store_op *op = &flight->op;
	tenure_end(engine, flight);
	if (op->verb == STORE_SAVE) {
		/* Where the store is away the value is this daemon's own, by its own times. */
		flight->saved = op->outcome != STORE_REFUSED;
		engine->counters.saves_refused += op->outcome == STORE_REFUSED;
		if (flight->floor < op->floor)
			flight->floor = op->floor;
	}
	bool again = flight->hold_next && !flight->stop && !is_background(flight, now_us);
	if (flight->hold_next && !again)
		fail(flight, STATUS_OVERLOADED, NULL, HELD_MOST_US);
	flight->hold_next = false;
	if (again) {
		flight->token = rng_next(&engine->rng);
		hold(engine, flight, 0, now_us);
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
		on_leased(engine, flight, now_us, effects);
		break;
	case STORE_PERMIT:
		CHECK(flight->state == FLIGHT_PERMITTING);
		on_permitted(engine, flight, now_us, effects);
		break;
	case STORE_SAVE:
	case STORE_RELEASE:
		CHECK(flight->state == FLIGHT_SETTLING);
		on_settled(engine, flight, now_us, effects);
		break;
	case STORE_RENEW:
	case STORE_FREE:
	case STORE_INVALIDATE:
		check_failed("verb", __FILE__, __LINE__, "%s is no flight's op",
			     store_verb_name(flight->op.verb));
	}
}

void course_on_freed(struct engine *engine, struct flight *flight)
{
	CHECK(flight->calls > 0);
	flight->calls--;
	landing_release(engine, flight);
}

void course_on_renewal(struct engine *engine, struct flight *flight, int64_t now_us,
		       struct effects *effects)
{
	if (tenure_renew(engine, flight, now_us))
		effects_push(effects, EFFECT_RENEW, flight);
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
		heap_remove(&engine->timers, &flight->timer);
		course_on_timer(engine, flight, now_us, effects);
	}
}

void course_on_timer(struct engine *engine, struct flight *flight, int64_t now_us,
		     struct effects *effects)
{
	switch (flight->state) {
	case FLIGHT_HELD:
		flight_move(flight, FLIGHT_LOADING);
		load(engine, flight, effects);
		return;
	case FLIGHT_BOOKED:
		build(engine, flight, now_us, effects);
		return;
	case FLIGHT_QUEUED:
		course_on_left(engine, flight, now_us, effects);
		return;
	case FLIGHT_LOADING:
	case FLIGHT_LEASING:
	case FLIGHT_PERMITTING:
	case FLIGHT_BUILDING:
	case FLIGHT_SETTLING:
	case FLIGHT_DONE:
		check_failed("timer", __FILE__, __LINE__, "a flight that is %s has no timer",
			     flight_state_name(flight->state));
	}
}

/* Out of a state in which no call is under way. False where one is: its answer sees to it. */
static bool step_out(struct engine *engine, struct flight *flight, enum status status,
		     int64_t now_us, struct effects *effects)
{
	if (flight->state == FLIGHT_QUEUED || flight->state == FLIGHT_HELD) {
		fail(flight, status, NULL, 0);
		landing_finish(engine, flight, now_us, effects);
		return true;
	}
	if (flight->state == FLIGHT_PERMITTING && engine->permits.asking != &flight->link) {
		fail(flight, status, NULL, 0);
		release(engine, flight, effects);
		return true;
	}
	return false;
}

void course_on_left(struct engine *engine, struct flight *flight, int64_t now_us,
		    struct effects *effects)
{
	if (is_background(flight, now_us))
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
		fail(flight, STATUS_UNAVAILABLE, NULL, 0);
		free_slot(engine, flight, effects);
		release(engine, flight, effects);
	} else if (flight->state == FLIGHT_BUILDING) {
		effects_push(effects, EFFECT_CANCEL, flight);
	}
}

void course_raise(struct engine *engine, struct flight *flight, enum priority priority)
{
	if (priority >= flight->priority)
		return;
	if (flight->state == FLIGHT_QUEUED) {
		bulkhead_raise(&engine->bulkhead, &flight->ticket, flight->priority, priority);
	} else if (flight->state == FLIGHT_PERMITTING && engine->permits.asking != &flight->link) {
		permits_leave(&engine->permits, &flight->link, flight->priority);
		permits_join(&engine->permits, &flight->link, priority);
	} else if (flight->state == FLIGHT_PERMITTING) {
		return; /* it is asking already: nothing is more urgent than the head */
	}
	flight->priority = priority;
}

void course_advance(struct engine *engine, int64_t now_us, struct effects *effects)
{
	struct bulkhead_ticket *ticket;
	for (int i = 0; i < ADVANCE_MAX && (ticket = bulkhead_next(&engine->bulkhead)); i++) {
		struct flight *flight = container_of(ticket, struct flight, ticket);
		heap_remove(&engine->timers, &flight->timer);
		lease(engine, flight, now_us, effects);
	}
	struct list_node *link = permits_next(&engine->permits, now_us);
	if (link)
		ask_permit(container_of(link, struct flight, link), now_us, effects);
}

bool course_can_advance(const struct engine *engine, int64_t now_us)
{
	const struct bulkhead *bulkhead = &engine->bulkhead;
	const struct permits *permits = &engine->permits;
	return (bulkhead->queued > 0 && bulkhead->inside < bulkhead->limit) ||
	       (permits->waiting > 0 && !permits->asking && now_us >= permits->retry_at_us);
}
