/* One connection: whatever its client sends, however it reads, and when it goes. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "proto/result.h"
#include "rpc/peer.h"
#include "rpc_world.h"

static struct rpc_world *world;
static struct client client, other;
static char text[ERROR_TEXT_MAX];

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

TestSuite(rpc_peer, .init = set_up, .fini = tear_down);

static size_t take_value_len(struct client *from, uint32_t *ret_id)
{
	struct rpc_message message = client_take(from);
	struct result result;

	cr_assert(result_read(message.result, &result), "an error");
	*ret_id = message.id;
	return result.value_len;
}

/* Everything is as it was before anybody asked, but for the connection that asks. */
static void assert_rest(void)
{
	static const char *const gauges[] = {
		"flights", "waiters",  "leases",      "permits",
		"queued",  "requests", "input_bytes", "output_bytes"
	};

	for (size_t i = 0; i < sizeof(gauges) / sizeof(gauges[0]); i++)
		cr_assert_eq(client_stat(&other, gauges[i]), 0, "%s", gauges[i]);
}

Test(rpc_peer, takes_requests_cut_into_single_bytes)
{
	struct wire_buf b;

	begin();
	wire_buf_init(&b, 10000);
	for (uint32_t i = 0; i < 20; i++) {
		rpc_put_request(&b, i, i % 2 ? "get" : "ping", i % 2);
		if (i % 2)
			wire_buf_str(&b, "k:a");
	}
	for (size_t i = 0; i < b.len; i++) {
		client_send(&client, b.data + i, 1);
		rpc_world_turn(world);
	}
	wire_buf_close(&b);
	for (uint32_t i = 0; i < 20; i++)
		client_take(&client);
	assert_rest();
}

Test(rpc_peer, takes_many_requests_in_one_piece_and_others_have_their_turn)
{
	enum { COUNT = 20000 };
	struct rpc_message message;
	struct wire_buf b;
	int before = 0;

	begin();
	client_call(&client, 1, "get", "k:a");
	client_take(&client);
	wire_buf_init(&b, 1 << 20);
	for (uint32_t i = 0; i < COUNT; i++) {
		rpc_put_request(&b, i, "get", 1);
		wire_buf_str(&b, "k:a");
	}
	/* As much as the socket holds; the rest comes while the server serves. */
	cr_assert(send(client.fd, b.data, b.len, MSG_NOSIGNAL) > 100000);
	client_call(&other, 1, "ping", NULL);
	rpc_world_until(world, (client_poll(&other), other.in_len > 0));
	client_poll(&client);
	while (client_has_response(&client, &message))
		before++;
	cr_assert(before < 2000, "%d requests of one client before the first of another", before);
	wire_buf_close(&b);
}

Test(rpc_peer, answers_a_pipeline_whole)
{
	enum { COUNT = 20000 };
	uint8_t *seen = calloc(COUNT, 1);
	struct wire_buf b;
	uint32_t id;

	begin();
	wire_buf_init(&b, 1 << 20);
	for (uint32_t i = 0; i < COUNT; i++) {
		rpc_put_request(&b, i, "get", 1);
		wire_buf_str(&b, i % 3 ? "k:size-10" : "k:size-5000");
	}
	client_send_buf(&client, &b);
	for (uint32_t i = 0; i < COUNT; i++) {
		const size_t len = take_value_len(&client, &id);

		cr_assert(id < COUNT && !seen[id]);
		cr_assert_eq(len, id % 3 ? 10 : 5000);
		seen[id] = 1;
	}
	free(seen);
	assert_rest();
}

Test(rpc_peer, a_frame_over_the_limit_is_refused_by_its_head)
{
	static const uint8_t head[] = {
		0x94, 0, 5, 0xa3, 'g', 'e', 't', 0x91, 0xdb, 0, 0x10, 0, 0
	};

	begin();
	client_send(&client, head, sizeof(head));
	cr_assert_eq(client_take_error(&client, 5, text, sizeof(text)), STATUS_TOO_LARGE);
	client_expect_end(&client);
	assert_rest();
	cr_assert_eq(client_stat(&other, "bad_streams"), 1);
}

Test(rpc_peer, a_client_that_goes_on_writing_reads_why_it_was_refused)
{
	static char much[3 << 20];
	static const uint8_t head[] = {
		0x94, 0, 5, 0xa3, 'g', 'e', 't', 0x91, 0xdb, 0, 0x30, 0, 0
	};

	begin();
	client_send(&client, head, sizeof(head));
	client_send(&client, much, sizeof(much));
	cr_assert_eq(client_take_error(&client, 5, text, sizeof(text)), STATUS_TOO_LARGE);
	client_expect_end(&client);
}

