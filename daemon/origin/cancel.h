/* PQcancel off the loop: it waits for the postmaster, without limit.
 *
 * The owner must use the connection for no other statement before the cancel is told: a late one
 * would hit that.
 */
#pragma once

#include <libpq-fe.h>
#include <uv.h>

#include "origin/aside.h"

enum { CANCELS_MAX = 64 }; /* under way in the process */

/* Asks the server to stop what the connection runs. Told when the request was delivered, or could
   not be; what became of it shows in the statement's answer. NULL: nothing was sent, see
   aside_start. */
struct aside *cancel_start(PGconn *pg, uv_async_t *tell) __attribute__((warn_unused_result));
