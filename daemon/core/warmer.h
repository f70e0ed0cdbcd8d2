/* The warmer: this daemon's part in the fleet's warm-ups.
 *
 * It looks now and then which jobs run (core/job.h), and of each claims chunks, one or a few at a
 * time, whose keys it looks up and, where they are missing, builds (core/warm_chunk.h).
 *
 * Looks are pipelined and cheap, and bounded by a rate, so that they leave the store to those who
 * wait. Statements (core/warming.h) are as full as the keyspace's batches go, and as many at once
 * as core/warm_pace.h admits: over all jobs, since the origin is one.
 *
 * Who feeds a job is another's affair (ops/spooler.h, the simulator). No I/O, no clock of its own:
 * like the pump it works through interfaces, and asks its host to be called again. On the loop's
 * thread; no callback of it fires inside a call of it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/rng.h"
#include "core/job.h"
#include "core/pump.h"
#include "core/warm_pace.h"
#include "core/warming.h"

enum {
	WARMER_CHUNKS_MAX = 4, /* claimed at once, of each job */
	WARMER_LOOKS_MAX = 64, /* under way at once, over all */
	WARMER_RETRIES_USUAL = 2,
};

/* A job that runs, as far as is known. */
struct warmer_job {
	struct list_node node;
	struct warmer *warmer;
	char name[JOB_NAME_MAX];
	bool known;     /* `job` is there */
	bool over;      /* it runs no more */
	struct job job; /* as last told */
	int64_t heard_us;
	struct list chunks; /* of struct warm_chunk; those that were given up too */
	struct job_call call;
	bool calling;
	struct warm_chunk *reporting; /* with that call */
	int64_t call_us;              /* no call before this */
	int64_t claim_us;             /* nor a claim */
	uint32_t misses;              /* claims in a row that brought nothing */
	int64_t ask_us;               /* for a permit, not before */
};

/* X(name, what it counts): they only grow */
#define WARMER_COUNTER_MAP(X)                                                                      \
	X(looks, "keys looked up in the shared store")                                             \
	X(fresh, "of these, found fresh")                                                          \
	X(built, "keys built")                                                                     \
	X(failed, "keys given up after their last try")                                            \
	X(retries, "builds of keys that failed and are tried again")                               \
	X(statements, "statements")                                                                \
	X(later, "times that one was put off, for others or the pace")                             \
	X(chunks, "chunks of keys done")                                                           \
	X(chunks_lost, "chunks that another took over")

struct warmer_host {
	void *impl;
	int64_t (*now_us)(void *impl); /* the pump's clock */
	/* As the pump's. */
	void (*wake_at)(void *impl, int64_t at_us);
	/* All is over, once after warmer_stop. */
	void (*stopped)(void *impl);
};

struct warmer_options {
	struct pump *pump; /* borrowed */
	/* Makes the key canonical, in place, and tells how many bytes name its keyspace. False: it
	   is no key, and `ret_why` says why (borrowed until the next call). The core does not know
	   the wire. */
	bool (*read_key)(char *bytes, uint32_t *len, uint32_t *ret_keyspace_len,
			 const char **ret_why);
	struct job_store jobs;
	struct warmer_host host;
	uint32_t concurrency; /* the fleet's */
	uint32_t fleet;
	bool alone;     /* nothing is shared (struct look) */
	uint64_t token; /* this daemon's, random */
};

struct warmer_counters {
#define X(name, text) uint64_t name;
	WARMER_COUNTER_MAP(X)
#undef X
};

struct warmer {
	struct warmer_options options;
	struct rng rng;
	struct warm_pace pace;
	struct list jobs; /* of struct warmer_job */
	struct job_call list_call;
	bool listing, listed;       /* it has been told once */
	int64_t list_us;            /* due then */
	uint32_t looks, statements; /* under way */
	struct warming *asking;     /* of the statements: has no permit yet */
	int64_t look_interval_us;
	int64_t look_next_us;
	bool stopping, stopped;
	struct warmer_counters counters;
};

void warmer_init(struct warmer *warmer, const struct warmer_options *options);

/* What it may take at most, but for its statements' flights. */
size_t warmer_memory(uint32_t concurrency);

/* The host's timer; and whenever it may have more to do. */
void warmer_turn(struct warmer *warmer);

/* There may be a new job: looks at once. */
void warmer_hurry(struct warmer *warmer);

/* Claims nothing more and gives up what it has: others take it over when its claims lapse. */
void warmer_stop(struct warmer *warmer);

/* The job of that name that runs, or NULL. */
const struct warmer_job *warmer_job(const struct warmer *warmer, const char *name);

/* How often a key of it is tried again. */
uint32_t warmer_retries(const struct job *job);
