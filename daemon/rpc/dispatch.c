#include "rpc/dispatch.h"

#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/probes.h"
#include "core/engine.h"
#include "proto/key.h"
#include "rpc/about.h"
#include "rpc/accounts.h"
#include "rpc/call.h"
#include "rpc/follow.h"
#include "rpc/invalidate.h"
#include "rpc/keyop.h"
#include "rpc/logging.h"
#include "rpc/mget.h"
#include "rpc/peer.h"
#include "rpc/reply.h"
#include "rpc/server.h"
#include "rpc/top.h"
#include "rpc/tracing.h"
#include "rpc/warm.h"

/* A request on its way to its handler. */
struct ask {
	struct peer *peer; /* borrowed */
	enum method method;
	uint32_t id;
	struct reader params;
};
typedef enum status (*handler)(struct ask *ask, struct wire_error *error);

/* STATUS_OK if the client may call the method on that keyspace's keys; NULL: on any. */
static enum status check_access(struct peer *peer, enum method method, const char *keyspace,
				struct wire_error *error)
{
	if (access_allows(&peer->access, &peer->server->access, method, keyspace))
		return STATUS_OK;
	peer->server->counters.denied++;
	log_warning("access.denied", LOG_TEXT("method", method_name(method)),
		    LOG_TEXT("keyspace", keyspace), LOG_INT("peer_pid", peer->access.pid),
		    LOG_INT("peer_uid", (int64_t)peer->access.uid));
	return wire_refuse(error, STATUS_DENIED, "user %u may not call %s%s%s",
			   (unsigned)peer->access.uid, method_name(method), keyspace ? " on " : "",
			   keyspace ? keyspace : "");
}

enum status dispatch_keyspace(struct peer *peer, enum method method, struct wire_span name,
			      struct keyspace **ret_keyspace, struct wire_error *error)
{
	char quoted[WIRE_QUOTED_MAX];

	*ret_keyspace = engine_keyspace(peer->server->pump->engine, name.data, name.len);
	if (*ret_keyspace)
		return check_access(peer, method, (*ret_keyspace)->policy->name, error);
	return wire_refuse(error, STATUS_UNKNOWN_KEYSPACE, "there is no keyspace \"%s\"",
			   wire_quote(name.data, name.len, quoted));
}

/* Finds the keyspace of a key that has been read. */
static enum status find_key(struct peer *peer, enum method method, const struct wire_key *read,
			    struct key *ret_key, struct wire_error *error)
{
	struct keyspace *keyspace;
	const struct wire_span name = { read->text, read->keyspace_len };
	enum status status = dispatch_keyspace(peer, method, name, &keyspace, error);

	if (status == STATUS_OK)
		engine_key(peer->server->pump->engine, keyspace, read->text, read->len, ret_key);
	return status;
}

enum status dispatch_key(struct peer *peer, enum method method, struct reader *params,
			 struct key *ret_key, struct wire_error *error)
{
	struct wire_key read;
	enum status status = key_read(params, peer->server->key_scratch, &read, error);

	return status == STATUS_OK ? find_key(peer, method, &read, ret_key, error) : status;
}

/* Milliseconds as µs; what is beyond all times is as good as never, and can be added to a moment.
 */
static int64_t us_of(int64_t ms)
{
	const int64_t never_us = INT64_MAX / 4;

	return ms < never_us / 1000 ? ms * 1000 : never_us;
}

void dispatch_query(const struct options *options, enum query_kind kind, struct query *query)
{
	query->kind = kind;
	query->has_max_stale = options->max_stale_ms != OPTION_UNSET;
	query->has_min_version = options->min_version != OPTION_UNSET;
	query->has_if_older = options->if_older_ms != OPTION_UNSET;
	query->max_stale_us = query->has_max_stale ? us_of(options->max_stale_ms) : 0;
	query->min_version = query->has_min_version ? options->min_version : 0;
	query->if_older_us = query->has_if_older ? us_of(options->if_older_ms) : 0;
	query->wait_us = options->wait_ms != OPTION_UNSET ? us_of(options->wait_ms)
							  : query->key.keyspace->policy->wait_us;
	query->trace = options->trace != OPTION_UNSET ? &options->traceparent : NULL;
}

