#include "core/pump.h"

#include <string.h>

#include "base/check.h"
#include "core/answer.h"
#include "core/history.h"
#include "core/warming.h"

void pump_init(struct pump *pump, struct engine *engine, const struct store *store,
	       const struct origin *origin, const struct pump_host *host)
{
	*pump = (struct pump){
		.engine = engine, .store = *store, .origin = *origin, .host = *host
	};
}

static int64_t now(const struct pump *pump)
{
	return pump->host.now_us(pump->host.impl);
}

/* ---- carrying out ------------------------------------------------------------------------ */

static void on_store_done(struct store_op *op);
static void on_renew_done(struct store_op *op);
static void on_permit_done(struct store_op *op);
static void on_free_done(struct store_op *op);
static void on_build_done(struct build *build);

static void submit(struct pump *pump, struct store_op *op, store_done_cb done)
{
	op->done = done;
	op->sent_at_us = now(pump);
	pump->store.submit(pump->store.impl, op);
}

static void carry_out_of_batch(struct pump *pump, enum effect_type type, struct batch *batch)
{
	batch->pump = pump;
	if (type == EFFECT_PERMIT) {
		submit(pump, &batch->op, on_permit_done);
	} else if (type == EFFECT_FREE) {
		submit(pump, &batch->free_op, on_free_done);
	} else if (type == EFFECT_BUILD) {
		batch->build->done = on_build_done;
		pump->origin.build(pump->origin.impl, batch->build);
	} else {
		CHECK(type == EFFECT_CANCEL);
		pump->origin.cancel(pump->origin.impl, batch->build);
	}
}

static void carry_out(struct pump *pump, const struct effects *effects)
{
	for (uint32_t i = 0; i < effects->count; i++) {
		const struct effect *effect = &effects->at[i];
		switch (effect->type) {
		case EFFECT_STORE:
			effect->flight->pump = pump;
			submit(pump, &effect->flight->op, on_store_done);
			break;
		case EFFECT_RENEW:
			effect->flight->pump = pump;
			submit(pump, &effect->flight->renew_op, on_renew_done);
			break;
		case EFFECT_PERMIT:
		case EFFECT_FREE:
		case EFFECT_BUILD:
		case EFFECT_CANCEL:
			carry_out_of_batch(pump, effect->type, effect->batch);
			break;
		}
	}
}

static void arm(struct pump *pump)
{
	int64_t at = engine_next_at(pump->engine);
	if (pump->stopping && !pump->stopped && pump->ops == 0 && engine_is_idle(pump->engine))
		at = 0; /* pump_turn reports the end */
	pump->host.wake_at(pump->host.impl, at);
}

static void dispatch(struct pump *pump, struct event *event)
{
	struct effects effects;
	event->now_us = now(pump);
	engine_step(pump->engine, event, &effects);
	carry_out(pump, &effects);
	arm(pump);
}

static void tell_regeneration(struct pump *pump, const struct flight *flight)
{
	const struct near_entry *ne = near_find(&pump->engine->near, &flight->key);
	int64_t built_at_us = flight->op.sent_at_us,
		waited_us = flight->leased_at_us - flight->lease_took_us - flight->wanted_at_us;
	pump->host.regenerated(
		pump->host.impl,
		&(struct regeneration){
			.flight = flight,
			.before = ne ? &ne->entry : NULL,
			.queue_us = waited_us + flight->begun_at_us - flight->leased_at_us,
			.lease_us = flight->lease_took_us,
			.build_us = built_at_us - flight->begun_at_us,
			.save_us = now(pump) - built_at_us,
		});
}

static void on_store_done(struct store_op *op)
{
	struct flight *flight = container_of(op, struct flight, op);
	if (flight->begun_at_us != 0 && flight->state == FLIGHT_SETTLING &&
	    flight->pump->host.regenerated)
		tell_regeneration(flight->pump, flight);
	dispatch(flight->pump, &(struct event){ .type = EVENT_STORE, .flight = flight });
}

static void on_renew_done(struct store_op *op)
{
	struct flight *flight = container_of(op, struct flight, renew_op);
	dispatch(flight->pump, &(struct event){ .type = EVENT_RENEWED, .flight = flight });
}

static void on_permit_done(struct store_op *op)
{
	struct batch *batch = container_of(op, struct batch, op);
	dispatch(batch->pump, &(struct event){ .type = EVENT_PERMIT, .batch = batch });
}

