/* Many clients of many daemons: an open loop that writes down every reply.
 *
 *   crowd --out FILE --sockets FILE --seconds S [--grace S] [--connections N] STREAM…
 *   STREAM: keyspace=NAME rate=N [keys=N] [from=N] [zipf=S] [--]
 *
 * The file of sockets has a path a line, a daemon each; a stream's requests go to all daemons in
 * turn. Requests are due at even distances, whatever the daemons do, and timed from when they were
 * due (see tests/bench/load.c). A daemon that is not there costs its requests, nothing else: it is
 * tried again all the time. After `seconds` nothing more is asked; what is not answered `grace`
 * later is lost. A key is NAME:NUMBER from `from` on; a value is "BUILT_US VERSION NUMBER …", as
 * proof.sql makes it. Prints one line of JSON: what was offered and how late the crowd itself was.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "crowd_conn.h"
#include "tests/bench/keys.h"

enum { STREAMS_MAX = 8, DAEMONS_MAX = 1000, TURN_NS = 500000, RETRY_US = 20000 };

struct stream {
	const char *keyspace;
	double rate;
	uint32_t keys_count, from;
	double zipf;
	struct keys keys;
	uint64_t asked;
	uint32_t turn; /* the daemon that is next */
};

static struct {
	const char *out, *sockets;
	double seconds, grace;
	uint32_t connections;
	struct stream streams[STREAMS_MAX];
	int streams_count;
} options = { .seconds = 1, .grace = 5, .connections = 2 };

static struct crowd crowd;

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000;
}

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "crowd: %s: %s\n", what, why);
	exit(2);
}

static double number_of(const char *text)
{
	char *end;
	const double number = strtod(text, &end);

	if (*end || end == text || !(number >= 0))
		fail(text, "is no number from 0");
	return number;
}

static void read_setting(struct stream *stream, const char *setting)
{
	const char *value = strchr(setting, '=');
	const size_t len = value ? (size_t)(value - setting) : 0;

#define IS(name) (len == strlen(name) && memcmp(setting, name, len) == 0)
	if (IS("keyspace"))
		stream->keyspace = value + 1;
	else if (IS("rate"))
		stream->rate = number_of(value + 1);
	else if (IS("keys"))
		stream->keys_count = (uint32_t)number_of(value + 1);
	else if (IS("from"))
		stream->from = (uint32_t)number_of(value + 1);
	else if (IS("zipf"))
		stream->zipf = number_of(value + 1);
	else
		fail(setting, "is no setting of a stream");
#undef IS
}

static void read_streams(char **args, int count)
{
	for (int i = 0; i < count; options.streams_count++) {
		struct stream *stream = &options.streams[options.streams_count];

		if (options.streams_count == STREAMS_MAX)
			fail(args[i], "is one stream too many");
		*stream = (struct stream){ .keys_count = 1, .from = 1 };
		for (; i < count && strcmp(args[i], "--") != 0; i++)
			read_setting(stream, args[i]);
		i++;
		if (!stream->keyspace || stream->rate <= 0)
			fail("a stream", "needs a keyspace and a rate");
		if (strlen(stream->keyspace) > CONN_KEYSPACE_MAX)
			fail(stream->keyspace, "is too long");
		if (keys_init(&stream->keys, stream->keys_count, stream->zipf, 1) != 0)
			fail("a stream", "is out of memory");
	}
	if (options.streams_count == 0)
		fail("crowd", "needs a stream");
}

static void read_options(int argc, char **argv)
{
	int at = 1;

	for (; at + 1 < argc && strncmp(argv[at], "--", 2) == 0; at += 2) {
		if (strcmp(argv[at], "--out") == 0)
			options.out = argv[at + 1];
		else if (strcmp(argv[at], "--sockets") == 0)
			options.sockets = argv[at + 1];
		else if (strcmp(argv[at], "--seconds") == 0)
			options.seconds = number_of(argv[at + 1]);
		else if (strcmp(argv[at], "--grace") == 0)
			options.grace = number_of(argv[at + 1]);
		else if (strcmp(argv[at], "--connections") == 0)
			options.connections = (uint32_t)number_of(argv[at + 1]);
		else
			fail(argv[at], "is no option");
	}
	if (!options.out || !options.sockets || options.connections == 0)
		fail("crowd", "needs --out and --sockets, and connections");
	read_streams(argv + at, argc - at);
}

static void open_conns(void)
{
	static char paths[DAEMONS_MAX][108];
	FILE *file = fopen(options.sockets, "r");

	if (!file)
		fail(options.sockets, strerror(errno));
	while (crowd.daemons < DAEMONS_MAX && fgets(paths[crowd.daemons], 108, file)) {
		paths[crowd.daemons][strcspn(paths[crowd.daemons], "\n")] = 0;
		crowd.daemons++;
	}
	fclose(file);
	crowd.conns_count = crowd.daemons * options.connections * (uint32_t)options.streams_count;
	crowd.conns = calloc(crowd.conns_count, sizeof(*crowd.conns));
	if (crowd.daemons == 0 || !crowd.conns)
		fail(options.sockets, "has no sockets");
	for (uint32_t i = 0; i < crowd.conns_count; i++) {
		const uint32_t daemon = i / options.connections % crowd.daemons;

		conn_init(&crowd.conns[i], &crowd, (uint16_t)daemon, paths[daemon]);
	}
}

