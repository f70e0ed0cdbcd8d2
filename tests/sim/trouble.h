/* What goes wrong, and when: each kind of trouble of the scene comes at random moments of its own
 * stream, lasts for a while and ends, the last before scene->healed_us.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "scene.h"
#include "shared.h"

struct fleet;
struct trouble_source {
	struct fleet *fleet;
	enum trouble_kind kind;
	struct rng rng;
	struct timer timer;
	bool on;                    /* it lasts */
	int node;                   /* whom it has hit */
	struct shared_data replica; /* FAILOVER: what the replica has */
	int64_t replica_us;         /* since when; JUMP: of the last */
};

struct troubles {
	struct trouble_source sources[TROUBLE_COUNT];
};

void troubles_init(struct troubles *troubles, struct fleet *fleet);
void troubles_close(struct troubles *troubles);
