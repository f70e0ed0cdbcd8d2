/* The judge of a drill: what each client got, held against the promises. Pure; no clock of its own.
 *
 * It believes the daemon nothing but the ages that replies tell: states, reasons, ages, versions
 * and deadlines are held to the policy and to what was done to the keys. Each breach is counted,
 * and the first of each promise is kept in words.
 *
 * judge_open … judge_take with every reply … judge_close. Times are µs of one clock.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/histogram.h"
#include "client/segar.h"

/* X(NAME, name, what is promised) */
#define DRILL_PROMISE_MAP(X)                                                                       \
	X(ONE_BUILD, one_build, "a key that expires is built once by the whole fleet")             \
	X(BUDGET, budget, "no more builds in a second than the origin's budget")                   \
	X(AGE, age, "no value older than fresh x (1 + jitter) + stale")                            \
	X(ROLLBACK, rollback, "no older value once a newer one is known")                          \
	X(WAITING, waiting, "every request is answered by its deadline")                           \
	X(EXPLICIT, explicit, "every reply says what it is, and why it isn't fresh")               \
	X(SERVED, served, "nobody is refused")

enum drill_promise {
#define X(NAME, name, text) DRILL_##NAME,
	DRILL_PROMISE_MAP(X)
#undef X
};
#define X(NAME, name, text) +1
enum { DRILL_PROMISES = DRILL_PROMISE_MAP(X) };
#undef X

const char *drill_promise_name(enum drill_promise promise);
const char *drill_promise_text(enum drill_promise promise);

/* What the keyspace allows. */
struct judge_policy {
	bool single_row;
	int64_t fresh_ms, stale_ms, negative_ms, wait_ms;
	double jitter;
	int64_t max_age_ms; /* -1: by these times; else that, where rows have times of their own */
};

enum { JUDGE_STATES = SEGAR_ABSENT + 1, JUDGE_STATUSES = SEGAR_OTHER + 1 };
enum { JUDGE_REASONS = SEGAR_REASON_ORIGIN_ERROR + 1 };

/* What came of a scene's requests. */
struct judge_tally {
	const char *name;
	uint64_t asked, answered;
	uint64_t states[JUDGE_STATES], reasons[JUDGE_REASONS], errors[JUDGE_STATUSES];
	struct histogram latencies; /* of values, from when they were due */
	int64_t oldest_ms;          /* the greatest age told */
	int64_t longest_us;         /* the longest that an answer took */
	uint64_t builds_seen;       /* builds of the drill's keys whose values somebody got */
};

struct judge_breach {
	uint64_t count;
	char first[512];
};

struct judge_reply {
	const char *key, *socket; /* borrowed */
	uint32_t key_at;          /* UINT32_MAX: one that is made up */
	uint32_t connection, daemon;
	int64_t scene_us; /* when the scene began */
	int64_t due_us, sent_us, came_us;
	int64_t noise_us; /* by how much the client itself came late so far */
	const segar_reply *reply;
};

struct judge {
	struct judge_policy policy;
	struct judge_breach breaches[DRILL_PROMISES];
	uint32_t keys, connections, daemons;
	int64_t *versions;      /* owned; the last one of each key on each connection */
	struct judge_act *acts; /* owned; the last invalidation of each key that a daemon has */
	int64_t *built_us;      /* owned; of each key the latest build seen */
};

/* False without memory. */
bool judge_open(struct judge *judge, const struct judge_policy *policy, uint32_t keys,
		uint32_t connections, uint32_t daemons);
void judge_close(struct judge *judge);

/* That daemon has confirmed that the key was invalidated; it was asked to at `sent_us`. */
void judge_invalidated(struct judge *judge, uint32_t key, uint32_t daemon, bool hard,
		       int64_t sent_us, int64_t now_us);

void judge_take(struct judge *judge, struct judge_tally *tally, const struct judge_reply *reply);

/* So many requests of that scene had no answer when they were long past their deadline. */
void judge_unanswered(struct judge *judge, const char *scene, uint64_t count);

__attribute__((format(printf, 3, 4))) void
judge_breach(struct judge *judge, enum drill_promise promise, const char *format, ...);

/* Whether any promise was broken. */
bool judge_found(const struct judge *judge);
