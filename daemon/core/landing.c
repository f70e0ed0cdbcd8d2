#include "core/landing.h"

#include "base/check.h"
#include "core/answer.h"
#include "core/boarding.h"
#include "core/calls.h"
#include "core/changing.h"
#include "core/course.h"
#include "core/giving.h"
#include "core/ledger.h"
#include "core/loading.h"
#include "core/schedule.h"
#include "core/warming.h"

/* A stale entry whose refresh found no room, or failed without a time, waits up to so long. */
enum { DROPPED_RETRY_US = 50 * 1000 };

void landing_leave_lines(struct engine *engine, struct flight *flight)
{
	heap_remove(&engine->timers, &flight->timer);
	boarding_leave(engine, flight);
}

/* A build of an earlier history says nothing of what is old. */
void landing_outdate(struct engine *engine, const struct flight *flight, int64_t now_us)
{
	const struct entry *result = &flight->result;
	struct near_entry *ne = near_find(&engine->near, &flight->key);
	if (!flight->key.keyspace->policy->single_row || !result->has_version ||
	    history_is_later(engine->history, result->history))
		return;
	ghosts_note(&engine->near.ghosts, flight->key.hash ^ result->definition, result->version,
		    entry_matters_until(result, flight->key.keyspace->policy), now_us);
	if (ne && ne->entry.has_version && ne->entry.definition == result->definition &&
	    ne->entry.version < result->version)
		near_remove(&engine->near, ne);
}

/* Whether what is near is better than what was built. Then building again would bring the same, as
   where versions have begun anew: it is not tried more often than a row that changes all the time.
 */
static bool is_beaten(const struct flight *flight, struct near_entry *ne, int64_t now_us)
{
	if (!ne || entry_phase(&ne->entry, now_us) == ENTRY_DEAD ||
	    entry_supersedes(&flight->result, &ne->entry, flight->key.keyspace->policy->single_row))
		return false;
	if (flight->build_seq != 0)
		ne->retry_at_us = now_us + CHANGING_AGAIN_US;
	return true;
}

/* The near cache takes the result, unless it has better. */
static void keep_result(struct engine *engine, struct flight *flight, int64_t now_us)
{
	const struct policy *policy = flight->key.keyspace->policy;
	struct near_entry *ne = near_find(&engine->near, &flight->key);
	if (is_beaten(flight, ne, now_us))
		return;
	bool overtaken = flight_is_dirty(flight);
	if (overtaken) {
		if (flight_is_forbidden(flight)) {
			landing_outdate(engine, flight, now_us);
			return;
		}
		entry_soft_expire(&flight->result, now_us, policy->stale_us);
	}
	keyspace_judge(flight->key.keyspace, &flight->result,
		       key_public_hash(flight->key.bytes, flight->key.len));
	ne = near_put(&engine->near, &flight->key, &flight->result, now_us);
	if (ne && overtaken && flight->told_of_row && flight->build_seq != 0)
		ne->retry_at_us = flight->result.generated_at_us + CHANGING_AGAIN_US;
	if (ne)
		loading_confirm(engine, ne,
				calls_are_vouched(engine, flight, flight->result.fence));
	else
		landing_outdate(engine, flight, now_us);
}

/* A refresh that brought nothing: the stale entry says why, and waits before the next. */
static void keep_failure(struct engine *engine, struct flight *flight, int64_t now_us)
{
	struct near_entry *ne = near_find(&engine->near, &flight->key);
	if (!ne || flight->failure.status == STATUS_BAD_REQUEST)
		return;
	if (flight->has_result && is_beaten(flight, ne, now_us))
		return;
	int64_t wait = flight->failure.retry_in_us;
	if (flight->failure.until_us > now_us)
		wait = flight->failure.until_us - now_us;
	if (wait < DROPPED_RETRY_US)
		wait = rng_between(&engine->rng, DROPPED_RETRY_US / 2, DROPPED_RETRY_US);
	ne->retry_at_us = now_us + wait;
	/* Without a failure another daemon is at it. */
	ne->trouble = answer_reason_of(flight->failure.status);
}

void landing_finish(struct engine *engine, struct flight *flight, int64_t now_us,
		    struct effects *effects)
{
	CHECK(!flight->has_lease);
	landing_leave_lines(engine, flight);
	enum refresh_outcome outcome = ledger_outcome(engine, flight);
	struct keyspace *keyspace = flight->key.keyspace;
	if (flight->has_result && flight->build_seq != 0)
		keyspace->refresh_us =
			schedule_smooth(keyspace->refresh_us, now_us - flight->created_at_us);
	if (flight->has_result && flight->saved)
		keep_result(engine, flight, now_us);
	else
		keep_failure(engine, flight, now_us);
	if (flight->has_result && !flight->saved)
		landing_outdate(engine, flight, now_us);
	ledger_enter(engine, flight, outcome);
	if (flight->warming)
		warming_on_landed(engine, flight, outcome);
	giving_end(engine, flight);
	flight_move(flight, FLIGHT_DONE);
	flight->looks = 0;
	if (list_linked(&flight->looking))
		list_remove(&engine->looking, &flight->looking);
	table_remove(&engine->flights, &flight->node);
	list_push_back(&engine->wake, &flight->link);
	if (flight->again && now_us < flight->again_until_us && !engine->stopping) {
		struct flight *next =
			course_start(engine, &flight->key, PRIORITY_REFRESH, 0, now_us, effects);
		if (next) {
			next->cause = CAUSE_MANUAL;
			next->want_newer = true;
			next->patient_until_us = flight->again_until_us;
			next->has_trace = flight->again_has_trace;
			next->trace = flight->again_trace;
		}
	}
}

void landing_release(struct engine *engine, struct flight *flight)
{
	if (flight->state != FLIGHT_DONE || flight->calls > 0 || !list_empty(&flight->waiters))
		return;
	if (list_linked(&flight->link))
		list_remove(&engine->wake, &flight->link);
	list_remove(&engine->all, &flight->all);
	engine->fetching -= flight->looks_only;
	engine->key_bytes -= flight->key.len;
	flight_free(flight);
}
