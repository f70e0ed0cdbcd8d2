#include "core/answer.h"

#include <string.h>

#include "base/check.h"

#define X(NAME, name) #name,
static const char *const state_names[] = { RESULT_STATE_MAP(X) };
static const char *const reason_names[] = { RESULT_REASON_MAP(X) };
static const char *const source_names[] = { RESULT_SOURCE_MAP(X) };
#undef X

const char *answer_state_name(enum answer_state state)
{
	return state_names[state];
}

const char *answer_reason_name(enum answer_reason reason)
{
	return reason_names[reason];
}

const char *answer_source_name(enum answer_source source)
{
	return source_names[source];
}

static void answer_value(struct answer *answer, const struct entry *entry, int64_t now_us,
			 enum answer_source source)
{
	*answer = (struct answer){
		.status = STATUS_OK,
		.source = source,
		.value = entry->value,
		.has_version = entry->has_version,
		.version = entry->version,
		.age_us = now_us > entry->generated_at_us ? now_us - entry->generated_at_us : 0,
	};
}

void answer_fresh(struct answer *answer, const struct entry *entry, int64_t now_us,
		  enum answer_source source)
{
	answer_value(answer, entry, now_us, source);
	answer->state = entry->absent ? ANSWER_ABSENT : ANSWER_FRESH;
	answer->ttl_us = entry->fresh_until_us > now_us ? entry->fresh_until_us - now_us : 0;
}

void answer_stale(struct answer *answer, const struct entry *entry, int64_t now_us,
		  enum answer_source source, enum answer_reason reason)
{
	answer_value(answer, entry, now_us, source);
	answer->state = entry->absent ? ANSWER_ABSENT : ANSWER_STALE;
	answer->reason = reason;
	answer->stale_us = now_us - entry->fresh_until_us;
}

void answer_refreshed(struct answer *answer, const struct entry *entry)
{
	*answer = (struct answer){ .status = STATUS_OK,
				   .has_version = entry->has_version,
				   .version = entry->version };
}

bool answer_may_be_stale(const struct query *query, const struct entry *entry, int64_t now_us)
{
	if (query->kind != QUERY_GET || entry_phase(entry, now_us) != ENTRY_STALE)
		return false;
	if (query->has_max_stale && now_us - entry->fresh_until_us >= query->max_stale_us)
		return false;
	const struct policy *policy = query->key.keyspace->policy;
	return !query->has_min_version ||
	       entry_covers(entry, query->min_version, policy->single_row);
}

enum answer_reason answer_reason_of(enum status status)
{
	switch (status) {
	case STATUS_TIMEOUT:
		return REASON_TIMEOUT;
	case STATUS_OVERLOADED:
		return REASON_OVERLOADED;
	case STATUS_UNAVAILABLE:
		return REASON_UNAVAILABLE;
	case STATUS_OK:
		return REASON_NONE;
	case STATUS_BAD_REQUEST:
	case STATUS_TOO_LARGE:
	case STATUS_UNKNOWN_METHOD:
	case STATUS_UNKNOWN_KEYSPACE:
	case STATUS_DENIED:
	case STATUS_ORIGIN_ERROR:
		return REASON_ORIGIN_ERROR;
	}
	return REASON_ORIGIN_ERROR;
}

void answer_without_value(struct answer *answer, const struct query *query, enum status status,
			  const struct value *text, int64_t retry_after_us)
{
	const struct policy *policy = query->key.keyspace->policy;
	CHECK_MSG(status != STATUS_OK, "no value and no reason for %.*s", (int)query->key.len,
		  query->key.bytes);
	*answer = (struct answer){ .status = status, .retry_after_us = retry_after_us };
	if (text) {
		answer->text = text->bytes;
		answer->text_len = text->len;
	}
	/* A malformed key is the caller's fault: no value stands in for it. */
	if (query->kind == QUERY_GET && policy->default_value && status != STATUS_BAD_REQUEST) {
		answer->status = STATUS_OK;
		answer->state = ANSWER_DEFAULT;
		answer->reason = answer_reason_of(status);
		answer->value = policy->default_value;
	}
}
