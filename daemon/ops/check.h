/* What can be said of a configuration without serving by it: segard --check, --check --origin, and
 * before a reload.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/config.h"
#include "origin/pool.h"

/* What is wrong with the configuration beyond what its file can say (a password file, the DSN), or
   NULL. Connects to nothing. */
const char *check_config(const struct config *config);

/* Connects to the origin and prepares every keyspace's query; prints a line for each on stdout.
   EXIT_OK if all are fine. */
int check_origin(const struct config *config);

/* A pool as the configuration says. False: it is logged why not. */
bool check_open_pool(uv_loop_t *loop, const struct config *config, struct pool **ret_pool)
	__attribute__((warn_unused_result));
