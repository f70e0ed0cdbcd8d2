/* A keyspace's account as `stats` of it tells it: core/account.h, in words. */
#pragma once

#include "core/keyspace.h"
#include "proto/wire_buf.h"

/* Writes one map. */
void accounts_put(struct wire_buf *b, const struct keyspace *keyspace);
