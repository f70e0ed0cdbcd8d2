#include "core/boarding.h"

#include "base/check.h"
#include "core/warming.h"

/* How many may go together with this one. */
static uint32_t seats_for(const struct flight *flight, int64_t now_us)
{
	const struct keyspace *keyspace = flight->key.keyspace;
	if (!keyspace->policy->batch.query || flight->alone || now_us < keyspace->apart_until_us)
		return 1;
	return (uint32_t)keyspace->policy->batch.max;
}

static void close_doors(struct batch *batch)
{
	batch->closed = true;
	if (batch->keyspace->open == batch)
		batch->keyspace->open = NULL;
}

static void sit_down(struct engine *engine, struct batch *batch, struct flight *flight)
{
	CHECK(!flight->batch && !batch->closed && batch->members.count < batch->seats);
	flight->batch = batch;
	list_push_back(&batch->members, &flight->link);
	batch->leasing++;
	if (batch->members.count == batch->seats)
		close_doors(batch);
	boarding_raise(engine, batch, flight->priority);
	boarding_on_joined(engine, flight, flight->client);
}

static void stand_up(struct flight *flight)
{
	struct batch *batch = flight->batch;
	list_remove(&batch->members, &flight->link);
	flight->batch = NULL;
	if (flight->state == FLIGHT_QUEUED || flight->state == FLIGHT_LEASING)
		batch->leasing--;
}

/* The breaker admits nobody. */
static void refuse(struct engine *engine, struct flight *flight, int64_t now_us)
{
	ENGINE_COUNT(engine, flight->key.keyspace, breaker_refused);
	flight_refuse(flight, STATUS_UNAVAILABLE, "the origin was lost, and is being probed",
		      engine->breaker.open_until_us - now_us);
}

/* It has room, unless the breaker says no. */
static bool gather(struct engine *engine, struct batch *batch, int64_t now_us)
{
	batch_move(batch, BATCH_GATHERING);
	if (!breaker_admits(&engine->breaker, now_us))
		return false;
	batch->is_probe = engine->breaker.state == BREAKER_PROBING;
	return true;
}

static enum boarding open_batch(struct engine *engine, struct batch *batch, bool has_room,
				int64_t now_us)
{
	list_push_back(&engine->batches, &batch->all);
	batch->closes_at_us = now_us;
	if (has_room && !gather(engine, batch, now_us)) {
		boarding_end(engine, batch);
		return BOARDING_CUT;
	}
	if (batch->seats > 1) {
		CHECK(!batch->keyspace->open);
		batch->keyspace->open = batch;
		batch->closes_at_us += batch->keyspace->policy->batch.linger_us;
		if (has_room)
			heap_insert(&engine->batch_timers, &batch->timer, batch->closes_at_us);
	}
	return has_room ? BOARDING_IN : BOARDING_QUEUED;
}

enum boarding boarding_enter(struct engine *engine, struct flight *flight, int64_t now_us)
{
	struct keyspace *keyspace = flight->key.keyspace;
	bool patient = !flight_is_background(flight, now_us);
	uint32_t seats = seats_for(flight, now_us);
	struct batch *batch = seats > 1 ? keyspace->open : NULL;
	if (batch && (patient || batch->state == BATCH_GATHERING)) {
		sit_down(engine, batch, flight);
		return batch->state == BATCH_GATHERING ? BOARDING_IN : BOARDING_QUEUED;
	}
	batch = batch_create(keyspace, seats, flight->priority, rng_next(&engine->rng));
	if (!batch)
		return BOARDING_NO_MEMORY;
	enum admission admission = bulkhead_enter(&engine->bulkhead, &batch->ticket,
						  flight->priority, flight->client, patient);
	if (admission == ADMISSION_FULL) {
		batch_free(batch);
		return BOARDING_FULL;
	}
	enum boarding boarding = open_batch(engine, batch, admission == ADMISSION_IN, now_us);
	if (boarding == BOARDING_CUT)
		refuse(engine, flight, now_us);
	else
		sit_down(engine, batch, flight);
	return boarding;
}

bool boarding_take_seat(struct engine *engine, struct flight *flight)
{
	struct batch *batch = flight->warming->batch;
	if (!batch || batch->state != BATCH_GATHERING)
		return false;
	flight->batch = batch;
	list_push_back(&batch->members, &flight->link);
	batch->leasing++;
	boarding_raise(engine, batch, flight->priority);
	warming_on_seated(engine, flight);
	return true;
}

void boarding_on_joined(struct engine *engine, struct flight *flight, uint32_t client)
{
	struct batch *batch = flight->batch;
	if (batch && batch->state == BATCH_QUEUED)
		bulkhead_join(&engine->bulkhead, &batch->ticket, batch->priority, client);
}

void boarding_raise(struct engine *engine, struct batch *batch, enum priority priority)
{
	if (priority >= batch->priority || engine->permits.asking == &batch->link)
		return; /* it is the head already; boarding_catch_up sees to the rest */
	if (batch->state == BATCH_QUEUED) {
		bulkhead_raise(&engine->bulkhead, &batch->ticket, batch->priority, priority);
	} else if (batch->state == BATCH_PERMITTING) {
		permits_leave(&engine->permits, &batch->link, batch->priority);
		permits_join(&engine->permits, &batch->link, priority);
	}
	batch->priority = priority;
}

