/* The spooler: fetches the keys of jobs and feeds them into the store, a few chunks ahead of those
 * who work on them (core/job.h).
 *
 * Every daemon tries; the store lets one at a time. The keys go into a file of `state_dir` first
 * (origin/spool.h), from which they are fed as they are wanted, however long that takes; a daemon
 * that is started again finds its file, and goes on where it was. Whoever has fed a job watches
 * over it until it has ended: a store that was emptied is given it anew, from the same file. Keys
 * that a client has named are not spooled: they are few, and are fed from memory, all at once.
 *
 * On the loop's thread.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/config.h"
#include "core/warmer.h"

struct spooler_options {
	const struct config *const *config; /* the one in force */
	struct job_store jobs;
	const struct warmer *warmer; /* borrowed; knows which jobs run */
	uint64_t token;
};

struct spooler {
	struct spooler_options options;
	uv_loop_t *loop;
	uv_timer_t timer;
	uv_async_t told; /* a spool is done */
	struct list spoolings;
	uint64_t serial;
	bool swept; /* files of jobs that are over are gone */
	bool closing;
	uint32_t handles;
	void (*closed)(void *arg);
	void *arg;
};

/* What a job's `spec` is made of: where its keys come from, and how often they are tried again. */
enum spooler_kind { SPOOLER_PLAN, SPOOLER_KEYS, SPOOLER_HOT };
void spooler_spec(enum spooler_kind kind, uint32_t retries, const char *keyspace,
		  char ret_spec[JOB_SPEC_MAX]); /* `keyspace`: of HOT */

void spooler_open(struct spooler *spooler, uv_loop_t *loop, const struct spooler_options *options);

/* A job that this daemon has opened: it is fed at once. `keys`: of SPOOLER_KEYS, copied. 0 or
   -ENOMEM. */
int spooler_begin(struct spooler *spooler, const struct job_call *opened, const char *keys,
		  uint32_t len, uint32_t count) __attribute__((warn_unused_result));

/* Whether a job of that name runs, as far as is known here: the store may have lost it. */
bool spooler_knows(const struct spooler *spooler, const char *name);

/* `closed` fires once, later. What it had begun another daemon takes over, or this one when it is
   started again. */
void spooler_close(struct spooler *spooler, void (*closed)(void *arg), void *arg);
