#include "rpc/call.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "core/pump.h"
#include "rpc/mget.h"
#include "rpc/peer.h"
#include "rpc/reply.h"
#include "rpc/server.h"
#include "rpc/tracing.h"

static void call_on_answer(struct request *request, const struct answer *answer);

static struct call *call_create(struct peer *peer, const struct query *query)
{
	const size_t trace_len = query->trace ? sizeof(*query->trace) : 0;
	struct call *call = mem_alloc(sizeof(*call) + query->key.len + trace_len);

	if (!call)
		return NULL;
	*call = (struct call){ .peer = peer };
	memcpy(call->bytes, query->key.bytes, query->key.len);
	call->request.query = *query;
	call->request.query.client = peer->number;
	call->request.query.key.bytes = call->bytes;
	if (query->trace)
		call->request.query.trace =
			memcpy(call->bytes + query->key.len, query->trace, trace_len);
	call->request.answer = call_on_answer;
	call->began_us = peer->server->now_us;
	call->until_us = peer->server->now_us + query->wait_us;
	list_node_init(&call->node);
	return call;
}

static void call_submit(struct call *call)
{
	list_push_back(&call->peer->calls, &call->node);
	pump_submit(call->peer->server->pump, &call->request);
}

/* Replies, and forgets the call. */
static void call_end(struct call *call, const struct answer *answer)
{
	struct peer *peer = call->peer;

	reply_answer(peer, call->id, &call->request.query, answer);
	tracing_end(peer->server, &call->request.query, call->began_us, answer);
	peer_discharge(peer, 1, call->request.query.key.len);
	mem_free(call);
}

static bool is_too_much(const struct peer *peer, const struct answer *answer)
{
	return answer->status == STATUS_OK && answer->value && !peer_has_room(peer);
}

static void call_on_answer(struct request *request, const struct answer *answer)
{
	struct call *call = container_of(request, struct call, request);
	struct peer *peer = call->peer;

	list_remove(&peer->calls, &call->node);
	if (call->mget) {
		mget_on_answer(call->mget, call->index, answer);
		mem_free(call);
	} else if (is_too_much(peer, answer)) {
		peer->server->counters.replies_parked++;
		list_push_back(&peer->parked, &call->node);
	} else {
		call_end(call, answer);
	}
}

static void refuse(struct peer *peer, uint32_t id, const struct query *query, const char *why)
{
	reply_error(peer, id, STATUS_OVERLOADED, why);
	tracing_end_refused(peer->server, query, STATUS_OVERLOADED, why);
}

void call_ask(struct peer *peer, uint32_t id, const struct query *query)
{
	struct server *server = peer->server;
	struct answer answer;
	struct call *call;
	const char *why;

	if (pump_lookup(server->pump, query, server->now_us, &answer) == LOOKUP_ANSWER) {
		reply_answer(peer, id, query, &answer);
		tracing_end(server, query, server->now_us, &answer);
		return;
	}
	if (!peer_admit(peer, 1, query->key.len, &why)) {
		refuse(peer, id, query, why);
		return;
	}
	call = call_create(peer, query);
	if (!call) {
		peer_discharge(peer, 1, query->key.len);
		refuse(peer, id, query, "out of memory");
		return;
	}
	call->id = id;
	call_submit(call);
}

enum status call_wait_for_mget(struct peer *peer, struct mget *mget, uint32_t index,
			       const struct query *query)
{
	struct call *call = call_create(peer, query);

	if (!call)
		return STATUS_OVERLOADED;
	call->mget = mget;
	call->index = index;
	call_submit(call);
	return STATUS_OK;
}

/* The engine has not known of it for a while: a reload may have taken the keyspace away. */
static bool call_finds_keyspace(struct call *call, struct answer *ret_answer)
{
	struct engine *engine = call->peer->server->pump->engine;
	struct key *key = &call->request.query.key;
	const char *colon = memchr(key->bytes, ':', key->len);
	const char *text = "the keyspace is not configured any more";

	key->keyspace = engine_keyspace(engine, key->bytes,
					colon ? (size_t)(colon - key->bytes) : key->len);
	*ret_answer = (struct answer){ .status = STATUS_UNKNOWN_KEYSPACE,
				       .text = text,
				       .text_len = (uint32_t)strlen(text) };
	return key->keyspace != NULL;
}

void call_unpark(struct peer *peer)
{
	struct server *server = peer->server;
	struct list_node *node;

	while (peer_has_room(peer) && (node = list_pop_front(&peer->parked))) {
		struct call *call = container_of(node, struct call, node);
		struct query *query = &call->request.query;
		const int64_t left_us = call->until_us - server->now_us;
		struct answer answer;

		query->wait_us = left_us > 0 ? left_us : 0;
		if (!call_finds_keyspace(call, &answer))
			call_end(call, &answer);
		else if (pump_lookup(server->pump, query, server->now_us, &answer) == LOOKUP_ANSWER)
			call_end(call, &answer);
		else
			call_submit(call);
	}
}

void call_abandon_all(struct peer *peer)
{
	struct server *server = peer->server;
	struct list_node *node;

	while ((node = list_pop_front(&peer->calls))) {
		struct call *call = container_of(node, struct call, node);

		server->counters.requests_abandoned++;
		pump_abandon(server->pump, &call->request);
		if (!call->mget)
			peer_discharge(peer, 1, call->request.query.key.len);
		mem_free(call);
	}
	while ((node = list_pop_front(&peer->parked))) {
		struct call *call = container_of(node, struct call, node);

		server->counters.requests_abandoned++;
		peer_discharge(peer, 1, call->request.query.key.len);
		mem_free(call);
	}
}
