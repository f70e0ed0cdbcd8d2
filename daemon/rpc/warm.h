/* warm, warm_status and warm_cancel: their params and their results. */
#pragma once

#include "proto/reader.h"
#include "proto/wire.h"
#include "proto/wire_buf.h"
#include "rpc/server.h"

struct peer;

/* Reads {plan} or {keys}, and {rate}. `warm->keys` is the caller's to free, whatever comes of it.
 */
enum status warm_read(struct peer *peer, struct reader *params, struct server_warm *warm,
		      struct wire_error *error) __attribute__((warn_unused_result));

/* Writes what came of one, which went well. */
void warm_put(struct wire_buf *b, const struct server_warm *warm);

/* Writes how all jobs stand that are known to run, without their failures. */
void warm_put_all(struct wire_buf *b, struct server *server);
