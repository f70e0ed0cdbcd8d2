#include "core/history.h"

/* An epoch of every keyspace: what was generated before it expires, one key after the other. */
static void expire_all(struct engine *engine, int64_t now_us)
{
	struct keyspace *keyspace;
	for (uint32_t at = 0; (keyspace = roster_next_any(&engine->keyspaces, &at));) {
		int64_t fresh_us = keyspace->policy->fresh_us;
		struct epoch epoch = {
			.moment_us = now_us,
			.spread_us = fresh_us < HISTORY_SPREAD_US ? fresh_us : HISTORY_SPREAD_US,
		};
		if (epochs_add(&keyspace->epochs, epoch))
			keyspace->generation++;
	}
}

bool history_see(struct engine *engine, uint64_t history, int64_t now_us)
{
	if (history == 0 || history == engine->history)
		return true;
	if (history_is_later(engine->history, history)) {
		engine->counters.older_histories++;
		return false;
	}
	if (engine->history != 0) {
		engine->counters.histories++;
		expire_all(engine, now_us);
		ghosts_clear(&engine->near.ghosts);
	}
	engine->history = history;
	return true;
}
