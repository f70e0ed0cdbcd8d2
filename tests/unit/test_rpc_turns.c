/* What one turn of the loop may take: long replies are sent in shares, and short ones at once. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "proto/result.h"
#include "rpc_world.h"

enum { CLIENTS = 8, LONG = 200000 };

static struct rpc_world *world;
static struct client clients[CLIENTS], quick;

static void set_up(void)
{
	world = calloc(1, sizeof(*world));
	cr_assert(world);
	rpc_world_defaults(world);
	rpc_world_open(world);
	for (int i = 0; i < CLIENTS; i++)
		client_open(&clients[i], world);
	client_open(&quick, world);
	/* The values are built, and all that follows are near hits. */
	client_call(&quick, 1, "get", "k:size-200000");
	(void)client_take(&quick);
	client_call(&quick, 2, "get", "k:size-100");
	(void)client_take(&quick);
	rpc_world_turn(world);
}

static void tear_down(void)
{
	for (int i = 0; i < CLIENTS; i++)
		client_close(&clients[i]);
	client_close(&quick);
	rpc_world_close(world);
	free(world);
}

TestSuite(rpc_turns, .init = set_up, .fini = tear_down);

/* Turns once, and returns how many bytes were sent. */
static size_t turn(void)
{
	const uint64_t before = world->server.counters.bytes_out;

	rpc_world_turn(world);
	return (size_t)(world->server.counters.bytes_out - before);
}

static void ask_for_long_values(void)
{
	for (int i = 0; i < CLIENTS; i++)
		client_call(&clients[i], 7, "get", "k:size-200000");
}

/* Whether all have come; what is there is taken in. */
static bool have_come(void)
{
	bool all = true;

	for (int i = 0; i < CLIENTS; i++) {
		client_poll(&clients[i]);
		all &= clients[i].in_len > LONG;
	}
	return all;
}

static void assert_whole(void)
{
	for (int i = 0; i < CLIENTS; i++) {
		const struct rpc_message message = client_take(&clients[i]);
		struct result result;

		cr_assert(result_read(message.result, &result));
		cr_assert_eq(result.value_len, LONG);
	}
}

Test(rpc_turns, a_turn_sends_a_share_of_long_replies)
{
	int turns = 0;

	ask_for_long_values();
	for (; !have_come(); turns++) {
		cr_assert_lt(turns, 1000);
		cr_assert_leq(turn(), (size_t)2 * OUTPUT_PER_TURN);
	}
	cr_assert_geq(turns, CLIENTS * LONG / (2 * OUTPUT_PER_TURN));
	assert_whole();
}

Test(rpc_turns, a_short_reply_waits_for_no_long_one)
{
	ask_for_long_values();
	for (uint32_t id = 100; id < 110; id++) {
		struct rpc_message message;

		client_call(&quick, id, "get", "k:size-100");
		/* After the first, there are others to be served beside the long ones. */
		cr_assert_leq(turn(), (id == 100 ? 2 * OUTPUT_PER_TURN : OUTPUT_BESIDE) + 1000u);
		client_poll(&quick);
		cr_assert(client_has_response(&quick, &message), "request %u waits", id);
		cr_assert_eq(message.id, id);
	}
	rpc_world_until(world, have_come());
	assert_whole();
}

Test(rpc_turns, nothing_is_polled_for_when_all_is_sent)
{
	ask_for_long_values();
	rpc_world_until(world, have_come());
	assert_whole();
	rpc_world_turn(world);
	rpc_world_turn(world);
	cr_assert_neq(uv_backend_timeout(&world->loop), 0);
}
