#include "base/check.h"
#include "core/engine.h"

struct tally {
	size_t waiters, inside, queued, permitting, leases, slots, done;
};

static void check_flight(const struct engine *engine, const struct flight *flight,
			 struct tally *tally)
{
	const char *state = flight_state_name(flight->state);
	bool linked = list_linked(&flight->link), done = flight->state == FLIGHT_DONE;
	tally->waiters += flight->waiters.count;
	tally->inside += flight->in_bulkhead;
	tally->queued += flight->state == FLIGHT_QUEUED;
	tally->permitting += flight->state == FLIGHT_PERMITTING;
	tally->leases += flight->has_lease;
	tally->slots += flight->has_slot;
	tally->done += done;

	CHECK_MSG((engine_flight(engine, &flight->key) == flight) == !done, "state=%s", state);
	CHECK_MSG(!flight->has_slot || flight->has_lease, "a slot without a lease, state=%s",
		  state);
	CHECK_MSG((flight->state == FLIGHT_QUEUED) == flight->ticket.node.in_heap, "state=%s",
		  state);
	CHECK_MSG(flight->state != FLIGHT_PERMITTING || linked, "in no line, state=%s", state);
	CHECK_MSG(!(flight->state == FLIGHT_HELD || flight->state == FLIGHT_BOOKED) ||
			  flight->timer.in_heap,
		  "waits for no moment, state=%s", state);
	bool calling = flight->state == FLIGHT_LOADING || flight->state == FLIGHT_LEASING ||
		       flight->state == FLIGHT_BUILDING || flight->state == FLIGHT_SETTLING;
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
	CHECK(engine->flights.count + tally.done == engine->all.count);
	CHECK(tally.waiters + engine->ready.count == engine->requests);
	CHECK(engine->trusted || engine->trusted_until_us == 0);
	CHECK(tally.inside == engine->bulkhead.inside);
	CHECK(engine->bulkhead.inside <= engine->bulkhead.limit);
	CHECK(tally.queued == engine->bulkhead.queued);
	CHECK(tally.permitting == engine->permits.waiting);
	CHECK(tally.leases == engine->leases);
	CHECK(tally.slots == engine->slots);
	CHECK(near_cost(&engine->near) <= engine->near.bytes_max);
	CHECK(engine->near.rows.queue.count + engine->near.absent.queue.count ==
	      engine->near.table.count);
}
