/* segarctl bench: connections that each keep some requests for one key in flight.
 *
 * A closed loop with a thread for each connection: quick to say, and good for a look at a herd or a
 * hot key. A load generator that measures at a given rate is tests/bench's. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/ctl.h"
#include "client/histogram.h"

enum { STACK_BYTES = 256 * 1024, STATES = SEGAR_ABSENT + 1, STATUSES = SEGAR_OTHER + 1 };

/* What all connections share. */
struct bench {
	const struct ctl *ctl;
	const char *key;
	pthread_barrier_t start;
	atomic_int_least64_t asked;
	uint64_t end_ns; /* with a plan of seconds */
};

/* When a request was sent. */
struct flight {
	uint32_t id; /* 0: free */
	uint64_t sent_ns;
};

struct worker {
	struct bench *bench;
	pthread_t thread;
	segar *c;
	struct flight *flights; /* owned; plan.depth of them */
	struct histogram latencies;
	uint64_t states[STATES];
	uint64_t errors[STATUSES];
	char error[256];    /* the first one */
	segar_reply *first; /* owned; NULL until there is one */
	bool values_differ; /* from the first one's */
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Whether the plan asks for one more. */
static bool may_ask(struct bench *bench)
{
	if (bench->ctl->bench.requests > 0)
		return atomic_fetch_add(&bench->asked, 1) < bench->ctl->bench.requests;
	return now_ns() < bench->end_ns;
}

static bool ask(struct worker *w, struct flight *flight)
{
	if (!may_ask(w->bench))
		return false;
	flight->sent_ns = now_ns();
	flight->id = segar_send_get(w->c, w->bench->key, &w->bench->ctl->options);
	return flight->id != 0;
}

static void count_error(struct worker *w, const segar_reply *reply)
{
	w->errors[reply->status < STATUSES ? reply->status : SEGAR_OTHER]++;
	if (!*w->error)
		snprintf(w->error, sizeof(w->error), "%s: %s", segar_status_name(reply->status),
			 reply->error);
}

static bool is_same_value(const segar_result *a, const segar_result *b)
{
	if (!a->value || !b->value)
		return !a->value && !b->value;
	return a->value_len == b->value_len && memcmp(a->value, b->value, a->value_len) == 0;
}

/* Takes the reply. */
static void count_reply(struct worker *w, segar_reply *reply, uint64_t sent_ns)
{
	if (reply->status != SEGAR_OK) {
		count_error(w, reply);
		segar_reply_free(reply);
		return;
	}
	histogram_add(&w->latencies, now_ns() - sent_ns);
	w->states[reply->results->state]++;
	if (!w->first) {
		w->first = reply;
		return;
	}
	w->values_differ |= !is_same_value(reply->results, w->first->results);
	segar_reply_free(reply);
}

static struct flight *find_flight(struct worker *w, uint32_t id)
{
	struct flight *flight = w->flights;

	while (flight->id != id)
		flight++;
	return flight;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	const int depth = w->bench->ctl->bench.depth;
	segar_reply *reply;

