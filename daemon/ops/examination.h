/* The doctor (doctor/doctor.h) in a thread of its own, for clients that ask for it.
 *
 * One at a time: who asks meanwhile waits for the next, whose findings are all theirs. On the
 * loop's thread.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/list.h"
#include "origin/aside.h"
#include "rpc/server.h"

struct examination {
	const char *config_path; /* borrowed */
	uv_async_t told;         /* the thread is done */
	uv_timer_t retry;        /* there was no thread: who asked is told so */
	struct aside *running;   /* owned; NULL: none */
	struct list asking;      /* of struct server_examination: for the one under way */
	struct list waiting;     /* of struct server_examination: for the one after it */
	bool closing;
};

void examination_init(struct examination *examination, uv_loop_t *loop, const char *config_path);
void examination_ask(struct examination *examination, struct server_examination *asker);

/* Who has asked is told that the daemon stops. Once; the handles are closed when the loop has
   turned. */
void examination_close(struct examination *examination);
