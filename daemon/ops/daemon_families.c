/* The families of the daemon as a whole. */
#include <stdio.h>
#include <string.h>

#include "ops/family.h"
#include "ops/process.h"

/* What a number is read from: one that is not there has no numbers. */
enum part { DAEMON, STORE, FEED };

/* X(where, name, type, what it is, the number) */
#define ENGINE_COUNTER(name, text) X(DAEMON, name, counter, text, engine->counters.name)
#define ENGINE_NUMBER_MAP                                                                          \
	ENGINE_COUNTER_MAP(ENGINE_COUNTER)                                                         \
	X(DAEMON, flights, gauge, "refreshes under way", engine->all.count)                        \
	X(DAEMON, leases, gauge, "leases held", engine->leases)                                    \
	X(DAEMON, permits, gauge, "slots of the fleet's concurrency held", engine->slots)          \
	X(DAEMON, bulkhead_inside, gauge, "refreshes on their way to the origin",                  \
	  engine->bulkhead.inside)                                                                 \
	X(DAEMON, breaker_open, gauge, "1: the origin is lost and being probed",                   \
	  engine->breaker.state != BREAKER_CLOSED)                                                 \
	X(DAEMON, breaker_opened, counter, "times that the origin was lost",                       \
	  engine->breaker.opened)                                                                  \
	X(DAEMON, near_bytes, gauge, "memory in use by the near cache", near_cost(&engine->near))  \
	X(DAEMON, near_max_bytes, gauge, "memory that it may use", engine->near.bytes_max)         \
	X(DAEMON, near_entries, gauge, "entries in it", engine->near.table.count)                  \
	X(DAEMON, near_evictions, counter, "entries evicted for room", engine->near.evictions)     \
	X(DAEMON, near_refused, counter, "entries that did not fit at all", engine->near.refused)

#define POOL_GAUGE(name, text)   X(DAEMON, origin_##name, gauge, text, origin->name)
#define POOL_COUNTER(name, text) X(DAEMON, origin_##name, counter, text, origin->name)
#define ORIGIN_NUMBER_MAP                                                                          \
	X(DAEMON, origin_up, gauge, "1: the last connection to it could be made",                  \
	  pool_trouble(sources->pool) == NULL)                                                     \
	X(DAEMON, budget_per_second, gauge, "builds that the fleet may begin a second",            \
	  config->origin.budget_per_s)                                                             \
	X(DAEMON, concurrency_limit, gauge, "builds that the fleet may run at once",               \
	  config->origin.concurrency)                                                              \
	X(DAEMON, fleet_size, gauge, "daemons that share these, by the configuration",             \
	  config->origin.fleet)                                                                    \
	POOL_GAUGE_MAP(POOL_GAUGE)                                                                 \
	POOL_COUNTER_MAP(POOL_COUNTER)

#define STORE_COUNTER(name, text) X(STORE, store_##name, counter, text, store.name)
#define STORE_NUMBER_MAP                                                                           \
	X(STORE, store_up, gauge, "1: it is in reach", strcmp(store.state, "up") == 0)             \
	X(STORE, store_round_trip_seconds, gauge, "the last measured to it",                       \
	  (double)store.rtt_us / 1e6)                                                              \
	X(STORE, store_place, gauge, "this daemon's number in the fleet; -1: none", store.place)   \
	X(STORE, store_places_live, gauge, "daemons that share the budget now", store.places_live) \
	X(STORE, store_alone, gauge, "1: permits come from the daemon's own share", store.alone)   \
	X(STORE, store_trusted, gauge,                                                             \
	  "1: its heartbeats come, so near values need no look at it", store.trusted)              \
	X(STORE, store_clock_offset_seconds, gauge, "its clock less this host's",                  \
	  (double)store.clock_apart_us / 1e6)                                                      \
	X(STORE, store_waiting, gauge, "operations under way", store.waiting)                      \
	REDIS_COUNTER_MAP(STORE_COUNTER)

#define FEED_COUNTER(name, text) X(FEED, feed_##name, counter, text, feed.name)
#define FEED_NUMBER_MAP                                                                            \
	X(FEED, feed_following, gauge, "1: this daemon reads the log of changes", feed.following)  \
	X(FEED, feed_lag_seconds, gauge,                                                           \
	  "from the beginning of the oldest transaction of the last reading to that reading",      \
	  (double)feed.lag_ms / 1e3)                                                               \
	X(FEED, feed_open_transaction_seconds, gauge,                                              \
	  "for how long a transaction has been open that may still log changes",                   \
	  (double)feed.open_ms / 1e3)                                                              \
	FEED_COUNTER_MAP(FEED_COUNTER)

