#include "core/told.h"

#include "core/course.h"

/* The key has a new floor: what was built under a fence up to it is not fresh any more. */
void told_changed(struct engine *engine, const struct key *key, uint64_t floor, bool hard,
		  int64_t now_us)
{
	ENGINE_COUNT(engine, key->keyspace, changes);
	struct near_entry *ne = near_find(&engine->near, key);
	if (ne && ne->entry.fence <= floor && hard) {
		near_drop(&engine->near, ne, now_us);
	} else if (ne && ne->entry.fence <= floor) {
		entry_soft_expire(&ne->entry, now_us, key->keyspace->policy->stale_us);
		ne->next_at_us = ne->retry_at_us = 0;
	}
	struct flight *flight = engine_flight(engine, key);
	if (flight && flight->floor < floor)
		flight->floor = floor;
	if (flight && hard && flight->hard_floor < floor)
		flight->hard_floor = floor;
}

/* Another daemon stored something, or gave its lease back. */
void told_settled(struct engine *engine, const struct key *key, uint64_t fence, int64_t now_us,
		  struct effects *effects)
{
	struct near_entry *ne = near_find(&engine->near, key);
	if (ne && ne->entry.fence < fence) {
		ne->generation =
			key->keyspace->generation - 1; /* to be looked up before it is served */
		ne->trust = engine->trusts - 1;
		ne->retry_at_us = 0;
	}
	struct flight *flight = engine_flight(engine, key);
	if (flight && flight->told_fence < fence)
		flight->told_fence = fence;
	if (flight)
		course_on_told(engine, flight, now_us, effects);
}

/* Entries got while there was no trust are of another generation: each is looked up once more. */
void told_trusted(struct engine *engine, int64_t until_us, int64_t now_us)
{
	bool trusted = until_us > now_us;
	engine->trusted_until_us = trusted ? until_us : 0;
	if (engine->trusted && !trusted) {
		engine->counters.trust_lost++;
		engine->trusts++;
		struct keyspace *keyspace;
		for (uint32_t at = 0; (keyspace = roster_next_any(&engine->keyspaces, &at));)
			keyspace->generation++;
	}
	engine->trusted = trusted;
}
