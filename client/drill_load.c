#include "client/drill_load.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/link.h"
#include "client/reply.h"
#include "proto/rpc.h"

enum {
	OUT_MAX = 16 * 1024 * 1024, /* bytes that a connection has not taken yet */
	CONNS_MAX = LOAD_SOCKETS_MAX * (LOAD_CONNECTIONS_MAX + 1),
};

/* A request in flight. */
struct load_slot {
	uint32_t id; /* its number among the slots, and a serial; 0: free */
	int tag;
	uint32_t key;
	enum call_shape shape;
	int64_t due_us, sent_us;
};

struct load_conn {
	struct link link;
	struct wire_buf out;
	size_t out_sent;
	struct load_slot *slots; /* owned; LOAD_DEPTH_MAX */
	uint32_t used, serial, next;
	bool lost; /* what is in flight is to be told */
};

int64_t load_now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static uint32_t conns_count(const struct load *load)
{
	return load->sockets * (load->connections + 1);
}

/* Connections take turns with the sockets, also those beside the load. */
static uint32_t socket_of(const struct load *load, uint32_t connection)
{
	return connection % load->sockets;
}

uint32_t load_aside(const struct load *load, uint32_t socket)
{
	return load->sockets * load->connections + socket;
}

bool load_open(struct load *load, const char *const *paths, uint32_t sockets, uint32_t connections,
	       load_answer_cb on_answer, void *arg)
{
	*load = (struct load){ .paths = paths,
			       .sockets = sockets,
			       .connections = connections,
			       .on_answer = on_answer,
			       .arg = arg };
	load->conns = calloc(conns_count(load), sizeof(*load->conns));
	for (uint32_t i = 0; load->conns && i < conns_count(load); i++) {
		struct load_conn *conn = &load->conns[i];

		link_init(&conn->link);
		wire_buf_init(&conn->out, OUT_MAX);
		conn->slots = calloc(LOAD_DEPTH_MAX, sizeof(*conn->slots));
		if (!conn->slots) {
			load_close(load);
			return false;
		}
	}
	return load->conns != NULL;
}

void load_close(struct load *load)
{
	for (uint32_t i = 0; load->conns && i < conns_count(load); i++) {
		if (load->conns[i].slots) /* else it was never begun */
			link_close(&load->conns[i].link);
		wire_buf_close(&load->conns[i].out);
		free(load->conns[i].slots);
	}
	free(load->conns);
	load->conns = NULL;
}

/* ---- sending ------------------------------------------------------------------------------- */

static void lose(struct load_conn *conn)
{
	link_close(&conn->link);
	wire_buf_rewind(&conn->out, 0);
	conn->out_sent = 0;
	conn->lost = true;
}

static void conn_send(struct load_conn *conn)
{
	while (conn->out_sent < conn->out.len) {
		const struct iovec part = { conn->out.data + conn->out_sent,
					    conn->out.len - conn->out_sent };
		const ssize_t sent = link_write(&conn->link, &part, 1);

		if (sent < 0)
			lose(conn);
		if (sent <= 0)
			return;
		conn->out_sent += (size_t)sent;
	}
	wire_buf_rewind(&conn->out, 0);
	conn->out_sent = 0;
}

/* A free slot; there is one. */
static struct load_slot *take_slot(struct load_conn *conn, uint32_t *ret_at)
{
	while (conn->slots[conn->next].id)
		conn->next = (conn->next + 1) % LOAD_DEPTH_MAX;
	*ret_at = conn->next;
	return &conn->slots[conn->next];
}

bool load_ask_on(struct load *load, uint32_t connection, const struct load_request *request)
{
	struct load_conn *conn = &load->conns[connection];
	const size_t before = conn->out.len;
	struct load_slot *slot;
	uint32_t at, id;

	if (conn->used == LOAD_DEPTH_MAX || conn->lost)
		return false;
	slot = take_slot(conn, &at);
	conn->serial = conn->serial % (UINT32_MAX / LOAD_DEPTH_MAX - 1) + 1;
	id = conn->serial * LOAD_DEPTH_MAX + at;
	if (!link_is_open(&conn->link) &&
	    link_open(&conn->link, load->paths[socket_of(load, connection)]) != 0) {
		conn->lost = true;
	} else {
		rpc_put_request(&conn->out, id, request->method, request->params_count);
		wire_buf_raw(&conn->out, request->params.data, request->params.len);
		if (wire_buf_failed(&conn->out)) {
			wire_buf_rewind(&conn->out, before);
			return false;
		}
	}
	*slot = (struct load_slot){ .id = id,
				    .tag = request->tag,
				    .key = request->key,
				    .shape = request->shape,
				    .due_us = request->due_us,
				    .sent_us = load_now_us() };
	conn->used++;
	load->in_flight++;
	if (!conn->lost)
		conn_send(conn);
	return true;
}

