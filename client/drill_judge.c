#include "client/drill_judge.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	ROUNDING_MS = 2,       /* ages and lengths are whole ms, each rounded */
	CLOCKS_MS = 100,       /* by how much the clocks of hosts may differ that ages come from */
	GRACE_US = 100 * 1000, /* what timers and the way may add to a deadline */
	APART_US = 20 * 1000,  /* builds of a key whose moments are closer are taken for one */
};

struct judge_act {
	int64_t sent_us, confirmed_us; /* 0: none */
	bool hard;
};

const char *drill_promise_name(enum drill_promise promise)
{
	static const char *const names[] = {
#define X(NAME, name, text) #name,
		DRILL_PROMISE_MAP(X)
#undef X
	};
	return names[promise];
}

const char *drill_promise_text(enum drill_promise promise)
{
	static const char *const texts[] = {
#define X(NAME, name, text) text,
		DRILL_PROMISE_MAP(X)
#undef X
	};
	return texts[promise];
}

bool judge_open(struct judge *judge, const struct judge_policy *policy, uint32_t keys,
		uint32_t connections, uint32_t daemons)
{
	*judge = (struct judge){
		.policy = *policy, .keys = keys, .connections = connections, .daemons = daemons
	};
	judge->versions = calloc((size_t)keys * connections, sizeof(*judge->versions));
	judge->acts = calloc((size_t)keys * daemons, sizeof(*judge->acts));
	judge->built_us = calloc(keys, sizeof(*judge->built_us));
	if (!judge->versions || !judge->acts || !judge->built_us) {
		judge_close(judge);
		return false;
	}
	for (size_t i = 0; i < (size_t)keys * connections; i++)
		judge->versions[i] = INT64_MIN;
	return true;
}

void judge_close(struct judge *judge)
{
	free(judge->versions);
	free(judge->acts);
	free(judge->built_us);
	judge->versions = NULL;
	judge->acts = NULL;
	judge->built_us = NULL;
}

/* ---- breaches ------------------------------------------------------------------------------ */

void judge_breach(struct judge *judge, enum drill_promise promise, const char *format, ...)
{
	struct judge_breach *breach = &judge->breaches[promise];
	va_list args;

	if (breach->count++ > 0)
		return;
	va_start(args, format);
	vsnprintf(breach->first, sizeof(breach->first), format, args);
	va_end(args);
}

bool judge_found(const struct judge *judge)
{
	for (int i = 0; i < DRILL_PROMISES; i++)
		if (judge->breaches[i].count > 0)
			return true;
	return false;
}

/* The reply in words: enough to find it in a log. */
static const char *show(const struct judge_tally *tally, const struct judge_reply *reply,
			char ret_text[400])
{
	const segar_result *result = reply->reply->results;
	const int head =
		snprintf(ret_text, 400,
			 "%s at %.3f s: %.100s by %.110s, answered after %.1f ms: ", tally->name,
			 (double)(reply->sent_us - reply->scene_us) / 1e6, reply->key,
			 reply->socket, (double)(reply->came_us - reply->sent_us) / 1e3);
	char version[32] = "none";

	if (reply->reply->status != SEGAR_OK) {
		snprintf(ret_text + head, (size_t)(400 - head), "%s: %.100s",
			 segar_status_name(reply->reply->status), reply->reply->error);
		return ret_text;
	}
	if (result->has_version)
		snprintf(version, sizeof(version), "%" PRId64, result->version);
	snprintf(ret_text + head, (size_t)(400 - head),
		 "%s, reason %s, version %s, age %" PRId64 " ms, fresh for %" PRId64
		 " ms, stale for %" PRId64 " ms",
		 segar_state_name(result->state),
		 result->reason == SEGAR_REASON_NONE ? "none" : segar_reason_name(result->reason),
		 version, result->age_ms, result->ttl_ms, result->stale_ms);
	return ret_text;
}

/* ---- one reply ----------------------------------------------------------------------------- */

/* Whether the value's build began after the request was sent: then it may answer it at any age. */
static bool is_built_for_it(const struct judge_reply *reply)
{
	return reply->reply->results->age_ms * 1000 <= reply->came_us - reply->sent_us;
}

static void judge_age(struct judge *judge, const struct judge_tally *tally,
		      const struct judge_reply *reply)
{
	const segar_result *result = reply->reply->results;
	const struct judge_policy *policy = &judge->policy;
	const int64_t life_ms =
		result->state == SEGAR_ABSENT ? policy->negative_ms : policy->fresh_ms;
	const int64_t bound_ms =
		policy->max_age_ms >= 0
			? policy->max_age_ms
			: (int64_t)((double)life_ms * (1 + policy->jitter)) + policy->stale_ms;
	char text[400];

	if (result->state == SEGAR_DEFAULT || is_built_for_it(reply))
		return;
	if (result->age_ms > bound_ms + ROUNDING_MS)
		judge_breach(judge, DRILL_AGE, "older than %" PRId64 " ms: %s", bound_ms,
			     show(tally, reply, text));
	else if (policy->max_age_ms < 0 && result->stale_ms > policy->stale_ms + ROUNDING_MS)
		judge_breach(judge, DRILL_AGE, "stale for longer than %" PRId64 " ms: %s",
			     policy->stale_ms, show(tally, reply, text));
}

/* Versions on a connection, and values from before an invalidation that this daemon has confirmed.
 * Others are told within near.trust, which nobody tells us. */
