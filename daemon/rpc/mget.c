#include "rpc/mget.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "core/answer.h"
#include "core/pump.h"
#include "proto/rpc.h"
#include "rpc/call.h"
#include "rpc/dispatch.h"
#include "rpc/peer.h"
#include "rpc/reply.h"
#include "rpc/server.h"
#include "rpc/tracing.h"

/* An item waits as often: for its first answer, and for one in place of that, if it grew old while
 * others were built. */
enum { WAITS_MAX = 2 };

/* As they came, and once more for those that wait. */
static size_t keys_cost(struct wire_span keys)
{
	return 2 * keys.len;
}

static void mget_free(struct mget *mget)
{
	struct peer *peer = mget->peer;

	for (uint32_t i = 0; i < mget->count; i++) {
		value_unref(mget->items[i].answer.value);
		value_unref(mget->items[i].text);
	}
	peer_unhold(peer, mget->value_bytes);
	peer_discharge(peer, mget->count, keys_cost(mget->encoded));
	list_remove(mget->list, &mget->node);
	mem_free(mget);
}

/* Also to the end of the list that it is in. */
static void mget_move(struct mget *mget, struct list *list)
{
	if (mget->list)
		list_remove(mget->list, &mget->node);
	mget->list = list;
	list_push_back(list, &mget->node);
}

static void item_refuse(struct mget_item *item, enum status status, const char *text)
{
	item->answer = (struct answer){
		.status = status,
		.text = text,
		.text_len = (uint32_t)strlen(text),
	};
}

/* Keeps an answer: its value by reference, its text, which won't last, as a copy. */
static void item_keep(struct mget *mget, struct mget_item *item, const struct answer *answer)
{
	struct peer *peer = mget->peer;
	struct value *value = answer->value;

	if (value && mget->value_bytes + value->len > VALUE_BYTES_MAX) {
		item_refuse(item, STATUS_TOO_LARGE,
			    "the values of this reply are too large together");
		return;
	}
	if (value && (peer->held_bytes + value->len > REPLIES_HELD_MAX ||
		      peer->server->held_bytes + value->len > peer->server->held_max)) {
		peer->server->counters.replies_dropped++;
		item_refuse(item, STATUS_OVERLOADED, "too many values wait for slower ones");
		return;
	}
	item->answer = *answer;
	item->at_us = peer->server->now_us;
	if (value) {
		value_ref(value);
		mget->value_bytes += value->len;
		peer_hold(peer, value->len);
	}
	if (!answer->text)
		return;
	item->text = value_create(answer->text, answer->text_len);
	item->answer.text = item->text ? item->text->bytes : NULL;
}

static void item_drop(struct mget *mget, struct mget_item *item)
{
	struct value *value = item->answer.value;

	if (value) {
		mget->value_bytes -= value->len;
		peer_unhold(mget->peer, value->len);
		value_unref(value);
	}
	value_unref(item->text);
	*item = (struct mget_item){ .asks = item->asks };
}

/* Makes the query for the next key that `keys` reads. False: the item says why not. */
static bool next_query(struct mget *mget, struct reader *keys, struct mget_item *item,
		       struct query *ret_query)
{
	struct reader value = *keys;
	struct wire_span encoded;
	struct wire_error error;

	/* Whatever is wrong with a key, the next one begins behind it. */
	CHECK(reader_skip(keys, &encoded));
	if (dispatch_key(mget->peer, METHOD_MGET, &value, &ret_query->key, &error) == STATUS_OK) {
		dispatch_query(&mget->options, QUERY_GET, ret_query);
		return true;
	}
	item->text = value_create(error.text, strlen(error.text));
	item_refuse(item, error.status, item->text ? item->text->bytes : "");
	return false;
}

/* The short way, as dispatch_plain_gets: a key in its canonical bytes, of an entry that is plainly
 * fresh, which suits whatever the options say but a version. */
static bool hit(struct mget *mget, struct reader *keys, struct mget_item *item)
{
	const struct server *server = mget->peer->server;
	struct engine *engine = server->pump->engine;
	struct reader behind = *keys;
	const struct entry *entry;
	struct answer answer;
	struct wire_span key;

	if (mget->options.min_version != OPTION_UNSET || !mget->peer->access.mgets_all ||
	    !reader_text(&behind, &key))
		return false;
	entry = engine_hit_of_many(engine, engine_hash(engine, key.data, key.len), key.data,
				   key.len, server->now_us);
	if (!entry)
		return false;
	*keys = behind;
	answer_fresh(&answer, entry, server->now_us, SOURCE_NEAR);
	item->asks++;
	item_keep(mget, item, &answer);
	return true;
}

/* Looks the item's key, the next that `keys` reads, up; it may have to wait. */
static void look_up(struct mget *mget, struct reader *keys, uint32_t index)
{
	struct server *server = mget->peer->server;
	struct mget_item *item = &mget->items[index];
	struct answer answer;
	struct query query;

	if (item->asks == 0 && hit(mget, keys, item))
		return;
	if (!next_query(mget, keys, item, &query))
		return;
	query.wait_us -= server->now_us - mget->began_us;
	if (query.wait_us < 0 || item->asks >= WAITS_MAX)
		query.wait_us = 0;
	item->asks += item->asks < WAITS_MAX;
	if (pump_lookup(server->pump, &query, server->now_us, &answer) == LOOKUP_ANSWER)
		item_keep(mget, item, &answer);
	else if (call_wait_for_mget(mget->peer, mget, index, &query) == STATUS_OK)
		mget->waiting++;
	else
		item_refuse(item, STATUS_OVERLOADED, "out of memory");
}

