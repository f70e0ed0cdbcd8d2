/* What clients are told, against what happened. */
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "core/answer.h"
#include "fleet.h"

/* One value that a client is told. */
struct told {
	struct judge *judge;
	struct node *node;
	const struct query *query;
	const struct answer *answer;
	const struct policy *policy;
	int key, connection;
	int64_t asked_us, at_us;          /* true time */
	int64_t asked_clock_us, clock_us; /* the daemon's */
	uint32_t number;                  /* of the build it comes from */
	const struct build_record *record;
	bool after; /* that build began after the request came */
	bool fresh; /* told as such */
};

static _Noreturn void fail(const struct told *told, const char *promise, const char *what)
{
	const struct answer *answer = told->answer;
	judge_fail(told->judge, promise,
		   "%s: node=%d key=%s build=%u state=%s reason=%s source=%s age=%.6f ttl=%.6f "
		   "stale=%.6f asked=%.6f began=%.6f",
		   what, told->node->number, told->judge->fleet->scene.keys[told->key].bytes,
		   told->number, answer_state_name(answer->state),
		   answer_reason_name(answer->reason), answer_source_name(answer->source),
		   (double)answer->age_us / SECOND, (double)answer->ttl_us / SECOND,
		   (double)answer->stale_us / SECOND, (double)told->asked_us / SECOND,
		   told->record ? (double)told->record->began_us / SECOND : 0);
}

/* What the daemons' clocks were wrong by: the reader's, and the builder's. */
static int64_t slack_us(const struct told *told)
{
	const struct build_record *record = told->record;
	const struct node *builder = record ? &told->judge->fleet->nodes[record->node] : told->node;
	int64_t error_us = told->node->error_us + (record ? record->error_us : 0);
	/* It may have gone wrong between the build and its being stored. */
	if (record && builder->life == record->life && builder->error_us > record->error_us)
		error_us = told->node->error_us + builder->error_us;
	return 2 * error_us + told->judge->era_error_us + CLOCKS_US;
}

/* ---- which build it is ------------------------------------------------------------------- */

/* An absent one has no bytes to tell it by, but mostly it is in the near cache; else it is the one
   that was made nearest to when it says. */
static uint32_t find_absent(const struct told *told)
{
	const struct judge *judge = told->judge;
	const struct key_history *history = &judge->keys[told->key];
	const struct near_entry *ne = near_find(&told->node->engine->near, &told->query->key);
	int64_t made_us = told->clock_us - told->answer->age_us; /* by this daemon's clock */
	int64_t least_us = INT64_MAX;
	uint32_t nearest = 0;
	for (uint32_t i = history->builds_count; i-- > 0;) {
		const struct build_record *record = &judge->builds[history->builds[i]];
		int64_t apart_us = llabs(record->began_us - (told->at_us - told->answer->age_us));
		if (record->outcome != BUILD_NO_ROW || !record->over)
			continue;
		/* Daemons that build for themselves may have the same fence. */
		if (ne && ne->entry.absent && ne->entry.generated_at_us == made_us &&
		    record->fence == ne->entry.fence && record->away)
			apart_us /= 1000;
		else if (ne && ne->entry.absent && ne->entry.generated_at_us == made_us &&
			 record->fence == ne->entry.fence)
			return history->builds[i];
		if (apart_us < least_us) {
			least_us = apart_us;
			nearest = history->builds[i];
		}
	}
	if (!nearest)
		fail(told, "no rollback", "no build found this absence");
	return nearest;
}

static void identify(struct told *told)
{
	const struct answer *answer = told->answer;
	told->number = answer->value ? (uint32_t)strtoul(answer->value->bytes + 1, NULL, 10)
				     : find_absent(told);
	told->record = judge_record(told->judge, told->number);
	told->after = told->record->began_us >= told->asked_us;
	told->fresh = answer->state == ANSWER_FRESH ||
		      (answer->state == ANSWER_ABSENT && answer->stale_us == 0);
	if (told->record->key != told->key)
		fail(told, "no answer goes to another key", "another key's value");
	if (!told->record->over)
		fail(told, "no rollback", "the build is not over");
	if ((answer->state == ANSWER_ABSENT) == told->record->read.exists)
		fail(told, "explicit degradation", "absent and found are mixed up");
	if (answer->has_version != told->record->read.has_version ||
	    (answer->has_version && answer->version != told->record->read.version))
		fail(told, "no rollback", "another build's version");
}

/* ---- age --------------------------------------------------------------------------------- */

/* Its age may be told as more than it is: by which clock its moments are was not settled. */
static bool is_doubted(const struct told *told)
{
	const struct node *builder = &told->judge->fleet->nodes[told->record->node];
	return told->node->doubted_us >= told->record->began_us ||
	       builder->doubted_us >= told->record->began_us;
}