Test(rpc_peer, a_refused_client_that_does_not_hang_up_is_closed)
{
	begin();
	client_send(&client, "\x94\x00\x05\xa3get\x91\xdb\xff\xff\xff\xff", 13);
	cr_assert_eq(client_take_error(&client, 5, text, sizeof(text)), STATUS_TOO_LARGE);
	rpc_world_until(world, world->server.peers.count == 1);
}

Test(rpc_peer, a_frame_of_just_the_limit_is_served)
{
	static char much[WIRE_REQUEST_MAX];
	struct wire_buf b;

	begin();
	wire_buf_init(&b, WIRE_REQUEST_MAX);
	rpc_put_request(&b, 1, "get", 1);
	wire_buf_str_len(&b, much, WIRE_REQUEST_MAX - 7 - 1 - 5);
	cr_assert_eq(b.len, WIRE_REQUEST_MAX);
	for (size_t at = 0; at < b.len; at += 50000) {
		client_send(&client, b.data + at, b.len - at < 50000 ? b.len - at : 50000);
		rpc_world_turn(world);
	}
	wire_buf_close(&b);
	cr_assert_eq(client_take_error(&client, 1, text, sizeof(text)), STATUS_BAD_REQUEST);
	client_call(&client, 2, "ping", NULL);
	cr_assert_eq(client_take(&client).id, 2);
	assert_rest();
}

Test(rpc_peer, bytes_that_are_no_message_end_the_connection_after_what_was_due)
{
	begin();
	world->hold = true;
	client_call(&client, 1, "get", "k:a");
	client_call(&client, 2, "ping", NULL);
	client_send(&client, "\xc1", 1);
	cr_assert_eq(client_take(&client).id, 2);
	rpc_world_until(world, world->builds == 1);
	rpc_world_release(world);
	cr_assert_eq(client_take(&client).id, 1);
	client_expect_end(&client);
	assert_rest();
}

