/* Reads what the guarded statement returned into a build, or says what is wrong with it. */
#pragma once

#include <libpq-fe.h>
#include <stdint.h>

#include "core/origin.h"
#include "origin/trouble.h"

/* From a result of PGRES_TUPLES_OK. 0: the build's outcome is set (ROW, NO_ROW, SLOT_HELD,
   KEY_HELD), with value, version, snapshot and history, the latter of the system with this
   identifier (0: unknown). -1: `ret_trouble` is set, the build untouched: more than one row, a
   value over VALUE_BYTES_MAX, no memory; or a ticket that isn't `ticket`: the answer belongs to
   another build, and the connection must not be used again (BUILD_LOST). */
int outcome_read(struct build *build, const PGresult *result, uint64_t ticket, uint64_t system,
		 struct trouble *ret_trouble) __attribute__((warn_unused_result));

/* The system's identifier out of what GUARD_SYSTEM_SQL returned; 0: it isn't in it. */
uint64_t outcome_system(const PGresult *result);

/* Sets the build's outcome and text from `trouble`. */
void outcome_fail(struct build *build, const struct trouble *trouble);
