#include "core/engine.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "core/boarding.h"
#include "core/building.h"
#include "core/built.h"
#include "core/changing.h"
#include "core/chores.h"
#include "core/course.h"
#include "core/engine_waiters.h"
#include "core/giving.h"
#include "core/ledger.h"
#include "core/told.h"
#include "core/warming.h"

enum { FLIGHTS_TABLE_SIZE = 1024, STOP_MAX = 64 };

/* Between the flights of one request: they grow to twice as much, where it asks for what is not
   there yet to four times as much. */
enum { REASK_FIRST_US = 20 * 1000, REASK_DOUBLINGS = 5, LACKING_DOUBLINGS = 8 };

/* ---- life -------------------------------------------------------------------------------- */

struct engine *engine_create(const struct policy *policies, uint32_t count,
			     const struct engine_limits *limits, const void *secret, uint64_t seed)
{
	struct engine *engine = mem_zalloc(sizeof(*engine));
	if (!engine)
		return NULL;
	engine->limits = *limits;
	memcpy(engine->secret, secret, KEY_SECRET_LEN);
	rng_seed(&engine->rng, seed);
	list_init(&engine->all);
	list_init(&engine->batches);
	list_init(&engine->givings);
	list_init(&engine->moving);
	list_init(&engine->warmings);
	list_init(&engine->warmed);
	list_init(&engine->ready);
	list_init(&engine->wake);
	list_init(&engine->looking);
	engine->trusted = true;
	engine->trusted_until_us = INT64_MAX;
	bulkhead_init(&engine->bulkhead, limits->concurrency, limits->queue_max);
	permits_init(&engine->permits);
	roster_init(&engine->keyspaces);
	if (roster_reload(&engine->keyspaces, policies, count, 0) != RELOAD_OK ||
	    near_init(&engine->near, limits->near_bytes_max) != 0 ||
	    hotlist_init(&engine->hotlist, limits->hot_keys, ~seed) != 0 ||
	    table_init(&engine->flights, FLIGHTS_TABLE_SIZE) != 0) {
		engine_free(engine);
		return NULL;
	}
	return engine;
}

void engine_free(struct engine *engine)
{
	if (!engine)
		return;
	CHECK_MSG(engine_is_idle(engine), "flights=%zu requests=%u", engine->all.count,
		  engine->requests);
	near_close(&engine->near);
	hotlist_close(&engine->hotlist);
	table_close(&engine->flights);
	roster_close(&engine->keyspaces);
	mem_free(engine);
}

bool engine_is_idle(const struct engine *engine)
{
	return list_empty(&engine->all) && list_empty(&engine->batches) && engine->requests == 0;
}

/* ---- keys -------------------------------------------------------------------------------- */

struct keyspace *engine_keyspace(const struct engine *engine, const char *name, size_t len)
{
	return roster_find(&engine->keyspaces, name, len);
}

void engine_key(const struct engine *engine, struct keyspace *keyspace, const char *bytes,
		size_t len, struct key *ret_key)
{
	*ret_key = (struct key){ .keyspace = keyspace,
				 .bytes = bytes,
				 .len = (uint32_t)len,
				 .hash = key_hash(engine->secret, bytes, len) };
}

struct flight *engine_flight(const struct engine *engine, const struct key *key)
{
	for (struct table_node *node = table_find(&engine->flights, key->hash); node;
	     node = table_next(node)) {
		struct flight *flight = container_of(node, struct flight, node);
		if (flight->key.len == key->len && memcmp(flight->bytes, key->bytes, key->len) == 0)
			return flight;
	}
	return NULL;
}

/* ---- joining a flight -------------------------------------------------------------------- */

void engine_make_ready(struct engine *engine, struct request *request, enum status refused,
		       const char *why)
{
	request->why = why;
	request->flight = NULL;
	request->refused = refused;
	heap_remove(&engine->deadlines, &request->deadline);
	list_push_back(&engine->ready, &request->node);
}

/* The first flight starts at once, and so does the one after it: a build was under way that had
   begun too early. From then on, and where one has begun in time, what is asked for is not there
   yet: ever later. */
