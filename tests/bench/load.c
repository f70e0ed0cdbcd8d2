/* Load on a server's Unix socket: many connections, requests in flight on each, one thread.
 *
 *   load [--seconds S] [--warm S] [--pid PID] STREAM…
 *   STREAM: PROTOCOL SOCKET [name=N] [prefix=P] [keys=N] [zipf=S] [len=BYTES] [connections=N]
 * [depth=N] [rate=N] [fill=1]        (codec.h has the protocols); several are parted by a lone --
 *
 * Closed loop (without a rate): each connection keeps `depth` requests in flight. Open loop: `rate`
 * requests a second are due at even distances, whatever the server does, and each is timed from the
 * moment that it was due, not from when a connection had room for it; so a server that stalls is
 * charged with all the requests that it kept waiting (Tene, "How NOT to measure latency", 2013:
 * coordinated omission; Schroeder, Wierman, Harchol-Balter, "Open versus closed", NSDI 2006).
 * `fill=1`: each key once, in turn: sets it, or makes segard build it.
 *
 * Every reply is checked for its length and for its own key's value. Prints one line of JSON for
 * each stream; with --pid, also how long that process' threads ran meanwhile. Exit code 1 when a
 * reply was wrong.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdnoreturn.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "load_stream.h"

struct options {
	double seconds, warm_seconds;
	int pid; /* 0: none */
};

static noreturn void usage(const char *why)
{
	fprintf(stderr,
		"load: %s\nusage: load [--seconds S] [--warm S] [--pid PID] STREAM [-- STREAM …]\n"
		"STREAM: segar|classic|meta|redis|echo SOCKET [name=N] [prefix=P] [keys=N] "
		"[zipf=S] "
		"[len=BYTES] [connections=N] [depth=N] [rate=N] [fill=1]\n",
		why);
	exit(2);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* How long all threads of a process have run. */
static uint64_t ran_ns(int pid)
{
	char path[64], line[128];
	uint64_t sum = 0;
	struct dirent *task;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	tasks = pid > 0 ? opendir(path) : NULL;
	while (tasks && (task = readdir(tasks))) {
		char file[400];
		FILE *stat;

		snprintf(file, sizeof(file), "%s/%s/schedstat", path, task->d_name);
		stat = *task->d_name != '.' ? fopen(file, "r") : NULL;
		if (stat && fgets(line, sizeof(line), stat))
			sum += strtoull(line, NULL, 10);
		if (stat)
			fclose(stat);
	}
	if (tasks)
		closedir(tasks);
	return sum;
}

static double number_of(const char *text, double least, const char *what)
{
	char *end;
	const double number = strtod(text, &end);

	if (*end || end == text || !(number >= least)) {
		fprintf(stderr, "load: %s=%s is no number from %g\n", what, text, least);
		exit(2);
	}
	return number;
}

static void read_setting(struct stream_options *stream, const char *setting)
{
	const char *value = strchr(setting, '=');
	const size_t name_len = value ? (size_t)(value - setting) : 0;

#define IS(name) (name_len == strlen(name) && memcmp(setting, name, name_len) == 0)
	if (IS("name"))
		stream->name = value + 1;
	else if (IS("prefix"))
		stream->prefix = value + 1;
	else if (IS("keys"))
		stream->keys = (uint32_t)number_of(value + 1, 1, "keys");
	else if (IS("zipf"))
		stream->zipf = number_of(value + 1, 0, "zipf");
	else if (IS("len"))
		stream->value_len = (size_t)number_of(value + 1, KEY_DIGITS, "len");
	else if (IS("connections"))
		stream->connections = (uint32_t)number_of(value + 1, 1, "connections");
	else if (IS("depth"))
		stream->depth = (uint32_t)number_of(value + 1, 1, "depth");
	else if (IS("rate"))
		stream->rate = number_of(value + 1, 0, "rate");
	else if (IS("fill"))
		stream->fill = number_of(value + 1, 0, "fill") > 0;
	else
		usage(setting);
#undef IS
	if (stream->depth > STREAM_DEPTH_MAX)
		usage("depth is over its limit");
}

/* Reads one stream's arguments; returns how many they are. */
static int read_stream(char **args, int count, struct stream_options *ret_stream)
{
	const int protocol = count < 2 ? -1 : protocol_from_name(args[0]);
	int used = 2;

	if (protocol < 0)
		usage("a stream begins with a protocol and a socket");
	*ret_stream = (struct stream_options){
		.protocol = (enum protocol)protocol,
		.name = args[0],
		.path = args[1],
		.prefix = "k:",
		.keys = 1,
		.value_len = 100,
		.connections = 1,
		.depth = 1,
	};
	for (; used < count && strcmp(args[used], "--") != 0; used++)
		read_setting(ret_stream, args[used]);
	return used < count ? used + 1 : used;
}

/* Serves what is ready. An open loop is not slept through: the next request is due in microseconds.
 */
static void turn(int epoll, bool sleep)
{
	struct epoll_event events[256];
	int count = epoll_wait(epoll, events, 256, sleep ? 10 : 0);
	const uint64_t now = now_ns();

	for (int i = 0; i < count; i++)
		stream_on_ready(events[i].data.ptr, events[i].events, now);
}

static void print_stream(const struct stream *stream, double seconds)
{
	const struct histogram *h = &stream->latencies;
	const struct stream_counts *n = &stream->counts;
	const uint64_t replies = n->fresh + n->stale + n->misses + n->errors;

	printf("{\"name\": \"%s\", \"seconds\": %.3f, \"replies\": %" PRIu64
	       ", \"per_s\": %.0f, \"fresh\": %" PRIu64 ", \"stale\": %" PRIu64
	       ", \"misses\": %" PRIu64 ", \"errors\": %" PRIu64 ", \"wrong\": %" PRIu64
	       ", \"late\": %" PRIu64,
	       stream->options.name, seconds, replies, (double)replies / seconds, n->fresh,
	       n->stale, n->misses, n->errors, n->wrong, n->late);
	static const struct {
		const char *name;
		double percent;
	} percentiles[] = {
		{ "p50", 50 }, { "p90", 90 }, { "p99", 99 }, { "p999", 99.9 }, { "p9999", 99.99 }
	};

	for (size_t i = 0; i < sizeof(percentiles) / sizeof(percentiles[0]); i++)
		printf(", \"%s_us\": %.1f", percentiles[i].name,
		       (double)histogram_percentile(h, percentiles[i].percent) / 1000);
	printf(", \"max_us\": %.1f", (double)h->max_ns / 1000);
}

/* Whether all streams that are to fill have done so. */
static bool are_full(struct stream *streams, int count)
{
	bool fill = false;

	for (int i = 0; i < count; i++) {
		fill |= streams[i].options.fill;
		if (streams[i].options.fill && !stream_is_full(&streams[i]))
			return false;
	}
	return fill;
}

static bool is_broken(const struct stream *streams, int count)
{
	for (int i = 0; i < count; i++)
		if (streams[i].broken)
			return true;
	return false;
}

/* Runs them for a while. */
static void run(struct stream *streams, int count, int epoll, double seconds)
{
	const uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);
	bool open = false;

	for (int i = 0; i < count; i++)
		open |= streams[i].options.rate > 0;
	for (uint64_t now; (now = now_ns()) < end;) {
		for (int i = 0; i < count; i++)
			stream_on_time(&streams[i], now);
		turn(epoll, !open);
		if (are_full(streams, count) || is_broken(streams, count))
			break;
	}
}

