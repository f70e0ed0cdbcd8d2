#include "shared.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "fleet.h"

enum {
	MARGIN_US = 10 * SECOND,       /* records outlive what they say */
	LEASE_BESIDE_US = 60 * SECOND, /* as in store/verbs.c */
};

int64_t shared_now(const struct shared *shared)
{
	return FLEET_EPOCH_US + shared->fleet->vtime.now_us;
}

/* ---- records ----------------------------------------------------------------------------- */

static void entry_forget(struct shared_key *key)
{
	value_unref(key->entry.value);
	key->entry = (struct entry){ 0 };
	key->has_entry = false;
}

static void failure_forget(struct shared_claim *claim)
{
	value_unref(claim->failure.text);
	claim->failure = (struct failure){ 0 };
}

static void claim_forget(struct shared_claim *claim)
{
	failure_forget(claim);
	*claim = (struct shared_claim){ 0 };
}

static struct shared_key *key_of(struct shared *shared, const struct store_op *op)
{
	int number = scene_find(&shared->fleet->scene, op->key.bytes, op->key.len);
	CHECK(number >= 0);
	struct shared_key *key = &shared->data.keys[number];
	int64_t now_us = shared_now(shared);
	if (key->has_entry && now_us >= key->entry_ends_us)
		entry_forget(key);
	if (key->claim.exists && now_us >= key->claim.ends_us)
		claim_forget(&key->claim);
	return key;
}

static int number_of(const struct shared *shared, const struct shared_key *key)
{
	return (int)(key - shared->data.keys);
}

static int64_t lease_left(const struct shared_claim *claim, int64_t now_us)
{
	return left_of(claim->lease_until_us, claim->lease_length_us, now_us);
}

static int64_t failed_left(const struct shared_claim *claim, int64_t now_us)
{
	bool failed = claim->failure.status != STATUS_OK;
	return failed && now_us < claim->failure.until_us ? claim->failure.until_us - now_us : 0;
}

static void claim_write(struct shared_key *key, int64_t now_us)
{
	int64_t left_us = lease_left(&key->claim, now_us);
	if (left_us < failed_left(&key->claim, now_us))
		left_us = failed_left(&key->claim, now_us);
	if (key->has_entry && left_us < key->entry_ends_us - now_us)
		left_us = key->entry_ends_us - now_us;
	key->claim.exists = true;
	key->claim.ends_us = now_us + left_us + MARGIN_US;
}

static bool claim_is_ours(const struct shared_claim *claim, const struct store_op *op,
			  int64_t now_us)
{
	return lease_left(claim, now_us) > 0 && claim->token == op->token;
}

/* True if somebody waits for the lease's end. */
static bool claim_end_lease(struct shared_claim *claim)
{
	bool waited = claim->waited;
	claim->waited = false;
	claim->token = 0;
	claim->lease_until_us = 0;
	return waited;
}

static uint64_t fence_after(const struct shared_key *key, uint64_t known, int64_t now_us)
{
	uint64_t fence = (uint64_t)now_us - 1;
	if (fence < key->claim.fence)
		fence = key->claim.fence;
	if (key->has_entry && fence < key->entry.fence)
		fence = key->entry.fence;
	if (fence < known)
		fence = known;
	return fence + 1;
}

/* Not by op->key.keyspace, whose daemon may have died since. */
static const struct policy *policy_of(const struct shared *shared, const struct shared_key *key)
{
	const struct scene *scene = &shared->fleet->scene;
	return &scene->policies[scene->keys[number_of(shared, key)].keyspace];
}

/* ---- answers ----------------------------------------------------------------------------- */

static void give_entry(const struct shared_key *key, struct store_op *op)
{
	op->has_entry = op->has_value = true;
	op->entry = key->entry;
	value_ref(op->entry.value);
}

static void give_failure(const struct shared_key *key, struct store_op *op, int64_t now_us)
{
	op->has_failure = true;
	op->failure = key->claim.failure;
	op->failure.retry_in_us = failed_left(&key->claim, now_us);
	value_ref(op->failure.text);
}

static void publish(struct shared *shared, struct shared_key *key, enum tiding_kind kind,
		    uint64_t fence, bool hard)
{
	fleet_tell(shared->fleet, &(struct tiding){ .kind = kind,
						    .key = number_of(shared, key),
						    .fence = fence,
						    .hard = hard,
						    .told_us = shared_now(shared) });
}

/* ---- the scripts ------------------------------------------------------------------------- */

