#include "rpc/keyop.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "core/pump.h"
#include "doctor/doctor.h"
#include "rpc/inspect.h"
#include "rpc/peer.h"
#include "rpc/reply.h"
#include "rpc/server.h"
#include "rpc/warm.h"

struct keyop {
	struct list_node node; /* in peer->ops */
	struct server *server; /* borrowed: it waits for its operations */
	struct peer *peer;     /* borrowed; NULL: an orphan */
	uint32_t id;
	union {
		struct invalidation invalidation;
		struct inspection inspection;
		struct server_reload reload;
		struct server_examination examination;
		struct server_warm warm;
	};
	size_t key_bytes;
	char bytes[]; /* the key's */
};

/* NULL: it has been refused. */
static struct keyop *keyop_create(struct peer *peer, uint32_t id, size_t key_bytes)
{
	struct keyop *op;
	const char *why;

	if (!peer_admit(peer, 1, key_bytes, &why)) {
		reply_error(peer, id, STATUS_OVERLOADED, why);
		return NULL;
	}
	op = mem_zalloc(sizeof(*op) + key_bytes);
	if (!op) {
		peer_discharge(peer, 1, key_bytes);
		reply_error(peer, id, STATUS_OVERLOADED, "out of memory");
		return NULL;
	}
	op->server = peer->server;
	op->peer = peer;
	op->id = id;
	op->key_bytes = key_bytes;
	list_push_back(&peer->ops, &op->node);
	op->server->ops++;
	return op;
}

static struct keyop *keyop_create_for(struct peer *peer, uint32_t id, const struct key *key,
				      struct key *ret_own_key)
{
	struct keyop *op = keyop_create(peer, id, key->len);

	if (!op)
		return NULL;
	memcpy(op->bytes, key->bytes, key->len);
	*ret_own_key = *key;
	ret_own_key->bytes = op->bytes;
	return op;
}

static void keyop_free(struct keyop *op)
{
	struct server *server = op->server;

	if (op->peer) {
		list_remove(&op->peer->ops, &op->node);
		peer_discharge(op->peer, 1, op->key_bytes);
	}
	mem_free(op);
	server->ops--;
	server_may_be_closed(server);
}

static void keyop_on_invalidated(struct invalidation *invalidation)
{
	struct keyop *op = container_of(invalidation, struct keyop, invalidation);
	struct reply reply;

	if (op->peer && invalidation->status == STATUS_OK) {
		reply = reply_begin(op->peer, op->id);
		wire_buf_map(&reply.out->bytes, 0);
		reply_end(&reply);
	} else if (op->peer) {
		reply_error(op->peer, op->id, invalidation->status,
			    "the store did not answer; here the key is invalidated");
	}
	keyop_free(op);
}

void keyop_invalidate(struct peer *peer, uint32_t id, const struct key *key, bool hard)
{
	struct key own_key;
	struct keyop *op = keyop_create_for(peer, id, key, &own_key);

	if (!op)
		return;
	op->invalidation =
		(struct invalidation){ .key = own_key, .hard = hard, .done = keyop_on_invalidated };
	pump_invalidate(peer->server->pump, &op->invalidation);
}

void keyop_invalidate_keyspace(struct peer *peer, uint32_t id, const struct key *key,
			       int64_t spread_us)
{
	struct key own_key;
	struct keyop *op = keyop_create_for(peer, id, key, &own_key);

	if (!op)
		return;
	op->invalidation = (struct invalidation){ .key = own_key,
						  .spread_us = spread_us,
						  .done = keyop_on_invalidated };
	pump_invalidate_keyspace(peer->server->pump, &op->invalidation);
}

static void keyop_on_inspected(struct inspection *inspection)
{
	struct keyop *op = container_of(inspection, struct keyop, inspection);
	struct reply reply;

	if (op->peer) {
		reply = reply_begin(op->peer, op->id);
		inspect_put(&reply.out->bytes, inspection);
		reply_end(&reply);
	}
	keyop_free(op);
}

void keyop_inspect(struct peer *peer, uint32_t id, const struct key *key)
{
	struct key own_key;
	struct keyop *op = keyop_create_for(peer, id, key, &own_key);

	if (!op)
		return;
	op->inspection = (struct inspection){ .key = own_key, .done = keyop_on_inspected };
	pump_inspect(peer->server->pump, &op->inspection);
}

