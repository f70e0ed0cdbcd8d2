#include "client/segar.h"

#include <criterion/criterion.h>
#include <stdio.h>

#include "peer.h"
#include "proto/key.h"
#include "proto/method.h"

/* Answers each request with the bytes of its own params as the value. */
static void echo(struct peer_conn *conn)
{
	while (peer_take(conn)) {
		peer_put_value(conn, conn->message.id, conn->message.params.data,
			       conn->message.params.len);
		peer_send(conn);
	}
}

static bool value_is(const segar_result *result, const char *bytes, size_t len)
{
	return result->value && result->value_len == len && memcmp(result->value, bytes, len) == 0;
}

Test(segar, get_brings_all_that_is_told)
{
	segar_options options = SEGAR_OPTIONS;
	struct peer peer;
	segar_reply *r;
	segar *c;

	peer_start(&peer, echo);
	c = segar_open(peer.path);
	cr_assert_str_eq(segar_socket_path(c), peer.path);
	r = segar_get(c, "ks:1", NULL);
	cr_assert_eq(r->status, SEGAR_OK, "%s", r->error);
	cr_assert_str_empty(r->error);
	cr_assert_eq(r->results_count, 1);
	cr_assert_eq(r->results[0].status, SEGAR_OK);
	cr_assert_eq(r->results[0].state, SEGAR_FRESH);
	cr_assert_eq(r->results[0].reason, SEGAR_REASON_NONE);
	cr_assert_eq(r->results[0].source, SEGAR_SOURCE_NEAR);
	cr_assert_eq(r->results[0].has_version, 1);
	cr_assert_eq(r->results[0].version, 7);
	cr_assert_eq(r->results[0].ttl_ms, 1000);
	cr_assert(value_is(&r->results[0], "\xa4ks:1", 5)); /* params without options */
	segar_reply_free(r);

	options.wait_ms = 0;
	options.min_version = -1;
	r = segar_get(c, "ks:1", &options);
	cr_assert(value_is(&r->results[0], "\xa4ks:1\x82\xa7wait_ms\x00\xabmin_version\xff", 28));
	segar_reply_free(r);
	segar_close(c);
	peer_stop(&peer);
	cr_assert_eq(peer.connections, 1);
}

/* Waits for as many requests as `arg` says, then answers the last first. */
static void answer_backwards(struct peer_conn *conn)
{
	uint32_t ids[100];
	int count = *(int *)conn->peer->arg;

	while (peer_take(conn)) {
		ids[--count] = conn->message.id;
		if (count > 0)
			continue;
		for (; count < *(int *)conn->peer->arg; count++)
			peer_put_value(conn, ids[count], &ids[count], 4);
		peer_send(conn);
	}
}

Test(segar, replies_in_any_order_find_their_calls)
{
	struct peer peer;
	uint32_t ids[100];
	int count = 100;
	segar *c;

	peer_start(&peer, answer_backwards);
	peer.arg = &count;
	c = segar_open(peer.path);
	for (int i = 0; i < count; i++)
		ids[i] = segar_send_get(c, "ks:1", NULL);
	cr_assert_eq(segar_pending(c), 100);
	for (int i = 0; i < count; i++) {
		segar_reply *r = segar_receive(c, ids[i]);

		cr_assert_eq(r->id, ids[i]);
		cr_assert(value_is(&r->results[0], (char *)&ids[i], 4));
		segar_reply_free(r);
	}
	cr_assert_eq(segar_pending(c), 0);
	cr_assert_null(segar_receive(c, ids[0]));
	cr_assert_null(segar_receive(c, 0));
	segar_close(c);
	peer_stop(&peer);
}

Test(segar, any_reply_may_be_received)
{
	struct peer peer;
	uint32_t first, sum = 0, expected = 0;
	int count = 100;
	segar *c;

	peer_start(&peer, answer_backwards);
	peer.arg = &count;
	c = segar_open(peer.path);
	first = segar_send_get(c, "ks:1", NULL);
	for (int i = 1; i < count; i++)
		expected += segar_send_get(c, "ks:1", NULL);
	segar_flush(c);
	for (int i = 1; i < count; i++) {
		segar_reply *r = segar_receive(c, 0);

		cr_assert_neq(r->id, first); /* it is answered last */
		sum += r->id;
		segar_reply_free(r);
	}
	cr_assert_eq(sum, expected);
	cr_assert_eq(segar_pending(c), 1);
	segar_reply_free(segar_receive(c, first));
	segar_close(c);
	peer_stop(&peer);
}

