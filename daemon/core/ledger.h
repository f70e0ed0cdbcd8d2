/* The ledger: enters what flights come to into the accounts of their keyspaces. */
#pragma once

#include "core/engine.h"

/* Notes what a flight that has just begun is for: why, and whose trace it is part of. */
void ledger_begin(const struct engine *engine, struct flight *flight, const struct query *query,
		  enum priority priority, int64_t now_us);

/* What the flight, which is about to end, came to. Before the near cache takes its result. */
enum refresh_outcome ledger_outcome(const struct engine *engine, const struct flight *flight);

/* Enters it. After the near cache has taken the result, or has not. */
void ledger_enter(struct engine *engine, const struct flight *flight, enum refresh_outcome outcome);