/* Brings the answer's times up to now. False if it must be asked for again: its value was given up,
 * or its freshness has ended, and with that the knowledge for how long it may be told. One that was
 * built after the request came may always be: asking again would build it again. */
static bool item_age(struct mget_item *item, int64_t now_us)
{
	struct answer *answer = &item->answer;
	const int64_t held_us = now_us - item->at_us;

	if (item->given_up)
		return false;
	if (held_us <= 0 || answer->status != STATUS_OK || answer->state == ANSWER_DEFAULT)
		return true;
	if (!answer->after && (answer->state == ANSWER_STALE || answer->ttl_us < held_us))
		return false;
	answer->age_us += held_us;
	answer->ttl_us = answer->ttl_us > held_us ? answer->ttl_us - held_us : 0;
	item->at_us = now_us;
	return true;
}

/* Asks once more for the answers that grew old. They wait, if they must, for what is left of the
 * request's time. */
static void renew(struct mget *mget)
{
	struct wire_span skipped;
	struct reader keys, key;

	reader_init(&keys, mget->encoded.data, mget->encoded.len);
	for (uint32_t i = 0; i < mget->count; i++) {
		key = keys;
		CHECK(reader_skip(&keys, &skipped));
		if (item_age(&mget->items[i], mget->peer->server->now_us))
			continue;
		item_drop(mget, &mget->items[i]);
		look_up(mget, &key, i);
	}
}

static void mget_reply(struct mget *mget)
{
	struct reply reply = reply_begin(mget->peer, mget->id);

	wire_buf_array(&reply.out->bytes, mget->count);
	for (uint32_t i = 0; i < mget->count; i++)
		reply_put_answer(reply.out, &mget->items[i].answer);
	reply_end(&reply);
	tracing_end_mget(mget->peer->server, &mget->options, mget->count, mget->began_us);
}

/* Gives up the values of one that waits for nothing but a client that reads. */
static void mget_give_up(struct mget *mget)
{
	for (uint32_t i = 0; i < mget->count; i++) {
		if (!mget->items[i].answer.value)
			continue;
		item_drop(mget, &mget->items[i]);
		mget->items[i].given_up = true;
	}
}

/* Goes on for a turn, as far as that is possible now. */
static void mget_advance(struct mget *mget)
{
	struct peer *peer = mget->peer;

	for (int i = 0; i < MGET_KEYS_PER_TURN && mget->next < mget->count; i++)
		look_up(mget, &mget->keys, mget->next++);
	if (mget->next == mget->count && mget->waiting == 0 && peer_has_room(peer))
		renew(mget);
	if (mget->next == mget->count && mget->waiting > 0) {
		mget_move(mget, &peer->mgets);
	} else if (mget->next < mget->count || !peer_has_room(peer)) {
		mget_move(mget, &peer->walks);
	} else {
		mget_reply(mget);
		mget_free(mget);
	}
}

void mget_ask(struct peer *peer, uint32_t id, uint32_t count, struct wire_span keys,
	      const struct options *options)
{
	const size_t items_len = count * sizeof(struct mget_item);
	struct mget *mget;
	const char *why;
	char *copy;

	if (!peer_admit(peer, count, keys_cost(keys), &why)) {
		reply_error(peer, id, STATUS_OVERLOADED, why);
		return;
	}
	mget = mem_zalloc(sizeof(*mget) + items_len + keys.len);
	if (!mget) {
		peer_discharge(peer, count, keys_cost(keys));
		reply_error(peer, id, STATUS_OVERLOADED, "out of memory");
		return;
	}
	copy = (char *)mget->items + items_len;
	memcpy(copy, keys.data, keys.len);
	mget->peer = peer;
	mget->id = id;
	mget->count = count;
	mget->began_us = peer->server->now_us;
	mget->options = *options;
	mget->encoded = (struct wire_span){ copy, keys.len };
	reader_init(&mget->keys, copy, keys.len);
	mget_move(mget, &peer->walks);
	mget_advance(mget);
}

void mget_on_answer(struct mget *mget, uint32_t index, const struct answer *answer)
{
	CHECK(mget->waiting > 0);
	server_now(mget->peer->server);
	item_keep(mget, &mget->items[index], answer);
	if (--mget->waiting == 0 && mget->next == mget->count) {
		mget_move(mget, &mget->peer->walks);
		peer_is_due(mget->peer);
	}
}

/* Those that can't go on for want of room hold their values as long as that leaves room for the
 * mgets of clients that read. */
static void relieve(struct peer *peer)
{
	const struct server *server = peer->server;

	list_foreach (&peer->walks, node) {
		if (server->held_bytes <= server->held_max / 2)
			break;
		mget_give_up(container_of(node, struct mget, node));
	}
}

void mget_walk_all(struct peer *peer)
{
	for (size_t i = peer->walks.count; i > 0 && peer_has_room(peer); i--)
		mget_advance(container_of(list_first(&peer->walks), struct mget, node));
	if (!peer_has_room(peer))
		relieve(peer);
}

void mget_free_all(struct peer *peer)
{
	struct list_node *node;

	while ((node = list_first(&peer->walks)) || (node = list_first(&peer->mgets)))
		mget_free(container_of(node, struct mget, node));
}
