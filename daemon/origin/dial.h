/* Begins to connect off the loop: libpq resolves host names meanwhile, which may take as long as
 * the resolver likes. What follows (PQconnectPoll) does not block, but for the later hosts of a DSN
 * that names several.
 */
#pragma once

#include <libpq-fe.h>
#include <uv.h>

#include "origin/aside.h"

#define DIAL_NAME "segard" /* the application_name of our sessions */

enum { DIALS_MAX = 64 }; /* under way in the process, those that hang in the resolver included */

/* Begins a connection with our own parameters and those of `dsn`, which is copied. Told when libpq
   is under way or has failed. NULL: see aside_start. */
struct aside *dial_start(const char *dsn, uv_async_t *tell) __attribute__((warn_unused_result));

/* Takes the connection of a dial that has been told; the caller owns it. NULL: no memory, or not
   told yet. */
PGconn *dial_take(struct aside *dial);