static enum status read_key_and_options(struct ask *ask, struct key *ret_key,
					struct options *ret_options, struct wire_error *error)
{
	enum status status = dispatch_key(ask->peer, ask->method, &ask->params, ret_key, error);

	if (status != STATUS_OK)
		return status;
	return options_read(&ask->params, ask->method, ret_options, error);
}

static enum status serve_query(struct ask *ask, enum query_kind kind, struct wire_error *error)
{
	struct query query;
	struct options options;
	enum status status = read_key_and_options(ask, &query.key, &options, error);

	if (status != STATUS_OK)
		return status;
	tracing_begin(ask->peer->server, &options);
	dispatch_query(&options, kind, &query);
	call_ask(ask->peer, ask->id, &query);
	return STATUS_OK;
}

static enum status serve_get(struct ask *ask, struct wire_error *error)
{
	return serve_query(ask, QUERY_GET, error);
}

static enum status serve_refresh(struct ask *ask, struct wire_error *error)
{
	return serve_query(ask, QUERY_REFRESH, error);
}

static enum status serve_mget(struct ask *ask, struct wire_error *error)
{
	struct options options;
	struct wire_span keys = { 0 }, key;
	enum status status;
	uint32_t count;

	if (!reader_array(&ask->params, &count))
		return wire_refuse(error, STATUS_BAD_REQUEST, "the keys of mget are no array");
	if (count > MGET_KEYS_MAX)
		return wire_refuse(error, STATUS_TOO_LARGE, "mget takes at most %d keys",
				   MGET_KEYS_MAX);
	keys.data = (const char *)ask->params.at;
	for (uint32_t i = 0; i < count; i++) {
		if (!reader_skip(&ask->params, &key))
			return wire_refuse(error, STATUS_BAD_REQUEST, "the keys are not whole");
		keys.len += key.len;
	}
	status = options_read(&ask->params, ask->method, &options, error);
	if (status != STATUS_OK)
		return status;
	tracing_begin(ask->peer->server, &options);
	mget_ask(ask->peer, ask->id, count, keys, &options);
	return STATUS_OK;
}

static enum status serve_invalidate(struct ask *ask, struct wire_error *error)
{
	struct options options;
	struct mp_value first;
	enum status status;
	struct key key;

	if (reader_peek(&ask->params, &first) && first.type == MP_MAP)
		return invalidate_keyspace(ask->peer, ask->id, &ask->params, error);
	status = read_key_and_options(ask, &key, &options, error);
	if (status == STATUS_OK)
		keyop_invalidate(ask->peer, ask->id, &key, options.hard == 1);
	return status;
}

static enum status serve_inspect(struct ask *ask, struct wire_error *error)
{
	struct options options;
	struct key key;
	enum status status = read_key_and_options(ask, &key, &options, error);

	if (status == STATUS_OK)
		keyop_inspect(ask->peer, ask->id, &key);
	return status;
}

static enum status serve_trace(struct ask *ask, struct wire_error *error)
{
	struct options options;
	struct key key;
	enum status status = read_key_and_options(ask, &key, &options, error);

	if (status == STATUS_OK)
		status = follow_reply(ask->peer, ask->id, &key, error);
	return status;
}

/* The methods that take nothing and know the answer. */
static enum status serve_about(struct ask *ask, struct wire_error *error,
			       void (*about)(struct server *server, struct wire_buf *b))
{
	struct options options;
	enum status status = options_read(&ask->params, ask->method, &options, error);
	struct reply reply;

	if (status != STATUS_OK)
		return status;
	reply = reply_begin(ask->peer, ask->id);
	about(ask->peer->server, &reply.out->bytes);
	reply_end(&reply);
	return STATUS_OK;
}