static void check_age(const struct told *told)
{
	const struct answer *answer = told->answer;
	const struct policy *policy = told->policy;
	int64_t fresh_us = answer->state == ANSWER_ABSENT ? policy->negative_us : policy->fresh_us;
	int64_t most_us = (int64_t)((double)fresh_us * (1 + policy->jitter)) + slack_us(told);
	int64_t age_us = told->at_us - told->record->began_us;
	if (!told->fresh)
		most_us += policy->stale_us;
	if (told->node->unsettled || told->record->unsettled)
		return;
	if (age_us > most_us && !told->after)
		fail(told, "bounded age", "too old");
	if (answer->age_us < age_us - slack_us(told) ||
	    (answer->age_us > age_us + slack_us(told) && !is_doubted(told)))
		fail(told, "explicit degradation", "the age is wrong");
	if (answer->ttl_us > most_us)
		fail(told, "bounded age", "ttl is too long");
	if (!told->fresh && answer->reason == REASON_NONE)
		fail(told, "explicit degradation", "stale without a reason");
	if (answer->state == ANSWER_STALE && told->query->has_max_stale &&
	    answer->stale_us >= told->query->max_stale_us)
		fail(told, "bounded age", "staler than the request allows");
}

/* ---- rollback ---------------------------------------------------------------------------- */

/* Whether build `a` replaces build `b`, by what they read. */
static bool supersedes(const struct told *told, const struct build_record *a,
		       const struct build_record *b)
{
	if (a->history != b->history)
		return false; /* no order is promised over a failover of the origin */
	if (told->policy->single_row && a->read.exists && b->read.exists &&
	    a->read.version != b->read.version)
		return a->read.version > b->read.version;
	return a->fence > b->fence;
}

/* The store was away for this daemon, and it says so. */
static bool is_excused(const struct told *told)
{
	if (told->answer->reason != REASON_UNAVAILABLE)
		return false;
	/* What it built then is its own as long as the store does not have it. */
	bool is_own = told->record->away && told->record->node == told->node->number;
	if (!is_own && !judge_was_away(told->node, told->key))
		fail(told, "explicit degradation", "unavailable without a cause");
	return true;
}

static void check_rollback(const struct told *told)
{
	const struct judge *judge = told->judge;
	const struct key_history *history = &judge->keys[told->key];
	int64_t known_us = told->at_us - judge->fleet->scene.trust_us - slack_us(told);
	if (told->after || !told->fresh || is_excused(told))
		return;
	for (uint32_t i = history->saves_count; i-- > 0;) {
		const struct saved *saved = &history->saves[i];
		if (saved->build == told->number)
			break;
		if (saved->at_us <= known_us && !saved->lost &&
		    supersedes(told, &judge->builds[saved->build], told->record))
			fail(told, "no rollback", "a newer entry was in the store");
	}
}

/* Whether the value is from before the change. No order is promised over a failover of the origin.
 */
static bool is_before(const struct told *told, const struct change *change)
{
	const struct build_record *record = told->record;
	if (change->row)
		return record->read_us < change->from_us && record->history == change->history;
	return record->ran_us < change->at_us;
}

/* The daemon was told of that very change, and its clock says it, too. */
static bool has_heard(const struct told *told, const struct change *change)
{
	const uint64_t *heard = told->node->heard[told->key];
	for (int i = 0; i < HEARD_MAX; i++)
		if (heard[i] == change->floor)
			return change->at_us <= told->at_us - slack_us(told);
	return false;
}

/* What has changed is not fresh; after a hard change it is not even served as stale, by whoever was
   told of that. */
static void check_changes(const struct told *told)
{
	const struct judge *judge = told->judge;
	const struct key_history *history = &judge->keys[told->key];
	int64_t known_us = told->at_us - judge->fleet->scene.trust_us - slack_us(told);
	if (told->after)
		return;
	for (uint32_t i = history->changes_count; i-- > 0;) {
		const struct change *change = &history->changes[i];
		if (change->at_us <= told->record->ran_us)
			break;
		if (change->lost || !is_before(told, change))
			continue;
		if (change->at_us <= known_us && told->fresh && !is_excused(told))
			fail(told, "no rollback", "fresh from before a change");
		if (change->hard && has_heard(told, change))
			fail(told, "no rollback", "from before a hard change");
	}
}

/* The same for what the origin's log tells, by how far it was applied: so that no change is left
   out. */
static void check_log(const struct told *told)
{
	const struct judge *judge = told->judge;
	const struct changelog *log = &judge->fleet->database.log;
	int64_t known_us = told->at_us - judge->fleet->scene.trust_us - slack_us(told);
	if (told->after || !told->fresh || told->policy->on_change == ON_CHANGE_IGNORE)
		return;
	for (uint32_t i = log->of_key_count[told->key]; i-- > 0;) {
		const struct logged *row = &log->rows[log->of_key[told->key][i]];
		if (row->at_us <= told->record->read_us)
			break;
		if (!row->lost && row->history == told->record->history &&
		    row->applied_us <= known_us && !is_excused(told))
			fail(told, "no rollback", "fresh from before a change of its row");
	}
}

