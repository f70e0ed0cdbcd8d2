#include "core/batch.h"

#include "base/check.h"
#include "base/mem.h"
#include "core/flight.h"

static const uint32_t batch_next[] = {
#define TO(NAME)            (1u << BATCH_##NAME)
#define X(NAME, name, next) [BATCH_##NAME] = (next),
	BATCH_STATE_MAP(X)
#undef X
#undef TO
};

const char *batch_state_name(enum batch_state state)
{
	static const char *const names[] = {
#define X(NAME, name, next) [BATCH_##NAME] = #name,
		BATCH_STATE_MAP(X)
#undef X
	};
	return names[state];
}

struct batch *batch_create(struct keyspace *keyspace, uint32_t seats, enum priority priority,
			   uint64_t token)
{
	struct batch *batch = mem_zalloc(sizeof(*batch));
	if (!batch)
		return NULL;
	batch->keyspace = keyspace;
	keyspace->users++;
	batch->seats = seats;
	batch->priority = priority;
	batch->token = token;
	list_init(&batch->members);
	list_node_init(&batch->all);
	list_node_init(&batch->link);
	return batch;
}

void batch_free(struct batch *batch)
{
	CHECK_MSG(list_empty(&batch->members) && !list_linked(&batch->all) &&
			  !list_linked(&batch->link) && !batch->ticket.node.in_heap &&
			  !batch->timer.in_heap && !batch->has_slot && !batch->is_probe &&
			  batch->calls == 0 && batch->keyspace->open != batch,
		  "state=%s calls=%u members=%zu", batch_state_name(batch->state), batch->calls,
		  batch->members.count);
	batch->keyspace->users--;
	mem_free(batch);
}

void batch_move(struct batch *batch, enum batch_state to)
{
	CHECK_MSG(batch_next[batch->state] & (1u << to), "a batch of %s: from %s to %s",
		  batch->keyspace->policy->name, batch_state_name(batch->state),
		  batch_state_name(to));
	batch->state = to;
}

int64_t batch_timeout_us(const struct batch *batch)
{
	int64_t least_us = INT64_MAX;
	list_foreach (&batch->members, node) {
		const struct flight *flight = container_of(node, struct flight, link);
		if (least_us > flight->build_timeout_us)
			least_us = flight->build_timeout_us;
	}
	CHECK(least_us != INT64_MAX);
	return least_us;
}

bool batch_is_background(const struct batch *batch, int64_t now_us)
{
	list_foreach (&batch->members, node)
		if (!flight_is_background(container_of(node, struct flight, link), now_us))
			return false;
	return true;
}
