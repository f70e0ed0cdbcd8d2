/* What each method answers, over the socket. */
#include <criterion/criterion.h>
#include <string.h>

#include "proto/method.h"
#include "proto/result.h"
#include "rpc_world.h"

static struct rpc_world *world;
static struct client client;

static void set_up(void)
{
	world = calloc(1, sizeof(*world));
	cr_assert(world);
	rpc_world_defaults(world);
	rpc_world_open(world);
	client_open(&client, world);
}

static void tear_down(void)
{
	client_close(&client);
	rpc_world_close(world);
	free(world);
}

TestSuite(rpc_methods, .init = set_up, .fini = tear_down);

static struct result take_result(uint32_t id)
{
	struct rpc_message message = client_take(&client);
	struct result result;

	cr_assert_eq(message.id, id);
	cr_assert_eq(*message.error.data, (char)0xc0, "an error");
	cr_assert(result_read(message.result, &result));
	return result;
}

static void assert_value(struct result result, const char *text)
{
	cr_assert(result.has_value && result.value_len == strlen(text) &&
			  memcmp(result.value, text, strlen(text)) == 0,
		  "not %s but %.*s", text, (int)result.value_len, result.value);
}

static void expect_error(uint32_t id, enum status status, const char *text)
{
	char came[ERROR_TEXT_MAX];
	const int was = client_take_error(&client, id, came, sizeof(came));

	cr_assert_eq(was, (int)status, "%s", status_name((enum status)was));
	cr_assert_str_eq(came, text);
}

Test(rpc_methods, a_get_builds_and_the_next_one_is_a_near_hit)
{
	struct result result;

	client_call(&client, 1, "get", "k:a");
	result = take_result(1);
	assert_value(result, "v1");
	cr_assert_eq(result.state, RESULT_FRESH);
	cr_assert_eq(result.source, RESULT_SOURCE_ORIGIN);
	cr_assert_eq(result.reason, RESULT_REASON_NONE);
	client_call(&client, 2, "get", "k:a");
	result = take_result(2);
	assert_value(result, "v1");
	cr_assert_eq(result.source, RESULT_SOURCE_NEAR);
	cr_assert(result.ttl_ms > 5000 && result.ttl_ms <= 10000);
	cr_assert_eq(world->builds, 1);
}

Test(rpc_methods, no_row_and_null_are_told_apart)
{
	struct result result;

	client_call(&client, 1, "get", "k:none");
	result = take_result(1);
	cr_assert(result.state == RESULT_ABSENT && !result.has_value);
	client_call(&client, 2, "get", "k:null");
	result = take_result(2);
	cr_assert(result.state == RESULT_FRESH && !result.has_value);
	client_call(&client, 3, "get", "k:size-0");
	result = take_result(3);
	cr_assert(result.state == RESULT_FRESH && result.has_value && result.value_len == 0);
}

Test(rpc_methods, a_failing_build_is_the_error_of_all_and_is_not_repeated)
{
	char text[64];

	for (uint32_t i = 0; i < 50; i++)
		client_call(&client, i, "get", "k:fail");
	for (uint32_t i = 0; i < 50; i++)
		cr_assert_eq(client_take_error(&client, i, text, sizeof(text)),
			     STATUS_ORIGIN_ERROR);
	cr_assert_eq(world->builds, 1);
	cr_assert(strncmp(text, "no good retry_after_ms=", 23) == 0, "%s", text);
}

Test(rpc_methods, wrong_requests_are_refused_by_name)
{
	static const char *const wrong[] = { "get has no option \"hard\"",
					     "option wait_ms is -1; it must be 0 to 300000" };

	client_call(&client, 1, "get", "nosuch:1");
	expect_error(1, STATUS_UNKNOWN_KEYSPACE, "there is no keyspace \"nosuch\"");
	client_call(&client, 2, "git", "k:a");
	expect_error(2, STATUS_UNKNOWN_METHOD, "there is no method \"git\"");
	client_call(&client, 3, "log", "k");
	expect_error(3, STATUS_BAD_REQUEST, "log takes a map");
	client_call_with(&client, 4, "get", "k:a", "hard", 1);
	expect_error(4, STATUS_BAD_REQUEST, wrong[0]);
	client_call_with(&client, 5, "get", "k:a", "wait_ms", -1);
	expect_error(5, STATUS_BAD_REQUEST, wrong[1]);
	client_call_with(&client, 6, "get", "k:a", "trace", 1);
	expect_error(6, STATUS_BAD_REQUEST, "option trace is an integer; it must be a string");
	client_call(&client, 7, "get", NULL);
	expect_error(7, STATUS_BAD_REQUEST, "the key is missing");
	client_call(&client, 8, "ping", "k:a");
	expect_error(8, STATUS_BAD_REQUEST, "the options of ping are no map");
	cr_assert_eq(world->builds, 0);
}

