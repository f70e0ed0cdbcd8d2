#include "shared.h"

#include "base/check.h"
#include "fleet.h"

enum {
	MARGIN_US = 10 * SECOND, /* records outlive what they say */
};

int64_t shared_now(const struct shared *shared)
{
	return FLEET_EPOCH_US + shared->ahead_us + shared->fleet->vtime.now_us;
}

/* ---- records ----------------------------------------------------------------------------- */

void shared_entry_forget(struct shared_key *key)
{
	value_unref(key->entry.value);
	key->entry = (struct entry){ 0 };
	key->has_entry = key->overtaken = false;
}

void shared_failure_forget(struct shared_claim *claim)
{
	value_unref(claim->failure.text);
	claim->failure = (struct failure){ 0 };
	claim->failed_length_us = 0;
	claim->streak = 0;
}

void shared_claim_forget(struct shared_claim *claim)
{
	shared_failure_forget(claim);
	*claim = (struct shared_claim){ 0 };
}

/* The end of a record that is written now: SET with PX. */
static int64_t ends_after(int64_t left_us, int64_t now_us)
{
	return (now_us / 1000 + (left_us + MARGIN_US + 999) / 1000) * 1000;
}

/* What has ended is gone: it does not come back when the clock does. */
static void forget_ended(struct shared_key *key, int64_t now_us)
{
	if (key->has_entry && shared_has_ended(key->entry_ends_us, now_us))
		shared_entry_forget(key);
	if (key->claim.exists && shared_has_ended(key->claim.ends_us, now_us))
		shared_claim_forget(&key->claim);
}

void shared_sweep(struct shared *shared)
{
	for (uint32_t i = 0; i < shared->fleet->scene.keys_count; i++)
		forget_ended(&shared->data.keys[i], shared_now(shared));
}

struct shared_key *shared_key_at(struct shared *shared, int number)
{
	CHECK(number >= 0);
	struct shared_key *key = &shared->data.keys[number];
	forget_ended(key, shared_now(shared));
	return key;
}

static struct shared_key *key_of(struct shared *shared, const struct store_op *op)
{
	return shared_key_at(shared, scene_find(&shared->fleet->scene, op->key.bytes, op->key.len));
}

static int number_of(const struct shared *shared, const struct shared_key *key)
{
	return (int)(key - shared->data.keys);
}

int64_t shared_lease_left(const struct shared_claim *claim, int64_t now_us)
{
	return left_of(claim->lease_until_us, claim->lease_length_us, now_us);
}

int64_t shared_failed_left(const struct shared_claim *claim, int64_t now_us)
{
	bool failed = claim->failure.status != STATUS_OK;
	return failed ? left_of(claim->failure.until_us, claim->failed_length_us, now_us) : 0;
}

uint32_t shared_streak(const struct shared_claim *claim, int64_t now_us)
{
	int64_t length_us = claim->failed_length_us;
	int64_t until_us = claim->failure.until_us + length_us;
	return left_of(until_us, 2 * length_us, now_us) > 0 ? claim->streak : 0;
}

void shared_claim_write(struct shared_key *key, int64_t now_us)
{
	struct shared_claim *claim = &key->claim;
	int64_t length_us = claim->failed_length_us;
	int64_t left_us = shared_lease_left(claim, now_us);
	int64_t known_us = left_of(claim->failure.until_us + length_us, 2 * length_us, now_us);
	int64_t entry_us = key->has_entry ? (key->entry_ends_us / 1000 - now_us / 1000) * 1000 : 0;
	left_us = left_us > known_us ? left_us : known_us;
	left_us = left_us > entry_us ? left_us : entry_us;
	claim->streak = shared_streak(claim, now_us);
	claim->exists = true;
	claim->ends_us = ends_after(left_us, now_us);
}

static bool claim_is_ours(const struct shared_claim *claim, const struct store_op *op,
			  int64_t now_us)
{
	return shared_lease_left(claim, now_us) > 0 && claim->token == op->token;
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

uint64_t shared_fence_after(const struct shared_key *key, uint64_t known, int64_t now_us)
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
	op->failure.streak = shared_streak(&key->claim, now_us);
	op->failure.retry_in_us = shared_failed_left(&key->claim, now_us);
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
	op->left_us = shared_lease_left(&key->claim, now_us);
	op->beat = shared->data.has_beat ? shared->data.beat_number : 0;
	if (key->has_entry)
		give_entry(key, op);
	if (key->has_entry && key->entry.fence <= op->known_fence) {
		value_unref(op->entry.value);
		op->entry.value = NULL;
		op->has_value = false;
	}
	if (shared_failed_left(&key->claim, now_us) > 0)
		give_failure(key, op, now_us);
}

