#include "rpc_world.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "proto/frame.h"
#include "proto/result.h"

/* ---- the parts around the server ---- */

static int64_t host_now(void *impl)
{
	const struct rpc_world *world = impl;

	return (int64_t)(uv_hrtime() / 1000) + world->ahead_us;
}

static void on_turn(uv_idle_t *idle);

static void want_turn(void *impl)
{
	struct rpc_world *world = impl;

	world->store_turn = true;
	uv_idle_start(&world->turn, on_turn);
}

static void on_pump_timer(uv_timer_t *timer)
{
	struct rpc_world *world = timer->data;

	pump_turn(&world->pump);
}

static void host_wake_at(void *impl, int64_t at_us)
{
	struct rpc_world *world = impl;
	const int64_t left_us = at_us - host_now(world);

	if (at_us == INT64_MAX) {
		uv_timer_stop(&world->pump_timer);
		return;
	}
	uv_update_time(&world->loop);
	uv_timer_start(&world->pump_timer, on_pump_timer,
		       left_us > 0 ? (uint64_t)(left_us + 999) / 1000 : 0, 0);
}

static void host_stopped(void *impl)
{
	((struct rpc_world *)impl)->pump_stopped = true;
}

/* ---- the origin ---- */

static void origin_build(void *impl, struct build *build)
{
	struct rpc_world *world = impl;

	build->snapshot = (uint64_t)++world->builds;
	list_node_init(&build->node);
	list_push_back(&world->building, &build->node);
	uv_idle_start(&world->turn, on_turn);
}

static void build_value(struct build *build, struct value *value)
{
	build->outcome = value ? BUILD_ROW : BUILD_LOST;
	build->status = value ? STATUS_OK : STATUS_UNAVAILABLE;
	build->value = value;
}

static void origin_end(struct rpc_world *world, struct build *build)
{
	char key[64], text[32];
	const char *what;

	snprintf(key, sizeof(key), "%.*s", (int)build->key.len, build->key.bytes);
	what = key + strcspn(key, ":");
	what += *what == ':';
	list_remove(&world->building, &build->node);
	if (build->outcome == BUILD_CANCELLED) {
	} else if (strncmp(what, "size-", 5) == 0) {
		size_t size = strtoull(what + 5, NULL, 10);

		size = size < VALUE_BYTES_MAX ? size : VALUE_BYTES_MAX;
		build_value(build, value_create(NULL, size));
		if (build->value)
			memset(build->value->bytes, 'x', size);
	} else if (strncmp(what, "own-", 4) == 0) {
		enum { OWN = 10 };
		const size_t size = strtoull(what + 4, NULL, 10), key_len = build->key.len;

		build_value(build, size <= VALUE_BYTES_MAX ? value_create(NULL, size) : NULL);
		if (build->value)
			memset(build->value->bytes, 'x', size);
		if (build->value && size >= OWN && key_len >= OWN)
			memcpy(build->value->bytes, build->key.bytes + key_len - OWN, OWN);
	} else if (strncmp(what, "fail", 4) == 0) {
		build->outcome = BUILD_FAILED;
		build->status = STATUS_ORIGIN_ERROR;
		build->text = value_create("no good", 7);
	} else if (strncmp(what, "none", 4) == 0) {
		build->outcome = BUILD_NO_ROW;
	} else if (strncmp(what, "null", 4) == 0) {
		build->outcome = BUILD_ROW;
	} else {
		snprintf(text, sizeof(text), "v%" PRIu64, build->snapshot);
		build_value(build, value_create(text, strlen(text)));
	}
	build->done(build);
}

static void origin_cancel(void *impl, struct build *build)
{
	struct rpc_world *world = impl;

	build->outcome = BUILD_CANCELLED;
	uv_idle_start(&world->turn, on_turn);
}

static bool is_held(const struct rpc_world *world, const struct build *build)
{
	const struct key *key = &build->key;
	const bool is_slow = world->slow && strlen(world->slow) == key->len &&
			     memcmp(world->slow, key->bytes, key->len) == 0;

	return (world->hold || is_slow) && build->outcome != BUILD_CANCELLED;
}

static void on_turn(uv_idle_t *idle)
{
	struct rpc_world *world = idle->data;
	size_t count = world->building.count;

	uv_idle_stop(idle);
	if (world->store_turn) {
		world->store_turn = false;
		memory_store_turn(world->memory);
	}
	list_foreach (&world->building, node) {
		struct build *build = container_of(node, struct build, node);

		if (count-- == 0)
			break;
		if (is_held(world, build))
			continue;
		node = node->prev;
		origin_end(world, build);
	}
}

void rpc_world_release(struct rpc_world *world)
{
	world->hold = false;
	world->slow = NULL;
	uv_idle_start(&world->turn, on_turn);
}

/* ---- life ---- */