static void judge_order(struct judge *judge, const struct judge_tally *tally,
			const struct judge_reply *reply)
{
	const segar_result *result = reply->reply->results;
	int64_t *version =
		&judge->versions[(size_t)reply->connection * judge->keys + reply->key_at];
	const struct judge_act *act =
		&judge->acts[(size_t)reply->daemon * judge->keys + reply->key_at];
	char text[400];

	if (result->state == SEGAR_DEFAULT)
		return;
	if (judge->policy.single_row && result->has_version) {
		if (result->version < *version)
			judge_breach(judge, DRILL_ROLLBACK,
				     "the connection had seen version %" PRId64 ": %s", *version,
				     show(tally, reply, text));
		*version = result->version;
	}
	if (act->confirmed_us == 0 || reply->sent_us <= act->confirmed_us)
		return;
	const bool before = reply->came_us - (result->age_ms - CLOCKS_MS) * 1000 < act->sent_us;

	if (before && (act->hard || result->state == SEGAR_FRESH))
		judge_breach(judge, DRILL_ROLLBACK, "%s, from before it was invalidated%s: %s",
			     act->hard ? "served" : "called fresh", act->hard ? " (hard)" : "",
			     show(tally, reply, text));
}

static void judge_state(struct judge *judge, const struct judge_tally *tally,
			const struct judge_reply *reply)
{
	const segar_result *result = reply->reply->results;
	const bool fresh = result->state == SEGAR_FRESH || result->state == SEGAR_ABSENT;
	const char *what = NULL;
	char text[400];

	if (!fresh && result->reason == SEGAR_REASON_NONE)
		what = "not fresh, and it does not say why";
	else if (result->state == SEGAR_FRESH && result->stale_ms > 0)
		what = "fresh and stale at once";
	else if (result->state == SEGAR_FRESH && result->reason != SEGAR_REASON_NONE &&
		 result->reason != SEGAR_REASON_UNAVAILABLE)
		what = "fresh, with a reason not to be";
	else if (result->age_ms < 0 || result->ttl_ms < 0 || result->stale_ms < 0)
		what = "an age or a time below 0";
	if (what)
		judge_breach(judge, DRILL_EXPLICIT, "%s: %s", what, show(tally, reply, text));
}

static void judge_time(struct judge *judge, struct judge_tally *tally,
		       const struct judge_reply *reply)
{
	const int64_t took_us = reply->came_us - reply->sent_us;
	const int64_t bound_us = judge->policy.wait_ms * 1000;
	char text[400];

	if (took_us > tally->longest_us)
		tally->longest_us = took_us;
	if (took_us > bound_us + GRACE_US + 2 * reply->noise_us)
		judge_breach(judge, DRILL_WAITING, "later than its deadline of %" PRId64 " ms: %s",
			     judge->policy.wait_ms, show(tally, reply, text));
}

/* Counts the builds whose values came, as far as their moments tell them apart. A reply that was
 * long under way makes its build seem later than it was, never earlier. */
static void count_build(struct judge *judge, struct judge_tally *tally,
			const struct judge_reply *reply)
{
	const int64_t built_us = reply->came_us - reply->reply->results->age_ms * 1000;
	const int64_t apart_us =
		APART_US + 2 * reply->noise_us + (reply->came_us - reply->sent_us) / 2;
	int64_t *last_us = &judge->built_us[reply->key_at];

	if (reply->reply->results->state == SEGAR_DEFAULT)
		return;
	if (*last_us != 0 && built_us > *last_us + apart_us)
		tally->builds_seen++;
	if (*last_us == 0 || built_us > *last_us + apart_us)
		*last_us = built_us;
}

void judge_take(struct judge *judge, struct judge_tally *tally, const struct judge_reply *reply)
{
	const segar_reply *got = reply->reply;
	const int status = got->status < JUDGE_STATUSES ? got->status : SEGAR_OTHER;
	char text[400];

	tally->answered++;
	if (status == SEGAR_DISCONNECTED || status == SEGAR_PROTOCOL) {
		tally->errors[status]++;
		judge_breach(judge, DRILL_WAITING, "not answered: %s", show(tally, reply, text));
		return;
	}
	judge_time(judge, tally, reply);
	if (status != SEGAR_OK) {
		tally->errors[status]++;
		judge_breach(judge, DRILL_SERVED, "refused: %s", show(tally, reply, text));
		return;
	}
	if ((unsigned)got->results->state >= JUDGE_STATES ||
	    (unsigned)got->results->reason >= JUDGE_REASONS) {
		judge_breach(judge, DRILL_EXPLICIT, "of no known state or reason: %s",
			     show(tally, reply, text));
		return;
	}
	tally->states[got->results->state]++;
	tally->reasons[got->results->reason]++;
	histogram_add(&tally->latencies, (uint64_t)(reply->came_us - reply->due_us) * 1000);
	if (got->results->age_ms > tally->oldest_ms)
		tally->oldest_ms = got->results->age_ms;
	judge_state(judge, tally, reply);
	judge_age(judge, tally, reply);
	if (reply->key_at == UINT32_MAX)
		return;
	judge_order(judge, tally, reply);
	count_build(judge, tally, reply);
}

void judge_unanswered(struct judge *judge, const char *scene, uint64_t count)
{
	judge_breach(judge, DRILL_WAITING, "%s: %" PRIu64 " requests were never answered", scene,
		     count);
}

void judge_invalidated(struct judge *judge, uint32_t key, uint32_t daemon, bool hard,
		       int64_t sent_us, int64_t now_us)
{
	judge->acts[(size_t)daemon * judge->keys + key] =
		(struct judge_act){ .sent_us = sent_us, .confirmed_us = now_us, .hard = hard };
}
