#include "core/loading.h"

#include "base/check.h"
#include "core/calls.h"
#include "core/giving.h"
#include "core/history.h"
#include "core/schedule.h"

void loading_confirm(const struct engine *engine, struct near_entry *ne, bool vouched)
{
	const struct keyspace *keyspace = ne->keyspace;
	struct entry *entry = &ne->entry;
	keyspace_judge(keyspace, entry, key_public_hash(ne->key, ne->key_len));
	if (ne->early == EARLY_DRAWN && keyspace->policy->early <= 0)
		ne->early = EARLY_OVER;
	if (ne->early == EARLY_TO_DRAW)
		ne->next_at_us =
			schedule_draw_at(entry, keyspace->policy->early, near_refresh_us(ne));
	else if (ne->next_at_us > entry->fresh_until_us)
		ne->next_at_us = entry->fresh_until_us;
	vouched = vouched && engine->trusted && !keyspace->removed;
	ne->generation = vouched ? keyspace->generation : keyspace->generation - 1;
	ne->trust = vouched ? engine->trusts : loading_no_trust(engine);
}

/* The value that the load left out, as the near cache has it already. */
static bool fill_in_value(struct near_entry *ne, struct store_op *op)
{
	if (op->has_value)
		return true;
	if (!ne || ne->entry.fence != op->entry.fence)
		return false;
	op->entry.value = value_ref(ne->entry.value);
	return true;
}

bool loading_is_rollback(const struct engine *engine, const struct key *key,
			 const struct entry *entry, int64_t now_us)
{
	const struct near_entry *ne = near_find(&engine->near, key);
	if (!key->keyspace->policy->single_row || !entry->has_version)
		return false;
	if (ghosts_know_better(&engine->near.ghosts, key->hash ^ entry->definition, entry->version,
			       now_us))
		return true;
	return ne && ne->entry.history == entry->history &&
	       ne->entry.definition == entry->definition && ne->entry.has_version &&
	       entry->version < ne->entry.version &&
	       now_us < entry_matters_until(&ne->entry, key->keyspace->policy);
}

/* What was built here while the store was away is this daemon's own until trust goes, or the store
   gives a lease: one that answers loads but takes no writes (out of memory, read-only, or on its
   way back, when trust has come already) will not have it however often it is built. */
static bool is_own(const struct engine *engine, const struct near_entry *ne)
{
	return ne && ne->entry.own_fence &&
	       (ne->trust == engine->trusts_broken - 1 || ne->trust == engine->trusts_broken - 2);
}

/* The near cache takes the store's entry, unless it has better. The near entry after that. */
static struct near_entry *take_entry(struct engine *engine, struct flight *flight,
				     struct near_entry *ne, int64_t now_us)
{
	struct entry *entry = &flight->op.entry;
	const struct policy *policy = flight->key.keyspace->policy;
	keyspace_judge(flight->key.keyspace, entry,
		       key_public_hash(flight->key.bytes, flight->key.len));
	bool told = flight_is_told_of(flight, entry), keeps_own = false;
	if (told)
		entry_soft_expire(entry, now_us, policy->stale_us);
	if (told && flight->hard_floor >= entry->fence)
		entry->stale_until_us = entry->fresh_until_us;

	if (ne && ne->entry.fence == entry->fence &&
	    entry_phase(&ne->entry, now_us) != ENTRY_DEAD) {
		/* The same build: its times are the store's to tell, and never grow. */
		if (ne->entry.fresh_until_us > entry->fresh_until_us)
			ne->entry.fresh_until_us = entry->fresh_until_us;
		if (ne->next_at_us > entry->fresh_until_us)
			ne->next_at_us = entry->fresh_until_us;
		if (ne->entry.stale_until_us > entry->stale_until_us)
			ne->entry.stale_until_us = entry->stale_until_us;
		ne->entry.changed |= entry->changed;
	} else if (!ne || entry_phase(&ne->entry, now_us) == ENTRY_DEAD ||
		   entry_supersedes(entry, &ne->entry, policy->single_row)) {
		ne = near_put(&engine->near, &flight->key, entry, now_us);
	} else if (is_own(engine, ne)) {
		keeps_own = true; /* of which the store says nothing */
	} else if (ne->trust != engine->trusts) {
		/* Never stored, or lost: nobody vouches for what is here. */
		entry_soft_expire(&ne->entry, now_us, policy->stale_us);
	}
	if (ne)
		loading_confirm(engine, ne,
				!keeps_own && calls_are_vouched(engine, flight, ne->entry.fence));
	return ne;
}

