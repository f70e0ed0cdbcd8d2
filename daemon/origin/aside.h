/* A call that may block without limit, in a thread of its own.
 *
 * libpq has two: it resolves host names while it starts to connect, and PQcancel waits for the
 * postmaster. Neither may hold up the loop, nor libuv's four threads, nor the loop's end. So each
 * call is either told, through an async handle of its owner, or abandoned, and then cleans up
 * alone, whenever it returns.
 *
 *   aside_start ──> runs ──> told ────────> aside_free
 *                     └────> aside_free ──> … returns, and frees what it held
 */
#pragma once

#include <stdatomic.h>
#include <uv.h>

/* How many calls of a kind may be under way in the process, abandoned ones included. */
struct aside_quota {
	int max;
	atomic_int running;
};

/* `run` is called once, in the thread; `drop` frees `arg`, in whichever thread lets go last. */
struct aside_call {
	void (*run)(void *arg);
	void (*drop)(void *arg);
	struct aside_quota *quota; /* static */
};

struct aside;

/* Starts the call. It owns `arg` from now on, also where it fails. `tell`, which must stay open
   until aside_free, is sent when it has returned. NULL: no thread, no memory, or the quota is used
   up. The owner's thread is the loop's. */
struct aside *aside_start(const struct aside_call *call, void *arg, uv_async_t *tell)
	__attribute__((warn_unused_result));

/* The call's `arg`, if it has returned; else NULL. Valid until aside_free. */
void *aside_result(struct aside *aside);

/* Lets go, whether the call has returned or not; `tell` is not touched any more. NULL is fine. */
void aside_free(struct aside *aside);
