/* What the pump does that no request waits for: invalidations, inspections, looks, warmings. */
#include <string.h>

#include "core/history.h"
#include "core/pump_inside.h"
#include "core/warming.h"

static void begin_op(struct pump *pump, struct keyspace *keyspace)
{
	pump->ops++;
	keyspace->users++;
}

static void end_op(struct pump *pump, struct keyspace *keyspace)
{
	pump->ops--;
	keyspace->users--;
}

static void on_invalidate_done(struct store_op *op)
{
	struct invalidation *invalidation = container_of(op, struct invalidation, op);
	struct pump *pump = invalidation->pump;
	end_op(pump, invalidation->key.keyspace);
	invalidation->status = op->outcome == STORE_DONE ? STATUS_OK : STATUS_UNAVAILABLE;
	pump_tell_changed(pump, &invalidation->key, op->outcome == STORE_DONE ? op->fence : 0,
			  invalidation->hard ? "invalidated_hard" : "invalidated");
	/* Here it holds in any case: a lost answer may have been carried out. */
	pump_dispatch(pump,
		      &(struct event){
			      .type = EVENT_CHANGED,
			      .told = { .key = invalidation->key,
					.fence = op->outcome == STORE_DONE ? op->fence : UINT64_MAX,
					.hard = invalidation->hard } });
	invalidation->done(invalidation);
}

void pump_invalidate(struct pump *pump, struct invalidation *invalidation)
{
	begin_op(pump, invalidation->key.keyspace);
	invalidation->pump = pump;
	invalidation->op = (struct store_op){ .verb = STORE_INVALIDATE,
					      .key = invalidation->key,
					      .hard = invalidation->hard,
					      .done = on_invalidate_done };
	pump->store.submit(pump->store.impl, &invalidation->op);
}

static void on_epoch_done(struct store_op *op)
{
	struct invalidation *invalidation = container_of(op, struct invalidation, op);
	struct pump *pump = invalidation->pump;
	const char *name = invalidation->key.keyspace->policy->name;
	bool told = op->outcome == STORE_DONE;
	end_op(pump, invalidation->key.keyspace);
	invalidation->status = told ? STATUS_OK : STATUS_UNAVAILABLE;
	pump_on_epoch(pump, name, strlen(name), told ? op->moment_us : pump_now(pump),
		      op->length_us);
	invalidation->done(invalidation);
}

void pump_invalidate_keyspace(struct pump *pump, struct invalidation *invalidation)
{
	begin_op(pump, invalidation->key.keyspace);
	invalidation->pump = pump;
	invalidation->op = (struct store_op){ .verb = STORE_EPOCH,
					      .key = invalidation->key,
					      .length_us = invalidation->spread_us,
					      .done = on_epoch_done };
	pump->store.submit(pump->store.impl, &invalidation->op);
}

/* Nothing brings a refresh about sooner but a change, or a loss of trust. */
static void inspect_refresh(const struct near_entry *ne, struct inspection *inspection)
{
	int64_t now_us = inspection->now_us;
	bool is_fresh = now_us < ne->entry.fresh_until_us;
	int64_t at_us = is_fresh ? ne->next_at_us : ne->retry_at_us;
	inspection->refresh_in_us = at_us > now_us ? at_us - now_us : 0;
}

static void inspect_here(struct pump *pump, struct inspection *inspection)
{
	inspection->now_us = pump_now(pump);
	struct near_entry *ne = engine_near(pump->engine, &inspection->key);
	inspection->has_near = ne != NULL;
	if (ne)
		inspection->near = ne->entry;
	if (ne)
		inspect_refresh(ne, inspection);
	struct flight *flight = engine_flight(pump->engine, &inspection->key);
	inspection->has_flight = flight != NULL;
	if (flight) {
		inspection->flight_state = flight_state_name(flight->state);
		inspection->flight_age_us = inspection->now_us - flight->created_at_us;
		inspection->flight_waiters = (uint32_t)flight->waiters.count;
		inspection->flight_keys =
			flight->batch ? (uint32_t)flight->batch->members.count : 1;
	}
}

