/* The families that have samples of each keyspace. */
#include <stdio.h>

#include "ops/family.h"

enum { LABEL_MAX = 128 };

/* X(name, type, what it is, the number) */
#define ACCOUNT_COUNTER(name, text) X(name, counter, text, account->counters.name)
#define KEYSPACE_NUMBER_MAP                                                                        \
	X(waiting_requests, gauge, "requests that wait for a value", account->waiting)             \
	ACCOUNT_PLAIN_MAP(ACCOUNT_COUNTER)                                                         \
	X(keyspace_near_bytes, gauge, "its part of the near cache", account->near_bytes)           \
	X(keyspace_near_entries, gauge, "its entries there", account->near_entries)                \
	X(fresh_seconds, gauge, "how long a value is fresh, by the configuration",                 \
	  (double)keyspace->policy->fresh_us / 1e6)                                                \
	X(stale_seconds, gauge, "how long it may be served after that",                            \
	  (double)keyspace->policy->stale_us / 1e6)                                                \
	X(keyspace_served, gauge, "0: its query does not prepare",                                 \
	  pool_statement(sources->pool, keyspace->index)->state != STATEMENT_REFUSED)

enum {
#define X(name, type, text, expression) NUMBER_##name,
	KEYSPACE_NUMBER_MAP
#undef X
};

static double number_of(unsigned number, const struct family_sources *sources,
			const struct keyspace *keyspace)
{
	const struct account *account = &keyspace->account;
	switch (number) {
#define X(name, type, text, expression)                                                            \
	case NUMBER_##name:                                                                        \
		return (double)(expression);
		KEYSPACE_NUMBER_MAP
#undef X
	}
	return 0;
}

/* ---- tables, of which what never happened is left out --------------------------------------- */

static void put_gets(struct page *page, const struct metric *metric,
		     const struct family_sources *sources, const struct keyspace *keyspace)
{
	(void)sources;
	for (int state = 0; state < RESULT_STATE_COUNT; state++)
		for (int source = 0; source < RESULT_SOURCE_COUNT; source++)
			for (int reason = 0; reason < RESULT_REASON_COUNT; reason++) {
				uint64_t number = keyspace->account.gets[state][source][reason];
				if (number > 0)
					page_sample(page, metric, (double)number,
						    "keyspace=\"%s\",state=\"%s\",source=\"%s\","
						    "reason=\"%s\"",
						    keyspace->policy->name,
						    result_state_name((enum result_state)state),
						    result_source_name((enum result_source)source),
						    result_reason_name((enum result_reason)reason));
			}
}

static void put_get_errors(struct page *page, const struct metric *metric,
			   const struct family_sources *sources, const struct keyspace *keyspace)
{
	(void)sources;
	for (int status = 0; status < STATUS_COUNT; status++)
		if (keyspace->account.errors[status] > 0)
			page_sample(page, metric, (double)keyspace->account.errors[status],
				    "keyspace=\"%s\",code=\"%s\"", keyspace->policy->name,
				    status_name((enum status)status));
}

static void put_refreshes(struct page *page, const struct metric *metric,
			  const struct family_sources *sources, const struct keyspace *keyspace)
{
	(void)sources;
	for (int cause = 0; cause < REFRESH_CAUSES; cause++)
		for (int outcome = 0; outcome < REFRESH_OUTCOMES; outcome++) {
			uint64_t number = keyspace->account.refreshes[cause][outcome];
			if (number > 0)
				page_sample(page, metric, (double)number,
					    "keyspace=\"%s\",cause=\"%s\",outcome=\"%s\"",
					    keyspace->policy->name,
					    refresh_cause_name((enum refresh_cause)cause),
					    refresh_outcome_name((enum refresh_outcome)outcome));
		}
}

static void put_wasted(struct page *page, const struct metric *metric,
		       const struct family_sources *sources, const struct keyspace *keyspace)
{
	(void)sources;
	for (int cause = 0; cause < REFRESH_CAUSES; cause++)
		if (keyspace->account.wasted[cause] > 0)
			page_sample(page, metric, (double)keyspace->account.wasted[cause],
				    "keyspace=\"%s\",cause=\"%s\"", keyspace->policy->name,
				    refresh_cause_name((enum refresh_cause)cause));
}