static void on_free_done(struct store_op *op)
{
	struct batch *batch = container_of(op, struct batch, free_op);
	dispatch(batch->pump, &(struct event){ .type = EVENT_FREED, .batch = batch });
}

static void on_build_done(struct build *build)
{
	struct batch *batch = container_of(build, struct flight, build)->batch;
	dispatch(batch->pump, &(struct event){ .type = EVENT_BUILT, .batch = batch });
}

/* ---- requests ---------------------------------------------------------------------------- */

static bool start_refresh(struct pump *pump, const struct query *query, enum priority priority,
			  int64_t patient_until_us, bool again)
{
	struct refresh_event refresh = { .key = query->key,
					 .query = query,
					 .newer = priority == PRIORITY_EARLY,
					 .priority = priority,
					 .patient_until_us = patient_until_us,
					 .again = again };
	dispatch(pump, &(struct event){ .type = EVENT_REFRESH, .refresh = &refresh });
	return refresh.joined;
}

/* A hit that is due for a refresh starts none where one is under way: of that it wants nothing,
   unless it is postponed, or less urgent than a crowd. So all but the first of a stale key's hits
   are plain calls, too. */
static void refresh_behind(struct pump *pump, const struct query *query, enum priority priority,
			   int64_t patient_until_us)
{
	bool plain = query->kind == QUERY_GET && !query->has_min_version;
	const struct flight *flight = plain ? engine_flight(pump->engine, &query->key) : NULL;
	bool is_crowd = priority == PRIORITY_CROWD;
	if (!flight || flight->is_postponed || (is_crowd && flight->priority != PRIORITY_CROWD))
		start_refresh(pump, query, priority, patient_until_us, false);
}

/* wait_us 0: the answer is now what is at hand; the flight goes on as long as the keyspace's own
   deadline would have waited for it. */
static void answer_now(struct pump *pump, const struct query *query, int64_t now_us,
		       struct answer *ret_answer)
{
	bool refresh = query->kind == QUERY_REFRESH;
	int64_t until_us = now_us + query->key.keyspace->policy->wait_us;
	bool joined = start_refresh(pump, query, refresh ? PRIORITY_REFRESH : PRIORITY_MISS,
				    until_us, refresh);
	if (refresh)
		*ret_answer =
			(struct answer){ .status = STATUS_OK, .queued = true, .joined = joined };
	else
		answer_without_value(ret_answer, query, STATUS_TIMEOUT, NULL, 0);
}

static bool key_fits(struct pump *pump, const struct query *query, struct answer *ret_answer)
{
	if (!pump->origin.check_key)
		return true;
	enum status status = pump->origin.check_key(pump->origin.impl, &query->key, pump->text,
						    sizeof(pump->text));
	if (status != STATUS_OK)
		*ret_answer = (struct answer){ .status = status,
					       .text = pump->text,
					       .text_len = (uint32_t)strlen(pump->text) };
	return status == STATUS_OK;
}

static enum lookup look_up(struct pump *pump, const struct query *query, int64_t now_us,
			   struct answer *ret_answer)
{
	switch (engine_lookup(pump->engine, query, now_us, ret_answer)) {
	case ENGINE_HIT:
		return LOOKUP_ANSWER;
	case ENGINE_HIT_REFRESH:
		refresh_behind(pump, query, PRIORITY_REFRESH, 0);
		return LOOKUP_ANSWER;
	case ENGINE_HIT_EARLY:
		refresh_behind(pump, query, PRIORITY_EARLY, 0);
		return LOOKUP_ANSWER;
	case ENGINE_HIT_CROWD:
		refresh_behind(pump, query, PRIORITY_CROWD,
			       now_us + query->key.keyspace->policy->wait_us);
		return LOOKUP_ANSWER;
	case ENGINE_MISS:
		break;
	}
	if (!key_fits(pump, query, ret_answer))
		return LOOKUP_ANSWER;
	if (query->wait_us > 0)
		return LOOKUP_WAIT;
	answer_now(pump, query, now_us, ret_answer);
	return LOOKUP_ANSWER;
}

static void count(const struct query *query, const struct answer *answer)
{
	if (query->kind == QUERY_GET)
		account_answer(&query->key.keyspace->account, answer);
}

enum lookup pump_lookup(struct pump *pump, const struct query *query, int64_t now_us,
			struct answer *ret_answer)
{
	enum lookup lookup = look_up(pump, query, now_us, ret_answer);
	if (lookup == LOOKUP_ANSWER)
		count(query, ret_answer);
	return lookup;
}

