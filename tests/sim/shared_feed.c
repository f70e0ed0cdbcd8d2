/* What the shared store knows of the origin's log: who reads it, and the changes of it. */
#include <string.h>

#include "base/check.h"
#include "fleet.h"
#include "shared.h"

static int64_t reader_left(const struct shared_reader *reader, int64_t now_us)
{
	return left_of(reader->until_us, reader->length_us, now_us);
}

static void reader_write(struct shared_reader *reader, uint64_t token, int64_t now_us,
			 int64_t length_us)
{
	reader->exists = true;
	reader->token = token;
	reader->until_us = length_us ? now_us + length_us : 0;
	reader->length_us = length_us;
}

/* ---- changes ------------------------------------------------------------------------------ */

/* The floor that a held lease has already, of an earlier change, and this one: what contains both.
 */
static void note_floor(struct shared_claim *claim, uint64_t floor,
		       const struct logged_change *change, int64_t now_us)
{
	int64_t version = change->has_version ? change->version : 0;
	int64_t before = claim->by_row ? claim->floor_version : 0;
	if (claim->floor >= claim->lease_fence && shared_lease_left(claim, now_us) > 0) {
		if (!change->policy->single_row && before != version)
			version = 0;
		else if (before == 0 || version < before)
			version = before;
	}
	claim->floor = floor;
	claim->floor_version = version;
	claim->by_row = true;
}

static void change_key(struct shared *shared, int number, const struct logged_change *change,
		       struct tiding *ret_tiding)
{
	struct shared_key *key = shared_key_at(shared, number);
	struct shared_claim *claim = &key->claim;
	const struct policy *policy = change->policy;
	int64_t now_us = shared_now(shared), lease_us = shared_lease_left(claim, now_us);
	bool hard = policy->on_change == ON_CHANGE_INVALIDATE;
	uint64_t floor = shared_fence_after(key, 0, now_us);
	bool expires = key->has_entry &&
		       !(change->has_version &&
			 shared_contains(&key->entry, change->version, policy->single_row));
	if (expires)
		entry_soft_expire(&key->entry, now_us, hard ? 0 : policy->stale_us);
	if (expires || lease_us > 0 || shared_failed_left(claim, now_us) > 0) {
		bool under_hard = claim->hard && lease_us > 0 && claim->floor >= claim->lease_fence;
		note_floor(claim, floor, change, now_us);
		claim->hard = hard || under_hard;
		claim->fence = floor;
		shared_failure_forget(claim);
		shared_claim_write(key, now_us);
	}
	judge_on_row_changed(&shared->fleet->judge, number, floor, hard, change->version);
	*ret_tiding = (struct tiding){ .kind = TIDING_ROW,
				       .key = number,
				       .fence = floor,
				       .hard = hard,
				       .has_version = change->has_version,
				       .version = change->version,
				       .told_us = now_us };
}

static uint32_t keyspace_of(const struct shared *shared, const struct logged_change *change)
{
	uint32_t i = 0;
	while (i < KEYSPACES && strcmp(shared->fleet->scene.policies[i].name, change->key) != 0)
		i++;
	CHECK(i < KEYSPACES);
	return i;
}

static void begin_epoch(struct shared *shared, uint32_t keyspace, int64_t spread_us)
{
	struct epoch epoch = { .spread_us = spread_us };
	epoch.moment_us = shared_begin_epoch(shared, keyspace, spread_us);
	judge_on_epoch(&shared->fleet->judge, (int)keyspace, &epoch);
}

/* All are told of the keys in one message, after the epochs. */
static void apply(struct shared *shared, const struct change_call *call)
{
	struct tiding tidings[CHANGES_MAX];
	uint32_t count = 0;
	for (uint32_t i = 0; i < call->count; i++) {
		const struct logged_change *change = &call->changes[i];
		if (change->whole)
			begin_epoch(shared, keyspace_of(shared, change), change->spread_us);
		else
			change_key(shared,
				   scene_find(&shared->fleet->scene, change->key, change->len),
				   change, &tidings[count++]);
	}
	for (uint32_t i = 0; i < count; i++)
		fleet_tell(shared->fleet, &tidings[i]);
}

/* ---- the right to read --------------------------------------------------------------------- */

static void put_position(const char *position, struct shared_feed_answer *answer)
{
	CHECK(strlen(position) < sizeof(answer->position));
	strcpy(answer->position, position);
}

void shared_follow(struct shared *shared, const struct change_call *call, uint64_t life,
		   struct shared_feed_answer *ret_answer)
{
	enum { FOLLOW_US = 3 * SECOND }; /* as in store/changes.c */
	struct shared_reader *reader = &shared->data.reader;
	int64_t now_us = shared_now(shared), left_us = reader_left(reader, now_us);
	bool ours = left_us > 0 && reader->token == life;
	*ret_answer = (struct shared_feed_answer){ .outcome = CHANGE_DONE };
	if (call->verb == CHANGE_APPLY) {
		if (!ours || strcmp(reader->position, call->from) != 0) {
			ret_answer->outcome = CHANGE_REFUSED;
			return;
		}
		apply(shared, call);
		if (call->to) {
			CHECK(strlen(call->to) < sizeof(reader->position));
			strcpy(reader->position, call->to);
		}
		reader_write(reader, life, now_us, FOLLOW_US);
	} else if (left_us > 0 && !ours) {
		/* Who gives back what is another's is told nothing of it. */
		ret_answer->outcome = call->verb == CHANGE_FOLLOW ? CHANGE_HELD : CHANGE_DONE;
		ret_answer->left_us = call->verb == CHANGE_FOLLOW ? left_us : 0;
	} else if (call->verb == CHANGE_LEAVE) {
		if (reader->exists)
			reader_write(reader, 0, now_us, 0);
	} else {
		put_position(reader->position, ret_answer);
		reader_write(reader, life, now_us, FOLLOW_US);
	}
}