void rpc_world_defaults(struct rpc_world *world)
{
	*world = (struct rpc_world){ 0 };
	world->policy = (struct policy){
		.name = (char *)"k",
		.query = (char *)"SELECT 1",
		.fresh_us = 10 * SECOND,
		.stale_us = 5 * SECOND,
		.negative_us = 3 * SECOND,
		.error_us = 2 * SECOND,
		.wait_us = 5 * SECOND,
		.build_timeout_us = 30 * SECOND,
	};
	world->policies = &world->policy;
	world->policies_count = 1;
	world->limits = (struct limits_policy){ .connections = 10000,
						.connections_per_user = 10000,
						.requests = 100000,
						.requests_per_user = 100000,
						.requests_per_connection = 10000 };
	world->engine_limits = (struct engine_limits){ .requests_max = 100000,
						       .key_bytes_max = 1 << 20,
						       .queue_max = 10000,
						       .concurrency = 1000,
						       .near_bytes_max = 256 << 20,
						       .hot_keys = 1000 };
	list_init(&world->building);
	snprintf(world->dir, sizeof(world->dir), "/tmp/segar-test-XXXXXX");
	cr_assert(mkdtemp(world->dir));
	snprintf(world->path, sizeof(world->path), "%s/sock", world->dir);
	world->listen = (struct listen_policy){ .socket = world->path, .mode = 0600 };
}

void rpc_world_open(struct rpc_world *world)
{
	static const unsigned char secret[KEY_SECRET_LEN];
	const struct memory_store_limits store_limits = {
		.concurrency = 1000, .budget_per_s = 1e6, .fleet = 1, .failures_max = 1000
	};
	char text[256];

	log_open(open("/dev/null", O_WRONLY | O_CLOEXEC), LOG_LEVEL_DEBUG, LOG_FORMAT_TEXT);
	cr_assert_eq(uv_loop_init(&world->loop), 0);
	uv_idle_init(&world->loop, &world->turn);
	uv_timer_init(&world->loop, &world->pump_timer);
	world->turn.data = world->pump_timer.data = world;
	world->memory = memory_store_create(
		&store_limits, &(struct memory_store_host){ world, host_now, want_turn, NULL });
	world->engine = engine_create(world->policies, world->policies_count, &world->engine_limits,
				      secret, 1);
	cr_assert(world->memory && world->engine);

	struct store store = memory_store_iface(world->memory);
	struct origin origin = { .impl = world, .build = origin_build, .cancel = origin_cancel };
	pump_init(&world->pump, world->engine, &store, &origin,
		  &(struct pump_host){ world, host_now, host_wake_at, host_stopped, NULL });
	cr_assert_eq(server_open(&world->server,
				 &(struct server_options){ .loop = &world->loop,
							   .listen_fd = -1,
							   .pump = &world->pump,
							   .listen = &world->listen,
							   .limits = &world->limits },
				 text, sizeof(text)),
		     LISTENER_OK, "%s", text);
	world->server.data = world;
}

void rpc_world_turn(struct rpc_world *world)
{
	uv_run(&world->loop, UV_RUN_NOWAIT);
}

static void on_server_closed(struct server *server)
{
	((struct rpc_world *)server->data)->server_closed = true;
}

void rpc_world_shut(struct rpc_world *world, int64_t drain_ms)
{
	server_close(&world->server, drain_ms, on_server_closed);
}

void rpc_world_close(struct rpc_world *world)
{
	mem_fail_at(0);
	if (!world->server.closing)
		rpc_world_shut(world, 0);
	rpc_world_until(world, world->server_closed);
	world->hold = false;
	pump_stop(&world->pump);
	rpc_world_until(world, world->pump_stopped);
	cr_assert_eq(world->engine->leases + world->engine->slots + world->engine->requests, 0);
	cr_assert(list_empty(&world->building));
	engine_free(world->engine);
	memory_store_free(world->memory);
	uv_close((uv_handle_t *)&world->turn, NULL);
	uv_close((uv_handle_t *)&world->pump_timer, NULL);
	rpc_world_turn(world);
	cr_assert_eq(uv_loop_close(&world->loop), 0, "handles are left open");

	char lock[128];
	cr_assert_eq(access(world->path, F_OK), -1, "the socket's file is left");
	snprintf(lock, sizeof(lock), "%s.lock", world->path);
	unlink(lock);
	cr_assert_eq(rmdir(world->dir), 0);
}

/* ---- clients ---- */

void client_open(struct client *client, struct rpc_world *world)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	*client = (struct client){ .world = world };
	client->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert(client->fd >= 0);
	memcpy(address.sun_path, world->path, strlen(world->path) + 1);
	cr_assert_eq(connect(client->fd, (struct sockaddr *)&address, sizeof(address)), 0,
		     "connect: %s", strerror(errno));
	fcntl(client->fd, F_SETFL, O_NONBLOCK);
}

void client_close(struct client *client)
{
	if (client->world)
		close(client->fd);
	free(client->in);
	*client = (struct client){ 0 };
}

