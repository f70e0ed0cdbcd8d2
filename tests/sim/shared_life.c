/* The shared store's life: what it holds is made, copied, lost. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "fleet.h"
#include "shared.h"

static size_t slots_size(const struct shared *shared)
{
	return (size_t)shared->fleet->scene.concurrency * sizeof(struct shared_slot);
}

static size_t places_size(const struct shared *shared)
{
	return (size_t)shared->fleet->scene.nodes * sizeof(struct shared_place);
}

static void data_init(const struct shared *shared, struct shared_data *data)
{
	*data = (struct shared_data){ 0 };
	data->slots = calloc(1, slots_size(shared));
	data->places = calloc(1, places_size(shared));
	CHECK(data->slots && data->places);
}

void shared_data_drop(const struct shared *shared, struct shared_data *data)
{
	for (uint32_t i = 0; i < shared->fleet->scene.keys_count; i++) {
		shared_entry_forget(&data->keys[i]);
		shared_claim_forget(&data->keys[i].claim);
	}
	free(data->slots);
	free(data->places);
	*data = (struct shared_data){ 0 };
}

void shared_init(struct shared *shared, struct fleet *fleet)
{
	*shared = (struct shared){ .fleet = fleet };
	data_init(shared, &shared->data);
}

void shared_close(struct shared *shared)
{
	shared_data_drop(shared, &shared->data);
}

void shared_flush(struct shared *shared)
{
	shared_data_drop(shared, &shared->data);
	data_init(shared, &shared->data);
	judge_on_forgotten(&shared->fleet->judge, -1);
}

void shared_forget(struct shared *shared, enum shared_part part, int key)
{
	struct shared_data *data = &shared->data;
	switch (part) {
	case SHARED_ENTRY:
		shared_entry_forget(&data->keys[key]);
		break;
	case SHARED_CLAIM:
		shared_claim_forget(&data->keys[key].claim);
		break;
	case SHARED_PERMITS:
		data->has_permits = false;
		memset(data->slots, 0, slots_size(shared));
		break;
	case SHARED_PLACES:
		for (int i = 0; i < shared->fleet->scene.nodes; i++)
			data->places[i].until_us = 0;
		break;
	case SHARED_HOLDERS:
		for (int i = 0; i < shared->fleet->scene.nodes; i++)
			data->places[i].holder = 0;
		break;
	case SHARED_BEAT:
		data->has_beat = false;
		break;
	case SHARED_ERA:
		data->era = 0;
		data->era_witness = 0;
		data->era_seen_us = 0;
		break;
	case SHARED_EPOCHS:
		memset(data->epochs, 0, sizeof(data->epochs));
		break;
	case SHARED_HISTORY:
		data->history = 0;
		data->history_built_us = 0;
		break;
	case SHARED_READER:
		data->reader = (struct shared_reader){ 0 };
		break;
	}
}

void shared_evict(struct shared *shared, struct rng *rng, double share)
{
	for (uint32_t i = 0; i < shared->fleet->scene.keys_count; i++) {
		const struct shared_key *key = &shared->data.keys[i];
		bool entry = draw_chance(rng, share), claim = draw_chance(rng, share);
		shared->evicts |= (entry && key->has_entry) || (claim && key->claim.exists);
		if (entry)
			shared_forget(shared, SHARED_ENTRY, (int)i);
		if (claim)
			shared_forget(shared, SHARED_CLAIM, (int)i);
		if (entry || claim)
			judge_on_forgotten(&shared->fleet->judge, (int)i);
	}
	for (int part = SHARED_PERMITS; part < SHARED_PARTS; part++)
		if (draw_chance(rng, share))
			shared_forget(shared, (enum shared_part)part, -1);
}

void shared_copy(const struct shared *shared, struct shared_data *ret_data)
{
	data_init(shared, ret_data);
	struct shared_slot *slots = ret_data->slots;
	struct shared_place *places = ret_data->places;
	*ret_data = shared->data;
	ret_data->slots = memcpy(slots, shared->data.slots, slots_size(shared));
	ret_data->places = memcpy(places, shared->data.places, places_size(shared));
	for (uint32_t i = 0; i < shared->fleet->scene.keys_count; i++) {
		value_ref(ret_data->keys[i].entry.value);
		value_ref(ret_data->keys[i].claim.failure.text);
	}
}

void shared_jump(struct shared *shared, int64_t jump_us)
{
	CHECK(shared->clocks_count < SHARED_CLOCKS_MAX);
	shared->clocks_us[shared->clocks_count++] = shared->ahead_us;
	shared->ahead_us += jump_us;
}

int64_t shared_clock_error(const struct shared *shared, int64_t clock_us)
{
	int64_t now_us = shared_now(shared), least_us = llabs(clock_us - now_us);
	for (uint32_t i = 0; i < shared->clocks_count; i++) {
		int64_t was_us = now_us - shared->ahead_us + shared->clocks_us[i];
		if (llabs(clock_us - was_us) < least_us)
			least_us = llabs(clock_us - was_us);
	}
	return least_us;
}

void shared_restart(struct shared *shared)
{
	shared->run++;
	shared->evicts = false;
}

void shared_restore(struct shared *shared, struct shared_data *data)
{
	shared_restart(shared);
	shared_data_drop(shared, &shared->data);
	shared->data = *data;
	*data = (struct shared_data){ 0 };
}

int shared_leases(const struct shared *shared)
{
	int leases = 0;
	for (uint32_t i = 0; i < shared->fleet->scene.keys_count; i++)
		leases += shared_lease_left(&shared->data.keys[i].claim, shared_now(shared)) > 0;
	return leases;
}

int shared_slots(const struct shared *shared)
{
	int slots = 0;
	int64_t now_us = shared_now(shared);
	for (int i = 0; i < shared->fleet->scene.concurrency; i++) {
		const struct shared_slot *slot = &shared->data.slots[i];
		slots += slot->until_us > now_us && slot->start_us <= now_us + SECOND;
	}
	return slots;
}