	pthread_barrier_wait(&w->bench->start);
	for (int i = 0; i < depth && ask(w, &w->flights[i]); i++)
		;
	while ((reply = segar_receive(w->c, 0))) {
		struct flight *flight = find_flight(w, reply->id);

		flight->id = 0;
		count_reply(w, reply, flight->sent_ns);
		ask(w, flight);
	}
	return NULL;
}

static void print_json(FILE *out, const struct ctl *ctl, const struct worker *sum, double seconds)
{
	uint64_t errors = 0;

	for (int i = 0; i < STATUSES; i++)
		errors += sum->errors[i];
	fprintf(out,
		"{\"connections\": %d, \"depth\": %d, \"seconds\": %.3f, \"replies\": %" PRIu64
		", \"replies_per_s\": %.0f, \"errors\": %" PRIu64 ", \"one_value\": %s",
		ctl->bench.connections, ctl->bench.depth, seconds, sum->latencies.total,
		(double)sum->latencies.total / seconds, errors,
		sum->values_differ ? "false" : "true");
	for (int i = 0; i < STATES; i++)
		fprintf(out, ", \"%s\": %" PRIu64, segar_state_name((enum segar_state)i),
			sum->states[i]);
	fprintf(out,
		", \"p50_us\": %.1f, \"p90_us\": %.1f, \"p99_us\": %.1f, \"p99.9_us\": %.1f"
		", \"max_us\": %.1f}\n",
		(double)histogram_percentile(&sum->latencies, 50) / 1e3,
		(double)histogram_percentile(&sum->latencies, 90) / 1e3,
		(double)histogram_percentile(&sum->latencies, 99) / 1e3,
		(double)histogram_percentile(&sum->latencies, 99.9) / 1e3,
		(double)sum->latencies.max_ns / 1e3);
}

static void print_text(FILE *out, const struct ctl *ctl, const struct worker *sum, double seconds)
{
	const double percents[] = { 50, 90, 99, 99.9 };

	fprintf(out,
		"replies   %" PRIu64
		" in %.2f s: %.0f/s, on %d connections with %d in flight each\n",
		sum->latencies.total, seconds, (double)sum->latencies.total / seconds,
		ctl->bench.connections, ctl->bench.depth);
	fputs("states   ", out);
	for (int i = 0; i < STATES; i++)
		if (sum->states[i])
			fprintf(out, " %s %" PRIu64, segar_state_name((enum segar_state)i),
				sum->states[i]);
	fputs(sum->values_differ ? ", different values\n" : ", all of one value\n", out);
	for (int i = 0; i < STATUSES; i++)
		if (sum->errors[i])
			fprintf(out, "errors    %s %" PRIu64 "\n", segar_status_name(i),
				sum->errors[i]);
	if (*sum->error)
		fprintf(out, "the first %s\n", sum->error);
	fputs("latency  ", out);
	for (size_t i = 0; i < sizeof(percents) / sizeof(percents[0]); i++)
		fprintf(out, " p%g %.3f ms,", percents[i],
			(double)histogram_percentile(&sum->latencies, percents[i]) / 1e6);
	fprintf(out, " max %.3f ms\n", (double)sum->latencies.max_ns / 1e6);
}

/* Adds a connection's counts to those of all. */
static void add_up(struct worker *sum, const struct worker *w)
{
	if (w->first && sum->first)
		sum->values_differ |= !is_same_value(w->first->results, sum->first->results);
	else if (w->first)
		sum->first = w->first; /* borrowed */
	sum->values_differ |= w->values_differ;
	histogram_merge(&sum->latencies, &w->latencies);
	for (int i = 0; i < STATES; i++)
		sum->states[i] += w->states[i];
	for (int i = 0; i < STATUSES; i++)
		sum->errors[i] += w->errors[i];
	if (!*sum->error)
		memcpy(sum->error, w->error, sizeof(sum->error));
}

/* Connects a worker. If that fails, says so and returns the exit code. */
static enum ctl_exit worker_open(struct worker *w, struct bench *bench)
{
	const struct ctl *ctl = bench->ctl;
	enum ctl_exit exit_code;
	segar_reply *reply;

	w->bench = bench;
	w->c = segar_open(segar_socket_path(ctl->c));
	w->flights = calloc((size_t)ctl->bench.depth, sizeof(*w->flights));
	if (!w->c || !w->flights) {
		ctl_print_error(stdout, ctl, SEGAR_NO_MEMORY, "out of memory", -1);
		return CTL_ERROR;
	}
	reply = segar_ping(w->c, NULL);
	exit_code = ctl_exit_of(reply->status);
	if (exit_code != CTL_VALUE)
		ctl_print_error(stdout, ctl, reply->status, reply->error, reply->retry_after_ms);
	segar_reply_free(reply);
	return exit_code;
}

static void worker_close(struct worker *w)
{
	segar_reply_free(w->first);
	segar_close(w->c);
	free(w->flights);
}

/* Starts the threads, lets them go all at once, and waits for them. Returns how long they took. */
static double run(struct bench *bench, struct worker *workers)
{
	const int count = bench->ctl->bench.connections;
	pthread_attr_t attributes;
	uint64_t began_ns;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	pthread_barrier_init(&bench->start, NULL, (unsigned)count + 1);
	for (int i = 0; i < count; i++) {
		if (pthread_create(&workers[i].thread, &attributes, work, &workers[i]) != 0) {
			fprintf(stderr, "segarctl: only %d threads can be had\n", i);
			exit(CTL_ERROR);
		}
	}
	began_ns = now_ns();
	bench->end_ns = began_ns + (uint64_t)(bench->ctl->bench.seconds * 1e9);
	pthread_barrier_wait(&bench->start);
	for (int i = 0; i < count; i++)
		pthread_join(workers[i].thread, NULL);
	pthread_barrier_destroy(&bench->start);
	pthread_attr_destroy(&attributes);
	return (double)(now_ns() - began_ns) / 1e9;
}

enum ctl_exit ctl_bench(struct ctl *ctl, const char *key)
{
	const int count = ctl->bench.connections;
	struct worker *workers = calloc((size_t)count + 1, sizeof(*workers));
	struct worker *const sum = workers ? &workers[count] : NULL;
	struct bench bench = { .ctl = ctl, .key = key };
	enum ctl_exit exit_code = workers ? CTL_VALUE : CTL_ERROR;
	double seconds;

	for (int i = 0; exit_code == CTL_VALUE && i < count; i++)
		exit_code = worker_open(&workers[i], &bench);
	if (exit_code == CTL_VALUE) {
		seconds = run(&bench, workers);
		for (int i = 0; i < count; i++)
			add_up(sum, &workers[i]);
		(ctl->json ? print_json : print_text)(stdout, ctl, sum, seconds);
		exit_code = *sum->error ? CTL_ERROR : CTL_VALUE;
	}
	for (int i = 0; workers && i < count; i++)
		worker_close(&workers[i]);
	free(workers);
	return exit_code;
}