static bool was_told(const struct told *told, const struct epoch_record *epoch)
{
	const struct epoch_book *book = told->node->post.epochs;
	for (uint32_t i = 0; i < book->count; i++)
		for (uint32_t j = 0; j < book->pages[i].count; j++)
			if (book->pages[i].lines[j].store_us == epoch->epoch.moment_us)
				return true;
	return false;
}

/* After its moment in an epoch no entry from before that is fresh, `trust` later; nor, after a hard
   one, served at all by who was told: what is stale it serves without a look. */
static void check_epochs(const struct told *told)
{
	const struct judge *judge = told->judge;
	const struct scene *scene = &judge->fleet->scene;
	const struct subject *key = &scene->keys[told->key];
	uint64_t hash = key_public_hash(key->bytes, key->len);
	int64_t known_us = told->at_us - scene->trust_us - slack_us(told);
	bool hard = told->policy->on_change == ON_CHANGE_INVALIDATE;
	bool cut_off = told->answer->reason == REASON_UNAVAILABLE;
	if (told->after || (told->fresh ? is_excused(told) : !hard || cut_off))
		return;
	for (uint32_t i = judge->epochs_count; i-- > 0;) {
		const struct epoch_record *its = &judge->epochs[i];
		int64_t spread_us = its->epoch.spread_us;
		int64_t spared_us = spread_us ? (int64_t)(hash % (uint64_t)spread_us) : 0;
		if (its->keyspace != (int)key->keyspace || its->kept_since_us > known_us)
			continue;
		if (!told->fresh && spread_us != 0)
			continue; /* it ends no stale time */
		if (told->record->began_us < its->at_us - slack_us(told) &&
		    its->at_us + spared_us <= known_us && (told->fresh || was_told(told, its)))
			fail(told, "no rollback",
			     told->fresh ? "fresh from before an epoch"
					 : "stale from before an epoch that forbids it");
	}
}

static void check_connection(const struct told *told)
{
	struct seen *seen = &told->node->seen[told->connection][told->key];
	uint64_t overflow = told->node->engine->near.ghosts.overflow;
	if (!told->policy->single_row || !told->answer->has_version)
		return;
	if (told->record->history == seen->history && told->answer->version < seen->version &&
	    seen->overflow == overflow)
		fail(told, "no rollback", "a connection has seen a newer version");
	*seen = (struct seen){ told->answer->version, told->record->history, overflow };
}

/* What the request asks for must have been committed before the build read; where no version says
   so, before it ran. What a failover of the origin has lost meanwhile cannot be had; versions of
   two histories are no order, though the daemons take them for one (docs/PROMISES.md), also where
   only who had the value built asked before it. */
static void check_min_version(const struct told *told)
{
	const struct database *database = &told->judge->fleet->database;
	const struct reading *read = &told->record->read;
	if (!told->query->has_min_version || database->promoted_us >= told->asked_us - SECOND ||
	    database->promoted_us >= told->record->began_us - WAIT_MOST_US ||
	    told->record->history != database_history(database))
		return;
	int64_t committed_us = database_committed_at(database, told->key, told->query->min_version);
	bool by_version = told->policy->single_row && read->has_version;
	if ((by_version ? told->record->read_us : told->record->ran_us) < committed_us)
		fail(told, "no rollback", "older than the version asked for");
}

static void check_value(struct told *told)
{
	if (told->answer->state == ANSWER_DEFAULT) {
		if (!told->policy->default_value ||
		    told->answer->value != told->policy->default_value)
			fail(told, "explicit degradation", "a default that is none");
		if (told->answer->reason == REASON_NONE)
			fail(told, "explicit degradation", "a default without a reason");
		return;
	}
	identify(told);
	check_age(told);
	check_rollback(told);
	check_changes(told);
	check_log(told);
	check_epochs(told);
	check_connection(told);
	check_min_version(told);
}

/* ---- without a value --------------------------------------------------------------------- */

/* A build of the key is under way somewhere, or was a moment ago. */
static bool is_being_built(const struct told *told)
{
	const struct key_history *history = &told->judge->keys[told->key];
	if (history->builds_count == 0)
		return false;
	const struct build_record *last =
		&told->judge->builds[history->builds[history->builds_count - 1]];
	return !last->over || last->ended_us >= told->at_us - SECOND;
}

