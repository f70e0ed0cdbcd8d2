/* The calls that a flight makes: each fills in its operation and becomes an effect, which the pump
 * carries out; its answer comes back as an event. Below course.c and building.c.
 */
#pragma once

#include "core/engine.h"

/* Adds an order to the step's effects; there is always room (EFFECTS_MAX). */
void calls_push(struct effects *effects, enum effect_type type, struct flight *flight);

/* One store operation of the flight's own, in flight->op; the caller may fill in more of it. */
void calls_store(struct flight *flight, enum store_verb verb, struct effects *effects);

/* Gives the lease back, remembering the failure if that has a time: SETTLING. */
void calls_release(struct engine *engine, struct flight *flight, struct effects *effects);

/* Gives the slot back: its statement has ended, or was never sent. */
void calls_free(struct engine *engine, struct flight *flight, struct effects *effects);
