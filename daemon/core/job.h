/* Jobs: warm-ups that the fleet does together, and the chunks of keys that they are cut in.
 *
 * Whoever asks opens the job (OPEN), or joins the one of that name that runs. One daemon, the
 * spooler, feeds its keys into the store a chunk at a time (FEED), never more than some ahead of
 * those who work; its right to lapses when it is not used, and then another takes over. Every
 * daemon claims chunks (WORK), reports what came of their keys, and keeps its claim by that; a
 * claim that is not kept is another's. The job is over when all has been fed and no chunk is left.
 *
 *   fed and waiting ──WORK──> claimed ──WORK, final──> gone
 *           ^────── the claim lapses ─────┘
 *
 * What is counted of a chunk that is claimed anew starts anew: a key counts once, as it was last
 * seen. A spooler that takes over and has not got its predecessor's spool feeds from the start: the
 * keys may come in another order, and those that are done cost a look. Then all counts start anew.
 *
 * A store that was emptied in between has LOST the job: whoever fed it opens it again, by the same
 * id, and feeds from the start. For that it goes on asking until the job has ended.
 *
 * Implemented by store/jobs.h (Redis) and store/job_book.h (in memory). Calls are embedded in their
 * owners, who keep them in place until `done`, which fires once, never inside submit, also at
 * close.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

enum {
	JOBS_MAX = 16,                  /* that run at once */
	JOB_NAME_MAX = 100,             /* bytes with the NUL */
	JOB_SPEC_MAX = 200,             /* likewise */
	JOB_WHY_MAX = 300,              /* likewise */
	JOB_AHEAD_MAX = 1000,           /* chunks fed and not done */
	JOB_FAILURES_MAX = 100,         /* keys that are listed */
	JOB_FAILURES_BYTES = 64 * 1024, /* of them, with their texts */
	CHUNK_KEYS_MAX = 256,
	CHUNK_BYTES_MAX = 64 * 1024, /* unless one key alone has more */
};

/* X(NAME, name): how a job stands */
#define JOB_STATE_MAP(X)                                                                           \
	X(RUNNING, running)                                                                        \
	X(DONE, done)                                                                              \
	X(CANCELLED, cancelled)                                                                    \
	X(FAILED, failed)

enum job_state {
#define X(NAME, name) JOB_##NAME,
	JOB_STATE_MAP(X)
#undef X
};
enum {
#define X(NAME, name) +1
	JOB_STATE_COUNT = 0 JOB_STATE_MAP(X)
#undef X
};
const char *job_state_name(enum job_state state);

/* What became of keys. */
struct job_counts {
	int64_t fresh; /* were there */
	int64_t built;
	int64_t failed; /* at the last try that they get */
};

struct job {
	uint64_t id;
	enum job_state state;
	int64_t interval_us;     /* between two statements, over the fleet; 0: the budget alone */
	char spec[JOB_SPEC_MAX]; /* where its keys come from: whoever spools makes sense of it */
	int64_t keys;            /* fed up to now */
	int64_t total;           /* that there are; -1: not known yet */
	bool all;                /* have been fed */
	struct job_counts counts;
	int64_t elapsed_us;    /* since it was opened, until it ended */
	char why[JOB_WHY_MAX]; /* FAILED: the reason; else empty */
};

/* X(NAME, name, what it does) */
#define JOB_VERB_MAP(X)                                                                            \
	X(LIST, list, "which jobs run")                                                            \
	X(OPEN, open, "open one, or join")                                                         \
	X(FEED, feed, "take the right to feed it, and perhaps feed a chunk")                       \
	X(WORK, work, "report on a chunk, and perhaps claim the next")                             \
	X(END, end, "end it before its time")                                                      \
	X(LOOK, look, "how it stands")

enum job_verb {
#define X(NAME, name, text) JOB_##NAME,
	JOB_VERB_MAP(X)
#undef X
};

enum job_outcome {
	JOB_OK,
	JOB_GONE, /* there is no such job, or it runs no more */
	JOB_LOST, /* FEED: the store knows none of that name: it was emptied */
	JOB_HELD, /* FEED: another feeds it */
	JOB_FULL, /* FEED: enough is ahead; OPEN: too many jobs run */
	JOB_AWAY, /* no answer: it may have been carried out all the same */
};

struct job_call {
	enum job_verb verb;
	void (*done)(struct job_call *call);

	/* What is asked. */
	char name[JOB_NAME_MAX]; /* but LIST */
	uint64_t id;             /* OPEN: of the new one. FEED, WORK: of the one that is meant.
				    END: likewise, 0: of any */
	uint64_t token;          /* FEED, WORK: who asks */
	int64_t length_us;       /* FEED, WORK: the right or claim lapses after this */
	int64_t interval_us;     /* OPEN */
	char spec[JOB_SPEC_MAX]; /* OPEN */
	const char *bytes;       /* FEED, borrowed: keys (chunk_next); NULL: none now */
	uint32_t len;
	uint32_t keys;            /* in them */
	uint64_t spool;           /* FEED: which; two of one job may have another order */
	int64_t from, to;         /* FEED: where in it they stand. From 0 it all starts anew */
	bool last;                /* FEED: with this, all has been fed */
	int64_t total;            /* FEED: keys in all; -1: not known */
	uint32_t ahead_max;       /* FEED */
	uint64_t seq;             /* WORK: in, the chunk that is reported on, 0: none */
	bool final;               /* WORK: with this it is done */
	struct job_counts counts; /* WORK: of that chunk up to now */
	const char *failures;     /* WORK, final: borrowed: as in `data` */
	uint32_t failures_len;
	uint32_t failures_count;
	bool wants;            /* WORK: claim another */
	enum job_state end;    /* END */
	char why[JOB_WHY_MAX]; /* END */

	/* The answer. */
	enum job_outcome outcome;
	struct job job;   /* OPEN: of it only `id`; FEED: `all`; WORK, LOOK */
	bool joined;      /* OPEN: it ran already */
	int64_t left_us;  /* HELD: at most for so long */
	int64_t fed;      /* FEED: up to where it has been … */
	uint64_t of;      /* … of which spool */
	uint32_t ahead;   /* FEED */
	bool lost;        /* WORK: the claim reported on was not ours any more */
	uint64_t next;    /* WORK: the chunk that was claimed, 0: there is none now */
	const char *data; /* WORK: its keys. LOOK: keys that failed, and why: by turns
			     (chunk_next). LIST: names. Borrowed until `done` returns */
	uint32_t data_len;

	/* The implementation's own. */
	struct list_node node;
	void *work;
};

/* For implementations, at the beginning: what an answer has where nothing else is said. */
void job_call_reset(struct job_call *call, enum job_outcome outcome);

struct job_store {
	void *impl;
	void (*submit)(void *impl, struct job_call *call);
};

/* Keys, and texts, one after the other: each with its length before it, 4 bytes, high byte first.
   Returns how many bytes the next takes; 0 at the end, or where it is not whole. */
size_t chunk_next(const char *bytes, size_t len, const char **ret_text, uint32_t *ret_len);

/* Writes one, if it fits: how many bytes it took, or 0. */
enum { CHUNK_HEAD = 4 };
size_t chunk_put(char *bytes, size_t size, const char *text, uint32_t len);