static void answer_by_method(struct peer_conn *conn)
{
	while (peer_take(conn)) {
		const struct rpc_message *m = &conn->message;

		switch (method_from_name(m->method.data, m->method.len)) {
		case METHOD_GET:
			rpc_put_error(&conn->out, m->id, STATUS_OVERLOADED, 250, "full", 4);
			break;
		case METHOD_MGET:
			rpc_put_response(&conn->out, m->id);
			wire_buf_array(&conn->out, 3);
			result_put(&conn->out,
				   &(struct result){ .has_value = true, .value_len = 1 });
			wire_buf_raw(&conn->out, "v", 1);
			result_put_error(&conn->out, STATUS_TIMEOUT, -1, "late", 4);
			result_put(&conn->out, &(struct result){ .state = RESULT_ABSENT });
			break;
		case METHOD_REFRESH:
			rpc_put_response(&conn->out, m->id);
			wire_buf_map(&conn->out, 3);
			wire_buf_str(&conn->out, "version");
			wire_buf_int(&conn->out, 9);
			wire_buf_str(&conn->out, "built");
			wire_buf_bool(&conn->out, true);
			wire_buf_str(&conn->out, "joined");
			wire_buf_bool(&conn->out, false);
			break;
		case METHOD_INVALIDATE:
			rpc_put_response(&conn->out, m->id);
			wire_buf_map(&conn->out, 0);
			break;
		case METHOD_PING:
			rpc_put_response(&conn->out, m->id);
			wire_buf_str(&conn->out, "pong");
			break;
		default:
			rpc_put_error(&conn->out, m->id, STATUS_UNKNOWN_METHOD, -1, "", 0);
			break;
		}
		peer_send(conn);
	}
}

Test(segar, each_method_is_understood)
{
	const char *keys[] = { "ks:1", "ks:2", "ks:3" };
	struct peer peer;
	segar_reply *r;
	segar *c;

	peer_start(&peer, answer_by_method);
	c = segar_open(peer.path);

	r = segar_get(c, "ks:1", NULL);
	cr_assert_eq(r->status, SEGAR_OVERLOADED);
	cr_assert_str_eq(r->error, "full retry_after_ms=250");
	cr_assert_eq(r->retry_after_ms, 250);
	cr_assert_eq(r->results_count, 0);
	cr_assert_null(r->encoded);
	segar_reply_free(r);

	r = segar_mget(c, keys, 3, NULL);
	cr_assert_eq(r->status, SEGAR_OK, "%s", r->error);
	cr_assert_eq(r->results_count, 3);
	cr_assert(value_is(&r->results[0], "v", 1));
	cr_assert_eq(r->results[1].status, SEGAR_TIMEOUT);
	cr_assert_str_eq(r->results[1].error, "late");
	cr_assert_eq(r->results[2].status, SEGAR_OK);
	cr_assert_eq(r->results[2].state, SEGAR_ABSENT);
	cr_assert_null(r->results[2].value);
	cr_assert_eq(r->results[2].value_len, 0);
	cr_assert_eq(r->results[2].has_version, 0);
	segar_reply_free(r);
	r = segar_mget(c, keys, 2, NULL); /* which gets three */
	cr_assert_eq(r->status, SEGAR_PROTOCOL);
	segar_reply_free(r);

	r = segar_refresh(c, "ks:1", NULL);
	cr_assert_eq(r->status, SEGAR_OK);
	cr_assert(r->has_version && r->version == 9 && r->built && !r->joined && !r->queued);
	segar_reply_free(r);

	r = segar_invalidate(c, "ks:1", NULL);
	cr_assert_eq(r->status, SEGAR_OK);
	segar_reply_free(r);

	r = segar_ping(c, NULL);
	cr_assert_eq(r->status, SEGAR_OK);
	cr_assert_eq(r->encoded_len, 5);
	cr_assert_arr_eq(r->encoded, "\xa4pong", 5);
	segar_reply_free(r);

	/* Params that are not what is claimed are refused here: they would swallow what follows. */
	for (uint32_t count = 1; count <= 3; count += 2) {
		r = segar_call(c, "log", "\x01\x02", 2, count, NULL);
		cr_assert_eq(r->status, SEGAR_BAD_REQUEST);
		segar_reply_free(r);
	}
	r = segar_call(c, "log", "\x01\x02", 2, 2, NULL);
	cr_assert_eq(r->status, SEGAR_UNKNOWN_METHOD);
	segar_reply_free(r);
	segar_close(c);
	peer_stop(&peer);
	cr_assert_eq(peer.connections, 1);
}