/* The stream's next connection to the daemon that is up; NULL: none. */
static struct conn *pick_conn(uint32_t stream, uint32_t daemon, uint64_t turn)
{
	struct conn *conns = &crowd.conns[(stream * crowd.daemons + daemon) * options.connections];

	for (uint32_t i = 0; i < options.connections; i++) {
		struct conn *conn = &conns[(turn + i) % options.connections];

		if (conn->fd >= 0)
			return conn;
	}
	return NULL;
}

static void ask(struct stream *stream, uint64_t due_us)
{
	const uint32_t daemon = stream->turn++ % crowd.daemons;
	const uint8_t number = (uint8_t)(stream - options.streams);
	struct conn *conn = pick_conn(number, daemon, stream->asked / crowd.daemons);
	const struct request request = {
		.due_us = due_us,
		.key = stream->from + keys_next(&stream->keys),
		.stream = number,
	};

	stream->asked++;
	if (conn)
		conn_ask(conn, stream->keyspace, &request, now_us());
	else
		crowd_write_unasked(&crowd, &request, (uint16_t)daemon);
}

/* Asks all that is due; returns when the next is. */
static uint64_t ask_due(uint64_t begun_us, uint64_t until_us)
{
	uint64_t next_us = until_us;

	for (int i = 0; i < options.streams_count; i++) {
		struct stream *stream = &options.streams[i];

		for (;;) {
			const uint64_t due_us =
				begun_us + (uint64_t)((double)stream->asked * 1e6 / stream->rate);

			if (due_us > until_us) {
				next_us = due_us < next_us ? due_us : next_us;
				break;
			}
			ask(stream, due_us);
		}
	}
	return next_us;
}

static void look(bool sleep)
{
	struct epoll_event events[256];
	const struct timespec most = { .tv_nsec = sleep ? TURN_NS : 0 };
	const int count = epoll_pwait2(crowd.epoll, events, 256, &most, NULL);
	const uint64_t now = now_us();

	crowd.turn_us = (uint32_t)(now - crowd.looked_us);
	crowd.turn_max_us = crowd.turn_us > crowd.turn_max_us ? crowd.turn_us : crowd.turn_max_us;
	for (int i = 0; i < count; i++)
		conn_on_ready(events[i].data.ptr, events[i].events, now);
	crowd.looked_us = now;
}

static void connect_all(uint64_t now)
{
	static uint64_t next_us;

	if (now < next_us)
		return;
	next_us = now + RETRY_US;
	for (uint32_t i = 0; i < crowd.conns_count; i++)
		if (crowd.conns[i].fd < 0)
			conn_connect(&crowd.conns[i]);
}

int main(int argc, char **argv)
{
	uint64_t begun_us, end_us, now, late_max_us = 0, asked = 0;

	read_options(argc, argv);
	/* whoever started it is gone: so is the load */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	crowd.epoll = epoll_create1(EPOLL_CLOEXEC);
	crowd.out = fopen(options.out, "wb");
	if (!crowd.out)
		fail(options.out, strerror(errno));
	open_conns();
	connect_all(now_us());
	begun_us = crowd.looked_us = now_us();
	end_us = begun_us + (uint64_t)(options.seconds * 1e6);
	while ((now = now_us()) < end_us) {
		const uint64_t next_us = ask_due(begun_us, now);

		late_max_us = now_us() - now > late_max_us ? now_us() - now : late_max_us;
		conns_flush(&crowd);
		look(next_us > now);
		connect_all(now_us());
	}
	end_us += (uint64_t)(options.grace * 1e6);
	while (crowd.in_flight > 0 && now_us() < end_us) {
		conns_flush(&crowd);
		look(true);
	}
	for (uint32_t i = 0; i < crowd.conns_count; i++)
		conn_close(&crowd.conns[i], RECORD_LOST, now_us());
	for (int i = 0; i < options.streams_count; i++)
		asked += options.streams[i].asked;
	if (fclose(crowd.out) != 0)
		fail(options.out, strerror(errno));
	printf("{\"begun_us\": %" PRIu64 ", \"seconds\": %.3f, \"asked\": %" PRIu64
	       ", \"daemons\": %" PRIu32 ", \"connections\": %" PRIu32 ", \"turn_max_us\": %" PRIu64
	       ", \"late_max_us\": %" PRIu64 "}\n",
	       begun_us, options.seconds, asked, crowd.daemons, crowd.conns_count,
	       (uint64_t)crowd.turn_max_us, late_max_us);
	return 0;
}
