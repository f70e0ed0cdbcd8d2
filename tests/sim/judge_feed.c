/* The origin's log of changes: each is applied, and in time, and then nothing from before it is
 * fresh. What has been applied he knows from the position, which says what was seen, not from the
 * keys that the daemons name.
 */
#include <stdlib.h>

#include "base/check.h"
#include "fleet.h"
#include "origin/feed_position.h"

static struct changelog *log_of(const struct judge *judge)
{
	return &judge->fleet->database.log;
}

static int keyspace_of(const struct judge *judge, const struct logged *row)
{
	return row->whole ? row->key : (int)judge->fleet->scene.keys[row->key].keyspace;
}

static bool is_followed(const struct judge *judge, const struct logged *row)
{
	const struct policy *policies = judge->fleet->scene.policies;
	return policies[keyspace_of(judge, row)].on_change != ON_CHANGE_IGNORE;
}

static int find_keyspace(const struct judge *judge, const char *name)
{
	int i = 0;
	while (strcmp(judge->fleet->scene.policies[i].name, name) != 0)
		i++;
	return i;
}

/* True: all of all followed keyspaces expires, since some of the log may be lost to them. */
static bool note_whole(struct judge *judge, const struct change_call *call)
{
	int64_t now_us = judge->fleet->vtime.now_us;
	uint32_t followed = 0, whole = 0;
	for (int i = 0; i < KEYSPACES; i++)
		followed += judge->fleet->scene.policies[i].on_change != ON_CHANGE_IGNORE;
	for (uint32_t i = 0; i < call->count; i++) {
		if (!call->changes[i].whole)
			return false;
		whole++;
	}
	if (whole < followed)
		return false;
	for (uint32_t i = 0; i < call->count; i++)
		judge->expired_us[find_keyspace(judge, call->changes[i].key)] =
			now_us + call->changes[i].spread_us;
	return true;
}

void judge_on_applied(struct judge *judge, const struct change_call *call)
{
	struct changelog *log = log_of(judge);
	int64_t now_us = judge->fleet->vtime.now_us;
	struct snapshot snapshot;
	bool expiring = note_whole(judge, call);
	if (!call->to)
		return;
	uint64_t history = strtoull(call->to, NULL, 16);
	snapshot_read(call->to + FEED_ORIGIN_LEN + 1, &snapshot);
	for (uint32_t i = judge->unapplied; i < log->count; i++) {
		struct logged *row = &log->rows[i];
		if (row->lost || row->applied_us != INT64_MAX || row->history > history ||
		    !snapshot_sees(&snapshot, row->xid))
			continue;
		int64_t expired_us = judge->expired_us[keyspace_of(judge, row)];
		bool unread = expiring || row->trimmed_us != INT64_MAX;
		row->marked_us = now_us;
		row->applied_us = unread && expired_us > now_us ? expired_us : now_us;
	}
}

void judge_on_unapplied(struct judge *judge, int64_t since_us)
{
	struct changelog *log = log_of(judge);
	for (uint32_t i = 0; i < log->count; i++) {
		struct logged *row = &log->rows[i];
		if (row->applied_us == INT64_MAX || row->marked_us <= since_us)
			continue;
		row->applied_us = INT64_MAX;
		if (judge->unapplied > i)
			judge->unapplied = i;
	}
}

void judge_on_promoted(struct judge *judge, int64_t since_us)
{
	for (uint32_t key = 0; key < judge->fleet->scene.keys_count; key++) {
		struct key_history *history = &judge->keys[key];
		for (uint32_t i = history->changes_count;
		     i-- > 0 && history->changes[i].at_us > since_us;)
			history->changes[i].lost |=
				history->changes[i].row && history->changes[i].from_us > since_us;
	}
}

void judge_check_log(struct judge *judge)
{
	const struct changelog *log = log_of(judge);
	while (judge->unapplied < log->count) {
		const struct logged *row = &log->rows[judge->unapplied];
		if (!row->lost && row->applied_us == INT64_MAX && is_followed(judge, row))
			break;
		judge->unapplied++;
	}
	if (judge->unapplied == log->count || !judge_is_calm(judge))
		return;
	const struct logged *row = &log->rows[judge->unapplied];
	if (row->at_us < judge->fleet->vtime.now_us - FOLLOWED_US)
		judge_fail(judge, "changes show", "xid=%" PRIu64 " committed=%.6f is not applied",
			   row->xid, (double)row->at_us / SECOND);
}

/* What the store has as fresh contains what was committed a while ago. */
static void check_key(const struct judge *judge, int key, const struct entry *entry)
{
	const struct changelog *log = log_of(judge);
	const struct key_history *history = &judge->keys[key];
	const struct build_record *record = NULL;
	for (uint32_t i = history->builds_count; i-- > 0 && !record;)
		if (judge->builds[history->builds[i]].fence == entry->fence)
			record = &judge->builds[history->builds[i]];
	CHECK(record);
	for (uint32_t i = log->of_key_count[key]; i-- > 0;) {
		const struct logged *row = &log->rows[log->of_key[key][i]];
		if (row->at_us <= record->read_us)
			return;
		if (!row->lost && row->history == record->history &&
		    row->applied_us < judge->fleet->vtime.now_us)
			judge_fail(judge, "changes show",
				   "key=%s is stored as fresh without version=%" PRId64,
				   judge->fleet->scene.keys[key].bytes, row->version);
	}
}

void judge_check_stored(const struct judge *judge)
{
	const struct fleet *fleet = judge->fleet;
	const struct scene *scene = &fleet->scene;
	for (uint32_t i = 0; i < scene->keys_count && scene->follows; i++) {
		const struct shared_key *key = &fleet->shared.data.keys[i];
		if (key->has_entry &&
		    scene->policies[scene->keys[i].keyspace].on_change != ON_CHANGE_IGNORE &&
		    entry_phase(&key->entry, shared_now(&fleet->shared)) == ENTRY_FRESH)
			check_key(judge, (int)i, &key->entry);
	}
}
