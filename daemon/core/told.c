#include "core/told.h"

#include "core/course.h"
#include "core/giving.h"
#include "core/loading.h"

/* Another daemon stored something, or gave its lease back. */
void told_settled(struct engine *engine, const struct key *key, uint64_t fence, int64_t now_us,
		  struct effects *effects)
{
	struct near_entry *ne = near_find(&engine->near, key);
	if (ne && ne->entry.fence < fence) {
		ne->generation =
			key->keyspace->generation - 1; /* to be looked up before it is served */
		ne->trust = loading_no_trust(engine);
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
		engine->trusts_broken = ++engine->trusts;
		near_walk_end(&engine->near);
		struct keyspace *keyspace;
		for (uint32_t at = 0; (keyspace = roster_next_any(&engine->keyspaces, &at));)
			keyspace->generation++;
	}
	engine->trusted = trusted;
	giving_on_beat(engine);
}
