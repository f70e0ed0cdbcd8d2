/* Spans of traced requests that are sampled, and of the builds that these cause, as OTLP/JSON: one
 * ExportTraceServiceRequest a line (OpenTelemetry's file exporter), into trace.file.
 *
 *   get, mget, refresh   from its arrival to its answer; its parent is the asker's span
 *     build              from the flight's begin to its end; its parent is the request's span
 *       lookup           the look at the store
 *       queue            waits for room
 *       lease, permit    waits for the store, and for the permit's moment
 *       query            PostgreSQL
 *       save             the store takes the value, or the lease back
 *
 * Times are the host's, as those of all else that runs on it: the fleet's clock, by which they are
 * measured, may be apart from that.
 */
#pragma once

#include <stdint.h>

#include "base/policy.h"
#include "base/rng.h"
#include "core/pump.h"
#include "ops/span_file.h"
#include "rpc/server.h"

struct spans {
	struct span_file file;
	struct rng rng; /* of span ids */
	bool hides;     /* keys, and what PostgreSQL says of them: log.keys */
};

/* Writes where `config` says, which is borrowed until it is closed; or nowhere. -1: no memory. */
int spans_open(struct spans *spans, uv_loop_t *loop, const struct config *config, uint64_t seed)
	__attribute__((warn_unused_result));

/* A reload: what may be told of keys. */
void spans_take(struct spans *spans, const struct config *config);

/* The request's own span, if it is to have one: an id for it. */
void spans_begin(struct spans *spans, struct trace *trace);

/* `now_us`: of the fleet clock. */
void spans_end_request(struct spans *spans, const struct server_span *span, int64_t now_us);
void spans_end_build(struct spans *spans, const struct regeneration *regeneration, int64_t now_us);

void spans_close(struct spans *spans);
