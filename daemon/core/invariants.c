#include "base/check.h"
#include "core/engine.h"

struct tally {
	size_t key_bytes, waiters, aboard, members, inside, queued, permitting, leases, slots, done,
		fetching, giving;
};

static void check_batch(const struct engine *engine, const struct batch *batch, struct tally *tally)
{
	const char *state = batch_state_name(batch->state);
	uint32_t leasing = 0;
	bool over = batch->state == BATCH_OVER, queued = batch->state == BATCH_QUEUED;
	tally->members += batch->members.count;
	tally->inside += !queued && !over;
	tally->queued += queued;
	tally->permitting += batch->state == BATCH_PERMITTING;
	tally->slots += batch->has_slot;
	list_foreach (&batch->members, node) {
		const struct flight *flight = container_of(node, struct flight, link);
		leasing += flight->state == FLIGHT_QUEUED || flight->state == FLIGHT_LEASING;
		CHECK(flight->batch == batch && flight->key.keyspace == batch->keyspace);
	}
	CHECK_MSG(batch->members.count <= batch->seats, "members=%zu seats=%u",
		  batch->members.count, batch->seats);
	CHECK_MSG(leasing == batch->leasing, "leasing=%u state=%s", leasing, state);
	CHECK_MSG(leasing == 0 || queued || batch->state == BATCH_GATHERING, "state=%s", state);
	CHECK_MSG((batch->keyspace->open == batch) == (!batch->closed && batch->seats > 1),
		  "closed=%d state=%s", batch->closed, state);
	CHECK_MSG(batch->closed || queued || batch->timer.in_heap, "never closes, state=%s", state);
	CHECK_MSG(queued == batch->ticket.node.in_heap, "state=%s", state);
	CHECK_MSG((batch->state == BATCH_PERMITTING) == list_linked(&batch->link), "state=%s",
		  state);
	CHECK_MSG(batch->state != BATCH_BOOKED || batch->timer.in_heap,
		  "waits for no moment, state=%s", state);
	bool calling = batch->state == BATCH_BUILDING || batch->state == BATCH_MISSED ||
		       engine->permits.asking == &batch->link;
	CHECK_MSG(!calling || batch->calls > 0, "waits for no call, state=%s", state);
	CHECK_MSG(!list_empty(&batch->members) || batch->calls > 0 || batch->has_slot ||
			  batch->warming,
		  "nobody will free it, state=%s", state);
}

static void check_flight(const struct engine *engine, const struct flight *flight,
			 struct tally *tally)
{
	const char *state = flight_state_name(flight->state);
	bool linked = list_linked(&flight->link), done = flight->state == FLIGHT_DONE;
	tally->key_bytes += flight->key.len;
	tally->waiters += flight->waiters.count;
	tally->aboard += flight->batch != NULL;
	tally->leases += flight->has_lease;
	tally->fetching += flight->looks_only;
	tally->giving += flight->gives;
	tally->done += done;

	CHECK_MSG((engine_flight(engine, &flight->key) == flight) == !done, "state=%s", state);
	bool travels = flight->state == FLIGHT_QUEUED ||
		       (flight->state == FLIGHT_LEASING && !flight->gives) ||
		       flight->state == FLIGHT_PERMITTING || flight->state == FLIGHT_BOOKED ||
		       flight->state == FLIGHT_BUILDING;
	CHECK_MSG(!travels || flight->batch || list_linked(&flight->step), "on no batch, state=%s",
		  state);
	CHECK_MSG(travels || !flight->batch, "on a batch, state=%s", state);
	CHECK_MSG(flight->state != FLIGHT_GIVING || (flight->gives && list_linked(&flight->step)),
		  "waits for no beat, gives=%d", flight->gives);
	CHECK_MSG(flight->state != FLIGHT_HELD || flight->timer.in_heap,
		  "waits for no moment, state=%s", state);
	bool calling = flight->state == FLIGHT_LOADING || flight->state == FLIGHT_LEASING ||
		       flight->state == FLIGHT_SETTLING;
	CHECK_MSG(!calling || flight->calls > 0, "waits for no call, state=%s", state);
	CHECK_MSG(!done || linked || flight->calls > 0, "nobody will free it, state=%s", state);
	list_foreach (&flight->waiters, node)
		CHECK(container_of(node, struct request, node)->flight == flight);
}

void engine_check(const struct engine *engine)
{
	struct tally tally = { 0 };
	list_foreach (&engine->all, node)
		check_flight(engine, container_of(node, struct flight, all), &tally);
	list_foreach (&engine->batches, node)
		check_batch(engine, container_of(node, struct batch, all), &tally);
	CHECK(engine->flights.count + tally.done == engine->all.count);
	CHECK(tally.waiters + engine->ready.count == engine->requests);
	CHECK(engine->trusted || engine->trusted_until_us == 0);
	CHECK(tally.members == tally.aboard);
	CHECK(tally.inside == engine->bulkhead.inside);
	CHECK(engine->bulkhead.inside <= engine->bulkhead.limit);
	CHECK(tally.queued == engine->bulkhead.queued);
	CHECK(tally.permitting == engine->permits.waiting);
	CHECK(tally.leases == engine->leases);
	CHECK(tally.fetching == engine->fetching);
	CHECK(tally.giving == engine->giving);
	CHECK(tally.slots == engine->slots);
	CHECK(tally.key_bytes == engine->key_bytes);
	CHECK(near_cost(&engine->near) <= engine->near.bytes_max);
	CHECK(engine->near.rows.queue.count + engine->near.absent.queue.count ==
	      engine->near.table.count);
}
