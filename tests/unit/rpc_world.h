/* A daemon without PostgreSQL: the real loop, server, engine, pump and memory store; an origin in
 * this process that builds what the key asks for; and clients on the other end of the socket.
 *
 * Keys are k:WHAT, where WHAT is
 *   size-N…   N bytes, each 'x'
 *   own-N…    N bytes, the first ten of them the key's last
 *   fail…     an error at the origin
 *   none…     no such row
 *   null…     SQL NULL
 *   else      "v" and the number of the build
 * and a `…` may be anything, to make keys differ. Builds end in the loop's next turn; while `hold`
 * is set they wait for rpc_world_release().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "proto/rpc.h"
#include "rpc/server.h"
#include "store/memory.h"

enum { MS = 1000, SECOND = 1000 * 1000 };

struct rpc_world {
	uv_loop_t loop;
	uv_idle_t turn;        /* runs the store's and the origin's turns */
	uv_timer_t pump_timer; /* and the pump's */
	char dir[64], path[80];
	struct policy policy;          /* set up before rpc_world_open, as the limits */
	const struct policy *policies; /* borrowed; rpc_world_defaults: that one */
	uint32_t policies_count;
	struct listen_policy listen;
	struct limits_policy limits;
	struct engine_limits engine_limits;

	struct engine *engine;
	struct memory_store *memory;
	struct pump pump;
	struct server server;
	bool pump_stopped, server_closed;

	bool hold;        /* builds wait */
	const char *slow; /* those of this key do, also where others don't; NULL: none */
	int64_t ahead_us; /* of the real clock; grow it to let time pass */
	bool store_turn;
	struct list building; /* in build->node */
	int builds;
};

/* One keyspace `k`: fresh 10 s, stale 5 s, wait 5 s; limits far away. */
void rpc_world_defaults(struct rpc_world *world);
void rpc_world_open(struct rpc_world *world);

/* Begins to close the server, which drains for so long at most. */
void rpc_world_shut(struct rpc_world *world, int64_t drain_ms);

/* Closes everything; nothing may be left over. */
void rpc_world_close(struct rpc_world *world);

/* Lets the builds that were held end, and others no longer wait. */
void rpc_world_release(struct rpc_world *world);

/* One turn of the loop that doesn't sleep. */
void rpc_world_turn(struct rpc_world *world);

/* Turns until `condition` holds; fails the test after 20 seconds. */
#define rpc_world_until(world, condition)                                                          \
	do {                                                                                       \
		uint64_t until_started_ = uv_hrtime();                                             \
		while (!(condition)) {                                                             \
			cr_assert(uv_hrtime() - until_started_ < 20000000000u, "never: %s",        \
				  #condition);                                                     \
			rpc_world_turn(world);                                                     \
		}                                                                                  \
	} while (0)

struct client {
	struct rpc_world *world;
	int fd;
	uint8_t *in; /* owned */
	size_t in_len, in_cap;
	size_t taken; /* of these, in messages that were returned */
	bool ended;   /* the server has closed or reset */
};

void client_open(struct client *client, struct rpc_world *world);
void client_close(struct client *client); /* also a closed or zeroed one */

/* Sends all of it; where the socket is full, turns the loop and takes in what is there. */
void client_send(struct client *client, const void *bytes, size_t len);
void client_send_buf(struct client *client, struct wire_buf *b); /* and closes `b` */

/* Sends requests without, or with one option. */
void client_call(struct client *client, uint32_t id, const char *method, const char *key);
void client_call_with(struct client *client, uint32_t id, const char *method, const char *key,
		      const char *option, int64_t number);
void client_mget(struct client *client, uint32_t id, uint32_t count, const char *const *keys);

/* Takes in what is there, without waiting. */
void client_poll(struct client *client);

/* The next response; fails the test where none comes. What it spans is good until the next call. */
struct rpc_message client_take(struct client *client);

/* Whether, after what was taken, a whole response is there. */
bool client_has_response(struct client *client, struct rpc_message *ret_message);

/* The next response, which must be an error: its text into `ret_text`. Returns its status. */
int client_take_error(struct client *client, uint32_t id, char *ret_text, size_t size);

/* Waits until the server has ended the connection. */
void client_expect_end(struct client *client);

/* A number of `stats`, asked for over this client, which must have nothing outstanding. */
int64_t client_stat(struct client *client, const char *name);