static void on_inspect_done(struct store_op *op)
{
	struct inspection *inspection = container_of(op, struct inspection, op);
	struct pump *pump = inspection->pump;
	end_op(pump, inspection->key.keyspace);
	inspect_here(pump, inspection);
	inspection->store_outcome = op->outcome;
	inspection->has_store = op->has_entry;
	inspection->store = op->entry;
	inspection->has_claim = op->has_claim;
	inspection->claim_fence = op->fence;
	inspection->claim_floor = op->floor;
	inspection->claim_held_us = op->left_us;
	inspection->claim_age_us = op->lease_age_us;
	inspection->claim_holder = op->holder;
	inspection->has_failure = op->has_failure;
	inspection->failure = op->failure;
	/* `done` may free the inspection, and the operation in it. */
	struct value *value = op->entry.value, *text = op->failure.text;
	inspection->done(inspection);
	value_unref(value);
	value_unref(text);
	pump_arm(pump);
}

void pump_inspect(struct pump *pump, struct inspection *inspection)
{
	begin_op(pump, inspection->key.keyspace);
	inspection->pump = pump;
	inspection->op = (struct store_op){
		.verb = STORE_LOAD, .key = inspection->key, .holder = -1, .done = on_inspect_done
	};
	pump->store.submit(pump->store.impl, &inspection->op);
}

/* ---- warming up --------------------------------------------------------------------------- */

/* The entry's header, without its value. */
static bool is_fresh_there(struct pump *pump, struct look *look, int64_t now_us)
{
	struct store_op *op = &look->op;
	const struct engine *engine = pump->engine;
	if (!op->has_entry || history_is_later(engine->history, op->entry.history))
		return false;
	keyspace_judge(look->key.keyspace, &op->entry,
		       key_public_hash(look->key.bytes, look->key.len));
	return !op->entry.changed && entry_phase(&op->entry, now_us) == ENTRY_FRESH;
}

static enum look_outcome outcome_of(struct pump *pump, struct look *look)
{
	struct store_op *op = &look->op;
	int64_t now_us = pump_now(pump);
	if (op->outcome != STORE_DONE || op->away)
		return LOOK_AWAY;
	if (look->alone ? warming_is_fresh_here(pump->engine, &look->key, now_us)
			: is_fresh_there(pump, look, now_us))
		return LOOK_FRESH;
	if (!op->has_failure)
		return LOOK_MISSING;
	look->failure = op->failure;
	op->failure.text = NULL;
	return LOOK_FAILED;
}

static void on_look_done(struct store_op *op)
{
	struct look *look = container_of(op, struct look, op);
	struct pump *pump = look->pump;
	end_op(pump, look->key.keyspace);
	look->outcome = outcome_of(pump, look);
	value_unref(op->entry.value);
	value_unref(op->failure.text);
	look->done(look);
	pump_arm(pump);
}

void pump_look(struct pump *pump, struct look *look)
{
	begin_op(pump, look->key.keyspace);
	look->pump = pump;
	look->op = (struct store_op){ .verb = STORE_LOAD,
				      .key = look->key,
				      .known_fence = UINT64_MAX,
				      .done = on_look_done };
	pump->store.submit(pump->store.impl, &look->op);
}

void pump_fetch(struct pump *pump, const struct key *key)
{
	const struct query query = { .key = *key, .kind = QUERY_GET };
	struct refresh_event refresh = {
		.key = *key, .query = &query, .priority = PRIORITY_WARM, .looks_only = true
	};
	pump_dispatch(pump, &(struct event){ .type = EVENT_REFRESH, .refresh = &refresh });
}

void pump_warm(struct pump *pump, struct warming *warming)
{
	begin_op(pump, warming->keys[0].key.keyspace);
	warming->pump = pump;
	pump_dispatch(pump, &(struct event){ .type = EVENT_WARM, .warming = warming });
}

void pump_tell_warmed(struct pump *pump)
{
	struct warming *warming;
	for (int i = 0; i < WAKE_BATCH && (warming = engine_warmed(pump->engine)); i++) {
		end_op(pump, warming->keys[0].key.keyspace);
		warming->done(warming);
	}
}