static void keyop_on_reloaded(struct server_reload *reload)
{
	struct keyop *op = container_of(reload, struct keyop, reload);
	struct reply reply;

	if (op->peer && !reload->why) {
		reply = reply_begin(op->peer, op->id);
		wire_buf_map(&reply.out->bytes, 4);
#define X(name)                                                                                    \
	wire_buf_str(&reply.out->bytes, #name);                                                    \
	wire_buf_int(&reply.out->bytes, reload->name);
		SERVER_RELOAD_MAP(X)
#undef X
		reply_end(&reply);
	} else if (op->peer) {
		reply_error(op->peer, op->id, reload->status, reload->why);
	}
	keyop_free(op);
}

void keyop_reload(struct peer *peer, uint32_t id)
{
	const struct server_about *about = &peer->server->about;
	struct keyop *op;

	if (!about->reload || peer->server->closing) {
		reply_error(peer, id, STATUS_UNAVAILABLE, "the daemon is stopping");
		return;
	}
	op = keyop_create(peer, id, 0);
	if (!op)
		return;
	op->reload = (struct server_reload){ .done = keyop_on_reloaded };
	list_node_init(&op->reload.node);
	about->reload(about->impl, &op->reload);
}

static void put_finding(struct wire_buf *b, const struct doctor_finding *finding)
{
	wire_buf_map(b, 4);
	wire_buf_str(b, "check");
	wire_buf_str(b, finding->check);
	wire_buf_str(b, "grade");
	wire_buf_str(b, doctor_grade_name(finding->grade));
	wire_buf_str(b, "found");
	wire_buf_str(b, finding->found);
	wire_buf_str(b, "remedy");
	if (finding->remedy[0])
		wire_buf_str(b, finding->remedy);
	else
		wire_buf_nil(b);
}

static void keyop_on_examined(struct server_examination *examination)
{
	struct keyop *op = container_of(examination, struct keyop, examination);
	const struct doctor_report *report = examination->report;
	struct reply reply;

	if (op->peer && report) {
		reply = reply_begin(op->peer, op->id);
		wire_buf_array(&reply.out->bytes, (uint32_t)report->count);
		for (size_t i = 0; i < report->count; i++)
			put_finding(&reply.out->bytes, &report->findings[i]);
		reply_end(&reply);
	} else if (op->peer) {
		reply_error(op->peer, op->id, STATUS_UNAVAILABLE, examination->why);
	}
	keyop_free(op);
}

static void keyop_on_warm(struct server_warm *warm)
{
	struct keyop *op = container_of(warm, struct keyop, warm);
	struct reply reply;

	if (op->peer && warm->status == STATUS_OK) {
		reply = reply_begin(op->peer, op->id);
		warm_put(&reply.out->bytes, warm);
		reply_end(&reply);
	} else if (op->peer) {
		reply_error(op->peer, op->id, warm->status, warm->why);
	}
	keyop_free(op);
}

void keyop_examine(struct peer *peer, uint32_t id)
{
	const struct server_about *about = &peer->server->about;
	struct keyop *op;

	if (!about->examine || peer->server->closing) {
		reply_error(peer, id, STATUS_UNAVAILABLE, "the daemon is stopping");
		return;
	}
	op = keyop_create(peer, id, 0);
	if (!op)
		return;
	op->examination = (struct server_examination){ .done = keyop_on_examined };
	list_node_init(&op->examination.node);
	about->examine(about->impl, &op->examination);
}

void keyop_warm(struct peer *peer, uint32_t id, const struct server_warm *warm)
{
	const struct server_about *about = &peer->server->about;
	struct keyop *op = NULL;

	if (!about->warm || peer->server->closing)
		reply_error(peer, id, STATUS_UNAVAILABLE, "the daemon is stopping");
	else
		op = keyop_create(peer, id, warm->keys_len);
	if (op) {
		op->warm = *warm;
		op->warm.keys = warm->keys ? op->bytes : NULL;
		if (warm->keys)
			memcpy(op->bytes, warm->keys, warm->keys_len);
	}
	mem_free(warm->keys);
	if (!op)
		return;
	op->warm.done = keyop_on_warm;
	about->warm(about->impl, &op->warm);
}

void keyop_orphan_all(struct peer *peer)
{
	struct list_node *node;

	while ((node = list_pop_front(&peer->ops))) {
		struct keyop *op = container_of(node, struct keyop, node);

		op->peer = NULL;
		peer_discharge(peer, 1, op->key_bytes);
	}
}