static void about_ping(struct server *server, struct wire_buf *b)
{
	(void)server;
	wire_buf_str(b, "pong");
}

static enum status serve_ping(struct ask *ask, struct wire_error *error)
{
	return serve_about(ask, error, about_ping);
}

static enum status serve_hello(struct ask *ask, struct wire_error *error)
{
	return serve_about(ask, error, about_hello);
}

static enum status serve_stats(struct ask *ask, struct wire_error *error)
{
	struct options options;
	struct wire_span name;
	struct keyspace *keyspace;
	enum status status;
	struct reply reply;

	if (!reader_text(&ask->params, &name))
		return serve_about(ask, error, about_stats);
	status = dispatch_keyspace(ask->peer, ask->method, name, &keyspace, error);
	if (status == STATUS_OK)
		status = options_read(&ask->params, ask->method, &options, error);
	if (status != STATUS_OK)
		return status;
	reply = reply_begin(ask->peer, ask->id);
	accounts_put(&reply.out->bytes, keyspace);
	reply_end(&reply);
	return STATUS_OK;
}

static enum status serve_keyspaces(struct ask *ask, struct wire_error *error)
{
	return serve_about(ask, error, about_keyspaces);
}

static enum status serve_top(struct ask *ask, struct wire_error *error)
{
	struct options options;
	uint32_t keys = TOP_KEYS_USUAL;
	enum status status;

	if (!reader_at_end(&ask->params) && !reader_u32(&ask->params, &keys))
		return wire_refuse(error, STATUS_BAD_REQUEST, "top's count is no integer");
	if (keys < 1 || keys > TOP_KEYS_MAX)
		return wire_refuse(error, STATUS_BAD_REQUEST, "top tells 1 to %d keys, not %u",
				   TOP_KEYS_MAX, (unsigned)keys);
	status = options_read(&ask->params, ask->method, &options, error);
	if (status == STATUS_OK)
		status = top_reply(ask->peer, ask->id, keys);
	if (status == STATUS_OVERLOADED)
		return wire_refuse(error, status, "there is no memory for that");
	return status;
}

static enum status serve_reload(struct ask *ask, struct wire_error *error)
{
	struct options options;
	enum status status = options_read(&ask->params, ask->method, &options, error);

	if (status == STATUS_OK)
		keyop_reload(ask->peer, ask->id);
	return status;
}

static enum status serve_log(struct ask *ask, struct wire_error *error)
{
	enum status status = logging_change(ask->peer, &ask->params, error);
	struct reply reply;

	if (status != STATUS_OK)
		return status;
	reply = reply_begin(ask->peer, ask->id);
	logging_put(&reply.out->bytes, ask->peer);
	reply_end(&reply);
	return STATUS_OK;
}

static enum status serve_doctor(struct ask *ask, struct wire_error *error)
{
	struct options options;
	enum status status = options_read(&ask->params, ask->method, &options, error);

	if (status == STATUS_OK)
		keyop_examine(ask->peer, ask->id);
	return status;
}

static enum status serve_warm(struct ask *ask, struct wire_error *error)
{
	struct server_warm warm = { 0 };
	enum status status = warm_read(ask->peer, &ask->params, &warm, error);

	if (status == STATUS_OK)
		keyop_warm(ask->peer, ask->id, &warm);
	else
		mem_free(warm.keys);
	return status;
}

/* The name of a job; the empty one where it may be left out, and is. */
static enum status read_job(struct ask *ask, bool needed, struct server_warm *warm,
			    struct wire_error *error)
{
	struct wire_span name = { .data = "" };
	struct options options;

	if (!reader_at_end(&ask->params) && !reader_text(&ask->params, &name) && needed)
		return wire_refuse(error, STATUS_BAD_REQUEST, "the job's name is no string");
	if (needed && name.len == 0)
		return wire_refuse(error, STATUS_BAD_REQUEST, "the job's name is missing");
	if (name.len >= sizeof(warm->name))
		return wire_refuse(error, STATUS_BAD_REQUEST, "there is no such job");
	memcpy(warm->name, name.data, name.len);
	return options_read(&ask->params, ask->method, &options, error);
}

