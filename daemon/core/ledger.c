#include "core/ledger.h"

static enum refresh_cause cause_of(const struct engine *engine, const struct query *query,
				   enum priority priority, int64_t now_us)
{
	if (query->kind == QUERY_REFRESH)
		return CAUSE_MANUAL;
	if (priority == PRIORITY_EARLY)
		return CAUSE_EARLY;
	if (priority == PRIORITY_WARM)
		return CAUSE_WARM;
	const struct near_entry *ne = near_find(&engine->near, &query->key);
	if (!ne || entry_phase(&ne->entry, now_us) == ENTRY_DEAD)
		return CAUSE_MISS;
	if (ne->entry.changed)
		return CAUSE_CHANGE;
	return entry_phase(&ne->entry, now_us) == ENTRY_STALE ? CAUSE_STALE : CAUSE_MISS;
}

void ledger_begin(const struct engine *engine, struct flight *flight, const struct query *query,
		  enum priority priority, int64_t now_us)
{
	flight->cause = cause_of(engine, query, priority, now_us);
	flight->has_trace = query->trace != NULL;
	if (query->trace)
		flight->trace = *query->trace;
}

static enum refresh_outcome outcome_of_failure(const struct flight *flight)
{
	switch (flight->failure.status) {
	case STATUS_OK:
		return OUTCOME_ELSEWHERE;
	case STATUS_TIMEOUT:
	case STATUS_OVERLOADED:
		return flight->last_deadline_us != 0 ? OUTCOME_REFUSED : OUTCOME_DROPPED;
	case STATUS_UNAVAILABLE:
		return OUTCOME_UNAVAILABLE;
	case STATUS_BAD_REQUEST:
	case STATUS_TOO_LARGE:
	case STATUS_UNKNOWN_METHOD:
	case STATUS_UNKNOWN_KEYSPACE:
	case STATUS_DENIED:
	case STATUS_ORIGIN_ERROR:
		return OUTCOME_FAILED;
	}
	return OUTCOME_FAILED;
}

static bool was_built(const struct flight *flight)
{
	return flight->has_result && flight->build_seq != 0;
}

enum refresh_outcome ledger_outcome(const struct engine *engine, const struct flight *flight)
{
	if (!flight->has_result)
		return outcome_of_failure(flight);
	if (!was_built(flight))
		return flight->reason == REASON_UNAVAILABLE ? OUTCOME_UNAVAILABLE : OUTCOME_FOUND;
	const struct near_entry *ne = near_find(&engine->near, &flight->key);
	bool single_row = flight->key.keyspace->policy->single_row;
	return ne && entry_is_same(&flight->result, &ne->entry, single_row) ? OUTCOME_UNCHANGED
									    : OUTCOME_CHANGED;
}

void ledger_enter(struct engine *engine, const struct flight *flight, enum refresh_outcome outcome)
{
	struct account *account = &flight->key.keyspace->account;
	account->refreshes[flight->cause][outcome]++;
	if (!flight->has_result && list_empty(&flight->waiters))
		ENGINE_COUNT(engine, flight->key.keyspace, background_dropped);
	if (!was_built(flight) || flight->awaited)
		return;
	struct near_entry *ne = near_find(&engine->near, &flight->key);
	bool kept = ne && ne->entry.fence == flight->result.fence;
	account->wasted[flight->cause] += !kept;
	if (kept) {
		ne->unread = true;
		ne->cause = (uint8_t)flight->cause;
	}
}
