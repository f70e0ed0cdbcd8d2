/* Every ceiling of the daemon in one place. The configuration may ask for less, never for more. */
#pragma once

#include <stdint.h>

#include "proto/wire.h"

enum {
	KEYSPACES_MAX = 1024,
	ACCESS_RULES_MAX = 64,
	WARM_PLANS_MAX = 64,
	WARM_RETRIES_MAX = 100,
	WARM_KEYS_MAX = 10000,                 /* of one request to warm */
	KEYSPACE_NAME_MAX = WIRE_KEYSPACE_MAX, /* bytes */
	KEY_ARGS_MAX = WIRE_KEY_ARGS_MAX,      /* parameters of a keyspace's query */
	KEY_BYTES_MAX = WIRE_KEY_BYTES_MAX,    /* decoded arguments of one key, in all */
	VALUE_BYTES_MAX = WIRE_VALUE_MAX,
	FRAME_BYTES_MAX = WIRE_REQUEST_MAX, /* one request */
	FRAME_DEPTH_MAX = WIRE_DEPTH_MAX,   /* nesting of one message */
	MGET_KEYS_MAX = WIRE_MGET_KEYS_MAX,
	ERROR_TEXT_MAX = WIRE_ERROR_TEXT_MAX, /* bytes of an error that is kept or sent */
	SOCKET_PATH_MAX = 107,                /* sun_path less its NUL */
	WAIT_MS_MAX = WIRE_WAIT_MS_MAX,
	LIFE_DAYS_MAX = 3650,           /* of a fresh or stale time */
	CONFIG_BYTES_MAX = 1024 * 1024, /* the configuration file */
	CONFIG_DEPTH_MAX = 8,           /* its nesting */
	QUERY_BYTES_MAX = 64 * 1024,    /* of one keyspace */

	CONNECTIONS_CEILING = 100000,
	REQUESTS_CEILING = 1000000,
	QUEUE_CEILING = 1000000,
	CONCURRENCY_CEILING = 1000,
	FLEET_CEILING = 10000,
	HOT_KEYS_CEILING = 10000,
	WAKE_BATCH = 64,     /* waiters answered in one turn of the loop */
	BATCH_KEYS_MAX = 64, /* built by one statement: each takes an advisory lock */
	BATCH_BYTES_MAX = 32 * 1024 * 1024, /* of their values; those beyond are built alone */
	KEYS_ALL_MAX =
		64 * 1024 * 1024, /* bytes of keys that requests wait for; flights' as well */
};

#define LIFE_MS_MAX (INT64_C(86400000) * LIFE_DAYS_MAX)