void client_send(struct client *client, const void *bytes, size_t len)
{
	const uint64_t started = uv_hrtime();
	size_t sent = 0;

	while (sent < len) {
		ssize_t n = send(client->fd, (const char *)bytes + sent, len - sent, MSG_NOSIGNAL);

		if (n > 0) {
			sent += (size_t)n;
			continue;
		}
		cr_assert(errno == EAGAIN, "send: %s", strerror(errno));
		client_poll(client);
		cr_assert(uv_hrtime() - started < 20000000000u, "the server reads no more");
		rpc_world_turn(client->world);
	}
}

void client_send_buf(struct client *client, struct wire_buf *b)
{
	cr_assert(!wire_buf_failed(b));
	client_send(client, b->data, b->len);
	wire_buf_close(b);
}

void client_call(struct client *client, uint32_t id, const char *method, const char *key)
{
	struct wire_buf b;

	wire_buf_init(&b, WIRE_REQUEST_MAX);
	rpc_put_request(&b, id, method, key ? 1 : 0);
	if (key)
		wire_buf_str(&b, key);
	client_send_buf(client, &b);
}

void client_call_with(struct client *client, uint32_t id, const char *method, const char *key,
		      const char *option, int64_t number)
{
	struct wire_buf b;

	wire_buf_init(&b, WIRE_REQUEST_MAX);
	rpc_put_request(&b, id, method, 2);
	wire_buf_str(&b, key);
	wire_buf_map(&b, 1);
	wire_buf_str(&b, option);
	wire_buf_int(&b, number);
	client_send_buf(client, &b);
}

void client_mget(struct client *client, uint32_t id, uint32_t count, const char *const *keys)
{
	struct wire_buf b;

	wire_buf_init(&b, WIRE_REQUEST_MAX);
	rpc_put_request(&b, id, "mget", 1);
	wire_buf_array(&b, count);
	for (uint32_t i = 0; i < count; i++)
		wire_buf_str(&b, keys[i]);
	client_send_buf(client, &b);
}

void client_poll(struct client *client)
{
	ssize_t n;

	if (client->taken > 0) {
		client->in_len -= client->taken;
		memmove(client->in, client->in + client->taken, client->in_len);
		client->taken = 0;
	}
	do {
		if (client->in_cap - client->in_len < 65536) {
			client->in_cap = 2 * client->in_cap + 131072;
			client->in = realloc(client->in, client->in_cap);
			cr_assert(client->in);
		}
		n = recv(client->fd, client->in + client->in_len, client->in_cap - client->in_len,
			 0);
		if (n > 0)
			client->in_len += (size_t)n;
	} while (n > 0);
	if (n == 0 || errno != EAGAIN)
		client->ended = true;
}

bool client_has_response(struct client *client, struct rpc_message *ret_message)
{
	struct frame_scan scan = { 0 };
	const uint8_t *from = client->in + client->taken;
	const char *why;
	size_t len;

	switch (frame_scan(&scan, from, client->in_len - client->taken, WIRE_REPLY_MAX, &len,
			   &why)) {
	case FRAME_COMPLETE:
		break;
	case FRAME_MORE:
		return false;
	case FRAME_BROKEN:
	case FRAME_TOO_LARGE:
		cr_assert_fail("the server sends what is no message: %s", why);
	}
	cr_assert_eq(rpc_parse(from, len, ret_message, &why), RPC_PARSED, "%s", why);
	cr_assert_eq(ret_message->type, RPC_RESPONSE);
	client->taken += len;
	return true;
}

struct rpc_message client_take(struct client *client)
{
	const uint64_t started = uv_hrtime();
	struct rpc_message message;

	while (!client_has_response(client, &message)) {
		cr_assert(!client->ended, "the server ended the connection");
		cr_assert(uv_hrtime() - started < 20000000000u, "no response comes");
		rpc_world_turn(client->world);
		client_poll(client);
	}
	return message;
}

int client_take_error(struct client *client, uint32_t id, char *ret_text, size_t size)
{
	struct rpc_message message = client_take(client);
	struct wire_span text;
	int64_t retry_after_ms;
	int status = rpc_read_error(message.error, &text, &retry_after_ms);

	cr_assert_eq(message.id, id);
	cr_assert(status > 0, "no error");
	snprintf(ret_text, size, "%.*s", (int)text.len, text.data);
	return status;
}

void client_expect_end(struct client *client)
{
	rpc_world_until(client->world, (client_poll(client), client->ended));
}

int64_t client_stat(struct client *client, const char *name)
{
	struct rpc_message message;
	struct wire_span key;
	struct mp_value value;
	struct reader r;
	uint32_t pairs;

	client_call(client, 4000000000u, "stats", NULL);
	message = client_take(client);
	reader_init(&r, message.result.data, message.result.len);
	cr_assert(reader_map(&r, &pairs));
	while (pairs-- > 0) {
		cr_assert(reader_text(&r, &key) && reader_next(&r, &value));
		if (strlen(name) == key.len && memcmp(name, key.data, key.len) == 0) {
			cr_assert_eq(value.type, MP_INT);
			return value.number;
		}
	}
	cr_assert_fail("stats has no %s", name);
	return -1;
}
