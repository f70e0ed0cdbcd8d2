/* The store behind `url: none`: one host, nothing shared, all in this process.
 *
 * It keeps what the core asks of a store (core/store.h): claims with leases, fences and remembered
 * failures, permits by rate and slots. Entries it does not keep: with one daemon the near cache is
 * all the cache there is. What it remembers is bounded: a lease by the flights there can be, a
 * failure by FAILURES_MAX (then the oldest is forgotten).
 *
 * Pure but for memory: time comes from the clock it is given, and answers are handed out by
 * memory_store_turn, which the owner calls soon after `want_turn` asked for it.
 */
#pragma once

#include <stdint.h>

#include "core/store.h"

struct memory_store;

struct memory_store_host {
	void *impl;
	int64_t (*now_us)(void *impl); /* does not go back */
	void (*want_turn)(void *impl); /* call memory_store_turn soon, not from inside */
	/* Behind a shared store: a moment that its clock has surely passed, or 0: not known. New
	   fences begin there and not at this host's own time, which may be far ahead: then they
	   would outdo all that the shared store gives out until that has caught up. NULL: now_us */
	int64_t (*fence_us)(void *impl);
};

struct memory_store_limits {
	uint32_t concurrency; /* slots */
	double budget_per_s;  /* permits a second, the fleet's; this host's share of it is given out
			       */
	uint32_t fleet;       /* daemons that share it */
	uint32_t failures_max; /* remembered at once */
};

/* NULL when memory is missing. The limits are copied. */
struct memory_store *memory_store_create(const struct memory_store_limits *limits,
					 const struct memory_store_host *host)
	__attribute__((warn_unused_result));

/* Every submitted operation must have been answered. NULL is fine. */
void memory_store_free(struct memory_store *memory);

/* The budget is another from now on. */
void memory_store_set_budget(struct memory_store *memory, double budget_per_s);

/* The interface the core uses; valid as long as `memory`. */
struct store memory_store_iface(struct memory_store *memory);

/* Carries out and answers what was submitted before this call. */
void memory_store_turn(struct memory_store *memory);

/* A row of the key has changed: forgets its remembered failure. The floor: the fence that all of
   its builds up to now are not above. */
uint64_t memory_store_change(struct memory_store *memory, const struct key *key);

/* Claims held at this moment, for tests and `stats`. */
uint32_t memory_store_claims(const struct memory_store *memory);
