/* The world of one seed: daemons, store, origin, clients, troubles and the judge, in virtual time.
 *
 *   crowd ──> node (engine, pump, …) ──> post ──> shared      the store
 *               ^   └─────────────────────────> server        the origin, over the database
 *               └── trouble: what goes wrong, and when
 *   all of them tell the judge what they do; he knows what they may.
 */
#pragma once

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "crowd.h"
#include "database.h"
#include "judge.h"
#include "node.h"
#include "scene.h"
#include "server.h"
#include "shared.h"
#include "trouble.h"
#include "vtime.h"
#include "weather.h"

/* The trace: every event in its own line, printed, or only summed up. */
enum tracing { TRACE_NOT, TRACE_SUM, TRACE_PRINT };

struct fleet {
	struct scene scene;
	struct vtime vtime;
	struct weather weather;
	struct shared shared;
	struct database database;
	struct server server;
	struct node *nodes; /* owned; scene.nodes */
	struct crowd crowd;
	struct troubles troubles;
	struct judge judge;
	enum tracing tracing;
	uint64_t trace_sum;
};

/* What came of a run. `trace` sums up its trace, if that was made. */
struct outcome {
	uint64_t digest, trace, steps, builds, batches, replies, errors, hits;
};

/* Plays the scene of the seed from beginning to end. A broken promise ends the process. */
struct outcome fleet_play(uint64_t seed, const struct scene_options *options, enum tracing tracing);

/* Plays a scene of the caller's own; takes over what it owns. `study` looks at the fleet at that
   moment, when it is warm, and again when clients have ceased to ask. */
typedef void (*fleet_study_cb)(const struct fleet *fleet, void *arg);
void fleet_study(const struct scene *scene, int64_t warm_us, fleet_study_cb study, void *arg);

/* Starts a daemon that is down. */
void fleet_start_node(struct node *node);

/* The store tells all daemons. */
void fleet_tell(struct fleet *fleet, const struct tiding *tiding);

/* One line of the trace: `t=` and then key=value pairs. */
void fleet_trace(struct fleet *fleet, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
#define trace(fleet, ...)                                                                          \
	((fleet)->tracing != TRACE_NOT ? fleet_trace(fleet, __VA_ARGS__) : (void)0)