static int report(struct stream *streams, int count, const struct options *options, double seconds,
		  uint64_t server_ns)
{
	struct rusage usage;
	bool wrong = false;

	getrusage(RUSAGE_SELF, &usage);
	for (int i = 0; i < count; i++) {
		print_stream(&streams[i], seconds);
		if (options->pid > 0)
			printf(", \"server_cpu_s\": %.4f", (double)server_ns / 1e9);
		printf("}\n");
		wrong |= streams[i].broken || streams[i].counts.wrong > 0;
	}
	return wrong;
}

int main(int argc, char **argv)
{
	static struct stream streams[STREAMS_MAX];
	struct options options = { .seconds = 2, .warm_seconds = 0.2 };
	int count = 0, at = 1, ret;
	const int epoll = epoll_create1(EPOLL_CLOEXEC);

	for (; at + 1 < argc && strncmp(argv[at], "--", 2) == 0; at += 2)
		if (strcmp(argv[at], "--seconds") == 0)
			options.seconds = number_of(argv[at + 1], 0, "--seconds");
		else if (strcmp(argv[at], "--warm") == 0)
			options.warm_seconds = number_of(argv[at + 1], 0, "--warm");
		else if (strcmp(argv[at], "--pid") == 0)
			options.pid = (int)number_of(argv[at + 1], 1, "--pid");
		else
			usage(argv[at]);
	while (at < argc) {
		struct stream_options stream;

		if (count == STREAMS_MAX)
			usage("too many streams");
		at += read_stream(argv + at, argc - at, &stream);
		if (stream_open(&streams[count], &stream, epoll, now_ns()) != 0)
			return 1;
		count++;
	}
	if (count == 0)
		usage("no stream");
	if (options.warm_seconds > 0)
		run(streams, count, epoll, options.warm_seconds);
	for (int i = 0; i < count; i++)
		stream_begin(&streams[i], now_ns());
	const uint64_t cpu = ran_ns(options.pid), begun = now_ns();

	run(streams, count, epoll, options.seconds);
	const double seconds = (double)(now_ns() - begun) / 1e9;

	for (int i = 0; i < count; i++)
		stream_end(&streams[i], now_ns());
	ret = report(streams, count, &options, seconds, ran_ns(options.pid) - cpu);
	for (int i = 0; i < count; i++)
		stream_close(&streams[i]);
	return ret;
}
