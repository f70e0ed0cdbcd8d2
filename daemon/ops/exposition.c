#include "ops/exposition.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"

struct family;
typedef void (*put_fn)(struct exposition *page, const struct family *family,
		       const struct keyspace *keyspace);

/* A metric: how its samples are written, one keyspace at a time or of the daemon as a whole. */
struct family {
	const char *name; /* without its segar_; counters get their _total */
	const char *type;
	const char *help;
	bool per_keyspace;
	put_fn put;
	size_t offset; /* of its number in the struct that `put` reads */
};

/* ---- writing ------------------------------------------------------------------------------ */

static void put(struct exposition *page, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void put(struct exposition *page, const char *format, ...)
{
	const size_t room = sizeof(page->piece) - page->len;
	va_list args;
	va_start(args, format);
	int len = vsnprintf(page->piece + page->len, room, format, args);
	va_end(args);
	CHECK(len >= 0 && (size_t)len < room);
	page->len += (size_t)len;
}

static bool ends_with(const char *text, const char *end)
{
	const size_t len = strlen(text), end_len = strlen(end);
	return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

static void put_name(struct exposition *page, const struct family *family)
{
	const bool is_standard = strncmp(family->name, "process_", 8) == 0;
	const bool is_total =
		strcmp(family->type, "counter") != 0 || ends_with(family->name, "_total");
	put(page, "%s%s%s", is_standard ? "" : "segar_", family->name, is_total ? "" : "_total");
}

static void put_head(struct exposition *page, const struct family *family)
{
	put(page, "# HELP ");
	put_name(page, family);
	put(page, " %c%s.\n# TYPE ",
	    family->help[0] >= 'a' ? family->help[0] - 'a' + 'A' : family->help[0],
	    family->help + 1);
	put_name(page, family);
	put(page, " %s\n", family->type);
}

static void put_whole(struct exposition *page, const struct family *family, uint64_t number)
{
	put_name(page, family);
	put(page, " %" PRIu64 "\n", number);
}

static void put_real(struct exposition *page, const struct family *family, double number)
{
	put_name(page, family);
	put(page, " %.9g\n", number);
}

static void put_labelled(struct exposition *page, const struct family *family, uint64_t number,
			 const char *labels, ...) __attribute__((format(printf, 4, 5)));

/* Names of keyspaces and of the tables need no escapes: they have neither quotes nor backslashes.
 */
static void put_labelled(struct exposition *page, const struct family *family, uint64_t number,
			 const char *labels, ...)
{
	char text[256];
	va_list args;
	va_start(args, labels);
	vsnprintf(text, sizeof(text), labels, args);
	va_end(args);
	put_name(page, family);
	put(page, "{%s} %" PRIu64 "\n", text, number);
}

/* Every power of two is a bucket: `durations` has finer ones, more than a monitor should keep. */
static void put_durations(struct exposition *page, const struct family *family, const char *labels,
			  const struct durations *durations)
{
	uint64_t count = 0;
	const char *comma = *labels ? "," : "";
	for (unsigned i = 0; i + 1 < DURATIONS_BUCKETS; i++) {
		count += durations->buckets[i];
		if (i % DURATIONS_STEPS == 0) {
			put_name(page, family);
			put(page, "_bucket{%s%sle=\"%.9g\"} %" PRIu64 "\n", labels, comma,
			    (double)durations_end(i) / 1e6, count);
		}
	}
	put_name(page, family);
	put(page, "_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", labels, comma, durations->count);
	const char *open = *labels ? "{" : "", *close = *labels ? "}" : "";
	put_name(page, family);
	put(page, "_sum%s%s%s %.9g\n", open, labels, close, (double)durations->sum_us / 1e6);
	put_name(page, family);
	put(page, "_count%s%s%s %" PRIu64 "\n", open, labels, close, durations->count);
}

/* ---- of a keyspace ------------------------------------------------------------------------ */

static void put_counter_of(struct exposition *page, const struct family *family,
			   const struct keyspace *keyspace)
{
	const char *counters = (const char *)&keyspace->account.counters;
	put_labelled(page, family, *(const uint64_t *)(counters + family->offset),
		     "keyspace=\"%s\"", keyspace->policy->name);
}

/* What was never told is left out. */
static void put_gets(struct exposition *page, const struct family *family,
		     const struct keyspace *keyspace)
{
	for (int state = 0; state < RESULT_STATE_COUNT; state++)
		for (int source = 0; source < RESULT_SOURCE_COUNT; source++)
			for (int reason = 0; reason < RESULT_REASON_COUNT; reason++) {
				uint64_t number = keyspace->account.gets[state][source][reason];
				if (number > 0)
					put_labelled(
						page, family, number,
						"keyspace=\"%s\",state=\"%s\",source=\"%s\","
						"reason=\"%s\"",
						keyspace->policy->name,
						result_state_name((enum result_state)state),
						result_source_name((enum result_source)source),
						result_reason_name((enum result_reason)reason));
			}
}

static void put_get_errors(struct exposition *page, const struct family *family,
			   const struct keyspace *keyspace)
{
	for (int status = 0; status < STATUS_COUNT; status++)
		if (keyspace->account.errors[status] > 0)
			put_labelled(page, family, keyspace->account.errors[status],
				     "keyspace=\"%s\",code=\"%s\"", keyspace->policy->name,
				     status_name((enum status)status));
}

static void put_refreshes(struct exposition *page, const struct family *family,
			  const struct keyspace *keyspace)
{
	for (int cause = 0; cause < REFRESH_CAUSES; cause++)
		for (int outcome = 0; outcome < REFRESH_OUTCOMES; outcome++)
			if (keyspace->account.refreshes[cause][outcome] > 0)
				put_labelled(page, family,
					     keyspace->account.refreshes[cause][outcome],
					     "keyspace=\"%s\",cause=\"%s\",outcome=\"%s\"",
					     keyspace->policy->name,
					     refresh_cause_name((enum refresh_cause)cause),
					     refresh_outcome_name((enum refresh_outcome)outcome));
}

static void put_wasted(struct exposition *page, const struct family *family,
		       const struct keyspace *keyspace)
{
	for (int cause = 0; cause < REFRESH_CAUSES; cause++)
		if (keyspace->account.wasted[cause] > 0)
			put_labelled(page, family, keyspace->account.wasted[cause],
				     "keyspace=\"%s\",cause=\"%s\"", keyspace->policy->name,
				     refresh_cause_name((enum refresh_cause)cause));
}

static void put_waiting(struct exposition *page, const struct family *family,
			const struct keyspace *keyspace)
{
	put_labelled(page, family, keyspace->account.waiting, "keyspace=\"%s\"",
		     keyspace->policy->name);
}

static void put_served(struct exposition *page, const struct family *family,
		       const struct keyspace *keyspace)
{
	const struct statement *statement = pool_statement(page->sources.pool, keyspace->index);
	put_labelled(page, family, statement->state != STATEMENT_REFUSED, "keyspace=\"%s\"",
		     keyspace->policy->name);
}

static void put_seconds_of(struct exposition *page, const struct family *family,
			   const struct keyspace *keyspace)
{
	const int64_t us = *(const int64_t *)((const char *)keyspace->policy + family->offset);
	put_name(page, family);
	put(page, "{keyspace=\"%s\"} %.9g\n", keyspace->policy->name, (double)us / 1e6);
}

static void put_durations_of(struct exposition *page, const struct family *family,
			     const struct keyspace *keyspace)
{
	char label[128];
	snprintf(label, sizeof(label), "keyspace=\"%s\"", keyspace->policy->name);
	put_durations(page, family, label,
		      (const void *)((const char *)&keyspace->account + family->offset));
}

/* ---- of the daemon ------------------------------------------------------------------------ */

static const struct engine *engine_of(const struct exposition *page)
{
	return page->sources.server->pump->engine;
}

static void put_info(struct exposition *page, const struct family *family,
		     const struct keyspace *keyspace)
{
	(void)keyspace;
	put_labelled(page, family, 1, "version=\"%s\"", SEGAR_VERSION);
}

#define PUT_NUMBER(name, form, expression)                                                         \
	static void name(struct exposition *page, const struct family *family,                     \
			 const struct keyspace *keyspace)                                          \
	{                                                                                          \
		(void)keyspace;                                                                    \
		put_##form(page, family, expression);                                              \
	}
/* The offset's number in one of the daemon's structs. */
#define AT(base) (*(const uint64_t *)((const char *)(base) + family->offset))
PUT_NUMBER(put_engine_counter, whole, AT(&engine_of(page)->counters))
PUT_NUMBER(put_server_counter, whole, AT(&page->sources.server->counters))
PUT_NUMBER(put_pool_number, whole, AT(pool_counters(page->sources.pool)))
PUT_NUMBER(put_near_evictions, whole, engine_of(page)->near.evictions)
PUT_NUMBER(put_near_refused, whole, engine_of(page)->near.refused)
PUT_NUMBER(put_near_bytes, whole, near_cost(&engine_of(page)->near))
PUT_NUMBER(put_near_max, whole, engine_of(page)->near.bytes_max)
PUT_NUMBER(put_near_entries, whole, engine_of(page)->near.table.count)
PUT_NUMBER(put_flights, whole, engine_of(page)->all.count)
PUT_NUMBER(put_leases, whole, engine_of(page)->leases)
PUT_NUMBER(put_slots, whole, engine_of(page)->slots)
PUT_NUMBER(put_inside, whole, engine_of(page)->bulkhead.inside)
PUT_NUMBER(put_breaker_open, whole, engine_of(page)->breaker.state != BREAKER_CLOSED)
PUT_NUMBER(put_breaker_opened, whole, engine_of(page)->breaker.opened)
PUT_NUMBER(put_connections, whole, page->sources.server->peers.count)
PUT_NUMBER(put_connections_max, whole, (uint64_t)page->sources.server->limits->connections)
PUT_NUMBER(put_requests, whole, page->sources.server->weight)
PUT_NUMBER(put_requests_max, whole, (uint64_t)page->sources.server->limits->requests)
PUT_NUMBER(put_output_bytes, whole, page->sources.server->output_bytes)
PUT_NUMBER(put_budget, real, (*page->sources.config)->origin.budget_per_s)
PUT_NUMBER(put_concurrency, whole, (uint64_t)(*page->sources.config)->origin.concurrency)
PUT_NUMBER(put_fleet, whole, (uint64_t)(*page->sources.config)->origin.fleet)
PUT_NUMBER(put_origin_up, whole, pool_trouble(page->sources.pool) == NULL)

static void put_queued(struct exposition *page, const struct family *family,
		       const struct keyspace *keyspace)
{
	(void)keyspace;
	for (int i = 0; i < PRIORITY_COUNT; i++)
		put_labelled(page, family, engine_of(page)->bulkhead.queues[i].tickets.count,
			     "priority=\"%s\"", priority_name((enum priority)i));
}

static void put_lags(struct exposition *page, const struct family *family,
		     const struct keyspace *keyspace)
{
	(void)keyspace;
	put_durations(page, family, "", page->sources.loop_lags);
}

/* ---- of the shared store ------------------------------------------------------------------ */

/* Reads its numbers and writes one, if there is such a store. */
#define PUT_STORE(name, form, expression)                                                          \
	static void name(struct exposition *page, const struct family *family,                     \
			 const struct keyspace *keyspace)                                          \
	{                                                                                          \
		struct redis_stats stats;                                                          \
		(void)keyspace;                                                                    \
		if (!page->sources.redis)                                                          \
			return;                                                                    \
		redis_store_stats(page->sources.redis, &stats);                                    \
		put_##form(page, family, expression);                                              \
	}
PUT_STORE(put_store_counter, whole, AT(&stats))
PUT_STORE(put_store_up, whole, strcmp(stats.state, "up") == 0)
PUT_STORE(put_store_rtt, real, (double)stats.rtt_us / 1e6)
PUT_STORE(put_store_place, real, stats.place)
PUT_STORE(put_store_live, whole, stats.places_live)
PUT_STORE(put_store_alone, whole, stats.alone)
PUT_STORE(put_store_trusted, whole, stats.trusted)
PUT_STORE(put_store_apart, real, (double)stats.clock_apart_us / 1e6)
PUT_STORE(put_store_waiting, whole, stats.waiting)

static void put_store_errors(struct exposition *page, const struct family *family,
			     const struct keyspace *keyspace)
{
	struct redis_stats stats;
	(void)keyspace;
	if (!page->sources.redis)
		return;
	redis_store_stats(page->sources.redis, &stats);
	for (int i = STORE_ERROR_NONE + 1; i < STORE_ERRORS_COUNT; i++)
		put_labelled(page, family, stats.errors[i], "kind=\"%s\"",
			     store_error_name((enum store_error)i));
}

/* ---- of the log of changes ---------------------------------------------------------------- */

/* Reads its numbers and writes one, if the daemon follows it. */
#define PUT_FEED(name, form, expression)                                                           \
	static void name(struct exposition *page, const struct family *family,                     \
			 const struct keyspace *keyspace)                                          \
	{                                                                                          \
		struct feed_stats stats;                                                           \
		(void)keyspace;                                                                    \
		if (!*page->sources.feed)                                                          \
			return;                                                                    \
		feed_get_stats(*page->sources.feed, &stats);                                       \
		put_##form(page, family, expression);                                              \
	}
PUT_FEED(put_feed_counter, whole, AT(&stats))
PUT_FEED(put_feed_following, whole, stats.following)
PUT_FEED(put_feed_lag, real, (double)stats.lag_ms / 1e3)
PUT_FEED(put_feed_open, real, (double)stats.open_ms / 1e3)

/* ---- of warm-ups -------------------------------------------------------------------------- */

static void put_warm_counter(struct exposition *page, const struct family *family,
			     const struct keyspace *keyspace)
{
	(void)keyspace;
	put_whole(page, family, AT(&page->sources.warmer->counters));
}

static void put_warm_statements(struct exposition *page, const struct family *family,
				const struct keyspace *keyspace)
{
	(void)keyspace;
	put_whole(page, family, page->sources.warmer->statements);
}

/* The next of the jobs that run, after `node`; NULL: the first. */
static const struct warmer_job *next_job(const struct exposition *page,
					 const struct list_node **node)
{
	const struct list *jobs = &page->sources.warmer->jobs;
	for (;;) {
		*node = *node ? (*node)->next : jobs->head.next;
		if (!*node || *node == &jobs->head)
			return NULL;
		const struct warmer_job *job = container_of(*node, struct warmer_job, node);
		if (job->known && !job->over)
			return job;
	}
}

/* The fleet's, as this daemon last heard of them. */
static void put_warm_keys(struct exposition *page, const struct family *family,
			  const struct keyspace *keyspace)
{
	const struct list_node *node = NULL;
	const struct warmer_job *job;
	(void)keyspace;
	while ((job = next_job(page, &node)))
		if (job->job.total >= 0)
			put_labelled(page, family, (uint64_t)job->job.total, "job=\"%s\"",
				     job->name);
}

static void put_warm_done(struct exposition *page, const struct family *family,
			  const struct keyspace *keyspace)
{
	const struct list_node *node = NULL;
	const struct warmer_job *job;
	(void)keyspace;
	while ((job = next_job(page, &node))) {
		const struct job_counts *counts = &job->job.counts;
		put_labelled(page, family, (uint64_t)counts->fresh, "job=\"%s\",result=\"fresh\"",
			     job->name);
		put_labelled(page, family, (uint64_t)counts->built, "job=\"%s\",result=\"built\"",
			     job->name);
		put_labelled(page, family, (uint64_t)counts->failed, "job=\"%s\",result=\"failed\"",
			     job->name);
	}
}

/* ---- of the process ----------------------------------------------------------------------- */

static double seconds_of(struct timeval time)
{
	return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static double cpu_seconds(void)
{
	struct rusage usage;
	if (getrusage(RUSAGE_SELF, &usage) != 0)
		return 0;
	return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

static uint64_t resident_bytes(void)
{
	unsigned long pages = 0;
	FILE *file = fopen("/proc/self/statm", "re");
	if (!file)
		return 0;
	if (fscanf(file, "%*u %lu", &pages) != 1)
		pages = 0;
	fclose(file);
	return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t open_files(void)
{
	uint64_t count = 0;
	DIR *dir = opendir("/proc/self/fd");
	if (!dir)
		return 0;
	while (readdir(dir))
		count++;
	closedir(dir);
	return count > 3 ? count - 3 : 0; /* ".", ".." and the folder's own */
}

static uint64_t files_max(void)
{
	struct rlimit limit;
	return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

PUT_NUMBER(put_cpu, real, cpu_seconds())
PUT_NUMBER(put_resident, whole, resident_bytes())
PUT_NUMBER(put_open_files, whole, open_files())
PUT_NUMBER(put_files_max, whole, files_max())

/* ---- the metrics -------------------------------------------------------------------------- */

#define DAEMON(name, type, put, help)                                                              \
	{                                                                                          \
		name, type, help, false, put, 0                                                    \
	}
#define KEYSPACE(name, type, put, help)                                                            \
	{                                                                                          \
		name, type, help, true, put, 0                                                     \
	}
#define SECONDS(name, member, help)                                                                \
	{                                                                                          \
		name, "gauge", help, true, put_seconds_of, offsetof(struct policy, member)         \
	}
#define DURATIONS(name, member, help)                                                              \
	{                                                                                          \
		name, "histogram", help, true, put_durations_of, offsetof(struct account, member)  \
	}

static const struct family families[] = {
	DAEMON("build_info", "gauge", put_info, "the daemon's version, as a label"),
	/* what clients are told */
	KEYSPACE("gets", "counter", put_gets, "gets answered with a value or an absence"),
	KEYSPACE("get_errors", "counter", put_get_errors, "gets answered with an error"),
	KEYSPACE("waiting_requests", "gauge", put_waiting, "requests that wait for a value"),
	DURATIONS("stale_age_seconds", stale_ages,
		  "how long the freshness of values served stale had been over"),
	/* refreshes */
	KEYSPACE("refreshes", "counter", put_refreshes, "refreshes ended"),
	KEYSPACE("refreshes_wasted", "counter", put_wasted, "values built that nobody read here"),
	DURATIONS("build_duration_seconds", build_times,
		  "how long the origin took to build a value"),
	DURATIONS("queue_duration_seconds", queue_times,
		  "from the wish to build to the build's beginning"),
#define X(name, text)                                                                              \
	{ #name, "counter", text, true, put_counter_of, offsetof(struct account_counters, name) },
	ACCOUNT_COUNTER_MAP(X)
#undef X
	/* the policy, to compare with */
	SECONDS("fresh_seconds", fresh_us, "how long a value is fresh, by the configuration"),
	SECONDS("stale_seconds", stale_us, "how long it may be served after that"),
	KEYSPACE("keyspace_served", "gauge", put_served, "0: its query does not prepare"),
/* the engine */
#define X(name, text)                                                                              \
	{                                                                                          \
		#name, "counter",          text,                                                   \
		false, put_engine_counter, offsetof(struct engine_counters, name)                  \
	},
	ENGINE_COUNTER_MAP(X)
#undef X
		DAEMON("flights", "gauge", put_flights, "refreshes under way"),
	DAEMON("leases", "gauge", put_leases, "leases held"),
	DAEMON("permits", "gauge", put_slots, "slots of the fleet's concurrency held"),
	DAEMON("bulkhead_inside", "gauge", put_inside, "refreshes on their way to the origin"),
	DAEMON("queued", "gauge", put_queued, "refreshes that wait for room, by priority"),
	DAEMON("breaker_open", "gauge", put_breaker_open, "1: the origin is lost and being probed"),
	DAEMON("breaker_opened", "counter", put_breaker_opened, "times that the origin was lost"),
	DAEMON("near_bytes", "gauge", put_near_bytes, "memory in use by the near cache"),
	DAEMON("near_max_bytes", "gauge", put_near_max, "memory that it may use"),
	DAEMON("near_entries", "gauge", put_near_entries, "entries in it"),
	DAEMON("near_evictions", "counter", put_near_evictions, "entries evicted for room"),
	DAEMON("near_refused", "counter", put_near_refused, "entries that did not fit at all"),
	/* the origin */
	DAEMON("origin_up", "gauge", put_origin_up, "1: the last connection to it could be made"),
	DAEMON("budget_per_second", "gauge", put_budget,
	       "builds that the fleet may begin a second"),
	DAEMON("concurrency_limit", "gauge", put_concurrency,
	       "builds that the fleet may run at once"),
	DAEMON("fleet_size", "gauge", put_fleet, "daemons that share these, by the configuration"),
#define X(name, text)                                                                              \
	{ "origin_" #name, "gauge",         text,                                                  \
	  false,           put_pool_number, offsetof(struct pool_counters, name) },
	POOL_GAUGE_MAP(X)
#undef X
#define X(name, text)                                                                              \
	{ "origin_" #name, "counter",       text,                                                  \
	  false,           put_pool_number, offsetof(struct pool_counters, name) },
		POOL_COUNTER_MAP(X)
#undef X
	/* the shared store */
	DAEMON("store_up", "gauge", put_store_up, "1: it is in reach"),
	DAEMON("store_round_trip_seconds", "gauge", put_store_rtt, "the last measured to it"),
	DAEMON("store_place", "gauge", put_store_place,
	       "this daemon's number in the fleet; -1: none"),
	DAEMON("store_places_live", "gauge", put_store_live, "daemons that share the budget now"),
	DAEMON("store_alone", "gauge", put_store_alone,
	       "1: permits come from the daemon's own share"),
	DAEMON("store_trusted", "gauge", put_store_trusted,
	       "1: its heartbeats come, so near values need no look at it"),
	DAEMON("store_clock_offset_seconds", "gauge", put_store_apart,
	       "its clock less this host's"),
	DAEMON("store_waiting", "gauge", put_store_waiting, "operations under way"),
	DAEMON("store_errors", "counter", put_store_errors,
	       "operations and connections that failed"),
#define X(name, text)                                                                              \
	{ "store_" #name, "counter",         text,                                                 \
	  false,          put_store_counter, offsetof(struct redis_stats, name) },
	REDIS_COUNTER_MAP(X)
#undef X
	/* the log of changes */
	DAEMON("feed_following", "gauge", put_feed_following,
	       "1: this daemon reads the log of changes"),
	DAEMON("feed_lag_seconds", "gauge", put_feed_lag,
	       "from the beginning of the oldest transaction of the last reading to that reading"),
	DAEMON("feed_open_transaction_seconds", "gauge", put_feed_open,
	       "for how long a transaction has been open that may still log changes"),
#define X(name, text)                                                                              \
	{                                                                                          \
		"feed_" #name, "counter",        text,                                             \
		false,         put_feed_counter, offsetof(struct feed_stats, name)                 \
	},
	FEED_COUNTER_MAP(X)
#undef X
	/* warm-ups */
	DAEMON("warm_job_keys", "gauge", put_warm_keys,
	       "keys of each warm-up that runs, once they are known"),
	DAEMON("warm_job_done", "gauge", put_warm_done,
	       "of these, dealt with by the fleet, by what became of them"),
	DAEMON("warm_under_way", "gauge", put_warm_statements,
	       "statements of warm-ups that this daemon has under way"),
#define X(name, text)                                                                              \
	{ "warm_" #name, "counter",        text,                                                   \
	  false,         put_warm_counter, offsetof(struct warmer_counters, name) },
	WARMER_COUNTER_MAP(X)
#undef X
	/* clients */
	DAEMON("connections", "gauge", put_connections, "clients connected"),
	DAEMON("connections_limit", "gauge", put_connections_max, "how many may be"),
	DAEMON("requests_in_flight", "gauge", put_requests, "requests that wait, of all methods"),
	DAEMON("requests_limit", "gauge", put_requests_max, "how many may"),
	DAEMON("output_bytes", "gauge", put_output_bytes, "replies not sent yet"),
#define X(name, text)                                                                              \
	{ "server_" #name, "counter",          text,                                               \
	  false,           put_server_counter, offsetof(struct server_counters, name) },
	SERVER_COUNTER_MAP(X)
#undef X
	/* the process */
	DAEMON("loop_lag_seconds", "histogram", put_lags,
	       "how late the loop came to a timer: no request waits longer for its turn"),
	DAEMON("process_cpu_seconds", "counter", put_cpu, "processor time used"),
	DAEMON("process_resident_memory_bytes", "gauge", put_resident, "memory in use"),
	DAEMON("process_open_fds", "gauge", put_open_files, "descriptors in use"),
	DAEMON("process_max_fds", "gauge", put_files_max, "how many may be"),
};
enum { FAMILIES = sizeof(families) / sizeof(families[0]) };

/* Makes the next piece. False at the end. */
static bool next_piece(struct exposition *page)
{
	const struct engine *engine = engine_of(page);
	page->len = page->taken = 0;
	while (page->family < FAMILIES && page->len == 0) {
		const struct family *family = &families[page->family];
		const uint32_t pieces = family->per_keyspace ? engine->keyspaces.end : 1;
		const struct keyspace *keyspace = NULL;
		if (page->keyspace >= pieces) {
			page->family++;
			page->keyspace = 0;
			continue;
		}
		if (page->keyspace == 0)
			put_head(page, family);
		/* A reload may have come between two pieces. */
		if (!family->per_keyspace)
			page->keyspace = 1;
		else
			keyspace = roster_next(&engine->keyspaces, &page->keyspace);
		if (keyspace || !family->per_keyspace)
			family->put(page, family, keyspace);
	}
	return page->len > 0;
}

size_t exposition_read(struct exposition *page, char *buf, size_t size)
{
	if (page->taken == page->len && !next_piece(page))
		return 0;
	const size_t left = page->len - page->taken;
	const size_t len = left < size ? left : size;
	memcpy(buf, page->piece + page->taken, len);
	page->taken += len;
	return len;
}
