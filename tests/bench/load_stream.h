/* One kind of load: its connections, what is in flight on them, and what came of it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/histogram.h"
#include "codec.h"
#include "keys.h"

enum {
	STREAMS_MAX = 8,
	STREAM_DEPTH_MAX = 16384,
};

struct stream_options {
	enum protocol protocol;
	const char *name, *path, *prefix; /* borrowed as long as the stream is open */
	uint32_t keys;
	double zipf;
	size_t value_len;
	uint32_t connections;
	uint32_t depth; /* requests in flight on a connection: exactly, or, with a rate, at most */
	double rate;    /* requests a second of all connections; 0: closed loop */
	bool fill;
};

struct stream_counts {
	uint64_t fresh, stale, misses, errors;
	uint64_t wrong; /* replies with another key's value */
	uint64_t late;  /* requests for which no connection had room when they were due */
};

struct load_conn;

struct stream {
	struct stream_options options;
	struct codec codec;
	struct keys keys;
	struct load_conn *conns; /* owned; options.connections of them */
	int epoll;               /* borrowed */
	uint64_t begun_ns;       /* the first request of an open loop is due */
	uint64_t sent;           /* requests of it so far */
	uint32_t turn;           /* the connection whose turn is next */
	uint32_t filled;         /* keys that were asked for */
	uint32_t stored;         /* and answered */
	bool broken;             /* told on stderr */
	struct histogram latencies;
	struct stream_counts counts;
};

/* Connects, and sends first requests in a closed loop. 0, or -1 with the reason on stderr. */
int stream_open(struct stream *stream, const struct stream_options *options, int epoll,
		uint64_t now_ns) __attribute__((warn_unused_result));
void stream_close(struct stream *stream);

/* Counts from here on. */
void stream_begin(struct stream *stream, uint64_t now_ns);

/* Of an open loop, also counts the times of what is due and not answered: at least so long it took.
 * Without them a server that stalls at the end would be charged with nothing. */
void stream_end(struct stream *stream, uint64_t now_ns);

/* Sends what is due. */
void stream_on_time(struct stream *stream, uint64_t now_ns);

/* A connection of any stream, the `data.ptr` of an epoll event, is ready. */
void stream_on_ready(struct load_conn *conn, uint32_t events, uint64_t now_ns);

/* Whether every key has been answered for. */
bool stream_is_full(const struct stream *stream);
