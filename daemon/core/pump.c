#include "core/pump.h"

#include <string.h>

#include "base/check.h"
#include "base/probes.h"
#include "core/answer.h"
#include "core/pump_inside.h"

void pump_init(struct pump *pump, struct engine *engine, const struct store *store,
	       const struct origin *origin, const struct pump_host *host)
{
	*pump = (struct pump){
		.engine = engine, .store = *store, .origin = *origin, .host = *host
	};
}

int64_t pump_now(const struct pump *pump)
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
	op->sent_at_us = pump_now(pump);
	pump->store.submit(pump->store.impl, op);
}

static bool is_heard(const struct pump *pump)
{
	return pump->listener.told != NULL;
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
		PROBE3(build_begin, batch->build->key.bytes, batch->build->key.len,
		       batch->members.count);
		if (is_heard(pump))
			moment_builds(&pump->listener, batch->build, pump_now(pump));
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

void pump_arm(struct pump *pump)
{
	int64_t at = engine_next_at(pump->engine);
	if (pump->stopping && !pump->stopped && pump->ops == 0 && engine_is_idle(pump->engine))
		at = 0; /* pump_turn reports the end */
	pump->host.wake_at(pump->host.impl, at);
}

void pump_dispatch(struct pump *pump, struct event *event)
{
	struct effects effects;
	event->now_us = pump_now(pump);
	engine_step(pump->engine, event, &effects);
	carry_out(pump, &effects);
	pump_arm(pump);
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
			.save_us = pump_now(pump) - built_at_us,
		});
}

static void tell_stored(const struct pump *pump, const struct store_op *op)
{
	if (op->verb == STORE_LEASE)
		PROBE3(lease, op->key.bytes, op->key.len, op->outcome);
	else if (op->verb == STORE_SAVE)
		PROBE3(save, op->key.bytes, op->key.len, op->outcome);
	if (is_heard(pump))
		moment_stored(&pump->listener, op, pump_now(pump));
}

static void on_store_done(struct store_op *op)
{
	struct flight *flight = container_of(op, struct flight, op);
	if (flight->begun_at_us != 0 && flight->state == FLIGHT_SETTLING &&
	    flight->pump->host.regenerated)
		tell_regeneration(flight->pump, flight);
	tell_stored(flight->pump, op);
	pump_dispatch(flight->pump, &(struct event){ .type = EVENT_STORE, .flight = flight });
	if (is_heard(flight->pump) && flight->state == FLIGHT_QUEUED)
		moment_queued(&flight->pump->listener, flight, pump_now(flight->pump));
}

static void on_renew_done(struct store_op *op)
{
	struct flight *flight = container_of(op, struct flight, renew_op);
	tell_stored(flight->pump, op);
	pump_dispatch(flight->pump, &(struct event){ .type = EVENT_RENEWED, .flight = flight });
}

static void on_permit_done(struct store_op *op)
{
	struct batch *batch = container_of(op, struct batch, op);
	PROBE3(permit, batch->keyspace->policy->name, op->outcome, op->left_us);
	if (is_heard(batch->pump))
		moment_permitted(&batch->pump->listener, batch, pump_now(batch->pump));
	pump_dispatch(batch->pump, &(struct event){ .type = EVENT_PERMIT, .batch = batch });
}

static void on_free_done(struct store_op *op)
{
	struct batch *batch = container_of(op, struct batch, free_op);
	pump_dispatch(batch->pump, &(struct event){ .type = EVENT_FREED, .batch = batch });
}

static void on_build_done(struct build *build)
{
	struct batch *batch = container_of(build, struct flight, build)->batch;
	PROBE3(build_end, build->key.bytes, build->key.len, build->outcome);
	if (is_heard(batch->pump))
		moment_built(&batch->pump->listener, build, pump_now(batch->pump));
	pump_dispatch(batch->pump, &(struct event){ .type = EVENT_BUILT, .batch = batch });
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
	pump_dispatch(pump, &(struct event){ .type = EVENT_REFRESH, .refresh = &refresh });
	const struct flight *flight =
		is_heard(pump) && !refresh.joined ? engine_flight(pump->engine, &query->key) : NULL;
	if (flight)
		moment_refreshed(&pump->listener, flight, pump_now(pump));
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
	pump_dispatch(pump, &(struct event){ .type = EVENT_ASK, .request = request });
	PROBE3(ask, request->query.key.bytes, request->query.key.len, request->joined);
	if (is_heard(pump))
		moment_asked(&pump->listener, request, pump_now(pump));
}

void pump_abandon(struct pump *pump, struct request *request)
{
	request->query.key.keyspace->account.waiting--;
	pump_dispatch(pump, &(struct event){ .type = EVENT_LEAVE, .request = request });
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
		pump_dispatch(impl, &event);
}