static enum status serve_warm_status(struct ask *ask, struct wire_error *error)
{
	struct server_warm warm = { .what = WARM_STATUS };
	enum status status = read_job(ask, false, &warm, error);
	struct reply reply;

	if (status != STATUS_OK)
		return status;
	if (warm.name[0]) {
		keyop_warm(ask->peer, ask->id, &warm);
		return STATUS_OK;
	}
	reply = reply_begin(ask->peer, ask->id);
	warm_put_all(&reply.out->bytes, ask->peer->server);
	reply_end(&reply);
	return STATUS_OK;
}

static enum status serve_warm_cancel(struct ask *ask, struct wire_error *error)
{
	struct server_warm warm = { .what = WARM_CANCEL };
	enum status status = read_job(ask, true, &warm, error);

	if (status == STATUS_OK)
		keyop_warm(ask->peer, ask->id, &warm);
	return status;
}

static const handler handlers[] = {
#define X(NAME, name, params, text) [METHOD_##NAME] = serve_##name,
	METHOD_MAP(X)
#undef X
};

static enum status refuse_method(struct wire_span name, struct wire_error *error)
{
	char quoted[WIRE_QUOTED_MAX];

	return wire_refuse(error, STATUS_UNKNOWN_METHOD, "there is no method \"%s\"",
			   wire_quote(name.data, name.len, quoted));
}

void dispatch(struct peer *peer, const struct rpc_message *message)
{
	const int method = method_from_name(message->method.data, message->method.len);
	struct ask ask = { .peer = peer, .id = message->id };
	struct wire_error error;
	enum status status;

	PROBE3(request, message->method.data, message->method.len, message->id);
	if (method < 0) {
		status = refuse_method(message->method, &error);
	} else {
		ask.method = (enum method)method;
		reader_init(&ask.params, message->params.data, message->params.len);
		status = check_access(peer, ask.method, NULL, &error);
		if (status == STATUS_OK)
			status = handlers[method](&ask, &error);
	}
	if (status != STATUS_OK)
		reply_error(peer, message->id, status, error.text);
}

/* The long way: a key that is new or not canonical, an entry that is not plainly fresh. */
static void serve_plain_get(struct peer *peer, const struct plain_get *get)
{
	struct server *server = peer->server;
	struct query query = { .kind = QUERY_GET };
	struct wire_error error;
	struct wire_key read;
	enum status status =
		key_parse(get->key.data, get->key.len, server->key_scratch, &read, &error);

	if (status == STATUS_OK)
		status = find_key(peer, METHOD_GET, &read, &query.key, &error);
	if (status != STATUS_OK) {
		reply_error(peer, get->id, status, error.text);
		return;
	}
	query.wait_us = query.key.keyspace->policy->wait_us;
	call_ask(peer, get->id, &query);
}

uint32_t dispatch_plain_gets(struct peer *peer, const struct plain_get *gets, uint32_t count)
{
	struct engine *engine = peer->server->pump->engine;
	const int64_t now_us = peer->server->now_us;
	uint64_t hashes[PLAIN_GETS_MAX];
	uint32_t i;

	CHECK(count > 0 && count <= PLAIN_GETS_MAX);
	for (i = 0; i < count; i++)
		hashes[i] = engine_hash(engine, gets[i].key.data, gets[i].key.len);
	near_prefetch(&engine->near, hashes, count);
	for (i = 0; i < count && !peer->broken && peer_has_room(peer); i++) {
		const struct entry *entry =
			engine_hit(engine, hashes[i], gets[i].key.data, gets[i].key.len, now_us);

		if (entry)
			reply_fresh(peer, gets[i].id, entry, now_us);
		else
			serve_plain_get(peer, &gets[i]);
	}
	PROBE1(plain_gets, i);
	peer->server->counters.requests_total += i;
	return i;
}
