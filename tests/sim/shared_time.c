/* What the shared store knows of time: its clock's eras, and the keyspaces' epochs. */
#include <string.h>

#include "base/check.h"
#include "fleet.h"
#include "shared.h"
#include "store/place.h"

enum { WITNESS_US = 10 * SECOND }; /* as in lua/clock.lua */

/* ---- eras -------------------------------------------------------------------------------- */

/* Of several live daemons two must have seen the jump. Heartbeats may still be by the clock before
   it. */
static void hear_of_jump(struct shared *shared, uint64_t life, int64_t jump_us)
{
	struct shared_data *data = &shared->data;
	int64_t now_us = shared_now(shared);
	int live = shared_places_live(shared, now_us);
	int live_before = shared_places_live(shared, now_us - jump_us);
	bool seen = data->era_witness != 0 && data->era_witness != life &&
		    left_of(data->era_seen_us + WITNESS_US, WITNESS_US, now_us) > 0;
	if (!seen && (live > 1 || live_before > 1)) {
		data->era_witness = life;
		data->era_seen_us = now_us;
		return;
	}
	data->era++;
	data->era_since_us = now_us;
	data->era_jump_us = jump_us;
	data->era_witness = 0;
	data->era_seen_us = 0;
}

struct shared_time shared_time(struct shared *shared, const struct caller *caller, int64_t jump_us)
{
	struct shared_data *data = &shared->data;
	if (data->era == 0 || caller->era > data->era) {
		data->era = caller->era > 1 ? caller->era : 1;
		data->era_since_us = shared_now(shared);
		data->era_jump_us = 0;
	}
	if (jump_us != 0 && caller->era == data->era)
		hear_of_jump(shared, caller->life, jump_us);
	return (struct shared_time){ .now_us = shared_now(shared),
				     .era = data->era,
				     .since_us = data->era_since_us,
				     .jump_us = data->era_jump_us };
}

/* ---- epochs ------------------------------------------------------------------------------ */

static bool is_name(const char *text, const char *name, size_t len)
{
	return strlen(text) == len && memcmp(text, name, len) == 0;
}

uint32_t shared_keyspace(const struct shared *shared, const char *name, size_t len)
{
	uint32_t i = 0;
	while (i < KEYSPACES && !is_name(shared->fleet->scene.policies[i].name, name, len))
		i++;
	CHECK(i < KEYSPACES);
	return i;
}

void shared_know_epoch(struct shared *shared, const char *keyspace, int64_t moment_us,
		       int64_t spread_us)
{
	epochs_add(&shared->data.epochs[shared_keyspace(shared, keyspace, strlen(keyspace))],
		   (struct epoch){ .moment_us = moment_us, .spread_us = spread_us });
}

/* Two that begin in one moment are two. */
int64_t shared_begin_epoch(struct shared *shared, uint32_t keyspace, int64_t spread_us)
{
	struct epoch epoch = { .moment_us = shared_now(shared), .spread_us = spread_us };
	while (!epochs_add(&shared->data.epochs[keyspace], epoch))
		epoch.moment_us++;
	fleet_tell(shared->fleet, &(struct tiding){ .kind = TIDING_EPOCH,
						    .key = (int)keyspace,
						    .told_us = epoch.moment_us,
						    .spread_us = epoch.spread_us });
	return epoch.moment_us;
}

void shared_epoch(struct shared *shared, struct store_op *op)
{
	op->moment_us = shared_begin_epoch(
		shared, shared_keyspace(shared, op->key.bytes, op->key.len), op->length_us);
}
