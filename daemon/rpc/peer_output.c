/* A connection's output: replies gathered, sent, and held back when nobody reads them. */
#include "base/check.h"
#include "rpc/peer.h"
#include "rpc/server.h"

/* Brings what the server knows of this connection's unsent bytes up to date. */
static void count_output(struct peer *peer)
{
	struct server *server = peer->server;
	const size_t unsent = peer->out ? outbox_unsent(peer->out) : 0;

	server->output_bytes += unsent;
	server->output_bytes -= peer->out_counted;
	peer->out_counted = unsent;
}

struct outbox *peer_out(struct peer *peer)
{
	struct server *server = peer->server;

	peer_is_due(peer);
	if (!peer->out)
		peer->out = outbox_take(&server->outboxes);
	if (peer->out)
		return peer->out;
	peer_break(peer, "out of memory");
	return &server->no_outbox;
}

void peer_out_end(struct peer *peer, struct outbox *out, const struct outbox_mark *mark)
{
	if (!wire_buf_failed(&out->bytes))
		return;
	outbox_rewind(out, mark);
	peer_break(peer, "out of memory");
}

/* A connection that leaves something unsent goes to the end of the laggards each time that its
 * client has taken some. */
static void note_lag(struct peer *peer, bool progress)
{
	struct list *laggards = &peer->server->laggards;
	const bool linked = list_linked(&peer->lag);

	if (linked && (progress || !peer->out))
		list_remove(laggards, &peer->lag);
	if (peer->out && (progress || !linked))
		list_push_back(laggards, &peer->lag);
}

static void note_stall(struct peer *peer)
{
	const size_t unsent = peer->out_counted;

	if (!peer->stalled && unsent >= OUTPUT_HIGH) {
		peer->stalled = true;
		peer->server->counters.stalls++;
	} else if (peer->stalled && unsent < OUTPUT_LOW) {
		peer->stalled = false;
	}
}

/* How much a long output may send now. A value of 200 KB takes the kernel some 40 us to copy, in
 * which all others wait: long outputs together have a share of each turn. It is a strict one if
 * there are others to be served; else whoever begins within it need not be cut. */
static size_t share_of(const struct server *server)
{
	const size_t all = server->beside_shorts ? OUTPUT_BESIDE : OUTPUT_PER_TURN;

	if (server->turn_bytes >= all)
		return 0;
	return server->beside_shorts ? all - server->turn_bytes : all;
}

/* What the socket takes now. Returns how much that was. */
static size_t send_some(struct peer *peer)
{
	struct server *server = peer->server;
	size_t most = OUTPUT_SHORT, sent = 0;

	peer->bulky |= outbox_unsent(peer->out) > OUTPUT_SHORT;
	if (peer->bulky)
		most = share_of(server);
	if (most == 0)
		return 0; /* the next turn's: peer_settle() */
	switch (outbox_send(peer->out, peer->fd, most, &sent)) {
	case OUTBOX_EMPTY:
		outbox_give(&server->outboxes, peer->out);
		peer->out = NULL;
		break;
	case OUTBOX_BLOCKED:
		peer->blocked = true;
		break;
	case OUTBOX_TURN:
		break;
	case OUTBOX_BROKEN:
		peer_break(peer, NULL);
		break;
	}
	if (peer->bulky)
		server->turn_bytes += sent;
	else
		server->turn_shorts++;
	peer->bulky &= peer->out != NULL;
	server->counters.bytes_out += sent;
	return sent;
}

void peer_send(struct peer *peer)
{
	size_t sent = 0;

	if (!peer->out || peer->broken)
		return;
	if (!peer->blocked)
		sent = send_some(peer);
	if (!peer->out && peer->out_counted == 0)
		return; /* as nearly always */
	count_output(peer);
	note_stall(peer);
	note_lag(peer, sent > 0);
}

void peer_output_drop(struct peer *peer)
{
	outbox_give(&peer->server->outboxes, peer->out);
	peer->out = NULL;
	count_output(peer);
	note_lag(peer, false);
}

bool peer_has_room(const struct peer *peer)
{
	return !peer->stalled && (!peer->out || outbox_unsent(peer->out) < OUTPUT_HIGH);
}

bool peer_admit(struct peer *peer, uint32_t weight, size_t key_bytes, const char **ret_why)
{
	struct server *server = peer->server;
	const struct limits_policy *limits = server->limits;

	if (peer->weight + weight > (uint32_t)limits->requests_per_connection) {
		server->counters.requests_refused++;
		*ret_why = "too many requests wait on this connection";
		return false;
	}
	if (peer->user->weight + weight > (uint32_t)limits->requests_per_user) {
		server->counters.requests_refused++;
		*ret_why = "too many requests of this user wait";
		return false;
	}
	if (server->weight + weight > (uint32_t)limits->requests) {
		server->counters.requests_refused++;
		*ret_why = "too many requests wait";
		return false;
	}
	if (server->key_bytes + key_bytes > server->key_bytes_max) {
		server->counters.requests_refused++;
		*ret_why = "too many bytes of keys wait";
		return false;
	}
	peer->weight += weight;
	peer->user->weight += weight;
	server->weight += weight;
	server->key_bytes += key_bytes;
	return true;
}

void peer_discharge(struct peer *peer, uint32_t weight, size_t key_bytes)
{
	CHECK(peer->weight >= weight && peer->server->weight >= weight);
	CHECK(peer->server->key_bytes >= key_bytes);
	peer->server->key_bytes -= key_bytes;
	peer->weight -= weight;
	peer->user->weight -= weight;
	peer->server->weight -= weight;
	/* It may have waited for no more than this to close. */
	peer_is_due(peer);
}

void peer_hold(struct peer *peer, size_t bytes)
{
	peer->held_bytes += bytes;
	peer->server->held_bytes += bytes;
}

void peer_unhold(struct peer *peer, size_t bytes)
{
	CHECK(peer->held_bytes >= bytes && peer->server->held_bytes >= bytes);
	peer->held_bytes -= bytes;
	peer->server->held_bytes -= bytes;
}