static int64_t delay_of(const struct request *request)
{
	uint32_t doublings = 2 * (request->lacking - 1), most = LACKING_DOUBLINGS;
	if (request->lacking == 0) {
		if (request->reasks < 2)
			return 0;
		doublings = request->reasks - 2;
		most = REASK_DOUBLINGS;
	}
	return (int64_t)REASK_FIRST_US << (doublings < most ? doublings : most);
}

/* What the flight must bring to satisfy all. After its build has begun it is too late to ask. */
static void note_wants(struct flight *flight, const struct query *query)
{
	if (flight->build_seq != 0)
		return;
	if (query->has_min_version) {
		if (!flight->want_min_version || flight->min_version < query->min_version)
			flight->min_version = query->min_version;
		flight->want_min_version = true;
	} else if (query->kind == QUERY_REFRESH && query->has_if_older) {
		if (!flight->want_younger || flight->younger_us > query->if_older_us)
			flight->younger_us = query->if_older_us;
		flight->want_younger = true;
	} else if (query->kind == QUERY_REFRESH) {
		flight->want_newer = true;
	}
}

static enum priority priority_of(const struct query *query)
{
	return query->kind == QUERY_GET ? PRIORITY_MISS : PRIORITY_REFRESH;
}

static void join(struct engine *engine, struct request *request, struct flight *flight)
{
	request->flight = flight;
	list_push_back(&flight->waiters, &request->node);

	if (flight->last_deadline_us < request->deadline.at)
		flight->last_deadline_us = request->deadline.at;
	flight->awaited |= request->query.kind == QUERY_GET;
	note_wants(flight, &request->query);
	course_raise(engine, flight,
		     flight->waiters.count < CROWD_LEAST ? priority_of(&request->query)
							 : PRIORITY_CROWD);
	boarding_on_joined(engine, flight, request->query.client);
}

void engine_join_or_start(struct engine *engine, struct request *request, int64_t now_us,
			  struct effects *effects)
{
	struct flight *flight = engine_flight(engine, &request->query.key);
	request->joined |= flight != NULL;
	if (flight) {
		ENGINE_COUNT(engine, request->query.key.keyspace, joined);
		if (!request->query.has_min_version)
			course_hurry(engine, flight, now_us, effects);
	} else {
		flight = course_start(engine, &request->query.key, priority_of(&request->query),
				      delay_of(request), now_us, effects);
		if (flight) {
			flight->client = request->query.client;
			ledger_begin(engine, flight, &request->query, flight->priority, now_us);
		}
	}
	if (flight)
		join(engine, request, flight);
	else
		engine_make_ready(engine, request, STATUS_OVERLOADED,
				  "there is no memory for one more refresh");
}

static void on_ask(struct engine *engine, struct request *request, int64_t now_us,
		   struct effects *effects)
{
	list_node_init(&request->node);
	request->deadline = (struct heap_node){ 0 };
	request->seq = ++engine->seq;
	request->joined = false;
	request->reasks = request->lacking = 0;
	engine_count_in(engine, request);
	ENGINE_COUNT(engine, request->query.key.keyspace, misses);
	if (engine->stopping) {
		engine_make_ready(engine, request, STATUS_UNAVAILABLE, FLIGHT_STOPPING);
		return;
	}
	if (engine->requests > engine->limits.requests_max) {
		engine->counters.requests_refused++;
		engine_make_ready(engine, request, STATUS_OVERLOADED,
				  "too many requests wait already");
		return;
	}
	heap_insert(&engine->deadlines, &request->deadline, now_us + request->query.wait_us);
	engine_join_or_start(engine, request, now_us, effects);
}

void engine_count_in(struct engine *engine, struct request *request)
{
	engine->requests++;
	request->query.key.keyspace->users++;
}

void engine_count_out(struct engine *engine, struct request *request)
{
	engine->requests--;
	request->query.key.keyspace->users--;
}

void engine_take_out(struct engine *engine, struct request *request)
{
	if (request->flight)
		list_remove(&request->flight->waiters, &request->node);
	else
		list_remove(&engine->ready, &request->node);
	heap_remove(&engine->deadlines, &request->deadline);
}

