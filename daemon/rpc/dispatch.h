/* From a message to its method: params are read and checked here, and handed on as plain data. */
#pragma once

#include <stdint.h>

#include "core/request.h"
#include "proto/method.h"
#include "proto/rpc.h"

struct peer;
struct server;

/* Serves a request, and replies, now or later. The message is borrowed for the call. */
void dispatch(struct peer *peer, const struct rpc_message *message);

/* A `get` without options, whose key has not been checked. */
struct plain_get {
	uint32_t id;
	struct wire_span key; /* borrowed for the call */
	size_t end;           /* where it ends in what was read */
};
enum { PLAIN_GETS_MAX = 16 }; /* served together */

/* The same for plain gets: the hot path. Returns how many it served: less than `count` if there is
 * no room for more replies, or the connection broke. */
uint32_t dispatch_plain_gets(struct peer *peer, const struct plain_get *gets, uint32_t count);

/* Finds the keyspace of that name, if the client may call the method on it. */
enum status dispatch_keyspace(struct peer *peer, enum method method, struct wire_span name,
			      struct keyspace **ret_keyspace, struct wire_error *error)
	__attribute__((warn_unused_result));

/* Reads a key and finds its keyspace. The key's bytes are borrowed from the params or from the
 * server's scratch: until the next call. */
enum status dispatch_key(struct peer *peer, enum method method, struct reader *params,
			 struct key *ret_key, struct wire_error *error)
	__attribute__((warn_unused_result));

/* Completes a query whose key is set by the request's options, which it borrows as it does the
 * key's bytes, and its keyspace's policy. */
void dispatch_query(const struct options *options, enum query_kind kind, struct query *query);
