/* The method `log`: what is logged and how much of it, until the next reload or restart. */
#pragma once

#include "proto/reader.h"
#include "proto/wire.h"
#include "proto/wire_buf.h"

struct peer;

/* Takes {level, keyspace, rate}, each at most once, and carries it out, whole or not at all. With
 * nothing in it, or without it, nothing changes. What concerns all keyspaces takes the right to
 * call `log` on each of them. */
enum status logging_change(struct peer *peer, struct reader *params, struct wire_error *error)
	__attribute__((warn_unused_result));

/* What is in force, {level, rate, keyspaces}, of the keyspaces on which the client may call it. */
void logging_put(struct wire_buf *b, const struct peer *peer);
