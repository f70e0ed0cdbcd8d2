#include "core/history.h"

/* An epoch of every keyspace: what was generated before it expires, one key after the other. What
   was built in the new history before this daemon heard of it stays: others have built it just now.
 */
static void expire_all(struct engine *engine, uint64_t history, int64_t now_us)
{
	struct keyspace *keyspace;
	for (uint32_t at = 0; (keyspace = roster_next_any(&engine->keyspaces, &at));) {
		int64_t fresh_us = keyspace->policy->fresh_us;
		struct epoch epoch = {
			.moment_us = now_us,
			.spread_us = fresh_us < HISTORY_SPREAD_US ? fresh_us : HISTORY_SPREAD_US,
			.history = history,
		};
		if (epochs_add(&keyspace->epochs, epoch))
			keyspace->generation++;
	}
}

static bool see(struct engine *engine, uint64_t history, int64_t now_us)
{
	if (history_is_later(engine->history, history)) {
		engine->counters.older_histories++;
		return false;
	}
	if (engine->history != 0) {
		engine->counters.histories++;
		expire_all(engine, history, now_us);
		ghosts_clear(&engine->near.ghosts);
	}
	engine->history = history;
	return true;
}

bool history_see_build(struct engine *engine, uint64_t history, int64_t generated_us)
{
	if (history == 0)
		return true;
	if (history != engine->history && !see(engine, history, generated_us))
		return false;
	if (engine->history_built_us < generated_us)
		engine->history_built_us = generated_us;
	return true;
}

bool history_see_entry(struct engine *engine, uint64_t history, int64_t generated_us)
{
	if (history == 0 || history == engine->history)
		return true;
	if (engine->history_built_us != 0 && !history_is_one_system(history, engine->history) &&
	    generated_us < engine->history_built_us + HISTORY_SILENCE_US) {
		engine->counters.other_histories++;
		return false;
	}
	return see(engine, history, generated_us);
}
