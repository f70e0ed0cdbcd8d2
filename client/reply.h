/* What a call is answered with: a segar_reply and all that it points to, in one owner. */
#pragma once

#include "client/call.h"
#include "client/link.h"
#include "client/segar.h"
#include "proto/rpc.h"

/* A reply that is an error of the library's own. Never NULL. */
__attribute__((format(printf, 3, 4))) segar_reply *reply_error(uint32_t id, int status,
							       const char *format, ...);

/* The reply to `call` from its response, whose spans lie in `message`, which it takes. Never NULL;
 * what isn't as it must be is SEGAR_PROTOCOL. */
segar_reply *reply_create(const struct call *call, const struct rpc_message *response,
			  struct link_message message);
