/* The result of `inspect`: all that is known of a key, for people. */
#pragma once

#include "core/pump.h"
#include "proto/wire_buf.h"

/* Writes {key, near, store, claim, flight}, each nil where there is none. */
void inspect_put(struct wire_buf *b, const struct inspection *inspection);
