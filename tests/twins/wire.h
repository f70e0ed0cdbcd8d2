/* The way between the daemons' stores and Redis, without the waiting: takes the place of
 * store/link.c, and of the clocks.
 *
 * All of daemon/store but the connections is the daemon's own. What it sends lies here until
 * wire_carry, which brings it to the server over one connection, one command after the other, and
 * the reply back. What the server tells meanwhile is heard before the reply is. Nothing goes by the
 * time of day: the daemons' clocks and the server's stand where they were put.
 *
 * One of them a process: link.h's functions have no other place to find it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HEARD_MAX = 64, HEARD_BYTES = 512 };

/* A message on the fleet's channel. */
struct heard {
	size_t len;
	char bytes[HEARD_BYTES];
};

struct wire {
	int64_t local_us;      /* CLOCK_BOOTTIME of all daemons */
	int64_t *stands_at_us; /* the server's clock; borrowed */
	struct redisContext *context, *ears;
	char channel[256];
	struct heard heard[HEARD_MAX]; /* since wire_forget */
	unsigned heard_count;
	uint64_t commands;
};
extern struct wire wire;

/* Connects to the server at this socket, whose clock stands at *stands_at_us. */
void wire_open(const char *socket, int64_t *stands_at_us, const char *channel);
void wire_close(void);

void wire_stand(int64_t local_us, int64_t server_us);

/* Brings all that was sent, and what is sent upon that. */
void wire_carry(void);

void wire_forget(void);

/* A command of the test's own. An error reply ends the process. */
struct redisReply *wire_ask(const char *format, ...);
