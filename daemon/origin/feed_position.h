/* How far the log of changes has been read: what was visible in a snapshot, in one history.
 *
 * As text "HISTORY SNAPSHOT": sixteen hexadecimal digits (core/entry.h, 0: unknown), then as
 * PostgreSQL writes a pg_snapshot, xmin:xmax:xip,… Positions of one history grow. Pure; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/change.h"

struct feed_position {
	uint64_t history;
	uint64_t xmin, xmax; /* xmin: all before it is visible, or never will be */
	char text[POSITION_MAX];
};

/* False, and nothing changed, where it is none. */
bool feed_position_read(struct feed_position *position, const char *text);

/* From a snapshot as PostgreSQL writes it. */
bool feed_position_make(struct feed_position *position, uint64_t history, const char *snapshot);

/* The part that PostgreSQL knows; borrows it. */
const char *feed_position_snapshot(const struct feed_position *position);

/* Whether `a` is an earlier position than `b`, of the same history. */
bool feed_position_is_older(const struct feed_position *a, const struct feed_position *b);
