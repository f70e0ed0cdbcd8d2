/* The reload: the configuration file is read again, checked whole, and taken or refused whole.
 *
 *   IDLE ── reload_ask ──> READING ── read and checked ──> taken, or refused ──> IDLE
 *                             └─── asked meanwhile: READING once more after that
 *
 * The file is read in a thread of its own, since a disk, a network file system or a directory of
 * groups may not answer: after READ_MS it is given up. What it says replaces the configuration in
 * force only if it is without errors and all that has changed can change in a running daemon; else
 * nothing changes, and who asked is told what is wrong.
 *
 * Owned by the daemon, on the loop's thread.
 */
#pragma once

#include <uv.h>

#include "base/config.h"
#include "base/limits.h"
#include "base/list.h"
#include "origin/aside.h"
#include "rpc/server.h"

/* What is wrong with a configuration beyond what its file can say, or NULL; static. Connects to
   nothing; any thread, one at a time. */
typedef const char *reload_check_fn(const struct config *config);

struct reload_host {
	void *impl;
	reload_check_fn *check;

	/* The configuration in force; NULL: the daemon stops. */
	const struct config *(*current)(void *impl);

	/* Makes `next` the one in force, and owns it from now on. NULL; or why that cannot be: then
	   nothing has changed, and `next` stays the caller's. */
	const char *(*take)(void *impl, struct config *next, struct server_reload *ret_counts);

	/* It begins, and has ended: `why` NULL: taken. */
	void (*begins)(void *impl);
	void (*ended)(void *impl, const char *why);
};

struct reload {
	struct reload_host host;
	uv_async_t told;       /* the thread has read the file */
	uv_timer_t patience;   /* it takes too long */
	struct aside *reading; /* owned; NULL: IDLE */
	struct list asking;    /* of struct server_reload: for the reading under way */
	struct list waiting;   /* of struct server_reload: for the one after it */
	bool again;            /* by signal */
	bool closing;
	char why[ERROR_TEXT_MAX + 1]; /* of the last that was refused */
};

void reload_init(struct reload *reload, uv_loop_t *loop, const struct reload_host *host);

/* Reads the configuration anew. `asker` (may be NULL) is told what came of it, later. */
void reload_ask(struct reload *reload, struct server_reload *asker);

/* Who asks or has asked is told that the daemon stops; no reload begins any more. Once; the handles
   are closed when the loop has turned. */
void reload_close(struct reload *reload);
