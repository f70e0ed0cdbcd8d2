#include "rpc/logging.h"

#include "base/log.h"
#include "core/pump.h"
#include "rpc/dispatch.h"
#include "rpc/peer.h"
#include "rpc/server.h"

enum { LEVEL_INHERIT = -1, LEVEL_UNSAID = -2 };

/* What is asked for. */
struct change {
	int level;                 /* enum log_level, or one of the above */
	uint32_t rate;             /* 0: unsaid */
	struct wire_span keyspace; /* data NULL: unsaid */
};

static enum status read_level(struct reader *params, struct change *change,
			      struct wire_error *error)
{
	struct wire_span name;
	char quoted[WIRE_QUOTED_MAX];

	if (!reader_text(params, &name))
		return wire_refuse(error, STATUS_BAD_REQUEST, "level must be a string");
	change->level = wire_span_is(name, "inherit") ? LEVEL_INHERIT
						      : log_level_from_name(name.data, name.len);
	if (change->level >= 0 || wire_span_is(name, "inherit"))
		return STATUS_OK;
	return wire_refuse(error, STATUS_BAD_REQUEST,
			   "level is \"%s\"; it must be error, warning, info or debug, or, of a "
			   "keyspace, inherit",
			   wire_quote(name.data, name.len, quoted));
}

/* One pair; each may be there once. */
static enum status read_pair(struct reader *params, struct change *change, struct wire_error *error)
{
	struct wire_span name;
	char quoted[WIRE_QUOTED_MAX];

	if (!reader_text(params, &name))
		return wire_refuse(error, STATUS_BAD_REQUEST, "the name of an option is no string");
	if (wire_span_is(name, "level") && change->level == LEVEL_UNSAID)
		return read_level(params, change, error);
	if (wire_span_is(name, "keyspace") && !change->keyspace.data) {
		if (!reader_text(params, &change->keyspace))
			return wire_refuse(error, STATUS_BAD_REQUEST, "keyspace must be a string");
		return STATUS_OK;
	}
	if (wire_span_is(name, "rate") && change->rate == 0) {
		if (!reader_u32(params, &change->rate) || change->rate < 1 ||
		    change->rate > LOG_RATE_MAX)
			return wire_refuse(error, STATUS_BAD_REQUEST,
					   "rate must be an integer from 1 to %d", LOG_RATE_MAX);
		return STATUS_OK;
	}
	return wire_refuse(error, STATUS_BAD_REQUEST,
			   "log takes level, keyspace and rate, once each, but got \"%s\"",
			   wire_quote(name.data, name.len, quoted));
}

static enum status read_change(struct reader *params, struct change *ret_change,
			       struct wire_error *error)
{
	struct mp_value head;
	enum status status;

	*ret_change = (struct change){ .level = LEVEL_UNSAID };
	if (!reader_at_end(params) &&
	    (!reader_next(params, &head) || (head.type != MP_MAP && head.type != MP_NIL)))
		return wire_refuse(error, STATUS_BAD_REQUEST, "log takes a map");
	/* Ends with the bytes or at the first repetition, whatever the count claims. */
	for (uint32_t i = 0; !reader_at_end(params) && i < mp_inside_count(&head) / 2; i++) {
		status = read_pair(params, ret_change, error);
		if (status != STATUS_OK)
			return status;
	}
	if (!reader_at_end(params))
		return wire_refuse(error, STATUS_BAD_REQUEST, "log has too many params");
	if (ret_change->keyspace.data && ret_change->level == LEVEL_UNSAID)
		return wire_refuse(error, STATUS_BAD_REQUEST, "level is missing, for the keyspace");
	if (ret_change->level == LEVEL_INHERIT && !ret_change->keyspace.data)
		return wire_refuse(error, STATUS_BAD_REQUEST,
				   "level can only be inherit of a keyspace, which is missing");
	return STATUS_OK;
}

/* The keyspace that is meant, NULL for all, if the client may. */
static enum status check_access(struct peer *peer, const struct change *change,
				struct keyspace **ret_keyspace, struct wire_error *error)
{
	const struct roster *roster = &peer->server->pump->engine->keyspaces;
	enum status status = STATUS_OK;
	struct keyspace *each;

	*ret_keyspace = NULL;
	if (change->keyspace.data)
		status = dispatch_keyspace(peer, METHOD_LOG, change->keyspace, ret_keyspace, error);
	if (change->rate == 0 && (change->keyspace.data || change->level == LEVEL_UNSAID))
		return status;
	for (uint32_t at = 0; status == STATUS_OK && (each = roster_next(roster, &at));) {
		const char *name = each->policy->name;

		status = dispatch_keyspace(peer, METHOD_LOG,
					   (struct wire_span){ name, strlen(name) }, &each, error);
	}
	return status;
}

static const char *level_text(int level)
{
	if (level == LEVEL_UNSAID)
		return NULL;
	return level == LEVEL_INHERIT ? "inherit" : log_level_name((enum log_level)level);
}

enum status logging_change(struct peer *peer, struct reader *params, struct wire_error *error)
{
	struct change change;
	struct keyspace *keyspace;
	enum status status = read_change(params, &change, error);

	if (status == STATUS_OK)
		status = check_access(peer, &change, &keyspace, error);
	if (status != STATUS_OK || (change.level == LEVEL_UNSAID && change.rate == 0))
		return status;
	if (change.rate != 0)
		log_set_rate(change.rate);
	if (keyspace)
		keyspace->log_level = (unsigned)(change.level + 1);
	else if (change.level != LEVEL_UNSAID)
		log_set_level((enum log_level)change.level);
	/* Whatever the level is now. */
	LOG_IF(true, LOG_LEVEL_WARNING, "log.set", LOG_TEXT("to", level_text(change.level)),
	       LOG_TEXT("keyspace", keyspace ? keyspace->policy->name : NULL),
	       LOG_UINT("rate", log_rate()), LOG_INT("peer_pid", peer->access.pid),
	       LOG_INT("peer_uid", (int64_t)peer->access.uid));
	return STATUS_OK;
}

/* Those with a level of their own that the client may see. */
static uint32_t put_keyspaces(struct wire_buf *b, const struct peer *peer, bool only_count)
{
	const struct server *server = peer->server;
	const struct keyspace *keyspace;
	uint32_t count = 0;

	for (uint32_t at = 0; (keyspace = roster_next(&server->pump->engine->keyspaces, &at));) {
		if (keyspace->log_level == 0 || !access_allows(&peer->access, &server->access,
							       METHOD_LOG, keyspace->policy->name))
			continue;
		count++;
		if (only_count)
			continue;
		wire_buf_str(b, keyspace->policy->name);
		wire_buf_str(b, log_level_name((enum log_level)(keyspace->log_level - 1)));
	}
	return count;
}

void logging_put(struct wire_buf *b, const struct peer *peer)
{
	wire_buf_map(b, 3);
	wire_buf_str(b, "level");
	wire_buf_str(b, log_level_name(log_level()));
	wire_buf_str(b, "rate");
	wire_buf_int(b, log_rate());
	wire_buf_str(b, "keyspaces");
	wire_buf_map(b, put_keyspaces(b, peer, true));
	put_keyspaces(b, peer, false);
}
