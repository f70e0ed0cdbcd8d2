/* Operations: what the daemon makes of them on their way out, of their answers, and without one. As
 * in store/redis.c and store/verbs.c.
 */
#include "base/check.h"
#include "fleet.h"
#include "post.h"

enum { PERMIT_LATE_US = 100 * MS };

void post_op_fail(struct post *post, struct store_op *op, enum store_error error)
{
	trace(post->node->fleet, "node=%d ev=away verb=%s key=%.*s error=%s", post->node->number,
	      store_verb_name(op->verb), (int)op->key.len, op->key.len ? op->key.bytes : "",
	      store_error_name(error));
	amends_make(&post->amends, op, error, post_local(post));
	op->outcome = STORE_AWAY;
	op->has_entry = op->has_value = op->has_claim = op->has_failure = false;
	if (op->verb == STORE_PERMIT && !post->node->buried)
		alone_answer(&post->alone, &post->place, op, post_store_clock(post),
			     post_local(post));
}

/* ---- translated ----------------------------------------------------------------------------- */

/* Moments leave by the store's clock, and come back by the daemon's. */
void post_op_leaves(struct post *post, struct store_op *op)
{
	struct entry *entry = &op->entry;
	int64_t local_us = post_local(post);
	op->failure.until_us -= fleet_clock_now(&post->clock, local_us);
	entry->era = post->era.number;
	entry->generated_at_us =
		fleet_clock_to_store(&post->clock, entry->generated_at_us, local_us);
	entry->fresh_until_us = fleet_clock_to_store(&post->clock, entry->fresh_until_us, local_us);
	entry->stale_until_us = fleet_clock_to_store(&post->clock, entry->stale_until_us, local_us);
}

static void entry_comes(struct post *post, struct store_op *op)
{
	struct entry *entry = &op->entry;
	int64_t local_us = post_local(post);
	era_translate(&post->era, entry, op->key.keyspace->policy, post_store_clock(post));
	entry->generated_at_us =
		fleet_clock_from_store(&post->clock, entry->generated_at_us, local_us);
	entry->fresh_until_us =
		fleet_clock_from_store(&post->clock, entry->fresh_until_us, local_us);
	entry->stale_until_us =
		fleet_clock_from_store(&post->clock, entry->stale_until_us, local_us);
}

static void permit_comes(struct post *post, struct store_op *op, int64_t offset_us)
{
	op->left_us -= offset_us + post_local(post);
	if (op->left_us < -PERMIT_LATE_US) {
		amends_add(&post->amends, STORE_FREE, op, post_local(post) + op->length_us);
		op->outcome = STORE_RETRY;
	}
	if (op->left_us < 0)
		op->left_us = 0;
}

void post_op_comes(struct post *post, struct store_op *op, const struct store_op *from,
		   int64_t offset_us)
{
	op->outcome = from->outcome;
	op->has_entry = from->has_entry;
	op->has_value = from->has_value;
	op->has_claim = from->has_claim;
	op->has_failure = from->has_failure;
	op->fence = from->fence;
	op->floor = from->floor;
	op->left_us = from->left_us;
	if (op->verb == STORE_LOAD || op->verb == STORE_LEASE) {
		op->entry = from->entry;
		op->failure = from->failure;
		op->failure.until_us =
			fleet_clock_now(&post->clock, post_local(post)) + op->failure.retry_in_us;
		value_ref(op->entry.value);
		value_ref(op->failure.text);
		if (op->has_entry)
			entry_comes(post, op);
	} else if (op->verb == STORE_PERMIT && op->outcome == STORE_DONE) {
		op->slot = from->slot;
		permit_comes(post, op, offset_us);
	}
}
