/* Answering those who wait: engine_wake and what it tells them. */
#include <string.h>

#include "base/check.h"
#include "core/answer.h"
#include "core/course.h"
#include "core/engine_waiters.h"
#include "core/landing.h"
#include "core/ledger.h"

static void count_refusal(struct engine *engine, struct keyspace *keyspace,
			  const struct answer *answer)
{
	if (answer->status == STATUS_OK)
		ENGINE_COUNT(engine, keyspace, defaults);
	else if (answer->status == STATUS_TIMEOUT)
		ENGINE_COUNT(engine, keyspace, timeouts);
	else if (answer->status == STATUS_OVERLOADED)
		ENGINE_COUNT(engine, keyspace, overloaded);
	else if (answer->status == STATUS_UNAVAILABLE)
		ENGINE_COUNT(engine, keyspace, unavailable);
}

/* More of why its deadline came, whatever it waited for last; NULL: that says it. */
static const char *why_late(const struct request *request)
{
	return request->lacking > 0 ? "the origin had no such version before the deadline" : NULL;
}

void engine_make_late(struct engine *engine, struct request *request, const struct flight *flight)
{
	const char *why = why_late(request);
	if (why) {
		engine_make_ready(engine, request, STATUS_TIMEOUT, why);
		return;
	}
	switch (flight->state) {
	case FLIGHT_QUEUED:
	case FLIGHT_PERMITTING:
	case FLIGHT_BOOKED:
		if (flight->batch && flight->batch->state == BATCH_GATHERING)
			engine_make_ready(engine, request, STATUS_TIMEOUT,
					  "the batch was waiting for others still");
		else if (flight->away && engine->away)
			engine_make_ready(
				engine, request, STATUS_UNAVAILABLE,
				"the shared store is away, and this daemon's own share of "
				"the origin's budget came too late");
		else
			engine_make_ready(engine, request, STATUS_OVERLOADED,
					  "the origin had no room for the build in time");
		break;
	case FLIGHT_LOADING:
	case FLIGHT_LEASING:
	case FLIGHT_GIVING:
	case FLIGHT_SETTLING:
		engine_make_ready(engine, request, STATUS_TIMEOUT,
				  "the store had not answered before the deadline");
		break;
	case FLIGHT_HELD:
		engine_make_ready(engine, request, STATUS_TIMEOUT,
				  "another's build had not ended before the deadline");
		break;
	case FLIGHT_BUILDING:
	case FLIGHT_DONE:
		engine_make_ready(engine, request, STATUS_TIMEOUT,
				  "the build had not ended before the deadline");
		break;
	}
}

/* No value came of it: a stale one if there is one by now, else the default, else the error. */
static void answer_failure(struct engine *engine, const struct request *request,
			   const struct failure *failure, int64_t now_us, struct answer *ret_answer)
{
	const struct query *query = &request->query;
	struct near_entry *ne = engine_near(engine, &query->key);
	if (ne && answer_may_be_stale(query, &ne->entry, now_us)) {
		answer_stale(ret_answer, &ne->entry, now_us, SOURCE_NEAR,
			     answer_reason_of(failure->status));
		return;
	}
	int64_t retry_us = failure->retry_in_us;
	if (failure->until_us != 0)
		retry_us = failure->until_us > now_us ? failure->until_us - now_us : 0;
	bool in_vain = failure->status == STATUS_OVERLOADED ||
		       (failure->status == STATUS_UNAVAILABLE && !engine->stopping);
	if (in_vain && retry_us <= 0)
		retry_us = permits_patience_us(
			&engine->permits,
			(uint64_t)engine->bulkhead.queued + engine->permits.waiting, now_us);
	answer_without_value(ret_answer, query, failure->status, failure->text, retry_us);
	if (ret_answer->status != STATUS_OK && !ret_answer->text && failure->why) {
		ret_answer->text = failure->why;
		ret_answer->text_len = (uint32_t)strlen(failure->why);
	}
	count_refusal(engine, query->key.keyspace, ret_answer);
}