static void on_leave(struct engine *engine, struct request *request, int64_t now_us,
		     struct effects *effects)
{
	struct flight *flight = request->flight;
	engine_take_out(engine, request);
	engine_count_out(engine, request);
	if (flight)
		course_on_left(engine, flight, now_us, effects);
}

static void on_refresh(struct engine *engine, struct refresh_event *refresh, int64_t now_us,
		       struct effects *effects)
{
	struct flight *flight = engine_flight(engine, &refresh->key);
	refresh->joined = flight != NULL;
	if (refresh->looks_only) {
		if (!flight && !engine->stopping)
			course_look(engine, &refresh->key, now_us, effects);
		return;
	}
	if (!flight && !engine->stopping) {
		flight = course_start(engine, &refresh->key, refresh->priority, 0, now_us, effects);
		struct near_entry *ne = near_find(&engine->near, &refresh->key);
		if (!flight) {
			ENGINE_COUNT(engine, refresh->key.keyspace, background_dropped);
			return;
		}
		ledger_begin(engine, flight, refresh->query, refresh->priority, now_us);
		note_wants(flight, refresh->query);
		flight->patient_until_us = refresh->patient_until_us;
		if (refresh->newer && ne)
			flight->newer_than = ne->entry.fence;
		return;
	}
	if (!flight)
		return;
	note_wants(flight, refresh->query);
	course_raise(engine, flight, refresh->priority);
	course_hurry(engine, flight, now_us, effects);
	if (refresh->again && flight->build_seq != 0) {
		flight->again = true;
		flight->again_until_us = refresh->patient_until_us;
		flight->again_has_trace = refresh->query->trace != NULL;
		if (flight->again_has_trace)
			flight->again_trace = *refresh->query->trace;
		refresh->joined = false;
	} else if (flight->patient_until_us < refresh->patient_until_us) {
		flight->patient_until_us = refresh->patient_until_us;
	}
}

/* ---- time -------------------------------------------------------------------------------- */

static void on_deadline(struct engine *engine, struct request *request, int64_t now_us,
			struct effects *effects)
{
	struct flight *flight = request->flight;
	heap_remove(&engine->deadlines, &request->deadline);
	if (flight->state == FLIGHT_DONE)
		return; /* its answer is there: engine_wake is on its way to it */
	list_remove(&flight->waiters, &request->node);
	engine_make_late(engine, request, flight);
	course_on_left(engine, flight, now_us, effects);
}

static void on_tick(struct engine *engine, int64_t now_us, struct effects *effects)
{
	struct heap_node *due = heap_first(&engine->deadlines);
	if (due && due->at <= now_us)
		on_deadline(engine, container_of(due, struct request, deadline), now_us, effects);
	due = heap_first(&engine->renewals);
	if (due && due->at <= now_us) {
		heap_remove(&engine->renewals, due);
		course_on_renewal(engine, container_of(due, struct flight, renewal), now_us,
				  effects);
	}
	if (engine->trusted && now_us >= engine->trusted_until_us)
		told_trusted(engine, 0, now_us);
	chores_do(engine, now_us);
	giving_advance(engine, now_us, effects);
	due = heap_first(&engine->timers);
	if (due && due->at <= now_us) {
		struct flight *flight = container_of(due, struct flight, timer);
		heap_remove(&engine->timers, due);
		course_on_timer(engine, flight, now_us, effects);
	}
	due = heap_first(&engine->batch_timers);
	if (due && due->at <= now_us) {
		heap_remove(&engine->batch_timers, due);
		course_on_batch_timer(engine, container_of(due, struct batch, timer), now_us,
				      effects);
	}
}