/* Sends before the deadline can pass, however slow the machine. */
static uint32_t send_now(segar *c, const char *key, const segar_options *options)
{
	const uint32_t id = segar_send_get(c, key, options);

	segar_flush(c);
	return id;
}

/* Keeps the answers to the first request until the second has come. */
static void answer_late(struct peer_conn *conn)
{
	uint32_t first;

	assert(peer_take(conn));
	first = conn->message.id;
	assert(peer_take(conn));
	peer_put_value(conn, first, "late", 4);
	peer_put_value(conn, conn->message.id, "good", 4);
	peer_send(conn);
	peer_take(conn);
}

Test(segar, a_call_ends_at_its_deadline_and_its_late_reply_goes_to_nobody)
{
	segar_options options = SEGAR_OPTIONS;
	struct peer peer;
	segar_reply *r;
	segar *c;

	peer_start(&peer, answer_late);
	c = segar_open(peer.path);
	options.timeout_ms = 20;
	r = segar_receive(c, send_now(c, "ks:1", &options));
	cr_assert_eq(r->status, SEGAR_NO_REPLY);
	segar_reply_free(r);
	r = segar_get(c, "ks:2", NULL);
	cr_assert_eq(r->status, SEGAR_OK);
	cr_assert(value_is(&r->results[0], "good", 4));
	segar_reply_free(r);
	segar_close(c);
	peer_stop(&peer);
	cr_assert_eq(peer.connections, 1);
}

/* Never answers the first of three, and the others only when it has all. */
static void answer_two_of_three(struct peer_conn *conn)
{
	uint32_t ids[3];

	for (int i = 0; i < 3; i++) {
		assert(peer_take(conn));
		ids[i] = conn->message.id;
	}
	peer_put_value(conn, ids[2], "third", 5);
	peer_put_value(conn, ids[1], "second", 6);
	peer_send(conn);
	peer_take(conn);
}

Test(segar, the_deadline_of_one_call_is_not_that_of_the_others)
{
	segar_options options = SEGAR_OPTIONS;
	uint32_t first, second;
	struct peer peer;
	segar_reply *r;
	segar *c;

	peer_start(&peer, answer_two_of_three);
	c = segar_open(peer.path);
	options.timeout_ms = 20;
	first = send_now(c, "ks:1", &options);
	second = segar_send_get(c, "ks:2", NULL);
	r = segar_receive(c, 0);
	cr_assert_eq(r->id, first);
	cr_assert_eq(r->status, SEGAR_NO_REPLY);
	segar_reply_free(r);
	r = segar_get(c, "ks:3", NULL);
	cr_assert(value_is(&r->results[0], "third", 5));
	segar_reply_free(r);
	r = segar_receive(c, second);
	cr_assert(value_is(&r->results[0], "second", 6));
	segar_reply_free(r);
	segar_close(c);
	peer_stop(&peer);
}

/* Takes a request and closes, as often as `arg` says; then answers. */
static void lose_some(struct peer_conn *conn)
{
	if (conn->number < *(int *)conn->peer->arg)
		peer_take(conn);
	else
		echo(conn);
}