/* The version that was asked for is not there yet: whoever writes it has not committed. A refresh
   call is told which there is; a get goes on waiting. */
static bool lacks_version(const struct query *query, const struct entry *result)
{
	return query->kind == QUERY_GET && query->has_min_version &&
	       query->key.keyspace->policy->single_row && result->has_version &&
	       result->version < query->min_version;
}

/* Whether the flight's result is an answer to this request, which is then filled in. */
static bool answer_result(const struct request *request, const struct flight *flight,
			  int64_t now_us, struct answer *ret_answer)
{
	const struct query *query = &request->query;
	const struct entry *result = &flight->result;
	bool single_row = query->key.keyspace->policy->single_row;
	bool after = flight_built_after(flight, request) && !lacks_version(query, result);
	if (query->kind == QUERY_REFRESH) {
		bool enough = flight->saved && !flight_is_dirty(flight) &&
			      engine_is_enough(query, result, now_us);
		answer_refreshed(ret_answer, result);
		ret_answer->built = flight->build_seq != 0;
		ret_answer->joined = request->joined;
		return after || enough;
	}
	bool covered =
		!query->has_min_version || entry_covers(result, query->min_version, single_row);
	bool anyone = flight->saved && !flight_is_dirty(flight) && covered;
	if (after || (anyone && entry_phase(result, now_us) == ENTRY_FRESH)) {
		answer_fresh(ret_answer, result, now_us, flight->source);
		ret_answer->reason = after ? REASON_NONE : flight->reason;
		ret_answer->after = after;
		if (!anyone)
			ret_answer->ttl_us = 0;
		return true;
	}
	bool may_stale = covered && flight->saved && !flight_is_forbidden(flight) &&
			 answer_may_be_stale(query, result, now_us);
	if (may_stale)
		answer_stale(ret_answer, result, now_us, flight->source,
			     result->changed ? REASON_CHANGED : REASON_REFRESHING);
	return may_stale;
}

static enum engine_wake wake_ready(struct engine *engine, int64_t now_us,
				   struct request **ret_request, struct answer *ret_answer)
{
	struct list_node *node = list_first(&engine->ready);
	struct request *request = container_of(node, struct request, node);
	engine_take_out(engine, request);
	engine_count_out(engine, request);
	answer_failure(engine, request, &(struct failure){ .status = request->refused }, now_us,
		       ret_answer);
	if (ret_answer->status != STATUS_OK && request->why) {
		ret_answer->text = request->why;
		ret_answer->text_len = (uint32_t)strlen(request->why);
	}
	*ret_request = request;
	return WAKE_ANSWER;
}

/* One waiter looks whether the near cache has its answer by now; else it goes on waiting. */
static enum engine_wake wake_looking(struct engine *engine, int64_t now_us,
				     struct request **ret_request, struct answer *ret_answer,
				     struct effects *effects)
{
	struct flight *flight = container_of(list_first(&engine->looking), struct flight, looking);
	struct list_node *node = list_pop_front(&flight->waiters);
	if (!node || --flight->looks == 0)
		list_remove(&engine->looking, &flight->looking);
	if (!node)
		return WAKE_MOVED;
	struct request *request = container_of(node, struct request, node);
	struct near_entry *ne = engine_near(engine, &request->query.key);
	bool plain = request->query.kind == QUERY_GET && !request->query.has_min_version;
	bool unsaved = flight->state == FLIGHT_SETTLING && flight->has_result;
	if (unsaved && answer_result(request, flight, now_us, ret_answer)) {
		ret_answer->ttl_us = 0; /* whether it may be kept is not known yet */
	} else if (plain && ne && entry_phase(&ne->entry, now_us) == ENTRY_FRESH) {
		answer_fresh(ret_answer, &ne->entry, now_us,
			     flight->gives ? SOURCE_NEAR : SOURCE_STORE);
	} else if (engine_lookup(engine, &request->query, now_us, ret_answer) != ENGINE_MISS) {
		ret_answer->source = SOURCE_STORE;
	} else {
		list_push_back(&flight->waiters, node);
		return WAKE_MOVED;
	}
	heap_remove(&engine->deadlines, &request->deadline);
	engine_count_out(engine, request);
	*ret_request = request;
	course_on_left(engine, flight, now_us, effects);
	return WAKE_ANSWER;
}

