/* PQcancel off the loop: it blocks without limit where the postmaster is stopped.
 *
 * Each runs in a detached thread of its own rather than in libuv's pool: a call that never returns
 * must neither hold up the four threads there nor keep the loop from closing. A cancel is told by
 * an async handle of its owner, or abandoned, after which the thread cleans up alone, whenever.
 *
 * The owner must not use the connection for another statement before the cancel is told: a late one
 * would hit that.
 */
#pragma once

#include <libpq-fe.h>
#include <uv.h>

enum { CANCEL_THREADS_MAX = 32 }; /* in the process; stopped servers can pile up no more */

struct cancel;

/* Asks the server to cancel what the connection runs; `tell`, which must stay open until the cancel
   is abandoned, is sent when the call has returned. 0, or -1: no thread or memory for it, or
   CANCEL_THREADS_MAX are under way; nothing was sent. On the loop's thread. */
int cancel_start(PGconn *pg, uv_async_t *tell, struct cancel **ret_cancel)
	__attribute__((warn_unused_result));

/* Whether the call has returned. */
int cancel_is_told(struct cancel *cancel);

/* Gives the cancel up, told or not. NULL is fine. After it, `tell` is not touched any more. */
void cancel_abandon(struct cancel *cancel);