static void do_load(struct shared *shared, struct store_op *op)
{
	struct shared_key *key = key_of(shared, op);
	int64_t now_us = shared_now(shared);
	op->has_claim = key->claim.exists;
	op->fence = key->claim.fence;
	op->floor = key->claim.floor;
	op->left_us = lease_left(&key->claim, now_us);
	if (key->has_entry)
		give_entry(key, op);
	if (key->has_entry && key->entry.fence <= op->known_fence) {
		value_unref(op->entry.value);
		op->entry.value = NULL;
		op->has_value = false;
	}
	if (failed_left(&key->claim, now_us) > 0)
		give_failure(key, op, now_us);
}

static bool is_enough(const struct shared *shared, const struct shared_key *key,
		      const struct want *want, int64_t now_us)
{
	if (!key->has_entry || !(want->fresh || want->fence_after || want->has_min_version))
		return false;
	if (want->fresh && key->entry.fresh_until_us <= now_us)
		return false;
	if (want->fence_after && key->entry.fence <= want->fence_after)
		return false;
	return !want->has_min_version ||
	       entry_covers(&key->entry, want->min_version, policy_of(shared, key)->single_row);
}

static void grant_lease(struct shared *shared, struct shared_key *key, struct store_op *op,
			const struct caller *caller)
{
	struct shared_claim *claim = &key->claim;
	int64_t now_us = shared_now(shared);
	judge_on_leased(&shared->fleet->judge, number_of(shared, key), caller->node, op);
	claim->fence = claim->lease_fence = op->fence = fence_after(key, op->known_fence, now_us);
	claim->token = op->token;
	claim->granted_at_us = now_us;
	claim->lease_length_us = op->length_us;
	claim->lease_until_us = now_us + op->length_us;
	op->failure.streak = now_us < claim->streak_until_us ? claim->streak : 0;
	failure_forget(claim);
	claim_write(key, now_us);
}

static void do_lease(struct shared *shared, struct store_op *op, const struct caller *caller)
{
	struct shared_key *key = key_of(shared, op);
	int64_t now_us = shared_now(shared);
	op->floor = key->claim.floor;
	if (claim_is_ours(&key->claim, op, now_us)) {
		op->fence = key->claim.lease_fence;
	} else if (is_enough(shared, key, &op->want, now_us)) {
		op->outcome = STORE_ENOUGH;
		give_entry(key, op);
	} else if (failed_left(&key->claim, now_us) > 0) {
		op->outcome = STORE_FAILED;
		give_failure(key, op, now_us);
	} else if (lease_left(&key->claim, now_us) > 0) {
		op->outcome = STORE_HELD;
		op->left_us = lease_left(&key->claim, now_us);
		key->claim.waited = true;
		claim_write(key, now_us);
	} else {
		grant_lease(shared, key, op, caller);
	}
}

static void do_renew(struct shared *shared, struct store_op *op)
{
	struct shared_key *key = key_of(shared, op);
	struct shared_claim *claim = &key->claim;
	int64_t now_us = shared_now(shared), length_us = op->length_us;
	int64_t end_us =
		claim->granted_at_us + policy_of(shared, key)->build_timeout_us + LEASE_BESIDE_US;
	op->floor = claim->floor;
	if (length_us > end_us - now_us)
		length_us = end_us - now_us;
	if (!claim_is_ours(claim, op, now_us) || length_us <= 0) {
		op->outcome = STORE_REFUSED;
		return;
	}
	claim->lease_length_us = length_us;
	claim->lease_until_us = now_us + length_us;
	claim_write(key, now_us);
}

static void put_entry(struct shared *shared, struct shared_key *key, const struct entry *entry)
{
	int64_t now_us = shared_now(shared);
	int64_t left_us = entry->stale_until_us > now_us ? entry->stale_until_us - now_us : 0;
	value_ref(entry->value);
	entry_forget(key);
	key->entry = *entry;
	key->has_entry = true;
	key->entry_ends_us = now_us + left_us + MARGIN_US;
	failure_forget(&key->claim);
	key->claim.streak_until_us = 0;
	judge_on_saved(&shared->fleet->judge, number_of(shared, key), entry);
}

static void do_save(struct shared *shared, struct store_op *op)
{
	struct shared_key *key = key_of(shared, op);
	struct shared_claim *claim = &key->claim;
	struct entry entry = op->entry;
	int64_t now_us = shared_now(shared);
	bool had_entry = key->has_entry;
	op->floor = claim->floor;
	if (!claim_is_ours(claim, op, now_us)) {
		bool repeated = had_entry && key->entry.fence == entry.fence;
		op->outcome = repeated ? STORE_DONE : STORE_REFUSED;
		return;
	}
	bool waited = claim_end_lease(claim);
	bool keep = !had_entry ||
		    entry_supersedes(&entry, &key->entry, policy_of(shared, key)->single_row);
	if (claim->floor >= entry.fence) {
		keep = keep && !entry.absent && !claim->hard;
		/* Stale for as long as counted from when it was made. */
		entry_soft_expire(&entry, now_us,
				  entry.generated_at_us - now_us +
					  policy_of(shared, key)->stale_us);
	}
	if (keep)
		put_entry(shared, key, &entry);
	else
		op->outcome = STORE_REFUSED;
	claim_write(key, now_us);
	judge_on_settled(&shared->fleet->judge, number_of(shared, key), op->token);
	if (waited || (keep && had_entry))
		publish(shared, key, TIDING_SETTLED, key->has_entry ? key->entry.fence : 0, false);
}

