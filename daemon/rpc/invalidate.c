#include "rpc/invalidate.h"

#include "core/pump.h"
#include "rpc/dispatch.h"
#include "rpc/keyop.h"
#include "rpc/peer.h"
#include "rpc/server.h"

/* One pair of {keyspace, spread_ms}; each may be there once. */
static enum status read_spread(struct reader *params, struct wire_span *name, int64_t *spread_ms,
			       struct wire_error *error)
{
	char quoted[WIRE_QUOTED_MAX];
	struct mp_value value;
	struct wire_span option;

	if (!reader_text(params, &option))
		return wire_refuse(error, STATUS_BAD_REQUEST, "the name of an option is no string");
	if (wire_span_is(option, "keyspace") && !name->data) {
		if (!reader_text(params, name))
			return wire_refuse(error, STATUS_BAD_REQUEST, "keyspace must be a string");
		return STATUS_OK;
	}
	if (wire_span_is(option, "spread_ms") && *spread_ms == OPTION_UNSET) {
		if (!reader_next(params, &value) || value.type != MP_INT || value.number < 0 ||
		    value.number > SPREAD_MS_MAX)
			return wire_refuse(error, STATUS_BAD_REQUEST,
					   "spread_ms must be an integer from 0 to %d",
					   SPREAD_MS_MAX);
		*spread_ms = value.number;
		return STATUS_OK;
	}
	return wire_refuse(
		error, STATUS_BAD_REQUEST,
		"invalidate of a keyspace takes keyspace and spread_ms, once each, but got \"%s\"",
		wire_quote(option.data, option.len, quoted));
}

enum status invalidate_keyspace(struct peer *peer, uint32_t id, struct reader *params,
				struct wire_error *error)
{
	struct wire_span name = { 0 };
	int64_t spread_ms = OPTION_UNSET;
	struct keyspace *keyspace;
	enum status status;
	struct key key;
	uint32_t pairs;

	if (!reader_map(params, &pairs))
		return wire_refuse(error, STATUS_BAD_REQUEST, "the params are not whole");
	/* Ends with the bytes or at the first repetition, whatever the count claims. */
	for (uint32_t i = 0; i < pairs; i++) {
		status = read_spread(params, &name, &spread_ms, error);
		if (status != STATUS_OK)
			return status;
	}
	if (!reader_at_end(params))
		return wire_refuse(error, STATUS_BAD_REQUEST, "invalidate has too many params");
	if (!name.data)
		return wire_refuse(error, STATUS_BAD_REQUEST, "keyspace is missing");
	status = dispatch_keyspace(peer, METHOD_INVALIDATE, name, &keyspace, error);
	if (status != STATUS_OK)
		return status;
	engine_key(peer->server->pump->engine, keyspace, keyspace->policy->name, name.len, &key);
	keyop_invalidate_keyspace(peer, id, &key, spread_ms == OPTION_UNSET ? 0 : spread_ms * 1000);
	return STATUS_OK;
}
