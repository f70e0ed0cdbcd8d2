/* One operation on its way through both stores.
 *
 *   deeds.c      what becomes of it
 *   deed_draw.c  what is asked: drawn so that it meets what is stored, and its edges
 */
#pragma once

#include "twins.h"

struct deed {
	struct twins *twins;
	int daemon;
	struct rng rng;
	struct store_op op; /* as it was asked for */
	int64_t delay_us;   /* on the way to the store */
	int64_t sent_us, sent_store_us, deadline_us;
};

/* Draws the operation, its key included. `deed` has its daemon and chance. What is counted in it is
   the deed's. */
void deed_draw(struct deed *deed, const struct act *act);

/* A row's version, often at the edge of what one can be. */
int64_t deed_draw_version(struct rng *rng);
