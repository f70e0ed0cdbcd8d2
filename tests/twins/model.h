/* The simulated store by itself: as the simulator has it, with no daemons, judge or post around. */
#pragma once

#include "base/rng.h"
#include "sim/scene.h"
#include "sim/shared.h"

enum { TIDINGS_MAX = 64 };

struct tidings {
	unsigned count;
	struct tiding at[TIDINGS_MAX];
};

/* A store for that scene, which is copied; one of them a process. */
struct shared *model_open(const struct scene *scene);
void model_close(struct shared *shared);

void model_stand(struct shared *shared, int64_t now_us); /* its clock */
void model_draw_as(struct shared *shared, const struct rng *rng);

/* What it has told since the last model_hush. */
const struct tidings *model_tidings(void);
void model_hush(void);