void pump_submit(struct pump *pump, struct request *request)
{
	CHECK(request->query.wait_us > 0);
	request->query.key.keyspace->account.waiting++;
	dispatch(pump, &(struct event){ .type = EVENT_ASK, .request = request });
}

void pump_abandon(struct pump *pump, struct request *request)
{
	request->query.key.keyspace->account.waiting--;
	dispatch(pump, &(struct event){ .type = EVENT_LEAVE, .request = request });
}

/* ---- what the store tells ----------------------------------------------------------------- */

/* The key by its bytes, which come from outside. False: no keyspace of ours. */
static bool find_key(struct pump *pump, const char *bytes, size_t len, struct key *ret_key)
{
	const char *colon = memchr(bytes, ':', len);
	size_t name_len = colon ? (size_t)(colon - bytes) : len;
	struct keyspace *keyspace = roster_find_any(&pump->engine->keyspaces, bytes, name_len);
	if (keyspace)
		engine_key(pump->engine, keyspace, bytes, len, ret_key);
	return keyspace != NULL;
}

static void on_settled(void *impl, const char *bytes, size_t len, uint64_t fence)
{
	struct event event = { .type = EVENT_SETTLED, .told = { .fence = fence } };
	if (find_key(impl, bytes, len, &event.told.key))
		dispatch(impl, &event);
}

static void on_changed(void *impl, const char *bytes, size_t len, uint64_t floor, bool hard)
{
	struct event event = { .type = EVENT_CHANGED, .told = { .fence = floor, .hard = hard } };
	if (find_key(impl, bytes, len, &event.told.key))
		dispatch(impl, &event);
}

static void on_row_changed(void *impl, const char *bytes, size_t len,
			   const struct row_change *change)
{
	struct event event = { .type = EVENT_ROW, .row = { .change = change } };
	if (find_key(impl, bytes, len, &event.row.key))
		dispatch(impl, &event);
}

static void on_emptied(void *impl)
{
	dispatch(impl, &(struct event){ .type = EVENT_EMPTIED });
}

static void on_trusted(void *impl, int64_t until_us)
{
	dispatch(impl, &(struct event){ .type = EVENT_TRUSTED, .until_us = until_us });
}

static void on_epoch(void *impl, const char *name, size_t len, int64_t moment_us, int64_t spread_us)
{
	struct pump *pump = impl;
	struct keyspace *keyspace = roster_find_any(&pump->engine->keyspaces, name, len);
	if (keyspace)
		dispatch(pump,
			 &(struct event){ .type = EVENT_EPOCH,
					  .epoch = { keyspace, { moment_us, spread_us, 0 } } });
}

static void on_defined(void *impl, const char *name, size_t len, uint64_t definition,
		       int64_t moment_us, int64_t spread_us)
{
	struct pump *pump = impl;
	struct keyspace *keyspace = engine_keyspace(pump->engine, name, len);
	if (keyspace)
		dispatch(pump,
			 &(struct event){
				 .type = EVENT_DEFINED,
				 .defined = { keyspace, definition, { moment_us, spread_us } } });
}

struct store_listener pump_listener(struct pump *pump)
{
	return (struct store_listener){ .impl = pump,
					.settled = on_settled,
					.changed = on_changed,
					.row_changed = on_row_changed,
					.epoch = on_epoch,
					.defined = on_defined,
					.emptied = on_emptied,
					.trusted = on_trusted };
}

int64_t pump_now_us(struct pump *pump)
{
	int64_t now_us = now(pump);
	struct engine *engine = pump->engine;
	if (engine->trusted && now_us >= engine->trusted_until_us)
		on_trusted(pump, 0);
	return now_us;
}

/* ---- reloading --------------------------------------------------------------------------- */

void pump_begin(struct pump *pump)
{
	engine_begin(pump->engine, now(pump));
}

enum reload_outcome pump_reload(struct pump *pump, const struct policy *policies, uint32_t count,
				const struct engine_limits *limits)
{
	enum reload_outcome reload =
		engine_reload(pump->engine, policies, count, limits, now(pump));
	if (reload == RELOAD_OK)
		arm(pump);
	return reload;
}

/* Of removed keyspaces nothing is left. */
static void collect(struct pump *pump)
{
	int index;
	while ((index = engine_collect(pump->engine)) >= 0)
		if (pump->origin.forget)
			pump->origin.forget(pump->origin.impl, (uint32_t)index);
}

