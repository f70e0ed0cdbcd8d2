/* Warm-ups in the daemon: the warmer, which works on them, the spooler, which feeds them, what
 * clients ask about them, and whether the daemon waits for one before it says that it is ready.
 *
 *   warmup_open ──> … ──> warmup_end ──> over
 *
 * On the loop's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/config.h"
#include "core/pump.h"
#include "core/warmer.h"
#include "ops/own_jobs.h"
#include "ops/spooler.h"
#include "ops/stores.h"
#include "rpc/server.h"

struct warmup_options {
	uv_loop_t *loop;
	struct pump *pump;
	struct stores *stores;
	const struct config *const *config; /* the one in force */
	uint64_t token;                     /* random, not 0 */
	void (*ready)(void *arg);           /* once, later: if it wasn't at once */
	void (*over)(void *arg);            /* after warmup_end, once, later */
	void *arg;
};

struct warmup {
	struct warmup_options options;
	bool open, ending;
	struct job_store jobs;
	struct own_jobs own; /* where nothing is shared */
	bool has_own;
	struct warmer warmer;
	struct spooler spooler;
	uv_timer_t timer; /* warmer_turn */
	uv_timer_t gate;  /* while it waits for a plan */
	bool is_ready;
	uint64_t gate_until_ms; /* the loop's clock */
	struct server_warm gate_ask;
	bool gate_asking;
	uint32_t asks;   /* clients' calls under way */
	uint32_t parts;  /* that are not closed yet */
	uint64_t serial; /* of jobs */
};

/* Begins. Whether the daemon is ready at once is in `is_ready`. */
void warmup_open(struct warmup *warmup, const struct warmup_options *options);

/* Answers later. */
void warmup_ask(struct warmup *warmup, struct server_warm *warm);

/* The `n`th of the jobs that run. */
bool warmup_job(const struct warmup *warmup, uint32_t n, struct server_job *ret_job);

void warmup_put_stats(const struct warmup *warmup, struct stat_sink *sink);

/* Stops; at once where it was never opened. Before the stores are closed; the pump may be stopped
   meanwhile. */
void warmup_end(struct warmup *warmup);
