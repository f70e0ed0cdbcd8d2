/* The spans of requests that have a trace: begun where a request is read, told where it is answered
 * (server_about). One whose client is gone before that has none. Without a trace, or where nobody
 * cares for spans, each of these is one comparison.
 */
#pragma once

#include <stdint.h>

#include "core/request.h"
#include "proto/method.h"

struct server;

/* A request with options has been read: it is to have a span of its own, if its trace asks for it.
 */
void tracing_begin(struct server *server, struct options *options);

/* The answer to a get or a refresh, or why there is none. */
void tracing_end(struct server *server, const struct query *query, int64_t began_us,
		 const struct answer *answer);
void tracing_end_refused(struct server *server, const struct query *query, enum status status,
			 const char *text);

/* An mget of `keys` keys is answered. */
void tracing_end_mget(struct server *server, const struct options *options, uint32_t keys,
		      int64_t began_us);
