#include "ops/regeneration.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"

/* Of a build that brought a value, what the store did with it; of others, why they did not. */
static const char *outcome_of(const struct flight *flight)
{
	if (flight->op.verb != STORE_SAVE)
		return build_outcome_name(flight->build.outcome);
	if (flight->op.outcome == STORE_DONE)
		return "stored";
	return flight->op.outcome == STORE_REFUSED ? "refused" : "unsaved";
}

static const char *version_text(bool has, int64_t version, char text[static 24])
{
	if (!has)
		return NULL;
	snprintf(text, 24, "%" PRId64, version);
	return text;
}

static const char *host_name(void)
{
	static char name[256];
	if (!name[0] && gethostname(name, sizeof(name) - 1) != 0)
		snprintf(name, sizeof(name), "?");
	return name;
}

void regeneration_log(void *impl, const struct regeneration *regeneration)
{
	(void)impl;
	const struct flight *flight = regeneration->flight;
	const struct policy *policy = flight->key.keyspace->policy;
	const struct entry *before = regeneration->before, *after = &flight->result;
	bool built = flight->op.verb == STORE_SAVE;
	enum log_level level = built ? LOG_LEVEL_INFO : LOG_LEVEL_WARNING;
	char from[24], to[24], trace[TRACE_TEXT_LEN + 1];

	if (!log_enabled_for(level, flight->key.keyspace->log_level))
		return;
	if (flight->has_trace)
		trace_write(&flight->trace, trace);
	LOG_IF(true, level, "cache_regeneration",
	       LOG_KEY("key", flight->key.bytes, flight->key.len),
	       LOG_TEXT("keyspace", policy->name),
	       LOG_TEXT("cause", refresh_cause_name(flight->cause)),
	       LOG_TEXT("outcome", outcome_of(flight)), LOG_UINT("lease", flight->fence),
	       LOG_TEXT("host", host_name()), LOG_INT("pid", getpid()),
	       LOG_TEXT("version_before", version_text(before && before->has_version,
						       before ? before->version : 0, from)),
	       LOG_TEXT("version", version_text(built && after->has_version, after->version, to)),
	       LOG_INT("rows", built && !after->absent), LOG_MS("queue_ms", regeneration->queue_us),
	       LOG_MS("lease_ms", regeneration->lease_us),
	       LOG_MS("build_ms", regeneration->build_us), LOG_MS("save_ms", regeneration->save_us),
	       LOG_TEXT("trace", flight->has_trace ? trace : NULL));
}
