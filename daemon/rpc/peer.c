#include "rpc/peer.h"

#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "rpc/call.h"
#include "rpc/follow.h"
#include "rpc/keyop.h"
#include "rpc/mget.h"
#include "rpc/server.h"

static const struct {
	const char *name;
	unsigned next; /* a bit for each state that may follow */
} states[] = {
#define X(NAME, name, waits, next) [PEER_##NAME] = { #name, next },
	PEER_STATE_MAP(X)
#undef X
};

const char *peer_state_name(enum peer_state state)
{
	return states[state].name;
}

/* What goes with a state is set up and undone here. */
void peer_move(struct peer *peer, enum peer_state state)
{
	struct server *server = peer->server;

	CHECK_MSG(states[peer->state].next & 1u << state, "connection %d from %s to %s", peer->fd,
		  peer_state_name(peer->state), peer_state_name(state));
	if (peer->state == PEER_SURPLUS)
		server->surplus--;
	if (list_linked(&peer->leave))
		list_remove(&server->leaving, &peer->leave);
	peer->state = state;
	if (state == PEER_FAREWELL)
		server_leave_soon(server, peer);
}

static void peer_on_poll(uv_poll_t *poll, int status, int events);

static void peer_on_closed(uv_handle_t *handle)
{
	struct peer *peer = container_of((uv_poll_t *)handle, struct peer, poll);
	struct server *server = peer->server;

	mem_free(peer);
	server_handle_closed(server);
}

int peer_open(struct server *server, int fd, const struct access *access, struct user *user,
	      bool surplus)
{
	struct peer *peer = mem_zalloc(sizeof(*peer));

	if (!peer || uv_poll_init(server->loop, &peer->poll, fd) != 0) {
		mem_free(peer);
		close(fd);
		return -1;
	}
	peer->server = server;
	peer->fd = fd;
	peer->number = ++server->peers_ever;
	peer->access = *access;
	peer->user = user;
	peer->counted = !surplus;
	user->connections += peer->counted;
	list_node_init(&peer->due);
	list_node_init(&peer->leave);
	list_node_init(&peer->lag);
	list_init(&peer->calls);
	list_init(&peer->parked);
	list_init(&peer->mgets);
	list_init(&peer->walks);
	list_init(&peer->ops);
	list_push_back(&server->peers, &peer->node);
	server->handles++;
	if (surplus) {
		peer->state = PEER_SURPLUS;
		server->surplus++;
		server_leave_soon(server, peer);
	}
	peer->watched = UV_READABLE;
	uv_poll_start(&peer->poll, UV_READABLE, peer_on_poll);
	return 0;
}

void peer_complain(const struct peer *peer, const char *why)
{
	log_warning("connection.refused", LOG_TEXT("reason", why),
		    LOG_INT("peer_pid", peer->access.pid),
		    LOG_INT("peer_uid", (int64_t)peer->access.uid));
}

void peer_break(struct peer *peer, const char *why)
{
	if (peer->broken)
		return;
	peer->broken = true;
	if (why)
		peer_complain(peer, why);
	else if (peer->weight > 0 || peer->out)
		peer->server->counters.clients_vanished++;
}

void peer_close(struct peer *peer)
{
	struct server *server = peer->server;

	call_abandon_all(peer);
	mget_free_all(peer);
	keyop_orphan_all(peer);
	follow_end_all(peer);
	CHECK_MSG(peer->weight == 0 && peer->held_bytes == 0, "%u requests, %zu bytes",
		  peer->weight, peer->held_bytes);
	peer_input_drop(peer);
	peer_output_drop(peer);
	peer->user->connections -= peer->counted;
	users_leave(&server->users, peer->user);
	peer->user = NULL;
	if (list_linked(&peer->due))
		list_remove(&server->due, &peer->due);
	list_remove(&server->peers, &peer->node);
	peer_move(peer, PEER_CLOSING);
	uv_close((uv_handle_t *)&peer->poll, peer_on_closed);
	close(peer->fd);
	peer->fd = -1;
}