/* ---- by the reason that is in a counter's name ---------------------------------------------- */

static void put_reason(struct page *page, const struct metric *metric,
		       const struct keyspace *keyspace, const char *reason, size_t len,
		       uint64_t number)
{
	page_sample(page, metric, (double)number, "keyspace=\"%s\",reason=\"%.*s\"",
		    keyspace->policy->name, (int)len, reason);
}

static void put_retries(struct page *page, const struct metric *metric,
			const struct family_sources *sources, const struct keyspace *keyspace)
{
	(void)sources;
#define X(name, text)                                                                              \
	put_reason(page, metric, keyspace, &#name[sizeof("retries_") - 1],                         \
		   sizeof(#name) - sizeof("retries_"), keyspace->account.counters.name);
	ACCOUNT_RETRY_MAP(X)
#undef X
}

static void put_refusals(struct page *page, const struct metric *metric,
			 const struct family_sources *sources, const struct keyspace *keyspace)
{
	(void)sources;
#define X(name, text)                                                                              \
	put_reason(page, metric, keyspace, #name, sizeof(#name) - sizeof("_refused"),              \
		   keyspace->account.counters.name);
	ACCOUNT_REFUSAL_MAP(X)
#undef X
}

/* ---- histograms ----------------------------------------------------------------------------- */

static void put_durations(struct page *page, const struct metric *metric,
			  const struct keyspace *keyspace, const struct durations *durations)
{
	char label[LABEL_MAX];
	snprintf(label, sizeof(label), "keyspace=\"%s\"", keyspace->policy->name);
	page_durations(page, metric, label, durations);
}

static void put_stale_ages(struct page *page, const struct metric *metric,
			   const struct family_sources *sources, const struct keyspace *keyspace)
{
	(void)sources;
	put_durations(page, metric, keyspace, &keyspace->account.stale_ages);
}

static void put_build_times(struct page *page, const struct metric *metric,
			    const struct family_sources *sources, const struct keyspace *keyspace)
{
	(void)sources;
	put_durations(page, metric, keyspace, &keyspace->account.build_times);
}

static void put_queue_times(struct page *page, const struct metric *metric,
			    const struct family_sources *sources, const struct keyspace *keyspace)
{
	(void)sources;
	put_durations(page, metric, keyspace, &keyspace->account.queue_times);
}

/* ---- all ------------------------------------------------------------------------------------ */

const struct family keyspace_families[] = {
	{ { "gets", "counter", "gets answered with a value or an absence" }, .put = put_gets },
	{ { "get_errors", "counter", "gets answered with an error" }, .put = put_get_errors },
	{ { "stale_age_seconds", "histogram",
	    "how long the freshness of values served stale had been over" },
	  .put = put_stale_ages },
	{ { "refreshes", "counter", "refreshes ended" }, .put = put_refreshes },
	{ { "refreshes_wasted", "counter", "values built that nobody read here" },
	  .put = put_wasted },
	{ { "build_duration_seconds", "histogram", "how long the origin took to build a value" },
	  .put = put_build_times },
	{ { "queue_duration_seconds", "histogram",
	    "from the wish to build to the build's beginning" },
	  .put = put_queue_times },
	{ { "retries", "counter",
	    "steps of refreshes taken once more; held: looks while another daemon built" },
	  .put = put_retries },
	{ { "refused", "counter",
	    "refreshes not let in: the queue was full, or the origin was lost (breaker)" },
	  .put = put_refusals },
#define X(name, type, text, expression) { { #name, #type, text }, .number = NUMBER_##name },
	KEYSPACE_NUMBER_MAP
#undef X
};
const uint32_t keyspace_families_count = sizeof(keyspace_families) / sizeof(*keyspace_families);

void keyspace_family_put(struct page *page, const struct family *family,
			 const struct family_sources *sources, const struct keyspace *keyspace)
{
	if (family->put)
		family->put(page, &family->metric, sources, keyspace);
	else
		page_sample(page, &family->metric, number_of(family->number, sources, keyspace),
			    "keyspace=\"%s\"", keyspace->policy->name);
}