#define HOT_NUMBER_MAP                                                                             \
	X(DAEMON, hot_tracked, gauge, "keys whose gets are counted, to tell the hottest",          \
	  engine->hotlist.used)                                                                    \
	X(DAEMON, hot_listed, gauge, "hot keys that the daemon before this one left", hot->listed) \
	X(DAEMON, hot_found, gauge, "of these, brought back from the shared store", hot->found)    \
	X(DAEMON, hot_built, counter, "of these, built", hot->built)                               \
	X(DAEMON, hot_failed, counter, "of these, tried in vain", hot->failed)                     \
	X(DAEMON, hot_restored, gauge, "1: they are back, or given up",                            \
	  hot->phase == HOT_DONE || hot->phase == HOT_IDLE)                                        \
	X(DAEMON, hot_writes, counter, "times that the hot keys were written down", hot->writes)   \
	X(DAEMON, hot_write_errors, counter, "times that they could not be", hot->write_errors)

#define WARM_COUNTER(name, text) X(DAEMON, warm_##name, counter, text, warmer->counters.name)
#define WARM_NUMBER_MAP                                                                            \
	X(DAEMON, warm_under_way, gauge, "statements of warm-ups that this daemon has under way",  \
	  warmer->statements)                                                                      \
	WARMER_COUNTER_MAP(WARM_COUNTER)

#define SERVER_COUNTER(name, text) X(DAEMON, server_##name, counter, text, server->counters.name)
#define SERVER_NUMBER_MAP                                                                          \
	X(DAEMON, connections, gauge, "clients connected", server->peers.count)                    \
	X(DAEMON, connections_limit, gauge, "how many may be", server->limits->connections)        \
	X(DAEMON, requests_in_flight, gauge, "requests that wait, of all methods", server->weight) \
	X(DAEMON, requests_limit, gauge, "how many may", server->limits->requests)                 \
	X(DAEMON, output_bytes, gauge, "replies not sent yet", server->output_bytes)               \
	SERVER_COUNTER_MAP(SERVER_COUNTER)

#define SPAN_COUNTER(name, text) X(DAEMON, name, counter, text, sources->spans->name)
#define SPAN_NUMBER_MAP          SPAN_COUNTER_MAP(SPAN_COUNTER)

#define PROCESS_NUMBER_MAP                                                                         \
	X(DAEMON, process_cpu_seconds, counter, "processor time used", process_cpu_seconds())      \
	X(DAEMON, process_resident_memory_bytes, gauge, "memory in use", process_resident_bytes()) \
	X(DAEMON, process_open_fds, gauge, "descriptors in use", process_open_files())             \
	X(DAEMON, process_max_fds, gauge, "how many may be", process_files_max())

#define DAEMON_NUMBER_MAP                                                                          \
	ENGINE_NUMBER_MAP                                                                          \
	ORIGIN_NUMBER_MAP                                                                          \
	STORE_NUMBER_MAP                                                                           \
	FEED_NUMBER_MAP                                                                            \
	HOT_NUMBER_MAP                                                                             \
	WARM_NUMBER_MAP                                                                            \
	SERVER_NUMBER_MAP                                                                          \
	SPAN_NUMBER_MAP                                                                            \
	PROCESS_NUMBER_MAP

enum {
#define X(where, name, type, text, expression) NUMBER_##name,
	DAEMON_NUMBER_MAP
#undef X
};

static const unsigned char parts[] = {
#define X(where, name, type, text, expression) where,
	DAEMON_NUMBER_MAP
#undef X
};

/* False: the part is not there. */
static bool read_number(const struct family_sources *sources, unsigned number, double *ret_number)
{
	const struct config *config = *sources->config;
	const struct server *server = sources->server;
	const struct engine *engine = server->pump->engine;
	const struct pool_counters *origin = pool_counters(sources->pool);
	const struct hot_keys *hot = sources->hot;
	const struct warmer *warmer = sources->warmer;
	struct redis_stats store = { 0 };
	struct feed_stats feed = { 0 };
	if (parts[number] == STORE) {
		if (!sources->redis)
			return false;
		redis_store_stats(sources->redis, &store);
	}
	if (parts[number] == FEED) {
		if (!*sources->feed)
			return false;
		feed_get_stats(*sources->feed, &feed);
	}
	switch (number) {
#define X(where, name, type, text, expression)                                                     \
	case NUMBER_##name:                                                                        \
		*ret_number = (double)(expression);                                                \
		break;
		DAEMON_NUMBER_MAP
#undef X
	}
	return true;
}

/* ---- those with labels ---------------------------------------------------------------------- */

static void put_info(struct page *page, const struct metric *metric,
		     const struct family_sources *sources, const struct keyspace *keyspace)
{
	(void)sources;
	(void)keyspace;
	page_sample(page, metric, 1, "version=\"%s\"", SEGAR_VERSION);
}

