/* The end of a flight: what the near cache keeps of it, and its waiters' turn to be woken.
 *
 * Below course.c, which decides when a flight has come to its end.
 */
#pragma once

#include <stdint.h>

#include "core/engine.h"

/* The flight leaves whatever it waits in: its batch, the timers. */
void landing_leave_lines(struct engine *engine, struct flight *flight);

/* DONE: out of the table, its result or failure noted in the near cache, its waiters to be woken.
   It must hold neither lease nor slot. */
void landing_finish(struct engine *engine, struct flight *flight, int64_t now_us,
		    struct effects *effects);

/* The result goes to those who asked before its build, and is kept by nobody, or not yet: from now
   on nobody is told an older one. */
void landing_outdate(struct engine *engine, const struct flight *flight, int64_t now_us);

/* Frees the flight if it is DONE, without waiters and without calls under way; else does nothing.
 */
void landing_release(struct engine *engine, struct flight *flight);
