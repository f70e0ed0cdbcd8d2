/* Many keys in one request: what is held for it, and for how long it may be told. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "proto/result.h"
#include "rpc_world.h"

static struct rpc_world *world;
static struct client client, other;
static struct result results[MGET_KEYS_MAX];
static int statuses[MGET_KEYS_MAX];

static void set_up(void)
{
	world = calloc(1, sizeof(*world));
	cr_assert(world);
	rpc_world_defaults(world);
}

static void begin(void)
{
	rpc_world_open(world);
	client_open(&client, world);
	client_open(&other, world);
}

static void tear_down(void)
{
	client_close(&client);
	client_close(&other);
	rpc_world_close(world);
	free(world);
}

TestSuite(rpc_mget, .init = set_up, .fini = tear_down);

/* Takes the next response, an mget's, into `results` and `statuses`. */
static uint32_t take(struct client *from, uint32_t id)
{
	struct rpc_message message = client_take(from);
	struct wire_span element, error;
	struct reader r;
	uint32_t count;
	int64_t retry;

	cr_assert_eq(message.id, id);
	reader_init(&r, message.result.data, message.result.len);
	cr_assert(reader_array(&r, &count));
	for (uint32_t i = 0; i < count; i++) {
		cr_assert(reader_skip(&r, &element));
		statuses[i] = STATUS_OK;
		if (result_read(element, &results[i]))
			continue;
		cr_assert(result_read_error(element, &error));
		statuses[i] = rpc_read_error_text(error, &error, &retry);
		cr_assert(statuses[i] > 0);
	}
	return count;
}

static void get(const char *key)
{
	client_call(&other, 1, "get", key);
	cr_assert_eq(client_take(&other).id, 1);
}

Test(rpc_mget, an_answer_that_waits_for_others_tells_its_greater_age)
{
	static const char *const keys[] = { "k:a", "k:b" };

	begin();
	get("k:a");
	world->hold = true;
	client_mget(&client, 2, 2, keys);
	rpc_world_until(world, world->builds == 2);
	world->ahead_us += 30 * MS;
	rpc_world_release(world);
	cr_assert_eq(take(&client, 2), 2);
	cr_assert_eq(results[0].state, RESULT_FRESH);
	cr_assert(results[0].age_ms >= 30 && results[0].ttl_ms <= 9970);
	cr_assert(results[0].age_ms + results[0].ttl_ms >= 9998);
	cr_assert_eq(results[0].source, RESULT_SOURCE_NEAR);
	cr_assert(results[1].age_ms + results[1].ttl_ms >= 9998);
}

Test(rpc_mget, an_answer_that_grew_stale_is_told_as_that)
{
	static const char *const keys[] = { "k:a", "k:b" };

	world->policy.fresh_us = SECOND;
	begin();
	get("k:a");
	world->hold = true;
	client_mget(&client, 2, 2, keys);
	rpc_world_until(world, world->builds == 2);
	world->ahead_us += SECOND;
	rpc_world_release(world);
	cr_assert_eq(take(&client, 2), 2);
	cr_assert_eq(results[0].state, RESULT_STALE);
	cr_assert(results[0].stale_ms > 0);
	cr_assert_eq(results[1].state, RESULT_FRESH);
	cr_assert_eq(client_stat(&other, "held_bytes"), 0);
}

/* k:a is known, and would not be fresh any more when k:slow is built. */
static void ask_beside_a_slow_one(int64_t for_us)
{
	static const char *const keys[] = { "k:a", "k:slow" };

	world->policy.fresh_us = SECOND;
	world->policy.stale_us = 0;
	begin();
	get("k:a");
	world->slow = keys[1];
	client_mget(&client, 2, 2, keys);
	rpc_world_until(world, world->builds == 2);
	world->ahead_us += for_us;
}

Test(rpc_mget, an_answer_past_its_stale_time_is_asked_for_again)
{
	ask_beside_a_slow_one(SECOND);
	rpc_world_release(world);
	cr_assert_eq(take(&client, 2), 2);
	cr_assert(statuses[0] == STATUS_OK && statuses[1] == STATUS_OK);
	cr_assert_eq(results[0].state, RESULT_FRESH);
	cr_assert_eq(results[0].source, RESULT_SOURCE_ORIGIN);
	cr_assert_eq(world->builds, 3);
}

Test(rpc_mget, an_answer_past_its_stale_time_is_not_told_at_the_deadline_either)
{
	ask_beside_a_slow_one(5 * SECOND);
	cr_assert_eq(take(&client, 2), 2);
	cr_assert_eq(statuses[0], STATUS_TIMEOUT);
	cr_assert_eq(statuses[1], STATUS_TIMEOUT);
	rpc_world_release(world);
}

Test(rpc_mget, what_was_built_for_it_is_told_however_old_and_not_built_again)
{
	static const char *const keys[] = { "k:a", "k:none", "k:slow" };

	world->policy.fresh_us = world->policy.negative_us = SECOND;
	world->policy.stale_us = 0;
	begin();
	world->slow = keys[2];
	client_mget(&client, 2, 3, keys);
	rpc_world_until(world, world->building.count == 1 && world->builds == 3);
	world->ahead_us += 3 * SECOND;
	rpc_world_release(world);
	cr_assert_eq(take(&client, 2), 3);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(statuses[i], STATUS_OK);
	cr_assert(results[0].state == RESULT_FRESH && results[1].state == RESULT_ABSENT);
	for (int i = 0; i < 2; i++) {
		cr_assert(results[i].age_ms >= 3000);
		cr_assert(results[i].ttl_ms == 0 && results[i].stale_ms == 0);
	}
	cr_assert_eq(world->builds, 3);
	client_call(&other, 1, "get", "k:a"); /* which came later: not for that one */
	cr_assert_eq(client_take(&other).id, 1);
	cr_assert_eq(world->builds, 4);
}