void pump_tell_changed(const struct pump *pump, const struct key *key, uint64_t floor,
		       const char *what)
{
	if (is_heard(pump))
		moment_changed(&pump->listener, key, floor, what, pump_now(pump));
}

static void on_changed(void *impl, const char *bytes, size_t len, uint64_t floor, bool hard)
{
	struct event event = { .type = EVENT_CHANGED, .told = { .fence = floor, .hard = hard } };
	if (!find_key(impl, bytes, len, &event.told.key))
		return;
	pump_tell_changed(impl, &event.told.key, floor, hard ? "invalidated_hard" : "invalidated");
	pump_dispatch(impl, &event);
}

static void on_row_changed(void *impl, const char *bytes, size_t len,
			   const struct row_change *change)
{
	struct event event = { .type = EVENT_ROW, .row = { .change = change } };
	if (!find_key(impl, bytes, len, &event.row.key))
		return;
	pump_tell_changed(impl, &event.row.key, change->floor, change->hard ? "row_hard" : "row");
	pump_dispatch(impl, &event);
}

static void on_emptied(void *impl)
{
	pump_dispatch(impl, &(struct event){ .type = EVENT_EMPTIED });
}

static void on_trusted(void *impl, int64_t until_us)
{
	pump_dispatch(impl, &(struct event){ .type = EVENT_TRUSTED, .until_us = until_us });
}

void pump_on_epoch(void *impl, const char *name, size_t len, int64_t moment_us, int64_t spread_us)
{
	struct pump *pump = impl;
	struct keyspace *keyspace = roster_find_any(&pump->engine->keyspaces, name, len);
	if (keyspace)
		pump_dispatch(pump, &(struct event){
					    .type = EVENT_EPOCH,
					    .epoch = { keyspace, { moment_us, spread_us, 0 } } });
}

static void on_defined(void *impl, const char *name, size_t len, uint64_t definition,
		       int64_t moment_us, int64_t spread_us)
{
	struct pump *pump = impl;
	struct keyspace *keyspace = engine_keyspace(pump->engine, name, len);
	if (keyspace)
		pump_dispatch(pump, &(struct event){ .type = EVENT_DEFINED,
						     .defined = { keyspace,
								  definition,
								  { moment_us, spread_us } } });
}

struct store_listener pump_listener(struct pump *pump)
{
	return (struct store_listener){ .impl = pump,
					.settled = on_settled,
					.changed = on_changed,
					.row_changed = on_row_changed,
					.epoch = pump_on_epoch,
					.defined = on_defined,
					.emptied = on_emptied,
					.trusted = on_trusted };
}

int64_t pump_now_us(struct pump *pump)
{
	int64_t now_us = pump_now(pump);
	struct engine *engine = pump->engine;
	if (engine->trusted && now_us >= engine->trusted_until_us)
		on_trusted(pump, 0);
	return now_us;
}

/* ---- reloading --------------------------------------------------------------------------- */

void pump_begin(struct pump *pump)
{
	engine_begin(pump->engine, pump_now(pump));
}

enum reload_outcome pump_reload(struct pump *pump, const struct policy *policies, uint32_t count,
				const struct engine_limits *limits)
{
	enum reload_outcome reload =
		engine_reload(pump->engine, policies, count, limits, pump_now(pump));
	if (reload == RELOAD_OK)
		pump_arm(pump);
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

static void on_evicts(void *arg, const struct near_entry *ne)
{
	const struct pump *pump = arg;
	moment_evicted(&pump->listener, ne, pump_now(pump));
}

void pump_listen(struct pump *pump, const struct moment_listener *listener)
{
	pump->listener = listener ? *listener : (struct moment_listener){ 0 };
	pump->engine->near.evicts = listener ? on_evicts : NULL;
	pump->engine->near.evicts_arg = pump;
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
			if (is_heard(pump))
				moment_answered(&pump->listener, &request->query.key, &answer,
						now_us);
			request->answer(request, &answer);
		}
	}
}

void pump_turn(struct pump *pump)
{
	int64_t now_us = pump_now(pump);
	tick(pump, now_us);
	collect(pump);
	wake(pump, now_us);
	pump_tell_warmed(pump);
	if (pump->stopping && !pump->stopped && pump->ops == 0 && engine_is_idle(pump->engine)) {
		pump->stopped = true;
		pump->host.stopped(pump->host.impl);
		return;
	}
	pump_arm(pump);
}

void pump_stop(struct pump *pump)
{
	pump->stopping = true;
	pump_dispatch(pump, &(struct event){ .type = EVENT_STOP });
}
