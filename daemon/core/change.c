#include "core/change.h"

bool row_change_is_in(const struct row_change *change, const struct entry *entry, bool single_row)
{
	if (entry->fence > change->floor && !entry->own_fence)
		return true;
	if (!change->has_version || !entry->has_version || entry->absent)
		return false;
	return entry->version == change->version ||
	       (single_row && entry->version > change->version);
}

void row_change_join(struct row_change *change, const struct row_change *other, bool single_row)
{
	if (change->floor == 0) {
		*change = *other;
		return;
	}
	if (single_row && change->has_version && other->has_version) {
		if (change->version < other->version)
			change->version = other->version;
	} else {
		change->has_version = change->has_version && other->has_version &&
				      change->version == other->version;
	}
	if (change->floor < other->floor)
		change->floor = other->floor;
}