Test(segar, what_only_reads_is_asked_again_when_the_connection_is_lost)
{
	int losses = 2;
	struct peer peer;
	segar_reply *r;
	segar *c;

	peer_start(&peer, lose_some);
	peer.arg = &losses;
	c = segar_open(peer.path);
	r = segar_get(c, "ks:1", NULL);
	cr_assert_eq(r->status, SEGAR_OK, "%s", r->error);
	cr_assert(value_is(&r->results[0], "\xa4ks:1", 5));
	segar_reply_free(r);
	segar_close(c);
	peer_stop(&peer);
	cr_assert_eq(peer.connections, 3);
}

Test(segar, it_is_not_asked_again_without_end)
{
	int losses = 1000;
	struct peer peer;
	segar_reply *r;
	segar *c;

	peer_start(&peer, lose_some);
	peer.arg = &losses;
	c = segar_open(peer.path);
	r = segar_get(c, "ks:1", NULL);
	cr_assert_eq(r->status, SEGAR_DISCONNECTED);
	cr_assert_str_eq(r->error, "the connection was lost before the reply came");
	segar_reply_free(r);
	segar_close(c);
	peer_stop(&peer);
	cr_assert_eq(peer.connections, 3);
}

Test(segar, what_changes_something_is_not_asked_again)
{
	int losses = 1;
	struct peer peer;
	segar_reply *r;
	segar *c;

	peer_start(&peer, lose_some);
	peer.arg = &losses;
	c = segar_open(peer.path);
	r = segar_invalidate(c, "ks:1", NULL);
	cr_assert_eq(r->status, SEGAR_DISCONNECTED);
	segar_reply_free(r);
	r = segar_get(c, "ks:1", NULL); /* and the handle goes on */
	cr_assert_eq(r->status, SEGAR_OK);
	segar_reply_free(r);
	segar_close(c);
	peer_stop(&peer);
	cr_assert_eq(peer.connections, 2);
}

/* Closes without a look at what comes, as a daemon over its limit of connections would. */
static void slam(struct peer_conn *conn)
{
	(void)conn;
}

Test(segar, a_daemon_that_hangs_up_at_once_does_not_keep_its_clients_busy)
{
	struct peer peer;
	segar_reply *r;
	segar *c;

	peer_start(&peer, slam);
	c = segar_open(peer.path);
	for (int i = 0; i < 3; i++) {
		r = segar_invalidate(c, "ks:1", NULL);
		cr_assert_eq(r->status, SEGAR_DISCONNECTED);
		segar_reply_free(r);
	}
	segar_close(c);
	peer_stop(&peer);
	cr_assert_leq(peer.connections, 9);
}

Test(segar, without_a_daemon_calls_end_and_soon_at_once)
{
	struct peer peer;
	char text[200];
	segar *c;

	peer_init(&peer, echo);
	c = segar_open(peer.path);
	segar_set_attempts(c, 1);
	snprintf(text, sizeof(text), "cannot connect to %s: No such file or directory", peer.path);
	for (int i = 0; i < 100; i++) {
		segar_reply *r =
			i % 2 ? segar_get(c, "ks:1", NULL) : segar_refresh(c, "ks:1", NULL);

		cr_assert_eq(r->status, SEGAR_DISCONNECTED);
		cr_assert_str_eq(r->error, text);
		segar_reply_free(r);
	}
	segar_close(c);
	peer_stop(&peer);
}

static void *listen_now(void *arg)
{
	peer_listen(arg);
	return NULL;
}

Test(segar, a_daemon_that_comes_back_is_found_again)
{
	struct peer peer;
	pthread_t thread;
	segar_reply *r;
	segar *c;

	peer_init(&peer, echo);
	c = segar_open(peer.path);
	segar_set_attempts(c, 8);
	cr_assert_eq(pthread_create(&thread, NULL, listen_now, &peer), 0);
	r = segar_refresh(c, "ks:1", NULL); /* nothing of it has left, so that it may */
	cr_assert_eq(r->status, SEGAR_OK, "%s", r->error);
	segar_reply_free(r);
	pthread_join(thread, NULL);
	segar_close(c);
	peer_stop(&peer);
}

enum { LARGE = 16 * 1024 * 1024 };

