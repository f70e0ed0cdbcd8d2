/* A thousand clients that ask at once for one cold key: one build, and the same answer for all. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "proto/result.h"
#include "rpc_world.h"

enum { HERD = 1000 };

static struct rpc_world *world;
static struct client herd[HERD];

static void set_up(void)
{
	const struct rlimit many = { 4000, 20000 };

	setrlimit(RLIMIT_NOFILE, &many);
	world = calloc(1, sizeof(*world));
	cr_assert(world);
	rpc_world_defaults(world);
	rpc_world_open(world);
	world->hold = true;
}

static void tear_down(void)
{
	for (int i = 0; i < HERD; i++)
		client_close(&herd[i]);
	rpc_world_close(world);
	free(world);
}

TestSuite(rpc_herd, .init = set_up, .fini = tear_down);

/* `first` begins; then all others ask, and wait. */
static void gather(const char *key, const char *option, int64_t number)
{
	for (int i = 0; i < HERD; i++) {
		client_open(&herd[i], world);
		if (i == 0 && option)
			client_call_with(&herd[i], 7, "get", key, option, number);
		else
			client_call(&herd[i], 7, "get", key);
		if (i == 0 || i % 50 == 0)
			rpc_world_until(world, world->builds == 1);
	}
}

static void assert_same_answers(int from, size_t len)
{
	for (int i = from; i < HERD; i++) {
		struct rpc_message message = client_take(&herd[i]);
		struct result result;

		cr_assert_eq(message.id, 7);
		cr_assert(result_read(message.result, &result));
		cr_assert_eq(result.state, RESULT_FRESH);
		cr_assert_eq(result.value_len, len);
	}
	cr_assert_eq(world->builds, 1);
	cr_assert_eq(world->engine->requests + world->server.weight, 0);
}

Test(rpc_herd, is_answered_by_one_build)
{
	gather("k:size-300000", NULL, 0);
	rpc_world_until(world, world->engine->requests == HERD);
	rpc_world_release(world);
	assert_same_answers(0, 300000);
}

Test(rpc_herd, does_not_suffer_when_the_first_client_goes)
{
	gather("k:size-100", NULL, 0);
	rpc_world_until(world, world->engine->requests == HERD);
	client_close(&herd[0]);
	rpc_world_until(world, world->engine->requests == HERD - 1);
	rpc_world_release(world);
	assert_same_answers(1, 100);
}

Test(rpc_herd, does_not_suffer_from_the_first_clients_deadline)
{
	char text[64];

	gather("k:size-100", "wait_ms", 20);
	cr_assert_eq(client_take_error(&herd[0], 7, text, sizeof(text)), STATUS_TIMEOUT);
	rpc_world_until(world, world->engine->requests == HERD - 1);
	rpc_world_release(world);
	assert_same_answers(1, 100);
}

/* Builds end in the same turns of the loop in which others ask. */
Test(rpc_herd, nobody_is_left_waiting_when_builds_end_as_others_ask)
{
	enum { ROUNDS = 3000, CLIENTS = 4 };
	char key[32];

	world->hold = false;
	for (int i = 0; i < CLIENTS; i++)
		client_open(&herd[i], world);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		snprintf(key, sizeof(key), "k:%u", round);
		for (int i = 0; i < CLIENTS; i++) {
			client_call(&herd[i], round, "get", key);
			for (uint32_t turns = 0; turns < (round + (uint32_t)i) % 4; turns++)
				rpc_world_turn(world);
		}
		for (int i = 0; i < CLIENTS; i++)
			cr_assert_eq(client_take(&herd[i]).id, round);
	}
	cr_assert_eq(world->builds, ROUNDS);
}
