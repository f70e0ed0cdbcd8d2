#include "rpc/follow.h"

#include <string.h>

#include "base/mem.h"
#include "core/pump.h"
#include "rpc/limits.h"
#include "rpc/peer.h"
#include "rpc/reply.h"
#include "rpc/server.h"

/* Of a moment, what is told: the key is the follow's. */
struct told {
	enum moment_kind kind;
	int64_t at_us, took_us, left_us;
	const char *what; /* static; or NULL */
	uint64_t fence;
};

struct follow {
	struct list_node node; /* in server->follows */
	struct peer *peer;     /* borrowed: it ends its follows before it goes */
	uint64_t hash;
	uint32_t len;
	uint32_t first, count; /* of the ring, what is untold */
	uint64_t lost;         /* forgotten untold since the last call */
	struct told ring[FOLLOW_MOMENTS_MAX];
	char bytes[]; /* the key's */
};

static bool is_of(const struct follow *follow, const struct key *key)
{
	return follow->hash == key->hash && follow->len == key->len &&
	       memcmp(follow->bytes, key->bytes, key->len) == 0;
}

static void keep(struct follow *follow, const struct moment *moment)
{
	if (follow->count == FOLLOW_MOMENTS_MAX) {
		follow->first = (follow->first + 1) % FOLLOW_MOMENTS_MAX;
		follow->count--;
		follow->lost++;
	}
	follow->ring[(follow->first + follow->count++) % FOLLOW_MOMENTS_MAX] =
		(struct told){ .kind = moment->kind,
			       .at_us = moment->at_us,
			       .took_us = moment->took_us,
			       .left_us = moment->left_us,
			       .what = moment->what,
			       .fence = moment->fence };
}

static void follow_on_moment(void *impl, const struct moment *moment)
{
	struct server *server = impl;

	list_foreach (&server->follows, node) {
		struct follow *follow = container_of(node, struct follow, node);

		if (is_of(follow, &moment->key))
			keep(follow, moment);
	}
}

/* Whether the pump tells is up to whether anyone follows a key. */
static void follow_listen(struct server *server)
{
	const struct moment_listener listener = { server, follow_on_moment };

	pump_listen(server->pump, list_empty(&server->follows) ? NULL : &listener);
}

/* The connection's of this key; NULL: it has none. `ret_count`: so many it has. */
static struct follow *follow_find(struct peer *peer, const struct key *key, uint32_t *ret_count)
{
	struct follow *found = NULL;

	*ret_count = 0;
	list_foreach (&peer->server->follows, node) {
		struct follow *follow = container_of(node, struct follow, node);

		if (follow->peer != peer)
			continue;
		++*ret_count;
		if (is_of(follow, key))
			found = follow;
	}
	return found;
}

static enum status follow_begin(struct peer *peer, const struct key *key, uint32_t its_count,
				struct follow **ret_follow, struct wire_error *error)
{
	struct server *server = peer->server;
	struct follow *follow;

	if (its_count == FOLLOWS_PER_PEER_MAX)
		return wire_refuse(error, STATUS_OVERLOADED,
				   "a connection can follow %d keys, and this one does",
				   FOLLOWS_PER_PEER_MAX);
	if (server->follows.count == FOLLOWS_MAX)
		return wire_refuse(error, STATUS_OVERLOADED,
				   "%d keys can be followed, and so many are", FOLLOWS_MAX);
	follow = mem_zalloc(sizeof(*follow) + key->len);
	if (!follow)
		return wire_refuse(error, STATUS_OVERLOADED, "there is no memory for that");
	follow->peer = peer;
	follow->hash = key->hash;
	follow->len = key->len;
	memcpy(follow->bytes, key->bytes, key->len);
	list_push_back(&server->follows, &follow->node);
	follow_listen(server);
	*ret_follow = follow;
	return STATUS_OK;
}

static void put_us(struct wire_buf *b, const char *name, int64_t us)
{
	wire_buf_str(b, name);
	if (us >= 0)
		wire_buf_int(b, us);
	else
		wire_buf_nil(b);
}

static void put_told(struct wire_buf *b, const struct told *told)
{
	wire_buf_map(b, 6);
	put_us(b, "at_us", told->at_us);
	wire_buf_str(b, "event");
	wire_buf_str(b, moment_name(told->kind));
	wire_buf_str(b, "what");
	if (told->what)
		wire_buf_str(b, told->what);
	else
		wire_buf_nil(b);
	put_us(b, "took_us", told->took_us);
	put_us(b, "left_us", told->left_us);
	put_us(b, "fence", told->fence != 0 ? (int64_t)told->fence : -1);
}

enum status follow_reply(struct peer *peer, uint32_t id, const struct key *key,
			 struct wire_error *error)
{
	uint32_t its_count;
	struct follow *follow = follow_find(peer, key, &its_count);
	enum status status =
		follow ? STATUS_OK : follow_begin(peer, key, its_count, &follow, error);
	struct reply reply;
	struct wire_buf *b;

	if (status != STATUS_OK)
		return status;
	reply = reply_begin(peer, id);
	b = &reply.out->bytes;
	wire_buf_map(b, 2);
	wire_buf_str(b, "lost");
	wire_buf_int(b, (int64_t)follow->lost);
	wire_buf_str(b, "events");
	wire_buf_array(b, follow->count);
	for (; follow->count > 0; follow->count--) {
		put_told(b, &follow->ring[follow->first]);
		follow->first = (follow->first + 1) % FOLLOW_MOMENTS_MAX;
	}
	follow->lost = 0;
	reply_end(&reply);
	return STATUS_OK;
}

void follow_end_all(struct peer *peer)
{
	struct server *server = peer->server;
	struct list_node *next;

	if (list_empty(&server->follows))
		return;
	for (struct list_node *node = list_first(&server->follows); node; node = next) {
		struct follow *follow = container_of(node, struct follow, node);

		next = node->next != &server->follows.head ? node->next : NULL;
		if (follow->peer != peer)
			continue;
		list_remove(&server->follows, node);
		mem_free(follow);
	}
	follow_listen(server);
}