/* Answers with values of 0 bytes, one byte, a few and very many, the head of a reply apart. */
static void answer_large(struct peer_conn *conn)
{
	const size_t lens[] = { 0, 1, 300000, LARGE };
	char *value = malloc(LARGE);

	for (size_t i = 0; i < LARGE; i++)
		value[i] = (char)(i * 31 >> 8);
	for (int i = 0; peer_take(conn); i++) {
		peer_put_value(conn, conn->message.id, value, lens[i % 4]);
		peer_send(conn);
	}
	free(value);
}

Test(segar, values_of_all_sizes_arrive_intact)
{
	const size_t lens[] = { 0, 1, 300000, LARGE };
	uint32_t ids[8];
	struct peer peer;
	segar *c;

	peer_start(&peer, answer_large);
	c = segar_open(peer.path);
	for (int i = 0; i < 8; i++)
		ids[i] = segar_send_get(c, "ks:1", NULL);
	for (int i = 0; i < 8; i++) {
		segar_reply *r = segar_receive(c, ids[i]);
		const unsigned char *value = r->results[0].value;

		cr_assert_eq(r->status, SEGAR_OK);
		cr_assert_not_null(value);
		cr_assert_eq(r->results[0].value_len, lens[i % 4]);
		for (size_t at = 0; at < lens[i % 4]; at++)
			if (value[at] != (unsigned char)(at * 31 >> 8))
				cr_assert(false, "byte %zu", at);
		segar_reply_free(r);
	}
	segar_close(c);
	peer_stop(&peer);
}

/* Answers a byte at a time. */
static void answer_dribbling(struct peer_conn *conn)
{
	while (peer_take(conn)) {
		peer_put_value(conn, conn->message.id, "value", 5);
		for (size_t i = 0; i < conn->out.len; i++)
			send(conn->fd, conn->out.data + i, 1, MSG_NOSIGNAL);
		wire_buf_rewind(&conn->out, 0);
	}
}

Test(segar, a_reply_may_come_byte_by_byte)
{
	struct peer peer;
	segar *c;

	peer_start(&peer, answer_dribbling);
	c = segar_open(peer.path);
	for (int i = 0; i < 20; i++) {
		segar_reply *r = segar_get(c, "ks:1", NULL);

		cr_assert_eq(r->status, SEGAR_OK);
		cr_assert(value_is(&r->results[0], "value", 5));
		segar_reply_free(r);
	}
	segar_close(c);
	peer_stop(&peer);
}

/* What a peer that is not segard may say. */
static const struct {
	const char *bytes;
	size_t len;
} nonsense[] = {
	{ "HTTP/1.1 400 Bad Request\r\n\r\n", 28 },
	{ "\xc1", 1 },
	{ "\x94\x01\xa1x\xc0\xc0", 6 },                /* an id that is a string */
	{ "\x94\x01\x01\xc0\xdb\xff\xff\xff\xff", 9 }, /* a result of 4 GB */
	{ "\x94\x00\x01\xa3get\x90", 8 },              /* a request */
};

static void answer_nonsense(struct peer_conn *conn)
{
	const int i = *(int *)conn->peer->arg;

	if (peer_take(conn))
		wire_buf_raw(&conn->out, nonsense[i].bytes, nonsense[i].len);
	peer_send(conn);
	peer_take(conn);
}

Test(segar, what_is_not_segard_is_found_out)
{
	for (int i = 0; i < (int)(sizeof(nonsense) / sizeof(nonsense[0])); i++) {
		struct peer peer;
		segar_reply *r;
		segar *c;

		peer_start(&peer, answer_nonsense);
		peer.arg = &i;
		c = segar_open(peer.path);
		r = segar_get(c, "ks:1", NULL);
		cr_assert_eq(r->status, SEGAR_PROTOCOL, "%d: %s", i, r->error);
		segar_reply_free(r);
		segar_close(c);
		peer_stop(&peer);
	}
}

/* Results that are good messages, but no results. */
static void answer_senseless(struct peer_conn *conn)
{
	const char *results[] = { "\xc0", "\x05", "\x80", "\x91\xc0", "\x81\xa5state\x05" };

	for (int i = 0; peer_take(conn); i++) {
		rpc_put_response(&conn->out, conn->message.id);
		wire_buf_raw(&conn->out, results[i % 5], strlen(results[i % 5]));
		peer_send(conn);
	}
}

