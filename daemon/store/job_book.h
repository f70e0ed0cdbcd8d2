/* The jobs of a store in memory: what lua/job_*.lua do, for one daemon alone (`store: none`) and
 * for the simulator. tests/store/test_redis_jobs.c holds both to the same acts.
 *
 * It remembers JOBS_MAX that run and as many that have ended, the latest. Pure but for memory: time
 * comes with each call. One owner.
 */
#pragma once

#include <stdint.h>

#include "base/list.h"
#include "core/job.h"

struct job_book {
	struct list running, ended; /* of struct book_job; ended: the latest first */
};

void job_book_init(struct job_book *book);
void job_book_close(struct job_book *book);

/* Forgets everything, as a flushed store does. */
void job_book_clear(struct job_book *book);

/* Carries the call out; fills in its answer. What it points to is borrowed until the next call.
   Does not call `done`. JOB_AWAY: memory is missing. */
void job_book_do(struct job_book *book, struct job_call *call, int64_t now_us);