Test(rpc_peer, the_log_says_why_a_client_was_refused_and_who_it_is)
{
	char line[1000], who[40];
	FILE *file = tmpfile();
	size_t len;

	begin();
	log_open(fileno(file), LOG_LEVEL_WARNING, LOG_FORMAT_TEXT);
	client_send(&client, "\xc1", 1);
	client_expect_end(&client);
	rewind(file);
	len = fread(line, 1, sizeof(line) - 1, file);
	line[len] = '\0';
	snprintf(who, sizeof(who), "peer_pid=%d peer_uid=%d", (int)getpid(), (int)getuid());
	cr_assert(strstr(line, "event=connection.refused"), "%s", line);
	cr_assert(strstr(line, "byte 0xc1 is no MessagePack"), "%s", line);
	cr_assert(strstr(line, who), "%s", line);
	log_open(STDERR_FILENO, LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	fclose(file);
}

Test(rpc_peer, a_request_with_a_fault_and_an_id_is_answered_and_the_connection_goes_on)
{
	begin();
	client_send(&client, "\x94\x00\x05\xc0\x90", 5);
	cr_assert_eq(client_take_error(&client, 5, text, sizeof(text)), STATUS_BAD_REQUEST);
	client_call(&client, 6, "ping", NULL);
	cr_assert_eq(client_take(&client).id, 6);
}

Test(rpc_peer, a_client_that_does_not_read_stalls_only_itself)
{
	enum { COUNT = 12, SIZE = 16 << 20 };
	uint32_t id;

	begin();
	client_call(&other, 1, "get", "k:size-16777216");
	cr_assert_eq(take_value_len(&other, &id), SIZE);
	for (uint32_t i = 0; i < COUNT; i++)
		client_call(&client, i, "get", "k:size-16777216");
	for (int i = 0; i < 100; i++) {
		client_call(&other, 7, "ping", NULL);
		cr_assert_eq(client_take(&other).id, 7);
	}
	cr_assert(client_stat(&other, "output_bytes") <= SIZE + OUTPUT_HIGH);
	cr_assert_eq(client_stat(&other, "stalls"), 2); /* its own large value, and the client */
	for (uint32_t i = 0; i < COUNT; i++) {
		cr_assert_eq(take_value_len(&client, &id), SIZE);
		cr_assert_eq(id, i);
	}
	assert_rest();
}

Test(rpc_peer, answers_that_waited_hold_no_memory_for_a_client_that_does_not_read)
{
	enum { COUNT = 60, SIZE = 1 << 20 };
	char key[32];
	uint32_t id;

	world->engine_limits.near_bytes_max = 128 << 20;
	begin();
	world->hold = true;
	for (uint32_t i = 0; i < COUNT; i++) {
		snprintf(key, sizeof(key), "k:size-1048576-%u", i);
		client_call(&client, i, "get", key);
	}
	rpc_world_until(world, world->builds == COUNT);
	rpc_world_release(world);
	rpc_world_until(world, world->engine->requests == 0);
	cr_assert(client_stat(&other, "output_bytes") <= 3 * SIZE);
	cr_assert(client_stat(&other, "replies_parked") >= COUNT - 4);
	for (uint32_t i = 0; i < COUNT; i++)
		cr_assert_eq(take_value_len(&client, &id), SIZE);
	cr_assert_eq(world->builds, COUNT);
	assert_rest();
}

Test(rpc_peer, mgets_wait_for_room_too)
{
	enum { COUNT = 20, SIZE = 2 << 20 };
	static const char *const keys[] = { "k:size-2097152-a", "k:size-2097152-b", "k:x" };
	struct rpc_message message;

	begin();
	for (uint32_t i = 0; i < COUNT; i++)
		client_mget(&client, i, 3, keys);
	for (int i = 0; i < 50; i++) {
		client_call(&other, 7, "ping", NULL);
		client_take(&other);
	}
	cr_assert(client_stat(&other, "output_bytes") <= REPLIES_HELD_MAX + 3 * SIZE);
	for (uint32_t i = 0; i < COUNT; i++) {
		message = client_take(&client);
		cr_assert(message.result.len > 3);
	}
	assert_rest();
}

Test(rpc_peer, a_client_that_ends_its_sending_still_gets_its_answers)
{
	uint32_t id;

	begin();
	world->hold = true;
	client_call(&client, 1, "get", "k:size-300000");
	cr_assert_eq(shutdown(client.fd, SHUT_WR), 0);
	rpc_world_until(world, world->builds == 1);
	/* An end of input that is told again and again would keep the loop from sleeping. */
	for (int i = 0; i < 20; i++)
		rpc_world_turn(world);
	cr_assert_eq(uv_backend_timeout(&world->loop) != 0, 1);
	rpc_world_release(world);
	cr_assert_eq(take_value_len(&client, &id), 300000);
	client_expect_end(&client);
	assert_rest();
}

Test(rpc_peer, a_client_that_goes_takes_its_requests_along)
{
	static const char *const keys[] = { "k:a", "k:b", "k:c" };

	begin();
	world->hold = true;
	client_call(&client, 1, "get", "k:a");
	client_mget(&client, 2, 3, keys);
	client_call(&client, 3, "inspect", "k:a");
	client_call(&client, 4, "invalidate", "k:z");
	rpc_world_until(world, world->engine->requests == 4);
	client_close(&client);
	rpc_world_until(world, world->server.peers.count == 1);
	cr_assert_eq(world->engine->requests, 0);
	rpc_world_release(world);
	rpc_world_until(world, world->engine->all.count == 0);
	assert_rest();
	cr_assert_eq(client_stat(&other, "clients_vanished"), 1);
}

Test(rpc_peer, a_half_closed_client_that_goes_is_noticed)
{
	begin();
	world->hold = true;
	client_call(&client, 1, "get", "k:a");
	shutdown(client.fd, SHUT_WR);
	rpc_world_until(world, world->builds == 1);
	for (int i = 0; i < 5; i++)
		rpc_world_turn(world);
	cr_assert_eq(world->engine->requests, 1);
	client_close(&client);
	rpc_world_until(world, world->engine->requests == 0);
	rpc_world_release(world);
}

Test(rpc_peer, a_stalled_client_that_goes_is_noticed)
{
	begin();
	for (uint32_t i = 0; i < 20; i++)
		client_call(&client, i, "get", "k:size-1048576");
	rpc_world_until(world, world->server.counters.stalls == 1);
	client_close(&client);
	rpc_world_until(world, world->server.peers.count == 1);
	assert_rest();
}

Test(rpc_peer, requests_over_the_connections_limit_are_overloaded)
{
	world->limits.requests_per_connection = 10;
	begin();
	world->hold = true;
	for (uint32_t i = 0; i < 11; i++)
		client_call(&client, i, "get", i % 2 ? "k:a" : "k:b");
	cr_assert_eq(client_take_error(&client, 10, text, sizeof(text)), STATUS_OVERLOADED);
	client_call(&other, 1, "get", "k:a");
	rpc_world_until(world, world->engine->requests == 11);
	rpc_world_release(world);
	for (uint32_t i = 0; i < 10; i++)
		client_take(&client);
	cr_assert_eq(client_take(&other).id, 1);
	assert_rest();
}

Test(rpc_peer, keys_over_the_limit_of_bytes_are_overloaded)
{
	char key[1001];

	begin();
	world->hold = true;
	world->server.key_bytes_max = 5000;
	for (uint32_t i = 0; i < 7; i++) {
		snprintf(key, sizeof(key), "k:%u-%0*d", i, 990, 0);
		client_call(&client, i, "get", key);
	}
	for (uint32_t i = 5; i < 7; i++) {
		cr_assert_eq(client_take_error(&client, i, text, sizeof(text)), STATUS_OVERLOADED);
		cr_assert_str_eq(text, "too many bytes of keys wait");
	}
	rpc_world_release(world);
	for (uint32_t i = 0; i < 5; i++)
		client_take(&client);
	cr_assert_eq(world->server.key_bytes, 0);
	assert_rest();
}

Test(rpc_peer, a_connection_over_the_limit_is_told_so)
{
	struct client third;

	world->limits.connections = 2;
	begin();
	client_call(&client, 1, "ping", NULL);
	client_take(&client);
	client_call(&other, 1, "ping", NULL);
	client_take(&other);
	client_open(&third, world);
	client_call(&third, 9, "get", "k:a");
	cr_assert_eq(client_take_error(&third, 9, text, sizeof(text)), STATUS_OVERLOADED);
	client_expect_end(&third);
	client_close(&third);
	client_close(&client);
	rpc_world_until(world, world->server.peers.count == 1);
	client_open(&client, world);
	client_call(&client, 2, "ping", NULL);
	cr_assert_eq(client_take(&client).id, 2);
	cr_assert_eq(client_stat(&other, "connections_refused"), 1);
}

Test(rpc_peer, connections_far_over_the_limit_are_closed_at_once)
{
	enum { COUNT = SURPLUS_MAX + 20 };
	static struct client crowd[COUNT];
	size_t ended = 0;

	world->limits.connections = 2;
	begin();
	for (int i = 0; i < COUNT; i++)
		client_open(&crowd[i], world);
	rpc_world_until(world, world->server.counters.connections_refused == COUNT);
	for (int i = 0; i < COUNT; i++) {
		client_poll(&crowd[i]);
		ended += crowd[i].ended;
	}
	cr_assert_eq(ended, 20);
	/* Those that say nothing have their time, no more. */
	rpc_world_until(world, world->server.peers.count == 2);
	for (int i = 0; i < COUNT; i++)
		client_close(&crowd[i]);
}

Test(rpc_peer, the_end_of_descriptors_stops_nobody_and_does_not_spin)
{
	enum { COUNT = 100 };
	static struct client crowd[COUNT];
	struct rlimit was, few;
	int next;

	begin();
	client_call(&client, 1, "ping", NULL);
	client_take(&client);
	client_call(&other, 1, "ping", NULL);
	client_take(&other);
	for (int i = 0; i < COUNT; i++)
		client_open(&crowd[i], world);
	next = dup(0);
	close(next);
	getrlimit(RLIMIT_NOFILE, &was);
	few = was;
	few.rlim_cur = (rlim_t)next + 10;
	setrlimit(RLIMIT_NOFILE, &few);
	rpc_world_until(world, world->server.counters.connections_refused +
					       world->server.counters.accepted ==
				       COUNT + 2);
	cr_assert(world->server.counters.accepted >= 12);
	client_call(&client, 2, "get", "k:a");
	cr_assert_eq(client_take(&client).id, 2);
	for (int i = 0; i < 20; i++)
		rpc_world_turn(world);
	cr_assert_eq(uv_backend_timeout(&world->loop) != 0, 1);
	setrlimit(RLIMIT_NOFILE, &was);
	for (int i = 0; i < COUNT; i++)
		client_close(&crowd[i]);
	rpc_world_until(world, world->server.peers.count == 2);
}

Test(rpc_peer, five_thousand_idle_connections_cost_little)
{
	enum { COUNT = 5000 };
	static int fds[COUNT];
	const struct rlimit many = { 12000, 20000 };
	struct client one = { 0 };

	setrlimit(RLIMIT_NOFILE, &many);
	begin();
	for (int i = 0; i < COUNT; i++) {
		client_open(&one, world);
		fds[i] = one.fd;
		cr_assert_eq(send(fds[i], i % 2 ? "\x94" : "", i % 2, MSG_NOSIGNAL), i % 2);
		rpc_world_turn(world);
	}
	rpc_world_until(world, world->server.peers.count == COUNT + 2);
	client_call(&client, 1, "get", "k:a");
	cr_assert_eq(client_take(&client).id, 1);
	cr_assert(world->server.input_bytes <= COUNT / 2 * 64);
	cr_assert_eq(world->server.output_bytes, 0);
	cr_assert(sizeof(struct peer) < 1024);
	for (int i = 0; i < COUNT; i++)
		close(fds[i]);
	rpc_world_until(world, world->server.peers.count == 2);
	assert_rest();
}

Test(rpc_peer, unfinished_requests_are_bounded_over_all_connections)
{
	enum { COUNT = 80 };
	static struct client crowd[COUNT];
	static char much[1 << 20];
	static const uint8_t head[] = {
		0x94, 0, 5, 0xa3, 'g', 'e', 't', 0x91, 0xdb, 0, 0xf, 0xff, 0
	};

	begin();
	for (int i = 0; i < COUNT; i++) {
		client_open(&crowd[i], world);
		client_send(&crowd[i], head, sizeof(head));
		if (i < COUNT / 2)
			client_send(&crowd[i], much, 0xfff00 - 1000);
		else
			send(crowd[i].fd, much, 0xfff00 - 1000, MSG_NOSIGNAL | MSG_DONTWAIT);
		cr_assert(world->server.input_bytes <= READ_HOLD_ALL_MAX);
	}
	for (int i = 0; i < 2000; i++) {
		rpc_world_turn(world);
		cr_assert(world->server.input_bytes <= READ_HOLD_ALL_MAX);
	}
	client_call(&client, 1, "ping", NULL);
	cr_assert_eq(client_take(&client).id, 1);
	for (int i = 0; i < COUNT; i++)
		client_close(&crowd[i]);
	rpc_world_until(world, world->server.peers.count == 2);
	assert_rest();
}

Test(rpc_peer, closing_lets_what_was_asked_be_answered)
{
	uint32_t id;

	begin();
	world->hold = true;
	client_call(&client, 1, "get", "k:size-300000");
	rpc_world_until(world, world->builds == 1);
	client_call(&client, 2, "ping", NULL); /* not read yet when the server closes */
	rpc_world_release(world);
	rpc_world_shut(world, 3600 * 1000);
	cr_assert_eq(access(world->path, F_OK), -1);
	cr_assert_eq(client_take(&client).id, 2);
	cr_assert_eq(take_value_len(&client, &id), 300000);
	client_expect_end(&client);
	client_expect_end(&other);
}

Test(rpc_peer, closing_waits_for_what_the_store_has_begun)
{
	begin();
	client_call(&client, 1, "invalidate", "k:a");
	rpc_world_until(world, world->server.peers.count == 2);
	peer_read(container_of(list_first(&world->server.peers), struct peer, node));
	cr_assert_eq(world->server.ops, 1);
	rpc_world_shut(world, 0);
	cr_assert(list_empty(&world->server.peers));
	cr_assert_eq(world->server.ops, 1);
	rpc_world_until(world, world->server_closed);
	cr_assert_eq(world->server.ops, 0);
}

Test(rpc_peer, closing_waits_for_nobody_longer_than_it_may)
{
	begin();
	world->hold = true;
	client_call(&client, 1, "get", "k:a");
	rpc_world_until(world, world->builds == 1);
	for (uint32_t i = 0; i < 20; i++)
		client_call(&other, i, "get", "k:size-1048576");
	rpc_world_turn(world);
	rpc_world_shut(world, 50);
	rpc_world_until(world, world->server_closed);
	client_expect_end(&client);
}

Test(rpc_peer, of_very_many_clients_that_do_not_read_the_last_to_read_are_closed)
{
	enum { COUNT = 12 };
	static struct client crowd[COUNT];
	char key[40];

	begin();
	world->server.output_max = world->server.output_check = 4 << 20;
	for (int i = 0; i < COUNT; i++) {
		client_open(&crowd[i], world);
		snprintf(key, sizeof(key), "k:size-1000000-%d", i);
		client_call(&crowd[i], 1, "get", key);
		/* In this order, so that it is known who is the last. */
		rpc_world_until(world, world->server.output_bytes > 0 && world->builds == i + 1 &&
					       world->engine->requests == 0);
	}
	rpc_world_until(world, world->server.counters.laggards_closed > 0);
	cr_assert(world->server.counters.laggards_closed <= COUNT - 3);
	client_expect_end(&crowd[0]);
	cr_assert_eq(client_take(&crowd[COUNT - 1]).id, 1);
	for (int i = 0; i < COUNT; i++)
		client_close(&crowd[i]);
	rpc_world_until(world, world->server.peers.count == 2);
	assert_rest();
}

Test(rpc_peer, many_slow_readers_of_one_value_are_no_burden)
{
	enum { COUNT = 50 };
	static struct client crowd[COUNT];

	begin();
	world->server.output_max = world->server.output_check = 4 << 20;
	for (int i = 0; i < COUNT; i++) {
		client_open(&crowd[i], world);
		client_call(&crowd[i], 1, "get", "k:size-1000000");
	}
	rpc_world_until(world, world->server.laggards.count == COUNT);
	cr_assert(world->server.output_bytes > 8 * world->server.output_max);
	for (int i = 0; i < COUNT; i++)
		cr_assert_eq(client_take(&crowd[i]).id, 1);
	cr_assert_eq(world->server.counters.laggards_closed, 0);
	for (int i = 0; i < COUNT; i++)
		client_close(&crowd[i]);
	rpc_world_until(world, world->server.peers.count == 2);
	assert_rest();
}

/* A bit of everything; returns how many responses are due. */
static uint32_t send_everything(int round)
{
	static char large[20000];
	char names[4][40];
	const char *keys[4];
	uint32_t id = 0;

	for (int i = 0; i < 4; i++) {
		snprintf(names[i], sizeof(names[i]), "k:size-%d-%d", i * 5000, round);
		keys[i] = names[i];
	}
	client_call(&client, id++, "get", keys[0]);
	client_call(&client, id++, "get", keys[3]);
	client_mget(&client, id++, 4, keys);
	client_call(&client, id++, "refresh", keys[1]);
	client_call_with(&client, id++, "get", keys[1], "max_stale_ms", 0);
	client_call(&client, id++, "invalidate", keys[2]);
	client_call(&client, id++, "inspect", keys[2]);
	client_call(&client, id++, "stats", NULL);
	client_call(&client, id++, "get", "k:fail");
	/* An unfinished request, long enough to be kept where it is. */
	client_send(&client, "\x94\x00\x7f\xa4ping\x91\xda\x4e\x20", 12);
	client_send(&client, large, sizeof(large));
	return id + 1;
}

Test(rpc_peer, memory_may_be_missing_at_any_time)
{
	bool failed = true;
	struct rpc_message message;

	begin();
	client_close(&client);
	for (int round = 1; failed; round++) {
		uint32_t due, came = 0;
		uint64_t calls;

		client_open(&client, world);
		calls = mem_calls();
		mem_fail_at((uint64_t)round);
		due = send_everything(round);
		while (came < due && !client.ended) {
			rpc_world_turn(world);
			client_poll(&client);
			while (client_has_response(&client, &message))
				came++;
		}
		failed = mem_calls() - calls >= (uint64_t)round;
		mem_fail_at(0);
		client_close(&client);
		rpc_world_until(world,
				world->server.peers.count == 1 && world->engine->all.count == 0);
		client_call(&other, 1, "ping", NULL);
		cr_assert_eq(client_take(&other).id, 1);
		cr_assert(round < 1000);
	}
	assert_rest();
}

Test(rpc_peer, looks_for_requests_before_it_sleeps_if_it_is_told_to)
{
	world->listen.poll_us = 5 * SECOND;
	begin();
	client_call(&client, 1, "ping", NULL);
	(void)client_take(&client);
	rpc_world_turn(world);
	cr_assert_eq(uv_backend_timeout(&world->loop), 0, "it looks on");
	world->ahead_us += 6 * SECOND;
	rpc_world_turn(world);
	rpc_world_turn(world);
	cr_assert_neq(uv_backend_timeout(&world->loop), 0, "it sleeps");
}

Test(rpc_peer, sleeps_at_once_otherwise)
{
	begin();
	client_call(&client, 1, "ping", NULL);
	(void)client_take(&client);
	rpc_world_turn(world);
	rpc_world_turn(world);
	cr_assert_neq(uv_backend_timeout(&world->loop), 0);
}