Test(segar, a_result_that_is_none_is_an_error)
{
	struct peer peer;
	segar *c;

	peer_start(&peer, answer_senseless);
	c = segar_open(peer.path);
	for (int i = 0; i < 5; i++) {
		segar_reply *r = segar_get(c, "ks:1", NULL);

		cr_assert_eq(r->status, SEGAR_PROTOCOL, "%d", i);
		segar_reply_free(r);
	}
	segar_close(c);
	peer_stop(&peer);
	cr_assert_eq(peer.connections, 1);
}

/* Answers each request with much more than it asked, and reads no other before that is sent. */
static void answer_at_length(struct peer_conn *conn)
{
	static const char value[4000];

	while (peer_take(conn)) {
		peer_put_value(conn, conn->message.id, value, sizeof(value));
		peer_send(conn);
	}
}

Test(segar, a_long_pipeline_does_not_block_itself)
{
	enum { COUNT = 20000 };
	char key[1004] = "ks:";
	struct peer peer;
	segar *c;

	memset(key + 3, 'k', 1000);
	peer_start(&peer, answer_at_length);
	c = segar_open(peer.path);
	for (int i = 0; i < COUNT; i++)
		segar_send_get(c, key, NULL);
	for (int i = 0; i < COUNT; i++) {
		segar_reply *r = segar_receive(c, 0);

		cr_assert_eq(r->status, SEGAR_OK, "%s", r->error);
		segar_reply_free(r);
	}
	segar_close(c);
	peer_stop(&peer);
}

Test(segar, more_calls_than_may_be_pending_are_refused)
{
	struct peer peer;
	segar_reply *r;
	segar *c;

	peer_init(&peer, echo);
	c = segar_open(peer.path);
	for (int i = 0; i < SEGAR_PENDING_MAX; i++)
		cr_assert_neq(segar_send_get(c, "ks:1", NULL), 0);
	cr_assert_eq(segar_send_get(c, "ks:1", NULL), 0);
	r = segar_get(c, "ks:1", NULL);
	cr_assert_eq(r->status, SEGAR_TOO_MANY);
	segar_reply_free(r);
	segar_close(c); /* with all of them pending */
	peer_stop(&peer);
}

Test(segar, a_request_over_the_limit_is_not_sent)
{
	char *key = malloc(WIRE_REQUEST_MAX + 1);
	struct peer peer;
	segar_reply *r;
	segar *c;

	memset(key, 'k', WIRE_REQUEST_MAX);
	key[WIRE_REQUEST_MAX] = '\0';
	peer_init(&peer, echo);
	c = segar_open(peer.path);
	r = segar_get(c, key, NULL);
	cr_assert_eq(r->status, SEGAR_TOO_LARGE);
	cr_assert_str_eq(r->error, "the request is over 1048576 bytes");
	segar_reply_free(r);
	segar_close(c);
	peer_stop(&peer);
	free(key);
}

/* The first connection reads nothing until the client has gone; the next ones are served. */
static void read_nothing_at_first(struct peer_conn *conn)
{
	if (conn->number > 0) {
		echo(conn);
		return;
	}
	/* Half a request fills the socket; its other half never comes. */
	while (recv(conn->fd, conn->in, 1, MSG_PEEK) > 0 && !*(volatile int *)conn->peer->arg)
		;
}

Test(segar, half_a_request_does_not_spoil_the_next)
{
	char *key = malloc(1000001);
	segar_options options = SEGAR_OPTIONS;
	volatile int gone = 0;
	uint32_t id;
	struct peer peer;
	segar_reply *r;
	segar *c;

	memset(key, 'k', 1000000);
	key[1000000] = '\0';
	peer_start(&peer, read_nothing_at_first);
	peer.arg = (void *)&gone;
	c = segar_open(peer.path);
	options.timeout_ms = 50;
	id = segar_send_invalidate(c, key, &options);
	segar_flush(c);
	r = segar_receive(c, id);
	cr_assert_eq(r->status, SEGAR_NO_REPLY);
	segar_reply_free(r);
	gone = 1;
	r = segar_get(c, "ks:1", NULL);
	cr_assert_eq(r->status, SEGAR_OK, "%s", r->error);
	cr_assert(value_is(&r->results[0], "\xa4ks:1", 5));
	segar_reply_free(r);
	segar_close(c);
	peer_stop(&peer);
	cr_assert_eq(peer.connections, 2);
	free(key);
}

