/* A connection's input: bytes into requests, and each request to its method. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/check.h"
#include "base/mem.h"
#include "proto/rpc.h"
#include "rpc/dispatch.h"
#include "rpc/peer.h"
#include "rpc/reply.h"
#include "rpc/server.h"

/* The last reply to a stream that can't be followed any further, if its fault has an id. */
static void peer_refuse_stream(struct peer *peer, const char *data, size_t len, enum status status,
			       const char *why)
{
	uint32_t id;

	peer->server->counters.bad_streams++;
	if (rpc_peek_id(data, len, &id)) {
		reply_error(peer, id, status, why);
		peer->polite = true;
	}
	peer_complain(peer, why);
	peer->refused = true;
	if (peer->state != PEER_LEAVING)
		peer_move(peer, PEER_LEAVING);
}

/* Serves one whole message that is not a plain get. */
static void serve_message(struct peer *peer, const char *data, size_t len)
{
	struct rpc_message message;
	const char *why;

	switch (rpc_parse(data, len, &message, &why)) {
	case RPC_PARSED:
		if (message.type == RPC_RESPONSE)
			peer_refuse_stream(peer, data, len, STATUS_BAD_REQUEST,
					   "a response to no request");
		else if (message.type == RPC_NOTIFICATION)
			peer->server->counters.notifications++;
		else
			dispatch(peer, &message);
		break;
	case RPC_REFUSED:
		reply_error(peer, message.id, STATUS_BAD_REQUEST, why);
		break;
	case RPC_BROKEN:
		peer_refuse_stream(peer, data, len, STATUS_BAD_REQUEST, why);
		break;
	}
}

/* A connection over the limit is answered once. */
static void refuse_surplus(struct peer *peer, const char *data, size_t len)
{
	uint32_t id;

	if (rpc_peek_id(data, len, &id)) {
		reply_error(peer, id, STATUS_OVERLOADED, "there are too many connections");
		peer->polite = true;
	}
	peer->refused = true;
	peer_move(peer, PEER_LEAVING);
}

/* Serves the message at the beginning of `data`. Returns its length; 0 if it isn't whole. */
static size_t serve_next(struct peer *peer, const char *data, size_t len)
{
	const char *why;
	size_t size;

	switch (frame_scan(&peer->scan, data, len, FRAME_BYTES_MAX, &size, &why)) {
	case FRAME_COMPLETE:
		peer->server->counters.requests_total++;
		if (peer->state == PEER_SURPLUS)
			refuse_surplus(peer, data, size);
		else
			serve_message(peer, data, size);
		return size;
	case FRAME_MORE:
		return 0;
	case FRAME_TOO_LARGE:
		peer_refuse_stream(peer, data, len, STATUS_TOO_LARGE, why);
		break;
	case FRAME_BROKEN:
		peer_refuse_stream(peer, data, len, STATUS_BAD_REQUEST, why);
		break;
	}
	return 0;
}

/* Serves the plain gets at the beginning of `data`, at most `most` of them. Returns how many bytes
 * they took, and their number; 0 if there is none to be served like that. */
static size_t serve_plain_gets(struct peer *peer, const char *data, size_t len, int most,
			       int *ret_served)
{
	struct plain_get gets[PLAIN_GETS_MAX];
	uint32_t count = 0, served;
	size_t at = 0, size;

	if (peer->state == PEER_SURPLUS || !peer->access.gets_all)
		return 0;
	while (count < PLAIN_GETS_MAX && (int)count < most) {
		struct plain_get *get = &gets[count];

		size = rpc_parse_plain_get(data + at, len - at, &get->id, &get->key);
		if (size == 0)
			break;
		get->end = at += size;
		count++;
	}
	if (count == 0)
		return 0;
	if (peer->scan.begun)
		frame_reset(&peer->scan);
	served = dispatch_plain_gets(peer, gets, count);
	*ret_served = (int)served;
	return served > 0 ? gets[served - 1].end : 0;
}

/* Serves the requests in `data` as long as it is their turn. Returns how many bytes they took. */
static size_t peer_serve(struct peer *peer, const char *data, size_t len)
{
	size_t at = 0, size;

	peer->unserved = false;
	for (int frames = 0, served = 1; at < len; frames += served, served = 1) {
		if (frames == FRAMES_PER_TURN || !peer_has_room(peer)) {
			peer->unserved = true;
			break;
		}
		size = serve_plain_gets(peer, data + at, len - at, FRAMES_PER_TURN - frames,
					&served);
		if (size == 0)
			size = serve_next(peer, data + at, len - at);
		if (peer->broken || peer->refused)
			return len;
		if (size == 0)
			break;
		at += size;
	}
	return at;
}

