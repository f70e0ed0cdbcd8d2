#include "core/tenure.h"

#include "base/check.h"

enum {
	LEASE_LEAST_US = 1000 * 1000,
	LEASE_MOST_US = 10 * 1000 * 1000,
	LEASE_FIRST_US = 2 * 1000 * 1000, /* before anything is known of the builds */
	LEASE_MARGIN_US = 1000 * 1000,
	RENEWALS_PER_LEASE = 3,
	WAIT_MOST_US = 50 * 1000 * 1000,  /* for a permit: then the lease is given back */
	STORE_MORE_US = 10 * 1000 * 1000, /* the store's clock may be another's */
};

int64_t tenure_length(const struct keyspace *keyspace)
{
	if (keyspace->policy->lease_us > 0)
		return keyspace->policy->lease_us;
	if (keyspace->slow_build_us == 0)
		return LEASE_FIRST_US;
	int64_t length = keyspace->slow_build_us + LEASE_MARGIN_US;
	if (length < LEASE_LEAST_US)
		return LEASE_LEAST_US;
	return length > LEASE_MOST_US ? LEASE_MOST_US : length;
}

static void renew_later(struct engine *engine, struct flight *flight, int64_t now_us)
{
	int64_t at = now_us + tenure_length(flight->key.keyspace) / RENEWALS_PER_LEASE;
	if (at < flight->lease_ends_us)
		heap_insert(&engine->renewals, &flight->renewal, at);
}

void tenure_begin(struct engine *engine, struct flight *flight, int64_t now_us)
{
	CHECK(!flight->has_lease);
	engine->leases++;
	ENGINE_COUNT(engine, flight->key.keyspace, leases_acquired);
	flight->has_lease = true;
	flight->build_timeout_us = flight->key.keyspace->policy->build_timeout_us;
	flight->lease_ends_us = now_us + flight->build_timeout_us + WAIT_MOST_US;
	renew_later(engine, flight, now_us);
}

void tenure_end(struct engine *engine, struct flight *flight)
{
	CHECK(flight->has_lease);
	engine->leases--;
	flight->has_lease = false;
	heap_remove(&engine->renewals, &flight->renewal);
}

bool tenure_renew(struct engine *engine, struct flight *flight, int64_t now_us)
{
	int64_t length = tenure_length(flight->key.keyspace);
	if (flight->state == FLIGHT_SETTLING)
		return false; /* it is on its way back */
	if (flight->renewing) {
		renew_later(engine, flight, now_us);
		return false;
	}
	if (now_us + length > flight->lease_ends_us)
		length = flight->lease_ends_us - now_us;
	flight->renewing = true;
	flight->renew_op = (struct store_op){ .verb = STORE_RENEW,
					      .key = flight->key,
					      .token = flight->token,
					      .away = flight->away,
					      .length_us = length,
					      .longest_us = flight->build_timeout_us +
							    WAIT_MOST_US + STORE_MORE_US };
	return true;
}

bool tenure_covers_build(const struct flight *flight, int64_t now_us)
{
	return flight->lease_ends_us - now_us >= flight->build_timeout_us;
}

void tenure_on_renewed(struct engine *engine, struct flight *flight, int64_t now_us)
{
	const struct store_op *op = &flight->renew_op;
	CHECK(flight->renewing);
	flight->renewing = false;
	if (flight->floor < op->floor)
		flight->floor = op->floor;
	if (op->token != flight->token) {
		/* Of a lease that has been given back since: the new one's renewals waited for it.
		 */
		if (flight->renewal.in_heap) {
			heap_remove(&engine->renewals, &flight->renewal);
			heap_insert(&engine->renewals, &flight->renewal, 0);
		}
		return;
	}
	if (op->outcome == STORE_REFUSED) {
		ENGINE_COUNT(engine, flight->key.keyspace, leases_lost);
		flight->lease_ends_us = now_us;
	} else if (flight->has_lease && flight->state != FLIGHT_SETTLING) {
		ENGINE_COUNT(engine, flight->key.keyspace, leases_renewed);
		renew_later(engine, flight, now_us);
	}
}

void tenure_measure(struct engine *engine, struct keyspace *keyspace, int64_t took_us)
{
	int64_t *slow = &keyspace->slow_build_us;
	int64_t step = *slow / 16 + 1;
	if (*slow == 0)
		*slow = took_us + 1;
	else if (took_us > *slow)
		*slow += took_us - *slow < step ? took_us - *slow : step;
	else if (took_us < *slow && rng_unit(&engine->rng) > 0.99)
		*slow -= *slow - took_us < step ? *slow - took_us : step;
}