/* The failure's `until_us` is a length here, as the script takes it. */
static void remember_failure(struct shared_claim *claim, const struct failure *failure,
			     int64_t now_us)
{
	failure_forget(claim);
	claim->failure = *failure;
	claim->failure.until_us = now_us + failure->until_us;
	claim->streak = failure->streak;
	claim->streak_until_us = claim->failure.until_us + failure->until_us;
	value_ref(claim->failure.text);
}

static void do_release(struct shared *shared, struct store_op *op)
{
	struct shared_key *key = key_of(shared, op);
	int64_t now_us = shared_now(shared);
	if (!claim_is_ours(&key->claim, op, now_us))
		return;
	bool waited = claim_end_lease(&key->claim);
	if (op->failure.status != STATUS_OK && op->failure.until_us > 0)
		remember_failure(&key->claim, &op->failure, now_us);
	claim_write(key, now_us);
	judge_on_settled(&shared->fleet->judge, number_of(shared, key), op->token);
	if (waited)
		publish(shared, key, TIDING_SETTLED, key->has_entry ? key->entry.fence : 0, false);
}

static void do_invalidate(struct shared *shared, struct store_op *op)
{
	struct shared_key *key = key_of(shared, op);
	struct shared_claim *claim = &key->claim;
	int64_t now_us = shared_now(shared);
	if (key->has_entry)
		entry_soft_expire(&key->entry, now_us,
				  op->hard ? 0 : policy_of(shared, key)->stale_us);
	/* A build that was under way at a hard change stays forbidden when a soft one follows. */
	bool under_hard =
		claim->hard && lease_left(claim, now_us) > 0 && claim->floor >= claim->lease_fence;
	claim->fence = claim->floor = op->fence = fence_after(key, op->known_fence, now_us);
	claim->hard = op->hard || under_hard;
	claim->streak_until_us = 0;
	failure_forget(claim);
	claim_write(key, now_us);
	judge_on_changed(&shared->fleet->judge, number_of(shared, key), op->fence, op->hard);
	publish(shared, key, TIDING_CHANGED, op->fence, op->hard);
}

void shared_execute(struct shared *shared, struct store_op *op, const struct caller *caller)
{
	op->outcome = STORE_DONE;
	switch (op->verb) {
	case STORE_LOAD:
		do_load(shared, op);
		break;
	case STORE_LEASE:
		do_lease(shared, op, caller);
		break;
	case STORE_RENEW:
		do_renew(shared, op);
		break;
	case STORE_PERMIT:
		shared_permit(shared, op, caller);
		break;
	case STORE_FREE:
		shared_free(shared, op);
		break;
	case STORE_SAVE:
		do_save(shared, op);
		break;
	case STORE_RELEASE:
		do_release(shared, op);
		break;
	case STORE_INVALIDATE:
		do_invalidate(shared, op);
		break;
	case STORE_EPOCH:
		op->outcome = STORE_AWAY;
		break;
	}
}

/* ---- life, faults ------------------------------------------------------------------------ */

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
		entry_forget(&data->keys[i]);
		claim_forget(&data->keys[i].claim);
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

void shared_evict(struct shared *shared, struct rng *rng, double share)
{
	for (uint32_t i = 0; i < shared->fleet->scene.keys_count; i++) {
		struct shared_key *key = &shared->data.keys[i];
		bool entry = draw_chance(rng, share), claim = draw_chance(rng, share);
		if (entry)
			entry_forget(key);
		if (claim)
			claim_forget(&key->claim);
		if (entry || claim)
			judge_on_forgotten(&shared->fleet->judge, (int)i);
	}
	if (draw_chance(rng, share)) {
		shared->data.has_permits = false;
		memset(shared->data.slots, 0, slots_size(shared));
	}
	if (draw_chance(rng, share))
		shared->data.has_beat = false;
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

void shared_restart(struct shared *shared)
{
	shared->run++;
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
		leases += lease_left(&shared->data.keys[i].claim, shared_now(shared)) > 0;
	return leases;
}

int shared_slots(const struct shared *shared)
{
	int slots = 0;
	for (int i = 0; i < shared->fleet->scene.concurrency; i++)
		slots += shared->data.slots[i].until_us > shared_now(shared);
	return slots;
}
