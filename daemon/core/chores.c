#include "core/chores.h"

enum { ENTRIES_A_STEP = 16 };

/* ---- reload ------------------------------------------------------------------------------- */

void engine_begin(struct engine *engine, int64_t now_us)
{
	struct keyspace *keyspace;
	for (uint32_t at = 0; (keyspace = roster_next(&engine->keyspaces, &at));)
		keyspace_begin(keyspace, now_us);
}

enum reload_outcome engine_reload(struct engine *engine, const struct policy *policies,
				  uint32_t count, const struct engine_limits *limits,
				  int64_t now_us)
{
	if (limits->near_bytes_max < near_least(&engine->near))
		return RELOAD_NEAR;
	enum reload_outcome reload = roster_reload(&engine->keyspaces, policies, count, now_us);
	if (reload != RELOAD_OK)
		return reload;
	near_resize(&engine->near, limits->near_bytes_max);
	engine->limits.near_bytes_max = limits->near_bytes_max;
	engine->limits.requests_max = limits->requests_max;
	engine->limits.queue_max = engine->bulkhead.queue_max = limits->queue_max;
	if (!list_empty(&engine->keyspaces.removed))
		near_sweep_begin(&engine->near);
	return RELOAD_OK;
}

int engine_collect(struct engine *engine)
{
	return roster_collect(&engine->keyspaces);
}

/* ---- what it leaves ----------------------------------------------------------------------- */

bool chores_are_due(const struct engine *engine)
{
	return near_is_sweeping(&engine->near) || near_is_shrinking(&engine->near) ||
	       roster_has_gone(&engine->keyspaces);
}

void chores_do(struct engine *engine, int64_t now_us)
{
	near_sweep(&engine->near, ENTRIES_A_STEP, now_us);
	if (near_is_shrinking(&engine->near))
		near_shrink(&engine->near, ENTRIES_A_STEP, now_us);
}
