/* What the spooler's files know of each other:
 *
 *   spooler.c        which jobs there are to feed
 *   spooling.c       one of them: its keys are fetched, and fed
 *   spooler_files.c  the files that keys wait in
 */
#pragma once

#include "base/config.h"
#include "ops/spooler.h"
#include "origin/spool.h"

enum { SPOOL_PATH_MAX = 4200 };

/* One job's. */
struct spooling {
	struct list_node node;
	struct spooler *spooler;
	char name[JOB_NAME_MAX];
	uint64_t id;
	char spec[JOB_SPEC_MAX];
	int64_t interval_us;
	bool ours;           /* the right to feed it */
	bool all;            /* has been fed */
	bool lost;           /* by the store: to be opened again */
	bool over;           /* it runs no more */
	struct spool *spool; /* owned; under way */
	uint64_t spool_id;   /* names its file */
	int fd;              /* of the spool; -1: there is none yet */
	int64_t size, keys_total;
	char *keys; /* owned; those of a client; NULL: none */
	uint32_t keys_len, keys_count;
	int64_t fed;
	char *chunk; /* owned; what is being fed */
	struct job_call call;
	bool calling;
	uint64_t due_ms; /* the loop's clock: the next call */
};

/* spooler.c: whether the job's keys come from there. */
bool spooling_is_of(const char *spec, const char *kind);

/* The plan of that name; NULL: it is not configured (any more). */
const struct warm_policy *spooler_plan(const struct spooler *spooler, const char *name);

/* spooling.c: where no call of it is under way. */
void spooling_feed(struct spooling *spooling);
void spooling_take_spool(
	struct spooling *spooling); /* … if it is there; fine where there is none */

/* spooler_files.c: where a spool lies; false: there is no `state_dir`. */
bool spooling_path(const struct spooling *spooling, uint64_t spool, char ret_path[SPOOL_PATH_MAX]);

/* Takes the file that is there. */
bool spooling_open_file(struct spooling *spooling);
void spooling_drop_spool(struct spooling *spooling); /* ends what is under way, and closes */
void spooling_drop_file(const struct spooling *spooling);

/* Drops the files of jobs that have ended, perhaps while this daemon was not there. */
void spooler_sweep(struct spooler *spooler);
