/* A client that sends anything, in pieces of any size, to a whole server.
 *
 * The input's first byte sets how long the pieces are, the rest is the stream. However it is cut,
 * each request that can be answered gets one response, and then the connection ends; afterwards
 * nothing is left over in the server.
 */
#include <assert.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "../unit/rpc_world.h"
#include "proto/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What a server must do with the stream. */
static size_t responses_due(const uint8_t *data, size_t len)
{
	struct frame_scan scan = { 0 };
	struct rpc_message message;
	size_t due = 0, at = 0, size;
	const char *why;
	uint32_t id;

	for (;;) {
		switch (frame_scan(&scan, data + at, len - at, FRAME_BYTES_MAX, &size, &why)) {
		case FRAME_MORE:
			return due;
		case FRAME_TOO_LARGE:
		case FRAME_BROKEN:
			return due + rpc_peek_id(data + at, len - at, &id);
		case FRAME_COMPLETE:
			break;
		}
		switch (rpc_parse(data + at, size, &message, &why)) {
		case RPC_PARSED:
			if (message.type == RPC_RESPONSE)
				return due;
			due += message.type == RPC_REQUEST;
			break;
		case RPC_REFUSED:
			due++;
			break;
		case RPC_BROKEN:
			return due + rpc_peek_id(data + at, size, &id);
		}
		at += size;
	}
}

static void take_in(struct client *client, size_t *came)
{
	struct rpc_message message;

	client_poll(client);
	while (client_has_response(client, &message))
		++*came;
}

/* Sends a piece, reading meanwhile. False when the server wants no more. */
static bool send_piece(struct client *client, const uint8_t *piece, size_t len, size_t *came)
{
	while (len > 0) {
		const ssize_t sent = send(client->fd, piece, len, MSG_NOSIGNAL);

		if (sent > 0) {
			piece += sent;
			len -= (size_t)sent;
		}
		rpc_world_turn(client->world);
		take_in(client, came);
		if (client->ended)
			return false;
	}
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct rpc_world *world;
	const size_t piece = size > 0 && data[0] > 0 ? data[0] : 100000;
	struct client client;
	size_t came = 0;

	if (!world) {
		world = calloc(1, sizeof(*world));
		assert(world);
		rpc_world_defaults(world);
		world->engine_limits.near_bytes_max = 8 << 20;
		rpc_world_open(world);
	}
	if (size == 0)
		return 0;
	client_open(&client, world);
	for (size_t at = 1; at < size; at += piece) {
		const size_t left = size - at;

		if (!send_piece(&client, data + at, left < piece ? left : piece, &came))
			break;
	}
	shutdown(client.fd, SHUT_WR);
	while (!client.ended) {
		rpc_world_turn(world);
		take_in(&client, &came);
	}
	assert(came == responses_due(data + 1, size - 1));
	client_close(&client);
	while (world->server.peers.count > 0 || world->engine->all.count > 0)
		rpc_world_turn(world);
	assert(world->server.weight == 0 && world->server.ops == 0);
	assert(world->server.input_bytes == 0 && world->server.output_bytes == 0);
	return 0;
}
