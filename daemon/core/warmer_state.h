/* What the warmer's files know of each other:
 *
 *   warmer.c             turns: what is due, and when to be called again
 *   warmer_jobs.c        which jobs run; claims and reports
 *   warm_chunk.c         the chunks that were claimed, and their keys
 *   warmer_looks.c       keys are looked up
 *   warmer_statements.c  those that are missing are built
 */
#pragma once

#include "core/warm_chunk.h"
#include "core/warmer.h"

enum { WARMER_LIST_US = 1000 * 1000, WARMER_REPORT_US = 1000 * 1000 };

/* A look, or a statement's key: which. */
struct warm_place {
	struct warm_chunk *chunk;
	uint32_t item;
};

struct warmer_look {
	struct look look;
	struct warmer *warmer;
	struct warm_place place;
};

struct warmer_statement {
	struct warming warming;
	struct warmer *warmer;
	struct warmer_job *job;
	struct warm_place places[BATCH_KEYS_MAX];
};

int64_t warmer_now_us(const struct warmer *warmer);

/* To be called soon. */
void warmer_kick(struct warmer *warmer);

/* From a half of it to one and a half. */
int64_t warmer_jittered(struct warmer *warmer, int64_t us);

/* warmer_looks.c: begins as many looks as may be now. */
void warmer_look_around(struct warmer_job *job, int64_t now_us);

/* warmer_statements.c: begins a statement, if one may be now. */
void warmer_build(struct warmer_job *job, int64_t now_us);

/* warmer_jobs.c: asks which jobs there are, if it is time to; reports, keeps and claims, if there
   is something to; whether it would claim now, as far as the job goes. */
void warmer_list(struct warmer *warmer, int64_t now_us);
void warmer_work(struct warmer_job *job, int64_t now_us);
bool warmer_job_wants(const struct warmer_job *job, int64_t now_us);
void warmer_job_free(struct warmer_job *job); /* none of its chunks is left, no call under way */