void boarding_catch_up(struct engine *engine, struct batch *batch)
{
	list_foreach (&batch->members, node)
		boarding_raise(engine, batch, container_of(node, struct flight, link)->priority);
}

void boarding_line_up(struct engine *engine, struct batch *batch)
{
	batch_move(batch, BATCH_PERMITTING);
	permits_join(&engine->permits, &batch->link, batch->priority);
}

/* It has its permit and all the leases it gets: it starts in the next step. Without any it has only
   to give its slot back. */
static void depart_with_permit(struct engine *engine, struct batch *batch)
{
	if (batch->warming->arriving > 0)
		return;
	batch_move(batch, BATCH_BOOKED);
	heap_insert(&engine->batch_timers, &batch->timer, 0);
	list_foreach (&batch->members, node)
		flight_move(container_of(node, struct flight, link), FLIGHT_BOOKED);
}

/* To the line for permits, once nobody can board any more and all have their leases. */
static void depart(struct engine *engine, struct batch *batch)
{
	if (batch->state != BATCH_GATHERING || !batch->closed || batch->leasing > 0)
		return;
	if (batch->warming) {
		depart_with_permit(engine, batch);
		return;
	}
	heap_remove(&engine->batch_timers, &batch->timer);
	boarding_line_up(engine, batch);
}

static void move_on(struct engine *engine, struct flight *flight)
{
	if (!list_linked(&flight->step))
		list_push_back(&engine->moving, &flight->step);
}

void boarding_let_in(struct engine *engine, struct batch *batch, int64_t now_us)
{
	bool admitted = gather(engine, batch, now_us);
	struct list_node *next;
	for (struct list_node *node = list_first(&batch->members); node; node = next) {
		struct flight *flight = container_of(node, struct flight, link);
		next = node->next != &batch->members.head ? node->next : NULL;
		heap_remove(&engine->timers, &flight->timer);
		if (admitted) {
			move_on(engine, flight);
			continue;
		}
		refuse(engine, flight, now_us);
		boarding_part(engine, flight);
	}
	if (!admitted)
		boarding_end(engine, batch);
	else if (!batch->closed) /* it may have had its time in the queue */
		heap_insert(&engine->batch_timers, &batch->timer, batch->closes_at_us);
}

void boarding_on_arrived(struct engine *engine, struct batch *batch)
{
	depart(engine, batch);
}

void boarding_on_leased(struct engine *engine, struct flight *flight)
{
	CHECK(flight->state == FLIGHT_PERMITTING && flight->batch->leasing > 0);
	flight->batch->leasing--;
	depart(engine, flight->batch);
}

void boarding_on_timer(struct engine *engine, struct batch *batch)
{
	close_doors(batch);
	depart(engine, batch);
}

/* Nobody is left on it. */
static void abandon(struct engine *engine, struct batch *batch)
{
	switch (batch->state) {
	case BATCH_QUEUED:
	case BATCH_GATHERING:
		if (batch->warming)
			depart(engine, batch);
		else
			boarding_end(engine, batch);
		return;
	case BATCH_PERMITTING:
		if (engine->permits.asking != &batch->link)
			boarding_end(engine, batch);
		return; /* else the answer sees to it */
	case BATCH_BOOKED:
		heap_remove(&engine->batch_timers, &batch->timer);
		heap_insert(&engine->batch_timers, &batch->timer, 0); /* to free its slot */
		return;
	case BATCH_MISSED:
		return; /* the slot's answer sees to it */
	case BATCH_OVER:
		boarding_release(engine, batch);
		return;
	case BATCH_BUILDING:
		check_failed("members", __FILE__, __LINE__, "none is left of what is building");
	}
}

void boarding_leave(struct engine *engine, struct flight *flight)
{
	struct batch *batch = flight->batch;
	if (list_linked(&flight->step))
		list_remove(&engine->moving, &flight->step);
	if (!batch)
		return;
	stand_up(flight);
	if (list_empty(&batch->members))
		abandon(engine, batch);
	else
		depart(engine, batch);
}

void boarding_part(struct engine *engine, struct flight *flight)
{
	stand_up(flight);
	move_on(engine, flight);
}

void boarding_end(struct engine *engine, struct batch *batch)
{
	CHECK(!batch->has_slot);
	heap_remove(&engine->batch_timers, &batch->timer);
	if (batch->state == BATCH_QUEUED)
		bulkhead_give_up(&engine->bulkhead, &batch->ticket, batch->priority);
	else
		bulkhead_leave(&engine->bulkhead);
	if (batch->state == BATCH_PERMITTING)
		permits_leave(&engine->permits, &batch->link, batch->priority);
	if (batch->is_probe)
		breaker_probe_void(&engine->breaker, 0);
	batch->is_probe = false;
	close_doors(batch);
	if (batch->state == BATCH_BUILDING)
		list_foreach (&batch->members, node)
			move_on(engine, container_of(node, struct flight, link));
	batch_move(batch, BATCH_OVER);
	if (batch->warming)
		warming_on_over(engine, batch);
	boarding_release(engine, batch);
}

void boarding_release(struct engine *engine, struct batch *batch)
{
	if (batch->state != BATCH_OVER || batch->calls > 0 || !list_empty(&batch->members))
		return;
	list_remove(&engine->batches, &batch->all);
	batch_free(batch);
}
