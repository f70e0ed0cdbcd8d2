/* Reads what the guarded statement returned into a build, or says what is wrong with it. */
#pragma once

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/origin.h"
#include "origin/guard.h"
#include "origin/trouble.h"

/* From a result of PGRES_TUPLES_OK. 0: the build's outcome is set (ROW, NO_ROW, SLOT_HELD,
   KEY_HELD), with value, version, snapshot and history, the latter of the system with this
   identifier (0: unknown). -1: `ret_trouble` is set, the build untouched: more than one row, a
   value over VALUE_BYTES_MAX, no memory; or a ticket that isn't `ticket`: the answer belongs to
   another build, and the connection must not be used again (BUILD_LOST). */
int outcome_read(struct build *build, const PGresult *result, uint64_t ticket, uint64_t system,
		 struct trouble *ret_trouble) __attribute__((warn_unused_result));

/* The parts of that, of which a chain (origin/chain.h) has several rows. What is the same in all:
   snapshot and history, once it is sure that these are the guard's `columns`, for this ticket. */
int outcome_read_head(struct build *build, const PGresult *result, int columns, uint64_t ticket,
		      uint64_t system, struct trouble *ret_trouble)
	__attribute__((warn_unused_result));

/* Which lock was held. Only after outcome_read_head. */
enum guard_held outcome_held(const PGresult *result);

/* One row's value, version and times. */
int outcome_read_row(struct build *build, const PGresult *result, int row,
		     struct trouble *ret_trouble) __attribute__((warn_unused_result));

/* The row's value would be within its limit, but was not sent. */
bool outcome_is_left_out(const PGresult *result, int row);

/* The system's identifier out of what GUARD_SYSTEM_SQL returned; 0: it isn't in it. */
uint64_t outcome_system(const PGresult *result);

/* Sets the build's outcome and text from `trouble`. */
void outcome_fail(struct build *build, const struct trouble *trouble);