bool load_ask(struct load *load, const struct load_request *request)
{
	const uint32_t count = load->sockets * load->connections;

	for (uint32_t i = 0; i < count; i++) {
		const uint32_t connection = load->turn++ % count;

		if (load_ask_on(load, connection, request))
			return true;
	}
	return false;
}

/* ---- receiving ----------------------------------------------------------------------------- */

/* Frees the slot, and tells what it waited for. */
static void answer(struct load *load, uint32_t connection, struct load_slot *slot, int64_t came_us,
		   const segar_reply *reply)
{
	const struct load_answer answer = { .tag = slot->tag,
					    .key = slot->key,
					    .connection = connection,
					    .socket = socket_of(load, connection),
					    .due_us = slot->due_us,
					    .sent_us = slot->sent_us,
					    .came_us = came_us,
					    .reply = reply };

	slot->id = 0;
	load->conns[connection].used--;
	load->in_flight--;
	load->on_answer(load->arg, &answer);
}

static void tell_lost(struct load *load, uint32_t connection)
{
	struct load_conn *conn = &load->conns[connection];
	const int64_t now_us = load_now_us();
	segar_reply *reply;

	reply = reply_error(0, SEGAR_DISCONNECTED, "there is no connection to %s",
			    load->paths[socket_of(load, connection)]);
	for (int i = 0; i < LOAD_DEPTH_MAX; i++)
		if (conn->slots[i].id)
			answer(load, connection, &conn->slots[i], now_us, reply);
	segar_reply_free(reply);
	conn->lost = false;
}

/* False if the message is none that a daemon would send. */
static bool on_message(struct load *load, uint32_t connection, struct link_message message,
		       int64_t came_us)
{
	struct load_conn *conn = &load->conns[connection];
	struct rpc_message response;
	struct load_slot *slot;
	const char *why;

	if (rpc_parse(message.data, message.len, &response, &why) != RPC_PARSED ||
	    response.type == RPC_REQUEST) {
		free(message.memory);
		return false;
	}
	slot = &conn->slots[response.id % LOAD_DEPTH_MAX];
	if (response.type != RPC_RESPONSE || !slot->id || slot->id != response.id) {
		load->strays += response.type == RPC_RESPONSE;
		free(message.memory);
		return true;
	}
	const struct call call = { .id = slot->id, .shape = slot->shape };
	segar_reply *reply = reply_create(&call, &response, message);

	answer(load, connection, slot, came_us, reply);
	segar_reply_free(reply);
	return true;
}

static void conn_read(struct load *load, uint32_t connection)
{
	struct load_conn *conn = &load->conns[connection];
	enum link_verdict verdict = link_read(&conn->link);
	const int64_t came_us = load_now_us();
	struct link_message message;
	const char *why;

	while (verdict == LINK_MESSAGE) {
		verdict = link_take(&conn->link, &message, &why);
		if (verdict == LINK_MESSAGE && !on_message(load, connection, message, came_us))
			verdict = LINK_BROKEN;
	}
	if (verdict != LINK_NOTHING)
		lose(conn);
}

static void note_noise(struct load *load, int64_t late_us)
{
	if (late_us > load->noise_us)
		load->noise_us = late_us;
}

void load_wait(struct load *load, int64_t until_us)
{
	struct pollfd files[CONNS_MAX];
	const uint32_t count = conns_count(load);
	const int64_t begun_us = load_now_us();
	const int64_t left_us = until_us > begun_us ? until_us - begun_us : 0;
	const struct timespec left = { left_us / 1000000, left_us % 1000000 * 1000 };
	bool lost = false;

	for (uint32_t i = 0; i < count; i++) {
		struct load_conn *conn = &load->conns[i];
		const bool blocked = conn->out_sent < conn->out.len;

		lost |= conn->lost;
		files[i] = (struct pollfd){ .fd = conn->link.fd,
					    .events = (short)(POLLIN | (blocked ? POLLOUT : 0)) };
	}
	const int ready = ppoll(files, count, lost ? &(struct timespec){ 0 } : &left, NULL);
	const int64_t woken_us = load_now_us();

	if (ready == 0 && !lost && left_us > 0)
		note_noise(load, woken_us - until_us);
	for (uint32_t i = 0; i < count; i++) {
		struct load_conn *conn = &load->conns[i];

		if (ready > 0 && files[i].revents & POLLOUT && link_is_open(&conn->link))
			conn_send(conn);
		if (ready > 0 && files[i].revents & ~POLLOUT && link_is_open(&conn->link))
			conn_read(load, i);
		if (conn->lost)
			tell_lost(load, i);
	}
	note_noise(load, load_now_us() - woken_us);
}
