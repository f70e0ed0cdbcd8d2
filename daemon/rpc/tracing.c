#include "rpc/tracing.h"

#include <string.h>

#include "rpc/server.h"

void tracing_begin(struct server *server, struct options *options)
{
	if (options->trace != OPTION_UNSET && server->about.span_begin)
		server->about.span_begin(server->about.impl, &options->traceparent);
}

static void end(struct server *server, const struct server_span *span)
{
	server->about.span_end(server->about.impl, span);
}

void tracing_end(struct server *server, const struct query *query, int64_t began_us,
		 const struct answer *answer)
{
	const bool is_get = query->kind == QUERY_GET;

	if (!query->trace || !trace_has_own(query->trace))
		return;
	end(server, &(struct server_span){ .trace = query->trace,
					   .method = is_get ? "get" : "refresh",
					   .is_get = is_get,
					   .key = &query->key,
					   .keys = 1,
					   .answer = answer,
					   .began_us = began_us });
}

void tracing_end_refused(struct server *server, const struct query *query, enum status status,
			 const char *text)
{
	if (!query->trace)
		return;
	tracing_end(server, query, server->now_us,
		    &(struct answer){
			    .status = status, .text = text, .text_len = (uint32_t)strlen(text) });
}

void tracing_end_mget(struct server *server, const struct options *options, uint32_t keys,
		      int64_t began_us)
{
	if (options->trace == OPTION_UNSET || !trace_has_own(&options->traceparent))
		return;
	end(server, &(struct server_span){ .trace = &options->traceparent,
					   .method = "mget",
					   .keys = keys,
					   .began_us = began_us });
}