/* The first connection is cut in the middle of the request. */
static void cut_at_first(struct peer_conn *conn)
{
	if (conn->number > 0)
		echo(conn);
	else
		assert(read(conn->fd, conn->in, 1000) > 0);
}

Test(segar, a_request_that_was_cut_is_sent_again_from_its_first_byte)
{
	char *key = malloc(900001);
	struct peer peer;
	segar_reply *r;
	segar *c;

	memset(key, 'k', 900000);
	key[900000] = '\0';
	peer_start(&peer, cut_at_first);
	c = segar_open(peer.path);
	r = segar_get(c, key, NULL);
	cr_assert_eq(r->status, SEGAR_OK, "%s", r->error);
	cr_assert_eq(r->results[0].value_len, 900005);
	cr_assert_eq(memcmp((const char *)r->results[0].value + 5, key, 900000), 0);
	segar_reply_free(r);
	segar_close(c);
	peer_stop(&peer);
	cr_assert_eq(peer.connections, 2);
	free(key);
}

Test(segar, paths_that_no_socket_can_have_are_refused)
{
	char path[200];

	memset(path, 'p', sizeof(path));
	path[108] = '\0';
	cr_assert_null(segar_open(path));
	path[107] = '\0';
	segar_close(segar_open(path));
	segar_close(NULL);
	segar_reply_free(NULL);
}

Test(segar, the_path_is_the_callers_or_the_environments_or_the_usual)
{
	segar *c;

	unsetenv("SEGAR_SOCKET");
	c = segar_open(NULL);
	cr_assert_str_eq(segar_socket_path(c), "/run/segar/segard.sock");
	segar_close(c);
	setenv("SEGAR_SOCKET", "/tmp/other.sock", 1);
	c = segar_open(NULL);
	cr_assert_str_eq(segar_socket_path(c), "/tmp/other.sock");
	segar_close(c);
	c = segar_open("/tmp/mine.sock");
	cr_assert_str_eq(segar_socket_path(c), "/tmp/mine.sock");
	segar_close(c);
}

Test(segar, keys_are_made_of_any_arguments)
{
	const char *args[] = { "42", "a:b", "100%", "", "\xc3\xa9" }, *back[WIRE_KEY_ARGS_MAX];
	char key[100], small[8], room[KEY_ARGS_ROOM];
	size_t len = segar_key(key, sizeof(key), "ks", args, 5);

	cr_assert_str_eq(key, "ks:42:a%3Ab:100%25::\xc3\xa9");
	cr_assert_eq(len, strlen(key));
	cr_assert_eq(key_args(key, len, room, back), 5);
	for (int i = 0; i < 5; i++)
		cr_assert_str_eq(back[i], args[i]);
	cr_assert_eq(segar_key(small, sizeof(small), "ks", args, 5), len);
	cr_assert_str_eq(small, "ks:42:a");
	cr_assert_eq(segar_key(NULL, 0, "ks", NULL, 0), 2);
}

Test(segar, every_number_has_its_name)
{
	cr_assert_str_eq(segar_status_name(SEGAR_OK), "ok");
	cr_assert_str_eq(segar_status_name(SEGAR_ORIGIN_ERROR), "origin_error");
	cr_assert_str_eq(segar_status_name(SEGAR_DISCONNECTED), "disconnected");
	cr_assert_str_eq(segar_status_name(77), "unknown_status");
	cr_assert_str_eq(segar_state_name(SEGAR_ABSENT), "absent");
	cr_assert_str_eq(segar_reason_name(SEGAR_REASON_REFRESHING), "refreshing");
	cr_assert_str_eq(segar_source_name(SEGAR_SOURCE_STORE), "store");
	cr_assert_str_eq(segar_state_name((enum segar_state)77), "unknown");
}
