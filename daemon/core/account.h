/* The account: what was asked of a keyspace, what it was told, and what its refreshes came to.
 *
 * Plain numbers that only grow, in tables, so that `stats` and monitors walk over them; adding one
 * is one line. The daemon has the same counters in sum (engine.h), which outlive its keyspaces.
 *
 * A refresh is a flight. It has a cause, which is why it was begun, whoever joined it later; and
 * one outcome, counted when it ends. Whether what it built was read here is known only later: a
 * value that was built with nobody waiting, and was not read before it was replaced, evicted or
 * dead, is counted as wasted too.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/durations.h"
#include "proto/result.h"
#include "proto/status.h"

/* X(NAME, name, why a refresh is begun) */
#define REFRESH_CAUSE_MAP(X)                                                                       \
	X(MISS, miss, "someone asks, and there is nothing to serve")                               \
	X(STALE, stale, "someone asks, and the value has expired")                                 \
	X(EARLY, early, "the value is about to expire, and is read often")                         \
	X(CHANGE, change, "someone asks, and a change or an invalidation has ended its freshness") \
	X(WARM, warm, "warm-up")                                                                   \
	X(MANUAL, manual, "a refresh call")

/* X(NAME, name, what it came to) */
#define REFRESH_OUTCOME_MAP(X)                                                                     \
	X(CHANGED, changed, "built: another value than before, or the first")                      \
	X(UNCHANGED, unchanged, "built: the value that was there")                                 \
	X(FOUND, found, "not built: the shared store had it")                                      \
	X(ELSEWHERE, elsewhere, "not built: another daemon is at it")                              \
	X(FAILED, failed, "the origin reported an error, now or lately")                           \
	X(UNAVAILABLE, unavailable, "the origin or the store could not be reached")                \
	X(REFUSED, refused, "no room or no permit in time for those who waited")                   \
	X(DROPPED, dropped, "nobody waited, and there was no room")

enum refresh_cause {
#define X(NAME, name, text) CAUSE_##NAME,
	REFRESH_CAUSE_MAP(X)
#undef X
};
enum refresh_outcome {
#define X(NAME, name, text) OUTCOME_##NAME,
	REFRESH_OUTCOME_MAP(X)
#undef X
};
enum {
#define X(NAME, name, text) +1
	REFRESH_CAUSES = 0 REFRESH_CAUSE_MAP(X),
	REFRESH_OUTCOMES = 0 REFRESH_OUTCOME_MAP(X),
#undef X
};
const char *refresh_cause_name(enum refresh_cause cause);
const char *refresh_outcome_name(enum refresh_outcome outcome);

/* X(name, what it counts): by the reason that is part of their names */
#define ACCOUNT_RETRY_MAP(X)                                                                       \
	X(retries_load, "loads asked anew, for the answer was old or without its value")           \
	X(retries_held, "looks at the shared store while another daemon built")                    \
	X(retries_lock, "builds to be begun again, for a lock at the origin was held")             \
	X(retries_lost, "builds to be begun again, for their connection failed")                   \
	X(retries_late,                                                                            \
	  "builds to be begun again, for their moment was over before they were sent")             \
	X(retries_apart, "builds to be begun again alone, for nothing came of their batch")        \
	X(retries_lease, "leases asked anew, for the permit came too late for them")
#define ACCOUNT_REFUSAL_MAP(X)                                                                     \
	X(queue_refused, "refreshes refused, for the queue was full")                              \
	X(breaker_refused, "refreshes refused, for the origin was lost and is being probed")

/* X(name, what it counts): per keyspace, and in sum */
#define ACCOUNT_PLAIN_MAP(X)                                                                       \
	X(misses, "requests that could not be answered at once")                                   \
	X(joined, "of these, those that joined a refresh under way")                               \
	X(reasked, "waiting requests for which a refresh that ended was no answer")                \
	X(timeouts, "requests answered with timeout")                                              \
	X(overloaded, "requests answered with overloaded")                                         \
	X(unavailable, "requests answered with unavailable")                                       \
	X(defaults, "requests that waited and were answered with the default")                     \
	X(builds, "builds begun")                                                                  \
	X(batches, "statements that built several keys")                                           \
	X(batches_apart, "of these, those of which nothing came but that each is built alone")     \
	X(build_failures, "builds that ended with an error of the origin's")                       \
	X(builds_lost, "builds whose connection failed")                                           \
	X(locks_held, "builds that found a lock or all connections taken at the origin")           \
	X(failures_remembered, "refreshes answered with a failure that is remembered")             \
	X(leases_asked, "leases asked for")                                                        \
	X(leases_acquired, "leases got")                                                           \
	X(leases_elsewhere, "leases not got, for another daemon had them")                         \
	X(leases_renewed, "renewals of leases")                                                    \
	X(leases_lost, "leases found lapsed when they were to be renewed")                         \
	X(leases_overrun, "builds that ended after their lease could last")                        \
	X(given_back, "values given back to the shared store, which had lost them")                \
	X(saves_refused, "values not stored, for the lease had lapsed or a newer one was there")   \
	X(permits_denied, "answers of the shared store that no permit is free now")                \
	X(permits_given_up, "permits that came too late")                                          \
	X(background_dropped, "refreshes that nobody waited for, ended without a value")           \
	X(changes, "changes and invalidations of keys")
#define ACCOUNT_COUNTER_MAP(X)                                                                     \
	ACCOUNT_PLAIN_MAP(X)                                                                       \
	ACCOUNT_RETRY_MAP(X)                                                                       \
	ACCOUNT_REFUSAL_MAP(X)

struct account_counters {
#define X(name, text) uint64_t name;
	ACCOUNT_COUNTER_MAP(X)
#undef X
};

struct account {
	struct account_counters counters;
	uint64_t gets[RESULT_STATE_COUNT][RESULT_SOURCE_COUNT][RESULT_REASON_COUNT];
	uint64_t errors[STATUS_COUNT]; /* gets answered with an error, by its code */
	uint64_t refreshes[REFRESH_CAUSES][REFRESH_OUTCOMES];
	uint64_t wasted[REFRESH_CAUSES];
	uint32_t waiting;             /* requests, now */
	uint32_t near_entries;        /* now */
	size_t near_bytes;            /* theirs, all cost included */
	struct durations build_times; /* of builds that the origin answered */
	struct durations queue_times; /* from the wish to build to the build's beginning */
	struct durations stale_ages;  /* of stale replies: since freshness ended */
};

/* Gets answered in all, errors included. */
uint64_t account_gets(const struct account *account);

struct answer;
/* A get is answered so. */
void account_answer(struct account *account, const struct answer *answer);