/* A stale answer starts a refresh, as one from the near cache does, if there is room. */
static void refresh_behind(struct engine *engine, const struct request *request, int64_t now_us,
			   struct effects *effects)
{
	const struct key *key = &request->query.key;
	const struct near_entry *ne = near_find(&engine->near, key);
	if (engine->stopping || engine_flight(engine, key) || !ne || now_us < ne->retry_at_us)
		return;
	struct flight *flight = course_start(engine, key, PRIORITY_REFRESH, 0, now_us, effects);
	if (flight)
		ledger_begin(engine, flight, &request->query, PRIORITY_REFRESH, now_us);
	course_advance(engine, now_us, effects);
}

/* It joined while the flight was giving its lease back, for want of room or because nobody waited:
   that is no answer to it. What the origin reported is. */
static bool came_too_late(const struct engine *engine, const struct flight *flight,
			  const struct request *request)
{
	return flight->settle_seq != 0 && request->seq > flight->settle_seq &&
	       flight->failure.until_us == 0 && !engine->stopping && request->deadline.in_heap;
}

enum engine_wake engine_wake(struct engine *engine, int64_t now_us, struct request **ret_request,
			     struct answer *ret_answer, struct effects *effects)
{
	effects->count = 0;
	if (!list_empty(&engine->ready))
		return wake_ready(engine, now_us, ret_request, ret_answer);
	if (!list_empty(&engine->looking))
		return wake_looking(engine, now_us, ret_request, ret_answer, effects);
	while (!list_empty(&engine->wake)) {
		struct flight *flight =
			container_of(list_first(&engine->wake), struct flight, link);
		struct list_node *node = list_first(&flight->waiters);
		if (!node) {
			list_remove(&engine->wake, &flight->link);
			landing_release(engine, flight);
			continue;
		}
		struct request *request = container_of(node, struct request, node);
		list_remove(&flight->waiters, node);
		*ret_request = request;
		if (!flight->has_result && came_too_late(engine, flight, request)) {
			ENGINE_COUNT(engine, request->query.key.keyspace, reasked);
			engine_join_or_start(engine, request, now_us, effects);
			course_advance(engine, now_us, effects);
			return WAKE_MOVED;
		} else if (!flight->has_result && flight->failure.status == STATUS_OK) {
			/* It ended without a word when nobody waited. */
			engine_make_ready(engine, request,
					  engine->stopping ? STATUS_UNAVAILABLE : STATUS_TIMEOUT,
					  engine->stopping ? FLIGHT_STOPPING : why_late(request));
			return WAKE_MOVED;
		} else if (!flight->has_result) {
			answer_failure(engine, request, &flight->failure, now_us, ret_answer);
		} else if (!answer_result(request, flight, now_us, ret_answer)) {
			request->reasks++;
			request->lacking += flight_built_after(flight, request) &&
					    lacks_version(&request->query, &flight->result);
			if (!request->deadline.in_heap) { /* it passed on the way here */
				engine_make_ready(engine, request, STATUS_TIMEOUT,
						  why_late(request));
				return WAKE_MOVED;
			}
			ENGINE_COUNT(engine, request->query.key.keyspace, reasked);
			engine_join_or_start(engine, request, now_us, effects);
			course_advance(engine, now_us, effects);
			return WAKE_MOVED;
		}
		heap_remove(&engine->deadlines, &request->deadline);
		engine_count_out(engine, request);
		if (ret_answer->status == STATUS_OK && (ret_answer->reason == REASON_CHANGED ||
							ret_answer->reason == REASON_REFRESHING))
			refresh_behind(engine, request, now_us, effects);
		return WAKE_ANSWER;
	}
	return WAKE_NOTHING;
}