static bool is_enough(const struct shared *shared, const struct shared_key *key,
		      const struct want *want, uint32_t era)
{
	int64_t now_us = shared_now(shared);
	if (!key->has_entry || !(want->fresh || want->fence_after || want->has_min_version))
		return false;
	if (want->fresh && (key->entry.fresh_until_us <= now_us || key->entry.era != era))
		return false;
	if (want->fence_after && key->entry.fence <= want->fence_after)
		return false;
	return !want->has_min_version ||
	       entry_covers(&key->entry, want->min_version, policy_of(shared, key)->single_row);
}

bool shared_contains(const struct entry *entry, int64_t version, bool single_row)
{
	if (!entry->has_version || entry->absent)
		return false;
	return entry->version == version || (single_row && entry->version > version);
}

/* What changes while it is built, again and again, is built once a second, unless somebody asks for
   more than what there is. */
static int64_t overtaken_left(const struct shared_key *key, const struct want *want, int64_t now_us)
{
	if (!key->has_entry || !key->overtaken || want->has_min_version ||
	    (want->fence_after && key->entry.fence < want->fence_after))
		return 0;
	return left_of(key->entry.generated_at_us + SECOND, SECOND, now_us);
}

static void grant_lease(struct shared *shared, struct shared_key *key, struct store_op *op,
			const struct caller *caller)
{
	struct shared_claim *claim = &key->claim;
	int64_t now_us = shared_now(shared);
	judge_on_leased(&shared->fleet->judge, number_of(shared, key), caller, op);
	claim->fence = claim->lease_fence = op->fence =
		shared_fence_after(key, op->known_fence, now_us);
	claim->token = op->token;
	claim->granted_at_us = now_us;
	claim->lease_length_us = op->length_us;
	claim->lease_until_us = now_us + op->length_us;
	shared_claim_write(key, now_us);
}

static void do_lease(struct shared *shared, struct store_op *op, const struct caller *caller)
{
	struct shared_key *key = key_of(shared, op);
	int64_t now_us = shared_now(shared);
	op->floor = key->claim.floor;
	op->failure = (struct failure){ .streak = shared_streak(&key->claim, now_us) };
	if (claim_is_ours(&key->claim, op, now_us)) {
		op->fence = key->claim.lease_fence;
	} else if (is_enough(shared, key, &op->want, caller->era)) {
		op->outcome = STORE_ENOUGH;
		give_entry(key, op);
	} else if (shared_failed_left(&key->claim, now_us) > 0) {
		op->outcome = STORE_FAILED;
		give_failure(key, op, now_us);
	} else if (shared_lease_left(&key->claim, now_us) > 0) {
		op->outcome = STORE_HELD;
		op->left_us = shared_lease_left(&key->claim, now_us);
		if (!key->claim.waited) {
			key->claim.waited = true;
			shared_claim_write(key, now_us);
		}
	} else if (overtaken_left(key, &op->want, now_us) > 0) {
		op->outcome = STORE_HELD;
		op->left_us = overtaken_left(key, &op->want, now_us);
	} else {
		grant_lease(shared, key, op, caller);
	}
}

static void do_renew(struct shared *shared, struct store_op *op)
{
	struct shared_key *key = key_of(shared, op);
	struct shared_claim *claim = &key->claim;
	int64_t now_us = shared_now(shared), length_us = op->length_us;
	int64_t end_us = claim->granted_at_us + op->longest_us;
	op->floor = claim->floor;
	if (length_us > end_us - now_us)
		length_us = end_us - now_us;
	if (!claim_is_ours(claim, op, now_us) || length_us <= 0) {
		op->outcome = STORE_REFUSED;
		return;
	}
	claim->lease_length_us = length_us;
	claim->lease_until_us = now_us + length_us;
	shared_claim_write(key, now_us);
}

static void put_entry(struct shared *shared, struct shared_key *key, const struct entry *entry)
{
	int64_t now_us = shared_now(shared);
	int64_t left_us = entry->stale_until_us > now_us ? entry->stale_until_us - now_us : 0;
	value_ref(entry->value);
	shared_entry_forget(key);
	key->entry = *entry;
	key->has_entry = true;
	key->entry_ends_us = ends_after(left_us, now_us);
	shared_failure_forget(&key->claim);
	key->claim.stored = true;
	judge_on_saved(&shared->fleet->judge, number_of(shared, key), entry);
}

