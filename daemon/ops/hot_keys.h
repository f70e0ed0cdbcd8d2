/* The hot keys over a restart: written down now and then and at the end, and brought back at the
 * start, the hottest first.
 *
 *   FETCHING ──> BUILDING ──> DONE
 *
 *   FETCHING   their values come from the shared store, HOT_FETCHES at once: no load for the
 * origin. While the store is away, it is tried again BUILDING   those that it did not have are
 * built, so many a second, as warm-ups are: after all else, within the budget. What there is no
 * room for is tried again, for HOT_FOR_MS DONE       that is over; some are not there where the
 * origin has no room, or no such row
 *
 *   hot_keys_init ──> hot_keys_open ──> hot_keys_stop ──> (the pump stops) ──> hot_keys_close
 *
 * On the loop's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/policy.h"
#include "core/pump.h"
#include "core/warming.h"
#include "ops/hot_file.h"
#include "origin/aside.h"

enum {
	HOT_FETCHES = 64,
	/* Written after this, then ever less often: one that dies young has not told much. */
	HOT_WRITE_FIRST_MS = 1000,
	HOT_WRITE_MOST_MS = 60 * 1000,
	HOT_FOR_MS = 10 * 60 * 1000,
	/* So long what was read at the start is written again behind what is hot by now: a daemon
	   that starts again and again keeps it, and what is not asked for any more goes. */
	HOT_KEPT_MS = 2 * HOT_HALF_LIFE_US / 1000,
};

enum hot_phase { HOT_IDLE, HOT_FETCHING, HOT_BUILDING, HOT_DONE };

struct hot_keys {
	struct pump *pump; /* borrowed */
	uv_timer_t timer;  /* the next step of the phase */
	uv_timer_t write_timer;
	uv_async_t written;
	struct aside *writing; /* owned; NULL: nothing is being written */
	char *path;            /* owned; NULL: nothing is kept */
	uint64_t write_ms;     /* until the next time */
	uint32_t keys_max;
	double refresh_per_s;
	bool stopping;

	enum hot_phase phase;
	struct hot_file list; /* what was read at the start */
	size_t at;            /* of the key that is next; 0: the first */
	int64_t begun_ms;     /* of the loop's clock */
	bool missed;          /* in this round some could not be brought back */
	bool is_warming;      /* `warming` is under way */
	struct warming warming;

	/* For `stats`. */
	uint32_t listed, found, built, failed;
	uint64_t writes, write_errors;
};

/* Its handles are open from here on. `config` is borrowed for the call. */
void hot_keys_init(struct hot_keys *hot, uv_loop_t *loop, const struct config *config);

/* Reads the file, and begins to bring its keys back. Blocks on the disk. */
void hot_keys_open(struct hot_keys *hot, struct pump *pump);

/* Begins nothing any more, and writes the file a last time. Blocks on the disk. */
void hot_keys_stop(struct hot_keys *hot);

/* Closes the handles. Nothing of it may be under way in the pump. */
void hot_keys_close(struct hot_keys *hot);