Test(rpc_mget, the_deadline_is_one_for_all_keys)
{
	static const char *const keys[] = { "k:a", "k:b", "k:none" };
	struct wire_buf b;

	begin();
	get("k:none");
	world->hold = true;
	wire_buf_init(&b, 1000);
	rpc_put_request(&b, 3, "mget", 2);
	wire_buf_array(&b, 3);
	for (int i = 0; i < 3; i++)
		wire_buf_str(&b, keys[i]);
	wire_buf_map(&b, 1);
	wire_buf_str(&b, "wait_ms");
	wire_buf_int(&b, 20);
	client_send_buf(&client, &b);
	cr_assert_eq(take(&client, 3), 3);
	cr_assert_eq(statuses[0], STATUS_TIMEOUT);
	cr_assert_eq(statuses[1], STATUS_TIMEOUT);
	cr_assert_eq(results[2].state, RESULT_ABSENT);
	rpc_world_release(world);
}

Test(rpc_mget, a_walk_of_several_turns_does_not_move_the_deadline)
{
	enum { COUNT = MGET_KEYS_PER_TURN + 20 };
	struct wire_buf b;
	char key[16];

	begin();
	world->hold = true;
	wire_buf_init(&b, 100000);
	rpc_put_request(&b, 3, "mget", 2);
	wire_buf_array(&b, COUNT);
	for (int i = 0; i < COUNT; i++) {
		snprintf(key, sizeof(key), "k:%d", i);
		wire_buf_str(&b, key);
	}
	wire_buf_map(&b, 1);
	wire_buf_str(&b, "wait_ms");
	wire_buf_int(&b, 20000);
	client_send_buf(&client, &b);
	rpc_world_until(world, world->engine->requests > 0);
	cr_assert_eq(world->engine->requests, MGET_KEYS_PER_TURN);
	world->ahead_us += 15 * SECOND;
	rpc_world_until(world, world->engine->requests == COUNT);
	world->ahead_us += 6 * SECOND;
	for (int i = 0; i < 10; i++)
		pump_turn(&world->pump);
	cr_assert_eq(world->engine->requests, 0);
	cr_assert_eq(take(&client, 3), COUNT);
	cr_assert_eq(statuses[COUNT - 1], STATUS_TIMEOUT);
	rpc_world_release(world);
}

Test(rpc_mget, values_are_not_held_for_a_client_that_does_not_read)
{
	enum { COUNT = 7, SIZE = 2 << 20 };
	static const char *const keys[] = { "k:size-2097152-a", "k:size-2097152-b", "k:x" };

	begin();
	world->server.held_max = 2 * COUNT * SIZE + 1000;
	get(keys[0]);
	get(keys[1]);
	world->hold = true;
	for (uint32_t i = 0; i < COUNT; i++)
		client_mget(&client, i, 3, keys);
	rpc_world_until(world, world->engine->requests == COUNT);
	cr_assert_eq(client_stat(&other, "held_bytes"), 2 * COUNT * SIZE);
	rpc_world_release(world);
	rpc_world_until(world, world->engine->requests == 0);
	cr_assert(client_stat(&other, "held_bytes") <= COUNT * SIZE + 500);
	cr_assert(client_stat(&other, "held_bytes") > 0);
	/* Others go on meanwhile. */
	client_mget(&other, 2, 3, keys);
	cr_assert_eq(take(&other, 2), 3);
	cr_assert(statuses[0] == STATUS_OK && statuses[1] == STATUS_OK);
	for (uint32_t i = 0; i < COUNT; i++) {
		cr_assert_eq(take(&client, i), 3);
		for (int k = 0; k < 3; k++)
			cr_assert_eq(statuses[k], STATUS_OK, "%u %d: %s", i, k,
				     status_name((enum status)statuses[k]));
		cr_assert_eq(results[1].value_len, SIZE);
	}
	cr_assert_eq(client_stat(&other, "held_bytes"), 0);
	cr_assert_eq(world->builds, 3);
}

Test(rpc_mget, values_over_what_all_may_hold_are_overloaded)
{
	static const char *const keys[] = { "k:size-1048576-a", "k:size-1048576-b",
					    "k:size-1048576-c", "k:size-5" };

	begin();
	world->server.held_max = 2 << 20;
	client_mget(&client, 1, 4, keys);
	cr_assert_eq(take(&client, 1), 4);
	cr_assert_eq(statuses[0], STATUS_OK);
	cr_assert_eq(statuses[1], STATUS_OK);
	cr_assert_eq(statuses[2], STATUS_OVERLOADED);
	cr_assert_eq(statuses[3], STATUS_OVERLOADED);
	cr_assert_eq(client_stat(&other, "replies_dropped"), 2);
	client_mget(&client, 2, 2, keys);
	cr_assert_eq(take(&client, 2), 2);
	cr_assert_eq(statuses[1], STATUS_OK);
}

Test(rpc_mget, counts_for_each_of_its_keys)
{
	static const char *const keys[] = { "k:a", "k:b", "k:c", "k:d", "k:e", "k:f" };
	char text[100];

	world->limits.requests_per_connection = 10;
	begin();
	world->hold = true;
	client_mget(&client, 1, 6, keys);
	client_mget(&client, 2, 6, keys);
	cr_assert_eq(client_take_error(&client, 2, text, sizeof(text)), STATUS_OVERLOADED);
	cr_assert_eq(client_stat(&other, "requests"), 6);
	rpc_world_release(world);
	cr_assert_eq(take(&client, 1), 6);
	cr_assert_eq(client_stat(&other, "requests"), 0);
}
