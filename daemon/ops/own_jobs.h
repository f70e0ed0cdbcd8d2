/* Warm-ups' jobs where nothing is shared: core/job.h for `store.url: none`, in this process' memory
 * (store/job_book.h) and as long as it runs. On the loop's thread.
 */
#pragma once

#include <uv.h>

#include "core/job.h"
#include "store/job_book.h"

struct own_jobs {
	struct job_book book;
	int64_t (*now_us)(void *arg);
	void *arg;
	uv_idle_t turn;        /* runs while calls are to be answered */
	struct list submitted; /* of struct job_call */
};

/* The caller fills in the clock before. */
void own_jobs_open(struct own_jobs *own, uv_loop_t *loop);
struct job_store own_jobs_iface(struct own_jobs *own);

/* No call may be under way. */
void own_jobs_close(struct own_jobs *own);
