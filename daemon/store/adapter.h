/* hiredis on libuv: one connection's socket, watched for what hiredis waits for.
 *
 * Unlike the adapter that comes with hiredis, this one passes poll errors on: then hiredis tries to
 * read or write, and reports what the socket says. The adapter lives in its owner, from attach
 * until `closed`, which fires once, some time after `detached`. On the loop's thread.
 */
#pragma once

#include <hiredis/async.h>
#include <stdbool.h>
#include <uv.h>

struct adapter;

struct adapter_events {
	/* hiredis lets go: all callbacks of the context have been called, it is gone on return. */
	void (*detached)(struct adapter *adapter, const redisAsyncContext *context);
	void (*closed)(struct adapter *adapter);
};

struct adapter {
	uv_poll_t poll;
	redisAsyncContext *context; /* borrowed; NULL once hiredis let go */
	int watched;                /* of uv_poll's events: what hiredis waits for */
	const struct adapter_events *events;
};

/* Attaches a new context, before its callbacks are set. 0, or a negative errno: then nothing is
   open, and no event will fire. */
int adapter_attach(struct adapter *adapter, uv_loop_t *loop, redisAsyncContext *context,
		   const struct adapter_events *events) __attribute__((warn_unused_result));
