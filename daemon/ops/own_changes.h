/* Changes of the origin's log where nothing is shared: this daemon is told, and keeps the position
 * as long as it runs. Its near cache begins empty, so that is enough.
 *
 * core/change.h for `store.url: none`. On the loop's thread.
 */
#pragma once

#include <uv.h>

#include "core/change.h"
#include "core/engine.h"
#include "core/store.h"
#include "store/memory.h"

struct own_changes {
	struct engine *engine;       /* borrowed, as the next */
	struct memory_store *memory; /* its leases and failures */
	struct store_listener listener;
	int64_t (*now_us)(void *arg);
	void *arg;
	uv_idle_t turn; /* runs while a call is under way */
	struct change_call *call;
	char position[POSITION_MAX];
};

/* The caller fills in what is borrowed before. */
void own_changes_open(struct own_changes *own, uv_loop_t *loop);
struct change_store own_changes_iface(struct own_changes *own);

/* No call may be under way. */
void own_changes_close(struct own_changes *own);
