/* Boarding: how flights get on a batch and off it, and a batch to the line for permits.
 *
 * A flight that wants to build boards its keyspace's open batch, or opens one; a batch has one
 * place in the bulkhead, however many are on it. Between course.c, which decides for flights, and
 * building.c, which takes a batch from its permit to its end. Nothing here makes a call: who has to
 * make one next stands in engine->moving, a few of whom course_advance moves on in each step.
 */
#pragma once

#include <stdint.h>

#include "core/engine.h"

enum boarding {
	BOARDING_IN,        /* on a batch that has room: take the lease */
	BOARDING_QUEUED,    /* on one that waits for room */
	BOARDING_FULL,      /* neither room nor a place in the queue */
	BOARDING_CUT,       /* the breaker admits nobody now: the flight is refused */
	BOARDING_NO_MEMORY, /* for a batch */
};

/* The flight wants to build. Background ones ride with those that have room, or take free room;
   they never queue. */
enum boarding boarding_enter(struct engine *engine, struct flight *flight, int64_t now_us);

/* A warming's flight wants to build: it takes its seat on the warming's batch, and is to take the
   lease. False: the batch is over. */
bool boarding_take_seat(struct engine *engine, struct flight *flight);

/* All of a warming's flights that are going to board perhaps have. */
void boarding_on_arrived(struct engine *engine, struct batch *batch);

/* One more client waits for the flight: its batch's place in the queue may be a better one now. */
void boarding_on_joined(struct engine *engine, struct flight *flight, uint32_t client);

/* The flight has become more urgent: so is its batch. */
void boarding_raise(struct engine *engine, struct batch *batch, enum priority priority);

/* While it was asking for its permit it was not raised: now it is. */
void boarding_catch_up(struct engine *engine, struct batch *batch);

/* bulkhead_next let it in: its members are to take their leases. */
void boarding_let_in(struct engine *engine, struct batch *batch, int64_t now_us);

/* The flight, PERMITTING by now, has its lease. Perhaps the batch waited only for that. */
void boarding_on_leased(struct engine *engine, struct flight *flight);

/* GATHERING: the time for company is over. */
void boarding_on_timer(struct engine *engine, struct batch *batch);

/* The flight gets off, if it is on one, before it moves to another state; the others go on. */
void boarding_leave(struct engine *engine, struct flight *flight);

/* The flight gets off and is to be moved on; the batch stays as it is, even if it is empty now. */
void boarding_part(struct engine *engine, struct flight *flight);

/* To the line for permits: all members have their leases. */
void boarding_line_up(struct engine *engine, struct batch *batch);

/* OVER: gives back the room, and whatever line it stands in. It must have given back its slot. Its
   members are still on it; without any, and without calls, it is freed. */
void boarding_end(struct engine *engine, struct batch *batch);

/* Frees the batch if it is OVER, empty and without calls; else does nothing. */
void boarding_release(struct engine *engine, struct batch *batch);