void peer_input_drop(struct peer *peer)
{
	peer->server->input_bytes -= peer->in_cap;
	mem_free(peer->in);
	peer->in = NULL;
	peer->in_len = peer->in_cap = 0;
	peer->unserved = false;
}

/* Gives `in` room for `cap` bytes, and puts `len` bytes into it, which may be its own. */
static bool refill(struct peer *peer, const char *from, size_t len, size_t cap)
{
	struct server *server = peer->server;
	char *in;

	CHECK(cap >= len && cap <= READ_HOLD_MAX);
	if (server->input_bytes + cap > READ_HOLD_ALL_MAX) {
		peer_break(peer, "unfinished requests hold too much memory");
		return false;
	}
	in = mem_alloc(cap);
	if (!in) {
		peer_break(peer, "out of memory");
		return false;
	}
	memcpy(in, from, len);
	server->input_bytes += cap;
	server->input_bytes -= peer->in_cap;
	mem_free(peer->in);
	peer->in = in;
	peer->in_cap = cap;
	peer->in_len = len;
	return true;
}

/* Keeps what was not served, in no more memory than it needs. */
static void peer_keep(struct peer *peer, const char *rest, size_t len)
{
	const bool fits = len <= peer->in_cap;
	const bool wastes = len <= READ_SMALL && peer->in_cap > 2 * READ_SMALL;
	size_t cap = fits ? READ_KEEP_MIN : 2 * peer->in_cap;

	if (len == 0) {
		if (peer->in)
			peer_input_drop(peer);
	} else if (fits && !wastes) {
		memmove(peer->in, rest, len);
		peer->in_len = len;
	} else {
		cap = cap < READ_HOLD_MAX ? cap : READ_HOLD_MAX;
		(void)refill(peer, rest, len, cap > len ? cap : len);
	}
}

void peer_serve_rest(struct peer *peer)
{
	const size_t served = peer_serve(peer, peer->in, peer->in_len);

	peer_keep(peer, peer->in + served, peer->in_len - served);
}

/* Its client ended its sending, or is gone: what is due to it is still answered, until a hang-up
 * says that nobody reads. What it left unfinished is void. */
static void peer_on_end(struct peer *peer)
{
	if (peer->state != PEER_OPEN) {
		peer_break(peer, NULL);
		return;
	}
	if (peer->in)
		peer_input_drop(peer);
	peer_move(peer, PEER_HALF);
}

/* Where to read to: a short beginning of a request is moved to the front of the shared buffer, a
 * long one goes on where it is, so that no byte is copied more than a few times. */
static char *place_to_read(struct peer *peer, size_t *ret_room)
{
	struct server *server = peer->server;
	const size_t have = peer->in_len;

	if (have < READ_SMALL) {
		if (have > 0)
			memcpy(server->read_buffer, peer->in, have);
		*ret_room = READ_BUFFER - have;
		return server->read_buffer;
	}
	if (peer->in_cap - have < READ_SMALL &&
	    !refill(peer, peer->in, have, have < READ_HOLD_MAX / 2 ? 2 * have : READ_HOLD_MAX))
		return NULL;
	*ret_room = peer->in_cap - have;
	return peer->in;
}

void peer_read(struct peer *peer)
{
	struct server *server = peer->server;
	const size_t have = peer->in_len;
	size_t room, served;
	char *data = place_to_read(peer, &room);
	ssize_t came;

	if (!data)
		return;
	CHECK(room > 0);
	came = recv(peer->fd, data + have, room, MSG_DONTWAIT);
	if (came < 0) {
		if (errno != EAGAIN && errno != EINTR)
			peer_break(peer, NULL);
		return;
	}
	server->counters.bytes_in += (uint64_t)came;
	if (came == 0) {
		peer_on_end(peer);
	} else if (peer->state != PEER_FAREWELL) {
		server->poll_until_us = server_now(server) + server->poll_us;
		served = peer_serve(peer, data, have + (size_t)came);
		if (!peer->broken)
			peer_keep(peer, data + served, have + (size_t)came - served);
	}
}
