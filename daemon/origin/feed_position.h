/* How far the log of changes has been read: what was visible in a snapshot, in one history, by who
 * followed which keyspaces.
 *
 * As text "HISTORY:FOLLOWED SNAPSHOT": each sixteen hexadecimal digits (core/entry.h, 0: unknown; a
 * hash of the keyspaces' names), then as PostgreSQL writes a pg_snapshot, xmin:xmax:xip,… Positions
 * of one history grow. Pure; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/change.h"

struct feed_position {
	uint64_t history, followed;
	uint64_t xmin, xmax; /* xmin: all before it is visible, or never will be */
	char text[POSITION_MAX];
};

/* False, and nothing changed, where it is none. */
bool feed_position_read(struct feed_position *position, const char *text);

/* The same of the two parts; of the first only FEED_ORIGIN_LEN bytes count. */
bool feed_position_read_parts(struct feed_position *position, const char *origin,
			      const char *snapshot);

/* From a snapshot as PostgreSQL writes it. */
bool feed_position_make(struct feed_position *position, uint64_t history, uint64_t followed,
			const char *snapshot);

enum { FEED_ORIGIN_LEN = 33 }; /* of the text before the snapshot, without the blank */

/* The part that PostgreSQL knows; borrows it. */
const char *feed_position_snapshot(const struct feed_position *position);

/* Whether `a` is an earlier position than `b`, of the same history. */
bool feed_position_is_older(const struct feed_position *a, const struct feed_position *b);
