/* The answer to `top`: what is asked for most now, and where it would cost the origin most. */
#pragma once

#include <stdint.h>

#include "proto/status.h"

struct peer;

enum { TOP_KEYS_USUAL = 20, TOP_KEYS_MAX = 1000 };

/* Replies with at most `keys` keys in each of its lists, and nothing of keyspaces that the client
 * may not ask about. STATUS_OVERLOADED, with no reply, where memory is missing. */
enum status top_reply(struct peer *peer, uint32_t id, uint32_t keys)
	__attribute__((warn_unused_result));