static bool wants_input(const struct peer *peer)
{
	switch (peer->state) {
	case PEER_OPEN:
	case PEER_SURPLUS:
		return !peer->unserved && peer_has_room(peer);
	case PEER_FAREWELL:
		return true;
	case PEER_HALF:
	case PEER_LEAVING:
	case PEER_CLOSING:
		return false;
	}
	return false;
}

/* Watches for what can happen next. Where neither input nor room for output matters, the priority
 * event, which never comes, keeps the kernel telling of a hang-up. UV_DISCONNECT would not do: it
 * is told again and again of a client that has ended no more than its own sending. */
static void peer_watch(struct peer *peer)
{
	int events = 0;

	if (wants_input(peer))
		events |= UV_READABLE;
	if (peer->blocked && peer->out)
		events |= UV_WRITABLE;
	if (events == 0)
		events = UV_PRIORITIZED;
	if (events != peer->watched) {
		peer->watched = events;
		uv_poll_start(&peer->poll, events, peer_on_poll);
	}
}

/* Nothing is waited for, nothing is left to say. */
static bool is_done(const struct peer *peer)
{
	return peer->weight == 0 && !peer->unserved && !peer->out;
}

/* Something waits for no more than its turn, and room. */
static bool has_work(const struct peer *peer)
{
	return peer->unserved || !list_empty(&peer->parked) || !list_empty(&peer->walks);
}

/* Something is left to send, and it isn't the socket that has no room for it. */
static bool has_turn_to_send(const struct peer *peer)
{
	return peer->out && !peer->blocked;
}

/* The end of every turn: closes if it is time to, else waits for what can happen next. */
static void peer_settle(struct peer *peer)
{
	struct server *server = peer->server;

	if (peer->broken) {
		peer_close(peer);
		return;
	}
	if ((peer->state == PEER_HALF || peer->state == PEER_LEAVING) && is_done(peer)) {
		if (!peer->polite || shutdown(peer->fd, SHUT_WR) != 0) {
			peer_close(peer);
			return;
		}
		peer_move(peer, PEER_FAREWELL);
	}
	if ((has_work(peer) && peer_has_room(peer)) || has_turn_to_send(peer))
		peer_is_due(peer);
	else if (list_linked(&peer->due))
		list_remove(&server->due, &peer->due);
	peer_watch(peer);
}

static void peer_on_poll(uv_poll_t *poll, int status, int events)
{
	struct peer *peer = container_of(poll, struct peer, poll);

	if (status < 0 || events & UV_PRIORITIZED)
		peer_break(peer, NULL);
	if (events & UV_WRITABLE && !peer->broken) {
		peer->blocked = false;
		peer_send(peer);
	}
	if (events & UV_READABLE && !peer->broken) {
		peer_read(peer);
		peer_send(peer);
	}
	peer_settle(peer);
}

void peer_is_due(struct peer *peer)
{
	if (!list_linked(&peer->due))
		list_push_back(&peer->server->due, &peer->due);
}

void peer_turn(struct peer *peer)
{
	if (!peer->broken) {
		mget_walk_all(peer);
		call_unpark(peer);
		if (peer->unserved && peer_has_room(peer))
			peer_serve_rest(peer);
		peer_send(peer);
	}
	peer_settle(peer);
}

void peer_drain(struct peer *peer)
{
	switch (peer->state) {
	case PEER_OPEN:
		if (wants_input(peer))
			peer_read(peer);
		if (peer->state == PEER_OPEN)
			peer_move(peer, PEER_LEAVING);
		break;
	case PEER_HALF:
		peer_move(peer, PEER_LEAVING);
		break;
	case PEER_SURPLUS:
	case PEER_FAREWELL:
		peer_break(peer, NULL);
		break;
	case PEER_LEAVING:
	case PEER_CLOSING:
		break;
	}
	peer_send(peer);
	peer_settle(peer);
}