static void put_queued(struct page *page, const struct metric *metric,
		       const struct family_sources *sources, const struct keyspace *keyspace)
{
	const struct bulkhead *bulkhead = &sources->server->pump->engine->bulkhead;
	(void)keyspace;
	for (int i = 0; i < PRIORITY_COUNT; i++)
		page_sample(page, metric, (double)bulkhead->queues[i].tickets.count,
			    "priority=\"%s\"", priority_name((enum priority)i));
}

static void put_lags(struct page *page, const struct metric *metric,
		     const struct family_sources *sources, const struct keyspace *keyspace)
{
	(void)keyspace;
	page_durations(page, metric, "", sources->loop_lags);
}

static void put_store_errors(struct page *page, const struct metric *metric,
			     const struct family_sources *sources, const struct keyspace *keyspace)
{
	struct redis_stats stats;
	(void)keyspace;
	if (!sources->redis)
		return;
	redis_store_stats(sources->redis, &stats);
	for (int i = STORE_ERROR_NONE + 1; i < STORE_ERRORS_COUNT; i++)
		page_sample(page, metric, (double)stats.errors[i], "kind=\"%s\"",
			    store_error_name((enum store_error)i));
}

static void put_store_latencies(struct page *page, const struct metric *metric,
				const struct family_sources *sources,
				const struct keyspace *keyspace)
{
	(void)keyspace;
	for (int verb = 0; sources->redis && verb < STORE_VERB_COUNT; verb++) {
		char label[64];
		snprintf(label, sizeof(label), "operation=\"%s\"",
			 store_verb_name((enum store_verb)verb));
		page_durations(page, metric, label,
			       redis_store_latencies(sources->redis, (enum store_verb)verb));
	}
}

/* The next of the warm-ups that run, after `node`; NULL: the first. */
static const struct warmer_job *next_job(const struct warmer *warmer, const struct list_node **node)
{
	const struct list *jobs = &warmer->jobs;
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
static void put_warm_keys(struct page *page, const struct metric *metric,
			  const struct family_sources *sources, const struct keyspace *keyspace)
{
	const struct list_node *node = NULL;
	const struct warmer_job *job;
	(void)keyspace;
	while ((job = next_job(sources->warmer, &node)))
		if (job->job.total >= 0)
			page_sample(page, metric, (double)job->job.total, "warm_up=\"%s\"",
				    job->name);
}

static void put_warm_done(struct page *page, const struct metric *metric,
			  const struct family_sources *sources, const struct keyspace *keyspace)
{
	const struct list_node *node = NULL;
	const struct warmer_job *job;
	(void)keyspace;
	while ((job = next_job(sources->warmer, &node))) {
		const struct job_counts *counts = &job->job.counts;
		page_sample(page, metric, (double)counts->fresh, "warm_up=\"%s\",result=\"fresh\"",
			    job->name);
		page_sample(page, metric, (double)counts->built, "warm_up=\"%s\",result=\"built\"",
			    job->name);
		page_sample(page, metric, (double)counts->failed,
			    "warm_up=\"%s\",result=\"failed\"", job->name);
	}
}

/* ---- all ------------------------------------------------------------------------------------ */

#define X(where, name, type, text, expression) { { #name, #type, text }, NUMBER_##name, NULL },
#define LABELLED(name, type, put, text)        { { #name, #type, text }, 0, put },
const struct family daemon_families[] = {
	LABELLED(build_info, gauge, put_info, "the daemon's version, as a label")
	/* clang-format off */
	ENGINE_NUMBER_MAP
	LABELLED(queued, gauge, put_queued, "refreshes that wait for room, by priority")
	ORIGIN_NUMBER_MAP
	STORE_NUMBER_MAP
	LABELLED(store_operation_duration_seconds, histogram, put_store_latencies,
		 "from asking the store for an operation to its answer, or to none")
	LABELLED(store_errors, counter, put_store_errors, "operations and connections that failed")
	FEED_NUMBER_MAP
	HOT_NUMBER_MAP
	WARM_NUMBER_MAP
	LABELLED(warm_job_keys, gauge, put_warm_keys,
		 "keys of each warm-up that runs, once they are known")
	LABELLED(warm_job_done, gauge, put_warm_done,
		 "of these, dealt with by the fleet, by what became of them")
	SERVER_NUMBER_MAP
	LABELLED(loop_lag_seconds, histogram, put_lags,
		 "how late the loop came to a timer: no request waits longer for its turn")
	SPAN_NUMBER_MAP
	PROCESS_NUMBER_MAP
	/* clang-format on */
};
#undef X
const uint32_t daemon_families_count = sizeof(daemon_families) / sizeof(*daemon_families);

void daemon_family_put(struct page *page, const struct family *family,
		       const struct family_sources *sources)
{
	double number;
	if (family->put)
		family->put(page, &family->metric, sources, NULL);
	else if (read_number(sources, family->number, &number))
		page_sample(page, &family->metric, number, NULL);
}