/* A build failed, and is remembered: longer with each in a row (failure_length in built.c). */
static bool is_remembered(const struct told *told)
{
	const struct key_history *history = &told->judge->keys[told->key];
	int64_t longest_us = (told->policy->error_us << 5) * 11 / 10 + told->policy->wait_us;
	for (uint32_t i = history->builds_count; i-- > 0;) {
		const struct build_record *its = &told->judge->builds[history->builds[i]];
		if (its->over && its->outcome == BUILD_FAILED &&
		    its->ended_us >= told->at_us - longest_us)
			return true;
	}
	return false;
}

static void check_without_value(const struct told *told)
{
	struct node *node = told->node;
	const struct near_entry *ne = near_find(&node->engine->near, &told->query->key);
	enum status status = told->answer->status;
	if (ne && answer_may_be_stale(told->query, &ne->entry, told->clock_us))
		fail(told, "bounded waiting", "an error where a stale value is there");
	if (status == STATUS_TIMEOUT && told->query->wait_us > 0 &&
	    told->clock_us < told->asked_clock_us + told->query->wait_us)
		fail(told, "bounded waiting", "a timeout before its time");
	if (status == STATUS_UNAVAILABLE && node->state != NODE_STOPPING &&
	    !judge_was_away(node, told->key) && !judge_was_lost(node, told->key))
		fail(told, "explicit degradation", "unavailable without a cause");
	if (!judge_is_calm(told->judge) || !told->judge->fleet->scene.ample ||
	    told->query->wait_us == 0)
		return;
	/* Another's build may have ended too late for one of its own to begin in time. */
	if ((status == STATUS_TIMEOUT || status == STATUS_OVERLOADED) && is_being_built(told))
		return;
	if (status == STATUS_ORIGIN_ERROR && is_remembered(told))
		return;
	fail(told, "bounded waiting", status_name(status));
}

/* A refresh's answer is from after it came. */
static void check_refreshed(const struct told *told)
{
	const struct query *query = told->query;
	if (query->has_if_older || query->has_min_version || told->answer->queued ||
	    !told->policy->single_row || !told->answer->has_version)
		return;
	const struct database *database = &told->judge->fleet->database;
	if (database->promoted_us >= told->asked_us)
		return;
	struct reading then =
		database_read(database, told->key, database_position(database, told->asked_us));
	if (told->answer->version < then.version)
		fail(told, "no rollback", "a refresh brought what was there before it");
}

/* ---- the ways in ------------------------------------------------------------------------- */

static struct told told_of(struct judge *judge, struct node *node, const struct query *query,
			   const struct answer *answer, int64_t at_us, int64_t clock_us)
{
	node_measure(node);
	struct told told = { .judge = judge,
			     .node = node,
			     .query = query,
			     .answer = answer,
			     .policy = query->key.keyspace->policy,
			     .key = scene_find(&judge->fleet->scene, query->key.bytes,
					       query->key.len),
			     .asked_us = at_us,
			     .at_us = at_us,
			     .clock_us = clock_us };
	return told;
}

static void check(struct told *told)
{
	judge_check_log(told->judge);
	if (told->answer->status != STATUS_OK)
		check_without_value(told);
	else if (told->query->kind == QUERY_REFRESH)
		check_refreshed(told);
	else
		check_value(told);
}

void judge_on_hit(struct judge *judge, struct node *node, const struct query *query,
		  const struct answer *answer, int64_t at_us, int64_t clock_us)
{
	struct told told = told_of(judge, node, query, answer, at_us, clock_us);
	check(&told);
}

/* No request waits past its deadline, but for a daemon that was paused. */
static void check_deadline(const struct told *told, const struct call *call)
{
	int64_t late_us = told->clock_us - call->asked_clock_us - call->request.query.wait_us;
	if (late_us > LATE_US && told->at_us - call->node->resumed_us > LATE_US)
		fail(told, "bounded waiting", "after its deadline");
}

void judge_on_reply(struct judge *judge, struct call *call, const struct answer *answer)
{
	struct told told = told_of(judge, call->node, &call->request.query, answer,
				   judge->fleet->vtime.now_us, node_clock(call->node));
	told.asked_us = call->asked_us;
	told.asked_clock_us = call->asked_clock_us;
	told.connection = call->connection;
	check(&told);
	check_deadline(&told, call);
	judge->replies++;
	judge->errors += answer->status != STATUS_OK;
	trace(judge->fleet, "node=%d ev=reply key=%s status=%s state=%s reason=%s build=%u",
	      call->node->number, judge->fleet->scene.keys[call->key].bytes,
	      status_name(answer->status), answer_state_name(answer->state),
	      answer_reason_name(answer->reason), told.number);
	judge_mix(judge, (uint64_t)told.at_us * 1000 + (uint64_t)call->key);
	judge_mix(judge, (uint64_t)answer->status * 64 + (uint64_t)answer->state * 8 +
				 (uint64_t)answer->reason + ((uint64_t)told.number << 16));
}