/* One flight a step, from the front of the list; those already told stand at its end. */
static void on_stop(struct engine *engine, int64_t now_us, struct effects *effects)
{
	engine->stopping = true;
	struct list_node *node = list_first(&engine->all);
	if (!node)
		return;
	struct flight *flight = container_of(node, struct flight, all);
	if (flight->stop)
		return;
	/* What is under way may not end in time: who waits is told now, some a step. */
	for (int i = 0; i < STOP_MAX && flight->state != FLIGHT_DONE; i++) {
		struct list_node *waiter = list_pop_front(&flight->waiters);
		if (!waiter)
			break;
		engine_make_ready(engine, container_of(waiter, struct request, node),
				  STATUS_UNAVAILABLE, FLIGHT_STOPPING);
	}
	if (flight->state != FLIGHT_DONE && !list_empty(&flight->waiters))
		return;
	list_remove(&engine->all, node);
	list_push_back(&engine->all, node);
	course_stop(engine, flight, now_us, effects);
}

static bool stop_has_more(const struct engine *engine)
{
	struct list_node *node = list_first(&engine->all);
	return engine->stopping && node && !container_of(node, struct flight, all)->stop;
}

struct warming *engine_warmed(struct engine *engine)
{
	struct list_node *node = list_pop_front(&engine->warmed);
	return node ? container_of(node, struct warming, node) : NULL;
}

int64_t engine_next_at(const struct engine *engine)
{
	if (!list_empty(&engine->ready) || !list_empty(&engine->wake) ||
	    !list_empty(&engine->looking) || !list_empty(&engine->warmed) ||
	    stop_has_more(engine) || course_can_advance(engine, 0) || chores_are_due(engine))
		return 0;
	int64_t at = giving_next_at(engine);
	if (engine->trusted && engine->trusted_until_us < at)
		at = engine->trusted_until_us;
	const struct heap *heaps[] = { &engine->deadlines, &engine->timers, &engine->batch_timers,
				       &engine->renewals };
	for (size_t i = 0; i < sizeof(heaps) / sizeof(*heaps); i++)
		if (heap_first(heaps[i]) && heap_first(heaps[i])->at < at)
			at = heap_first(heaps[i])->at;
	if (engine->permits.waiting > 0 && !engine->permits.asking &&
	    permits_retry_at(&engine->permits) < at)
		at = permits_retry_at(&engine->permits);
	return at;
}

void engine_step(struct engine *engine, const struct event *event, struct effects *effects)
{
	effects->count = 0;
	int64_t now_us = event->now_us;
	switch (event->type) {
	case EVENT_ASK:
		on_ask(engine, event->request, now_us, effects);
		break;
	case EVENT_LEAVE:
		on_leave(engine, event->request, now_us, effects);
		break;
	case EVENT_REFRESH:
		on_refresh(engine, event->refresh, now_us, effects);
		break;
	case EVENT_WARM:
		warming_start(engine, event->warming, now_us);
		break;
	case EVENT_STORE:
		course_on_store(engine, event->flight, now_us, effects);
		break;
	case EVENT_PERMIT:
		building_on_permitted(engine, event->batch, now_us, effects);
		break;
	case EVENT_FREED:
		building_on_freed(engine, event->batch);
		break;
	case EVENT_BUILT:
		built_on_answered(engine, event->batch, now_us, effects);
		break;
	case EVENT_RENEWED:
		course_on_renewed(engine, event->flight, now_us);
		break;
	case EVENT_CHANGED:
		changing_on_invalidated(engine, &event->told.key, event->told.fence,
					event->told.hard, now_us);
		break;
	case EVENT_ROW:
		changing_on_row(engine, &event->row.key, event->row.change, now_us, effects);
		break;
	case EVENT_SETTLED:
		told_settled(engine, &event->told.key, event->told.fence, now_us, effects);
		break;
	case EVENT_EPOCH:
		if (epochs_add(&event->epoch.keyspace->epochs, event->epoch.epoch))
			event->epoch.keyspace->generation++;
		break;
	case EVENT_DEFINED:
		keyspace_is_defined(event->defined.keyspace, event->defined.definition,
				    &event->defined.since);
		break;
	case EVENT_EMPTIED:
		giving_on_emptied(engine, now_us);
		break;
	case EVENT_TRUSTED:
		told_trusted(engine, event->until_us, now_us);
		break;
	case EVENT_TICK:
		on_tick(engine, now_us, effects);
		break;
	case EVENT_STOP:
		on_stop(engine, now_us, effects);
		break;
	}
	course_advance(engine, now_us, effects);
}