/* ---- invalidating and inspecting --------------------------------------------------------- */

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
	/* Here it holds in any case: a lost answer may have been carried out. */
	dispatch(pump, &(struct event){ .type = EVENT_CHANGED,
					.told = { .key = invalidation->key,
						  .fence = op->outcome == STORE_DONE ? op->fence
										     : UINT64_MAX,
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
	on_epoch(pump, name, strlen(name), told ? op->moment_us : now(pump), op->length_us);
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

static void inspect_here(struct pump *pump, struct inspection *inspection)
{
	inspection->now_us = now(pump);
	struct near_entry *ne = engine_near(pump->engine, &inspection->key);
	inspection->has_near = ne != NULL;
	if (ne)
		inspection->near = ne->entry;
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
	inspection->claim_held_us = op->left_us;
	inspection->has_failure = op->has_failure;
	inspection->failure = op->failure;
	/* `done` may free the inspection, and the operation in it. */
	struct value *value = op->entry.value, *text = op->failure.text;
	inspection->done(inspection);
	value_unref(value);
	value_unref(text);
	arm(pump);
}

void pump_inspect(struct pump *pump, struct inspection *inspection)
{
	begin_op(pump, inspection->key.keyspace);
	inspection->pump = pump;
	inspection->op = (struct store_op){ .verb = STORE_LOAD,
					    .key = inspection->key,
					    .done = on_inspect_done };
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

static bool is_fresh_here(struct pump *pump, const struct look *look, int64_t now_us)
{
	const struct near_entry *ne = engine_near(pump->engine, &look->key);
	return ne && ne->generation == look->key.keyspace->generation &&
	       entry_phase(&ne->entry, now_us) == ENTRY_FRESH;
}

static enum look_outcome outcome_of(struct pump *pump, struct look *look)
{
	struct store_op *op = &look->op;
	int64_t now_us = now(pump);
	if (op->outcome != STORE_DONE || op->away)
		return LOOK_AWAY;
	if (look->alone ? is_fresh_here(pump, look, now_us) : is_fresh_there(pump, look, now_us))
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
	arm(pump);
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
	dispatch(pump, &(struct event){ .type = EVENT_REFRESH, .refresh = &refresh });
}

void pump_warm(struct pump *pump, struct warming *warming)
{
	begin_op(pump, warming->keys[0].key.keyspace);
	warming->pump = pump;
	dispatch(pump, &(struct event){ .type = EVENT_WARM, .warming = warming });
}

static void tell_warmed(struct pump *pump)
{
	struct warming *warming;
	for (int i = 0; i < WAKE_BATCH && (warming = engine_warmed(pump->engine)); i++) {
		end_op(pump, warming->keys[0].key.keyspace);
		warming->done(warming);
	}
}

/* ---- turns ------------------------------------------------------------------------------- */

static void tick(struct pump *pump, int64_t now_us)
{
	for (int i = 0; i < WAKE_BATCH && engine_next_at(pump->engine) <= now_us; i++) {
		struct effects effects;
		enum event_type type = pump->stopping ? EVENT_STOP : EVENT_TICK;
		/* Stopping or not, deadlines and timers go on. */
		engine_step(pump->engine, &(struct event){ .type = type, .now_us = now_us },
			    &effects);
		carry_out(pump, &effects);
		if (!pump->stopping)
			continue;
		engine_step(pump->engine, &(struct event){ .type = EVENT_TICK, .now_us = now_us },
			    &effects);
		carry_out(pump, &effects);
	}
}

static void wake(struct pump *pump, int64_t now_us)
{
	for (int i = 0; i < WAKE_BATCH; i++) {
		struct request *request;
		struct answer answer;
		struct effects effects;
		enum engine_wake woken =
			engine_wake(pump->engine, now_us, &request, &answer, &effects);
		carry_out(pump, &effects);
		if (woken == WAKE_NOTHING)
			return;
		if (woken == WAKE_ANSWER) {
			request->query.key.keyspace->account.waiting--;
			count(&request->query, &answer);
			request->answer(request, &answer);
		}
	}
}

void pump_turn(struct pump *pump)
{
	int64_t now_us = now(pump);
	tick(pump, now_us);
	collect(pump);
	wake(pump, now_us);
	tell_warmed(pump);
	if (pump->stopping && !pump->stopped && pump->ops == 0 && engine_is_idle(pump->engine)) {
		pump->stopped = true;
		pump->host.stopped(pump->host.impl);
		return;
	}
	arm(pump);
}

void pump_stop(struct pump *pump)
{
	pump->stopping = true;
	dispatch(pump, &(struct event){ .type = EVENT_STOP });
}