/* Not stored: the header of what is there instead. */
static void refuse_save(const struct shared_key *key, struct store_op *op)
{
	op->outcome = STORE_REFUSED;
	op->floor = key->claim.floor;
	op->has_entry = key->has_entry;
	op->entry = key->entry;
	op->entry.value = NULL;
}

/* Built in a history that is not the fleet's; else the fleet's follows, if it was built just now.
 */
static bool is_foreign(struct shared *shared, uint64_t history, bool given)
{
	struct shared_data *data = &shared->data;
	uint64_t current = data->history;
	int64_t now_us = shared_now(shared);
	bool moves = history != current;
	if (history == 0)
		return false;
	if (moves && current != 0 && !history_is_later(history, current) &&
	    (history_is_one_system(history, current) ||
	     left_of(data->history_built_us + 10 * SECOND, 10 * SECOND, now_us) > 0))
		return true;
	if (given)
		return moves && current != 0;
	if (moves || left_of(data->history_built_us + SECOND, SECOND, now_us) == 0) {
		data->history = history;
		data->history_built_us = now_us;
	}
	return false;
}

static void do_save(struct shared *shared, struct store_op *op, const struct caller *caller)
{
	struct shared_key *key = key_of(shared, op);
	struct shared_claim *claim = &key->claim;
	struct entry entry = op->entry;
	int64_t now_us = shared_now(shared);
	bool silent = shared->fleet->scene.trust_us > 0 && !shared->data.has_beat;
	bool had_entry = key->has_entry;
	bool elsewhere = had_entry || claim->stored || shared->evicts || silent;
	bool single_row = policy_of(shared, key)->single_row;
	bool has_change = claim->by_row && claim->floor_version != 0 &&
			  shared_contains(&entry, claim->floor_version, single_row);
	op->floor = has_change ? 0 : claim->floor;
	if (!claim_is_ours(claim, op, now_us)) {
		if (!had_entry || key->entry.fence != entry.fence)
			refuse_save(key, op);
		return;
	}
	if (op->given && op->heard_us <= claim->granted_at_us) {
		op->outcome = STORE_RETRY;
		op->floor = 0;
		return;
	}
	bool waited = claim_end_lease(claim);
	bool keep = !is_foreign(shared, entry.history, op->given) &&
		    (!had_entry || entry_supersedes(&entry, &key->entry, single_row));
	bool before_change = op->floor >= entry.fence;
	if (before_change) {
		keep = keep && !entry.absent && !claim->hard;
		/* Stale for as long as counted from when it was made. */
		int64_t stale_until_us = entry.generated_at_us + policy_of(shared, key)->stale_us;
		int64_t at_us = stale_until_us < now_us ? stale_until_us : now_us;
		entry_soft_expire(&entry, at_us, stale_until_us - at_us);
	}
	if (keep && op->given)
		judge_on_given(&shared->fleet->judge, number_of(shared, key), caller->node, &entry);
	if (keep) {
		put_entry(shared, key, &entry);
		key->overtaken = before_change && claim->by_row;
	} else {
		refuse_save(key, op);
	}
	shared_claim_write(key, now_us);
	judge_on_settled(&shared->fleet->judge, number_of(shared, key), op->token);
	if (waited || (keep && elsewhere))
		publish(shared, key, TIDING_SETTLED, key->has_entry ? key->entry.fence : 0, false);
}

/* The failure's `until_us` is a length here, as the script takes it. */
static void remember_failure(struct shared_claim *claim, const struct failure *failure,
			     int64_t now_us)
{
	shared_failure_forget(claim);
	claim->failure = *failure;
	claim->failure.until_us = now_us + failure->until_us;
	claim->streak = failure->streak;
	claim->failed_length_us = failure->until_us;
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
	shared_claim_write(key, now_us);
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
	if (key->has_entry && op->hard)
		key->entry.stale_until_us = key->entry.fresh_until_us;
	/* A build that was under way at a hard change stays forbidden when a soft one follows. */
	bool under_hard = claim->hard && shared_lease_left(claim, now_us) > 0 &&
			  claim->floor >= claim->lease_fence;
	claim->fence = claim->floor = op->fence = op->floor =
		shared_fence_after(key, op->known_fence, now_us);
	claim->hard = op->hard || under_hard;
	claim->by_row = false;
	shared_failure_forget(claim);
	shared_claim_write(key, now_us);
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
		do_save(shared, op, caller);
		break;
	case STORE_RELEASE:
		do_release(shared, op);
		break;
	case STORE_INVALIDATE:
		do_invalidate(shared, op);
		break;
	case STORE_EPOCH:
		shared_epoch(shared, op);
		break;
	}
}