/* Whether the entry answers all who wait: is fresh, and as new as they ask for. */
static bool is_enough(const struct flight *flight, const struct entry *entry, int64_t now_us)
{
	if (flight->want_newer || flight_wants_younger(flight, entry, now_us) ||
	    entry->fence <= flight->newer_than || entry_phase(entry, now_us) != ENTRY_FRESH)
		return false;
	return !flight->want_min_version ||
	       entry_covers(entry, flight->min_version, flight->key.keyspace->policy->single_row);
}

static void take_result(struct flight *flight, const struct entry *entry, enum answer_source source,
			enum answer_reason reason)
{
	flight->has_result = flight->saved = true;
	flight->result = *entry;
	value_ref(flight->result.value);
	flight->source = source;
	flight->reason = reason;
}

void loading_let_waiters_look(struct engine *engine, struct flight *flight)
{
	flight->looks = (uint32_t)flight->waiters.count;
	if (flight->looks > 0 && !list_linked(&flight->looking))
		list_push_back(&engine->looking, &flight->looking);
}

/* The shared store is away: what is here is served by its own times, and says so. */
static bool take_near(struct flight *flight, const struct near_entry *ne, int64_t now_us)
{
	if (!ne || !is_enough(flight, &ne->entry, now_us))
		return false;
	take_result(flight, &ne->entry, SOURCE_NEAR, REASON_UNAVAILABLE);
	return true;
}

/* Of our own, where the store answers: served so while the store is known to give no leases. Then
   the key's next flight asks for one, and builds only if it gets it (loading_keeps_own). */
static bool take_own(const struct engine *engine, struct flight *flight,
		     const struct near_entry *ne, int64_t now_us)
{
	return now_us < engine->no_leases_us && take_near(flight, ne, now_us);
}

bool loading_keeps_own(struct engine *engine, struct flight *flight, int64_t now_us)
{
	const struct near_entry *ne = engine_near(engine, &flight->key);
	return is_own(engine, ne) && take_near(flight, ne, now_us);
}

void loading_end_own(struct engine *engine, struct flight *flight, int64_t now_us)
{
	struct near_entry *ne = engine_near(engine, &flight->key);
	if (!is_own(engine, ne))
		return;
	entry_soft_expire(&ne->entry, now_us, flight->key.keyspace->policy->stale_us);
	loading_let_waiters_look(engine, flight);
}

/* The store has no entry: it was flushed, evicted, or it failed over. What is here is good if
   nothing can have gone untold of it; else nobody vouches for it. Whether it is the result. */
static bool take_nothing(struct engine *engine, struct flight *flight, struct near_entry *ne,
			 int64_t now_us, enum loading *ret_loading)
{
	if (!ne || ne->trust == engine->trusts)
		return false;
	if (is_own(engine, ne))
		return take_own(engine, flight, ne, now_us);
	if (!giving_is_due(engine, ne, now_us)) {
		entry_soft_expire(&ne->entry, now_us, flight->key.keyspace->policy->stale_us);
		return false;
	}
	if (!is_enough(flight, &ne->entry, now_us))
		return false;
	if (!flight->op.is_whole) {
		*ret_loading = LOADING_LATER;
		return false;
	}
	if (giving_has_room(engine, flight)) {
		giving_begin(engine, flight);
		*ret_loading = LOADING_GIVE;
		return false;
	}
	take_result(flight, &ne->entry, SOURCE_NEAR, REASON_NONE);
	return true;
}