Test(rpc_methods, aliases_of_a_key_are_one_entry)
{
	struct wire_buf b;

	client_call(&client, 1, "get", "k:a:b%3a");
	assert_value(take_result(1), "v1");
	client_call(&client, 2, "get", "k:%61:b%3A");
	assert_value(take_result(2), "v1");
	wire_buf_init(&b, 1000);
	rpc_put_request(&b, 3, "get", 1);
	wire_buf_array(&b, 3);
	wire_buf_str(&b, "k");
	wire_buf_bin(&b, "a", 1);
	wire_buf_str(&b, "b:");
	client_send_buf(&client, &b);
	assert_value(take_result(3), "v1");
}

Test(rpc_methods, wait_0_answers_at_once_and_starts_the_build)
{
	char text[64];

	client_call_with(&client, 1, "get", "k:a", "wait_ms", 0);
	cr_assert_eq(client_take_error(&client, 1, text, sizeof(text)), STATUS_TIMEOUT);
	rpc_world_until(world, world->engine->near.table.count == 1);
	client_call_with(&client, 2, "get", "k:a", "wait_ms", 0);
	assert_value(take_result(2), "v1");
}

/* One flag or number of a map that the last response holds. */
static struct mp_value field(struct wire_span encoded, const char *name)
{
	struct wire_span key, skipped;
	struct mp_value value;
	struct reader r;
	uint32_t pairs;

	reader_init(&r, encoded.data, encoded.len);
	cr_assert(reader_map(&r, &pairs));
	while (pairs-- > 0) {
		cr_assert(reader_text(&r, &key) && reader_peek(&r, &value) &&
			  reader_skip(&r, &skipped));
		if (strlen(name) == key.len && memcmp(name, key.data, key.len) == 0)
			return value;
	}
	cr_assert_fail("there is no %s", name);
	return value;
}

Test(rpc_methods, refresh_builds_anew_and_says_so)
{
	struct rpc_message message;

	client_call(&client, 1, "get", "k:a");
	take_result(1);
	client_call(&client, 2, "refresh", "k:a");
	message = client_take(&client);
	cr_assert(field(message.result, "built").boolean);
	cr_assert(!field(message.result, "joined").boolean);
	client_call(&client, 3, "get", "k:a");
	assert_value(take_result(3), "v2");
	client_call_with(&client, 4, "refresh", "k:a", "wait_ms", 0);
	message = client_take(&client);
	cr_assert(field(message.result, "queued").boolean);
	rpc_world_until(world, world->builds == 3 && list_empty(&world->building));
}

Test(rpc_methods, an_invalidated_key_is_built_anew)
{
	struct rpc_message message;

	client_call(&client, 1, "get", "k:a");
	take_result(1);
	client_call(&client, 2, "invalidate", "k:a");
	message = client_take(&client);
	cr_assert(message.id == 2 && message.result.len == 1 && *message.result.data == (char)0x80);
	client_call_with(&client, 3, "get", "k:a", "max_stale_ms", 0);
	assert_value(take_result(3), "v2");
}

Test(rpc_methods, inspect_tells_what_there_is)
{
	struct rpc_message message;

	client_call(&client, 1, "inspect", "k:%61");
	message = client_take(&client);
	cr_assert_eq(field(message.result, "key").bytes.len, 3);
	cr_assert_eq(field(message.result, "near").type, MP_NIL);
	cr_assert_eq(field(message.result, "flight").type, MP_NIL);
	world->hold = true;
	client_call(&client, 2, "get", "k:a");
	rpc_world_until(world, world->builds == 1);
	client_call(&client, 3, "inspect", "k:a");
	message = client_take(&client);
	cr_assert_eq(field(message.result, "flight").type, MP_MAP);
	rpc_world_release(world);
	take_result(2);
	client_call(&client, 4, "inspect", "k:a");
	message = client_take(&client);
	cr_assert_eq(field(message.result, "near").type, MP_MAP);
}

