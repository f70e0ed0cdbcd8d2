/* An open loop on the sockets of some daemons: requests are sent when they are due, whatever has
 * become of those before; so a daemon that stalls is charged with all that it kept waiting (the
 * same rule, and its sources, as in tests/bench/load.c).
 *
 * One thread: load_open … (load_ask | load_wait)* … load_close. Each request is answered once, from
 * within load_wait: by its response, or as SEGAR_DISCONNECTED where its connection was lost.
 * Nothing is repeated, and no answer is given up: the caller's own deadlines are for what is in
 * flight.
 *
 * Connections 0 to sockets * connections - 1 take turns with the sockets; behind them each socket
 * has one more, for the questions of the drill itself (load_aside). Times are µs of
 * CLOCK_MONOTONIC.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/call.h"
#include "client/segar.h"
#include "proto/wire.h"

enum { LOAD_SOCKETS_MAX = 16, LOAD_CONNECTIONS_MAX = 64, LOAD_DEPTH_MAX = 512 };

struct load_answer {
	int tag;      /* as the request had it */
	uint32_t key; /* likewise */
	uint32_t connection, socket;
	int64_t due_us, sent_us, came_us;
	const segar_reply *reply; /* borrowed for the call */
};
typedef void (*load_answer_cb)(void *arg, const struct load_answer *answer);

struct load_request {
	int tag;
	uint32_t key;
	int64_t due_us;
	enum call_shape shape;
	const char *method;
	struct wire_span params; /* encoded, without their array; borrowed for the call */
	uint32_t params_count;
};

struct load_conn;

struct load {
	const char *const *paths; /* borrowed */
	uint32_t sockets, connections, turn;
	struct load_conn *conns; /* owned; sockets * (connections + 1) */
	load_answer_cb on_answer;
	void *arg;
	size_t in_flight;
	uint64_t strays;  /* responses to no request that was in flight */
	int64_t noise_us; /* the longest that this process came late to what it was to do */
};

/* False without memory. Connects when there is something to ask. */
bool load_open(struct load *load, const char *const *paths, uint32_t sockets, uint32_t connections,
	       load_answer_cb on_answer, void *arg);
void load_close(struct load *load);

/* Asks on a connection, or on the next one that has room. False if there is no room: LOAD_DEPTH_MAX
 * are in flight, or no memory. */
bool load_ask_on(struct load *load, uint32_t connection, const struct load_request *request);
bool load_ask(struct load *load, const struct load_request *request);

/* The connection beside the load of that socket. */
uint32_t load_aside(const struct load *load, uint32_t socket);

/* Sends and receives until that time, or for one turn where something came. A signal ends it. */
void load_wait(struct load *load, int64_t until_us);

int64_t load_now_us(void);
