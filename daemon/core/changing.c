#include "core/changing.h"

#include "core/course.h"
#include "core/ledger.h"

/* Whether it is likely to be asked for while it may be served stale: by how often it was until now.
 */
static bool is_hot(const struct near_entry *ne, int64_t now_us)
{
	int64_t stale_us = ne->keyspace->policy->stale_us;
	double age_us = (double)(now_us - ne->put_at_us);
	if (stale_us < CHANGING_AGAIN_US)
		stale_us = CHANGING_AGAIN_US;
	return (double)ne->hits * (double)stale_us > age_us && ne->hits > 0;
}

static void tell_flight(struct flight *flight, const struct row_change *change)
{
	row_change_join(&flight->told, change, flight->key.keyspace->policy->single_row);
	if (change->hard && flight->hard_floor < change->floor)
		flight->hard_floor = change->floor;
}

static void change_near(struct engine *engine, struct near_entry *ne,
			const struct row_change *change, int64_t now_us)
{
	const struct policy *policy = ne->keyspace->policy;
	if (change->hard) {
		near_drop(&engine->near, ne, now_us);
		return;
	}
	/* Overtaken while it was built, it has its time for the next try already. */
	if (!ne->entry.changed)
		ne->retry_at_us = 0;
	entry_soft_expire(&ne->entry, now_us, policy->stale_us);
	ne->next_at_us = 0;
}

void changing_on_invalidated(struct engine *engine, const struct key *key, uint64_t floor,
			     bool hard, int64_t now_us)
{
	const struct row_change change = { .floor = floor, .hard = hard };
	struct near_entry *ne = near_find(&engine->near, key);
	struct flight *flight = engine_flight(engine, key);
	ENGINE_COUNT(engine, key->keyspace, changes);
	if (ne && (ne->entry.fence <= floor || ne->entry.own_fence))
		change_near(engine, ne, &change, now_us);
	if (flight)
		tell_flight(flight, &change);
}

static void refresh(struct engine *engine, const struct key *key, int64_t now_us,
		    struct effects *effects)
{
	struct flight *flight = course_start(engine, key, PRIORITY_REFRESH, 0, now_us, effects);
	if (flight)
		flight->cause = CAUSE_CHANGE;
	else
		ENGINE_COUNT(engine, key->keyspace, background_dropped);
}

void changing_on_row(struct engine *engine, const struct key *key, const struct row_change *change,
		     int64_t now_us, struct effects *effects)
{
	const struct policy *policy = key->keyspace->policy;
	struct near_entry *ne = near_find(&engine->near, key);
	struct flight *flight = engine_flight(engine, key);
	bool wanted = false;
	ENGINE_COUNT(engine, key->keyspace, changes);
	if (flight) {
		tell_flight(flight, change);
		flight->told_of_row = true;
		course_hurry(engine, flight, now_us, effects);
	}
	if (ne && !row_change_is_in(change, &ne->entry, policy->single_row)) {
		wanted = policy->on_change == ON_CHANGE_REFRESH && is_hot(ne, now_us) &&
			 now_us - ne->put_at_us >= CHANGING_AGAIN_US;
		change_near(engine, ne, change, now_us);
	}
	if (wanted && !flight && !engine->stopping)
		refresh(engine, key, now_us, effects);
}