Test(rpc_methods, hello_ping_stats_and_keyspaces_answer)
{
	struct rpc_message message;
	struct wire_span name;

	client_call(&client, 1, "hello", NULL);
	message = client_take(&client);
	name = field(message.result, "name").bytes;
	cr_assert(name.len == 6 && memcmp(name.data, "segard", 6) == 0);
	cr_assert(field(message.result, "ready").boolean);
	cr_assert_eq(field(message.result, "methods").count, METHOD_COUNT);
	client_call(&client, 2, "ping", NULL);
	message = client_take(&client);
	cr_assert(message.result.len == 5 && memcmp(message.result.data, "\xa4pong", 5) == 0);
	client_call(&client, 3, "keyspaces", NULL);
	message = client_take(&client);
	cr_assert_eq(*message.result.data, (char)0x91);
	cr_assert_eq(client_stat(&client, "connections"), 1);
	cr_assert_eq(client_stat(&client, "requests"), 0);
	cr_assert_eq(client_stat(&client, "near_entries"), 0);
}

Test(rpc_methods, notifications_are_ignored)
{
	struct wire_buf b;

	wire_buf_init(&b, 1000);
	rpc_put_notification(&b, "nvim_set_client_info", 2);
	wire_buf_str(&b, "x");
	wire_buf_map(&b, 0);
	rpc_put_notification(&b, "get", 1);
	wire_buf_str(&b, "k:a");
	client_send_buf(&client, &b);
	cr_assert_eq(client_stat(&client, "notifications"), 2);
	cr_assert_eq(world->builds, 0);
}

/* Calls `check` for each element of the mget that is the next response. */
static uint32_t take_mget(uint32_t id, void (*check)(uint32_t index, struct wire_span element))
{
	struct rpc_message message = client_take(&client);
	struct wire_span element;
	struct reader r;
	uint32_t count;

	cr_assert_eq(message.id, id);
	reader_init(&r, message.result.data, message.result.len);
	cr_assert(reader_array(&r, &count));
	for (uint32_t i = 0; i < count; i++) {
		cr_assert(reader_skip(&r, &element));
		check(i, element);
	}
	cr_assert(reader_at_end(&r));
	return count;
}

static void check_mixed(uint32_t index, struct wire_span element)
{
	struct result result;
	struct wire_span error;

	if (index == 0 || index == 4) {
		cr_assert(result_read(element, &result));
		assert_value(result, "v1");
	} else if (index == 1) {
		cr_assert(result_read(element, &result));
		cr_assert_eq(result.state, RESULT_ABSENT);
	} else {
		cr_assert(result_read_error(element, &error));
		cr_assert(memcmp(error.data,
				 index == 2 ? "origin_error: " : "unknown_keyspace: ", 14) == 0);
	}
}

Test(rpc_methods, an_mget_answers_each_key_in_its_place)
{
	static const char *const keys[] = { "k:a", "k:none", "k:fail", "nosuch:1", "k:a" };

	client_call(&client, 1, "get", "k:a");
	take_result(1);
	client_mget(&client, 2, 5, keys);
	cr_assert_eq(take_mget(2, check_mixed), 5);
	client_mget(&client, 3, 5, keys);
	cr_assert_eq(take_mget(3, check_mixed), 5);
	client_mget(&client, 4, 0, keys);
	cr_assert_eq(take_mget(4, check_mixed), 0);
	cr_assert_eq(client_stat(&client, "requests"), 0);
}

static void check_in_order(uint32_t index, struct wire_span element)
{
	struct result result;

	cr_assert(result_read(element, &result));
	cr_assert_eq(result.value_len, index % 700);
}

Test(rpc_methods, an_mget_of_a_thousand_keys_comes_whole_and_in_order)
{
	static char text[MGET_KEYS_MAX + 1][24];
	static const char *keys[MGET_KEYS_MAX + 1];

	for (int i = 0; i <= MGET_KEYS_MAX; i++) {
		snprintf(text[i], sizeof(text[i]), "k:size-%d-%d", i % 700, i);
		keys[i] = text[i];
	}
	client_mget(&client, 1, MGET_KEYS_MAX, keys);
	client_call(&client, 2, "ping", NULL); /* is not held up */
	cr_assert_eq(client_take(&client).id, 2);
	cr_assert_eq(take_mget(1, check_in_order), MGET_KEYS_MAX);
	client_mget(&client, 3, MGET_KEYS_MAX, keys);
	cr_assert_eq(take_mget(3, check_in_order), MGET_KEYS_MAX);
	cr_assert_eq(world->builds, MGET_KEYS_MAX);
	client_mget(&client, 4, MGET_KEYS_MAX + 1, keys);
	expect_error(4, STATUS_TOO_LARGE, "mget takes at most 1000 keys");
}

