/* The weather on the way between daemons and store: how long messages take, which are lost.
 *
 * Each operation goes its own way, so they overtake each other even in good weather, as over a
 * daemon's connections; what the store tells comes over one, and keeps its order (post_news.c).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "scene.h"

struct weather {
	struct vtime *vtime;
	struct rng rng;
	/* Set by trouble.c while it is bad. */
	bool delays, losses, doubles, reorders;
};

void weather_init(struct weather *weather, const struct scene *scene, struct vtime *vtime);

/* How long the next message takes, µs. */
int64_t weather_delay(struct weather *weather);

bool weather_loses(struct weather *weather);
bool weather_doubles(struct weather *weather);

/* The message is there, but nobody reads it now: `fire` comes again later, in no certain order. */
void weather_hold(struct weather *weather, struct timer *timer, void (*fire)(struct timer *timer));
