#include "core/epoch.h"

#include <string.h>

bool epochs_add(struct epochs *epochs, struct epoch epoch)
{
	uint32_t at = epochs->count;
	while (at > 0 && epochs->at[at - 1].moment_us > epoch.moment_us)
		at--;
	if (at > 0 && epochs->at[at - 1].moment_us == epoch.moment_us)
		return false;
	if (epochs->count == EPOCHS_MAX) {
		/* The oldest, which may be this one, goes, and leaves its work to the next, which
		   may be this one, too: no key's moment there may be later than before, so there is
		   no spread left; who was spared by the older one's spread expires early. */
		if (at > 0) {
			memmove(&epochs->at[0], &epochs->at[1], (at - 1) * sizeof(epoch));
			epochs->at[at - 1] = epoch;
		}
		epochs->at[0].spread_us = 0;
		epochs->at[0].history = 0;
		return true;
	}
	memmove(&epochs->at[at + 1], &epochs->at[at], (epochs->count - at) * sizeof(epochs->at[0]));
	epochs->at[at] = epoch;
	epochs->count++;
	return true;
}

static bool spares(const struct epoch *epoch, const struct entry *entry)
{
	return epoch->history != 0 && (entry->history == epoch->history ||
				       history_is_later(entry->history, epoch->history));
}

bool epochs_apply(const struct epochs *epochs, struct entry *entry, uint64_t public_hash, bool hard)
{
	bool changed = false;
	for (uint32_t i = 0; i < epochs->count; i++) {
		const struct epoch *epoch = &epochs->at[i];
		if (entry->generated_at_us >= epoch->moment_us || spares(epoch, entry))
			continue;
		int64_t spread = epoch->spread_us;
		int64_t at = epoch->moment_us +
			     (spread > 0 ? (int64_t)(public_hash % (uint64_t)spread) : 0);
		if (at < entry->fresh_until_us) {
			entry->fresh_until_us = at;
			entry->changed = changed = true;
		}
		if (hard && spread == 0 && entry->stale_until_us > at) {
			/* Both at once, as any hard change. */
			entry->stale_until_us = entry->fresh_until_us;
			entry->changed = changed = true;
		}
	}
	return changed;
}