static int too_large;
static void check_sum(uint32_t index, struct wire_span element)
{
	struct result result;
	struct wire_span error;

	(void)index;
	if (result_read(element, &result)) {
		cr_assert_eq(result.value_len, 5 << 20);
		return;
	}
	cr_assert(result_read_error(element, &error));
	cr_assert(memcmp(error.data, "too_large: ", 11) == 0);
	too_large++;
}

Test(rpc_methods, the_values_of_an_mget_are_bounded_together)
{
	static const char *const keys[] = { "k:size-5242880-a", "k:size-5242880-b",
					    "k:size-5242880-c", "k:size-5242880-d" };

	client_mget(&client, 1, 4, keys);
	cr_assert_eq(take_mget(1, check_sum), 4);
	cr_assert_eq(too_large, 1);
	cr_assert_eq(client_stat(&client, "output_bytes"), 0);
}

Test(rpc_methods, values_of_all_sizes_arrive_whole)
{
	static const size_t sizes[] = { 0, 1, 4095, 4096, 65535, 65536, 200 << 10, 16 << 20 };

	for (uint32_t round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			char key[32];
			struct result result;

			snprintf(key, sizeof(key), "k:size-%zu", sizes[i]);
			client_call(&client, i, "get", key);
			result = take_result(i);
			cr_assert_eq(result.value_len, sizes[i]);
			for (size_t at = 0; at < sizes[i]; at++)
				cr_assert(result.value[at] == 'x');
		}
	}
	cr_assert_eq(client_stat(&client, "output_bytes"), 0);
}

/* The same get, in an encoding that no client would choose. */
static void put_odd_get(struct wire_buf *b, uint32_t id, const char *key)
{
	wire_buf_array(b, 4);
	wire_buf_int(b, RPC_REQUEST);
	wire_buf_int(b, id);
	wire_buf_bin(b, "get", 3);
	wire_buf_array(b, 1);
	wire_buf_bin(b, key, strlen(key));
}

Test(rpc_methods, a_get_on_the_hot_path_is_answered_as_on_the_other)
{
	static const char *const keys[] = { "k:a",     "k:size-0-x", "k:size-4095", "k:size-4096",
					    "k:none",  "k:null",     "k:%61",       "k:a%3a",
					    "k:a%3A",  "k:fail",     "k:",          "k",
					    "other:a", "",           "k:%",         "k:\xff" };
	enum { KEYS = sizeof(keys) / sizeof(keys[0]) };

	/* First what is built, then the near hits. */
	for (int round = 0; round < 3; round++) {
		struct wire_buf b;

		/* In one piece: served at one time, so that not even age_ms may differ. */
		wire_buf_init(&b, WIRE_REQUEST_MAX);
		for (uint32_t i = 0; i < KEYS; i++) {
			rpc_put_request(&b, i, "get", 1);
			wire_buf_str(&b, keys[i]);
			put_odd_get(&b, i, keys[i]);
		}
		client_send_buf(&client, &b);
		struct wire_buf replies[KEYS] = { 0 };
		for (uint32_t i = 0; i < 2 * KEYS; i++) {
			const struct rpc_message message = client_take(&client);
			struct wire_buf *first = &replies[message.id];
			const struct wire_span both = { message.error.data,
							message.error.len + message.result.len };

			if (!first->data) {
				wire_buf_init(first, 1 << 20);
				wire_buf_raw(first, both.data, both.len);
			} else if (round > 0) {
				cr_assert(first->len == both.len &&
						  memcmp(first->data, both.data, both.len) == 0,
					  "key %s in round %d", keys[message.id], round);
			}
		}
		for (uint32_t i = 0; i < KEYS; i++)
			wire_buf_close(&replies[i]);
	}
	cr_assert_gt(world->engine->counters.hits_fresh, 20);
}
