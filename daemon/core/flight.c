#include "core/flight.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"

static const uint32_t flight_next[] = {
#define TO(NAME)            (1u << FLIGHT_##NAME)
#define X(NAME, name, next) [FLIGHT_##NAME] = (next),
	FLIGHT_STATE_MAP(X)
#undef X
#undef TO
};

const char *flight_state_name(enum flight_state state)
{
	static const char *const names[] = {
#define X(NAME, name, next) [FLIGHT_##NAME] = #name,
		FLIGHT_STATE_MAP(X)
#undef X
	};
	return names[state];
}

struct flight *flight_create(const struct key *key, enum priority priority, int64_t now_us)
{
	struct flight *flight = mem_zalloc(sizeof(*flight) + key->len);
	if (!flight)
		return NULL;
	memcpy(flight->bytes, key->bytes, key->len);
	flight->key = *key;
	key->keyspace->users++;
	flight->key.bytes = flight->bytes;
	flight->state = FLIGHT_LOADING;
	flight->priority = priority;
	flight->created_at_us = now_us;
	list_init(&flight->waiters);
	list_node_init(&flight->link);
	list_node_init(&flight->step);
	list_node_init(&flight->all);
	list_node_init(&flight->looking);
	return flight;
}

void flight_free(struct flight *flight)
{
	CHECK_MSG(flight->state == FLIGHT_DONE && flight->calls == 0 &&
			  list_empty(&flight->waiters) && !list_linked(&flight->link) &&
			  !list_linked(&flight->looking) && !list_linked(&flight->step) &&
			  !flight->timer.in_heap && !flight->renewal.in_heap,
		  "state=%s calls=%u waiters=%zu", flight_state_name(flight->state), flight->calls,
		  flight->waiters.count);
	CHECK(!flight->has_lease && !flight->batch);
	value_unref(flight->result.value);
	value_unref(flight->failure.text);
	flight->key.keyspace->users--;
	mem_free(flight);
}

void flight_move(struct flight *flight, enum flight_state to)
{
	CHECK_MSG(flight_next[flight->state] & (1u << to), "%.*s: from %s to %s",
		  (int)flight->key.len, flight->key.bytes, flight_state_name(flight->state),
		  flight_state_name(to));
	flight->state = to;
}

bool flight_is_told_of(const struct flight *flight, const struct entry *entry)
{
	return flight->told.floor != 0 &&
	       !row_change_is_in(&flight->told, entry, flight->key.keyspace->policy->single_row);
}

bool flight_is_dirty(const struct flight *flight)
{
	bool below = flight->source != SOURCE_STORE && flight->floor >= flight->result.fence;
	return below || flight_is_told_of(flight, &flight->result);
}

bool flight_is_forbidden(const struct flight *flight)
{
	const struct entry *result = &flight->result;
	bool before = flight->hard_floor >= result->fence ||
		      (result->own_fence && flight->hard_floor != 0);
	return flight_is_dirty(flight) && before;
}

bool flight_built_after(const struct flight *flight, const struct request *request)
{
	if (flight->build_seq != 0)
		return flight->build_seq > request->seq;
	return flight->source == SOURCE_STORE && flight->result.fence > flight->load_fence &&
	       flight->load_seq > request->seq;
}

bool flight_wants_younger(const struct flight *flight, const struct entry *entry, int64_t now_us)
{
	return flight->want_younger && now_us - entry->generated_at_us >= flight->younger_us;
}

bool flight_is_background(const struct flight *flight, int64_t now_us)
{
	return list_empty(&flight->waiters) && now_us >= flight->patient_until_us;
}

void flight_fail(struct flight *flight, enum status status, struct value *text, int64_t retry_in_us)
{
	value_unref(flight->failure.text);
	flight->failure =
		(struct failure){ .status = status, .text = text, .retry_in_us = retry_in_us };
}

void flight_refuse(struct flight *flight, enum status status, const char *why, int64_t retry_in_us)
{
	flight_fail(flight, status, NULL, retry_in_us);
	flight->failure.why = why;
}