/* The store has answered. Whether the result is there; else `ret_loading` may be another than to
   build. */
static bool take_answer(struct engine *engine, struct flight *flight, struct near_entry *ne,
			int64_t now_us, enum loading *ret_loading)
{
	const struct store_op *op = &flight->op;
	int64_t stale_us = flight->key.keyspace->policy->stale_us;

	/* What the store has itself, it has judged itself. */
	bool is_same = ne && op->has_entry && op->entry.fence == ne->entry.fence;
	if (ne && !is_same && flight->floor >= ne->entry.fence)
		entry_soft_expire(&ne->entry, now_us, stale_us);
	if (op->away)
		return take_near(flight, ne, now_us);
	if (!op->has_entry)
		return take_nothing(engine, flight, ne, now_us, ret_loading);
	if (!history_see_entry(engine, op->entry.history, op->entry.generated_at_us) ||
	    loading_is_rollback(engine, &flight->key, &op->entry, now_us))
		return false; /* what counts as never stored; built anew, it will be replaced */
	uint64_t fence = ne ? ne->entry.fence : 0;
	bool confirmed = ne && ne->trust == engine->trusts;
	ne = take_entry(engine, flight, ne, now_us);
	if (is_own(engine, ne))
		return take_own(engine, flight, ne, now_us);
	const struct entry *entry = ne ? &ne->entry : &op->entry;
	if (is_enough(flight, entry, now_us)) {
		take_result(flight, entry, SOURCE_STORE, REASON_NONE);
		return true;
	}
	bool news = ne && (ne->entry.fence != fence || !confirmed);
	if (news || entry_phase(entry, now_us) == ENTRY_FRESH)
		loading_let_waiters_look(engine, flight);
	return false;
}

enum loading loading_take(struct engine *engine, struct flight *flight, int64_t now_us)
{
	struct store_op *op = &flight->op;
	struct near_entry *ne = engine_near(engine, &flight->key);
	enum loading loading = LOADING_BUILD;
	/* The claim may have been evicted while the entry was not. */
	flight->load_fence = op->fence;
	if (op->has_entry && flight->load_fence < op->entry.fence)
		flight->load_fence = op->entry.fence;
	flight->away = op->away;
	if (flight->floor < op->floor)
		flight->floor = op->floor;
	if (op->outcome != STORE_DONE || flight->stop) {
		value_unref(flight->failure.text);
		flight->failure = (struct failure){
			.status = STATUS_UNAVAILABLE,
			.why = flight->stop ? FLIGHT_STOPPING : "the store did not answer",
		};
		loading = LOADING_FAILED;
	} else if (calls_are_old(engine, flight, op->has_entry ? op->entry.fence : 0, now_us)) {
		loading = flight_is_background(flight, now_us) ? LOADING_FAILED : LOADING_AGAIN;
	} else if (op->has_entry && !fill_in_value(ne, op)) {
		loading = LOADING_AGAIN;
	} else if (take_answer(engine, flight, ne, now_us, &loading)) {
		loading = LOADING_ENOUGH;
	} else if (loading == LOADING_BUILD && op->has_failure) {
		ENGINE_COUNT(engine, flight->key.keyspace, failures_remembered);
		value_unref(flight->failure.text);
		flight->failure = op->failure;
		op->failure.text = NULL;
		loading = LOADING_FAILED;
	}
	/* What was not enough here is not to be found enough by the lease either, which knows
	   nothing of epochs, ghosts and floors. */
	if (loading == LOADING_BUILD && op->has_entry && flight->newer_than < op->entry.fence)
		flight->newer_than = op->entry.fence;
	value_unref(op->entry.value);
	value_unref(op->failure.text);
	op->entry.value = op->failure.text = NULL;
	return loading;
}
