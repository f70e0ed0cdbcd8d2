#include "moments.h"

void moments_leave(const struct moments *moments, struct store_op *op)
{
	struct fleet_clock *clock = moments->clock;
	struct entry *entry = &op->entry;
	int64_t local_us = moments->local_us;
	uint64_t fence = era_fence(moments->era, fleet_clock_store(clock, local_us));
	if ((op->verb == STORE_LEASE || op->verb == STORE_INVALIDATE) && op->known_fence < fence)
		op->known_fence = fence;
	if (op->verb != STORE_SAVE && op->verb != STORE_RELEASE)
		return;
	op->failure.until_us -= fleet_clock_now(clock, local_us);
	entry->generated_at_us = fleet_clock_to_store(clock, entry->generated_at_us, local_us);
	entry->fresh_until_us = fleet_clock_to_store(clock, entry->fresh_until_us, local_us);
	entry->stale_until_us = fleet_clock_to_store(clock, entry->stale_until_us, local_us);
	era_mark(moments->era, entry, local_us);
}

static void entry_comes(const struct moments *moments, struct store_op *op)
{
	struct fleet_clock *clock = moments->clock;
	struct entry *entry = &op->entry;
	int64_t local_us = moments->local_us;
	era_translate(moments->era, entry, op->key.keyspace->policy,
		      fleet_clock_store(clock, local_us), local_us);
	entry->generated_at_us = fleet_clock_from_store(clock, entry->generated_at_us, local_us);
	entry->fresh_until_us = fleet_clock_from_store(clock, entry->fresh_until_us, local_us);
	entry->stale_until_us = fleet_clock_from_store(clock, entry->stale_until_us, local_us);
}

void moments_come(const struct moments *moments, struct store_op *op, const struct store_op *from)
{
	op->outcome = from->outcome;
	op->has_entry = from->has_entry;
	op->has_value = from->has_value;
	op->has_claim = from->has_claim;
	op->has_failure = from->has_failure;
	op->fence = from->fence;
	op->floor = from->floor;
	op->left_us = from->left_us;
	op->beat = from->beat;
	if (op->verb == STORE_EPOCH)
		op->moment_us =
			fleet_clock_from_store(moments->clock, from->moment_us, moments->local_us);
	if (op->verb == STORE_PERMIT && op->outcome == STORE_DONE)
		op->slot = from->slot;
	if (op->verb == STORE_LOAD || op->verb == STORE_LEASE) {
		op->failure = from->failure;
		op->failure.until_us = fleet_clock_now(moments->clock, moments->local_us) +
				       op->failure.retry_in_us;
		value_ref(op->failure.text);
	}
	if (op->verb == STORE_LOAD || op->verb == STORE_LEASE || op->has_entry) {
		op->entry = from->entry;
		value_ref(op->entry.value);
	}
	if (op->has_entry)
		entry_comes(moments, op);
}
