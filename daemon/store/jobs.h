/* Warm-ups' jobs in Redis: core/job.h by the scripts lua/job*.lua. */
#pragma once

#include "core/job.h"

struct redis_store;

/* The interface that the warmer takes; valid until redis_store_close, at which calls under way are
   AWAY. */
struct job_store redis_store_jobs(struct redis_store *redis);
