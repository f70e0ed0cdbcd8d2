/* What pump.c and pump_ops.c share. Not for others. */
#pragma once

#include "core/pump.h"

/* Now, in µs of the fleet clock. */
int64_t pump_now(const struct pump *pump);

/* The event's step, now; its effects are carried out. */
void pump_dispatch(struct pump *pump, struct event *event);

/* Has the host call pump_turn when the engine wants to be woken. */
void pump_arm(struct pump *pump);

/* Tells the listener, if there is one. */
void pump_tell_changed(const struct pump *pump, const struct key *key, uint64_t floor,
		       const char *what);

/* A keyspace of that name has one more epoch; struct store_listener. */
void pump_on_epoch(void *impl, const char *name, size_t len, int64_t moment_us, int64_t spread_us);

/* Tells whoever asked for them which warmings are over, some a turn. */
void pump_tell_warmed(struct pump *pump);
