#include "model.h"

#include <stdlib.h>

#include "base/check.h"
#include "sim/fleet.h"

static struct tidings tidings;

struct shared *model_open(const struct scene *scene)
{
	struct fleet *fleet = calloc(1, sizeof(*fleet));
	CHECK(fleet);
	fleet->scene = *scene;
	shared_init(&fleet->shared, fleet);
	return &fleet->shared;
}

void model_close(struct shared *shared)
{
	struct fleet *fleet = shared->fleet;
	shared_close(shared);
	free(fleet);
}

void model_stand(struct shared *shared, int64_t now_us)
{
	shared->fleet->vtime.now_us = now_us - FLEET_EPOCH_US;
}

void model_draw_as(struct shared *shared, const struct rng *rng)
{
	shared->fleet->weather.rng = *rng;
}

const struct tidings *model_tidings(void)
{
	return &tidings;
}

void model_hush(void)
{
	tidings.count = 0;
}

/* ---- what the simulated store tells the others ------------------------------------------- */

void fleet_tell(struct fleet *fleet, const struct tiding *tiding)
{
	(void)fleet;
	CHECK(tidings.count < TIDINGS_MAX);
	tidings.at[tidings.count++] = *tiding;
}

void judge_on_leased(struct judge *judge, int key, const struct caller *caller,
		     const struct store_op *op)
{
	(void)judge, (void)key, (void)caller, (void)op;
}

void judge_on_settled(struct judge *judge, int key, uint64_t token)
{
	(void)judge, (void)key, (void)token;
}

void judge_on_given(struct judge *judge, int key, int node, const struct entry *entry)
{
	(void)judge, (void)key, (void)node, (void)entry;
}

void judge_on_saved(struct judge *judge, int key, const struct entry *entry)
{
	(void)judge, (void)key, (void)entry;
}

void judge_on_changed(struct judge *judge, int key, uint64_t floor, bool hard)
{
	(void)judge, (void)key, (void)floor, (void)hard;
}

void judge_on_forgotten(struct judge *judge, int key)
{
	(void)judge, (void)key;
}

void judge_on_epoch(struct judge *judge, int keyspace, const struct epoch *epoch)
{
	(void)judge, (void)keyspace, (void)epoch;
}

void judge_on_row_changed(struct judge *judge, int key, uint64_t floor, bool hard, int64_t version)
{
	(void)judge, (void)key, (void)floor, (void)hard, (void)version;
}
