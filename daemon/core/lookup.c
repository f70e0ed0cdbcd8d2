/* What the near cache has to say: the hot path of core/engine.h. */
#include "core/answer.h"
#include "core/engine_waiters.h"
#include "core/loading.h"
#include "core/schedule.h"

/* So long may a refresh wait for its turn among others. */
enum { CROWD_TURN_US = 1000 * 1000 };

static enum answer_reason stale_reason(const struct near_entry *ne)
{
	if (ne->trouble != REASON_NONE)
		return ne->trouble;
	return ne->entry.changed ? REASON_CHANGED : REASON_REFRESHING;
}

bool engine_is_enough(const struct query *query, const struct entry *entry, int64_t now_us)
{
	if (entry_phase(entry, now_us) == ENTRY_DEAD || entry->changed)
		return false;
	if (query->has_min_version)
		return entry_covers(entry, query->min_version,
				    query->key.keyspace->policy->single_row);
	return query->has_if_older && now_us - entry->generated_at_us < query->if_older_us;
}

/* A fresh entry whose next_at has come. True: it is to be refreshed early, now. */
static bool is_due_early(struct engine *engine, struct near_entry *ne, int64_t now_us)
{
	const struct entry *entry = &ne->entry;
	double beta = ne->keyspace->policy->early;
	int64_t delta_us = near_refresh_us(ne), span_us = now_us - ne->put_at_us;
	if (ne->early == EARLY_TO_DRAW && now_us >= ne->next_at_us) {
		if (schedule_is_sparse(beta, delta_us, ne->hits, span_us) &&
		    !schedule_chance(entry, beta, delta_us, now_us, &engine->rng))
			return false;
		ne->early = EARLY_DRAWN;
		ne->next_at_us = schedule_is_sparse(beta, delta_us, ne->hits, span_us)
					 ? now_us
					 : schedule_draw(entry, beta, delta_us, ne->hits, span_us,
							 now_us, &engine->rng);
	}
	if (ne->early != EARLY_DRAWN || now_us < ne->next_at_us)
		return false;
	ne->early = EARLY_OVER;
	ne->next_at_us = entry->fresh_until_us;
	return true;
}

/* Epochs, another definition or shorter times have come since, or trust is gone. Whether the entry
   can be plainly fresh all the same. */
static bool catch_up(struct engine *engine, struct near_entry *ne)
{
	uint32_t trust = ne->trust;
	bool vouched = engine->trusted && trust == engine->trusts;
	loading_confirm(engine, ne, vouched);
	ne->trust = trust; /* of an emptied store it is still worth something */
	return vouched;
}

struct near_entry *engine_near(struct engine *engine, const struct key *key)
{
	struct near_entry *ne = near_find(&engine->near, key);
	if (ne && ne->generation != ne->keyspace->generation)
		keyspace_judge(ne->keyspace, &ne->entry, key_public_hash(ne->key, ne->key_len));
	return ne;
}

/* A stale entry that will be dead before a refresh has ended that waits its turn, and that many
   will ask for meanwhile: they are as good as waiting. */
static bool is_crowded(const struct near_entry *ne, int64_t now_us)
{
	int64_t delta_us = near_refresh_us(ne), span_us = now_us - ne->put_at_us;
	return ne->entry.stale_until_us - now_us < 2 * delta_us + CROWD_TURN_US && span_us > 0 &&
	       (double)ne->hits * (double)delta_us >= (double)CROWD_LEAST * (double)span_us;
}

/* All but the plainly fresh. */
static enum engine_lookup lookup_slowly(struct engine *engine, const struct query *query,
					struct near_entry *ne, int64_t now_us,
					struct answer *ret_answer)
{
	const struct policy *policy = query->key.keyspace->policy;
	const struct entry *entry = &ne->entry;
	bool current = ne->generation == query->key.keyspace->generation || catch_up(engine, ne);
	if (entry_phase(entry, now_us) == ENTRY_DEAD)
		near_settle(ne, ne->hits == 1);
	if (query->kind == QUERY_REFRESH) {
		if (!engine_is_enough(query, entry, now_us))
			return ENGINE_MISS;
		answer_refreshed(ret_answer, entry);
		return ENGINE_HIT;
	}
	if (current && entry_phase(entry, now_us) == ENTRY_FRESH) {
		if (query->has_min_version &&
		    !entry_covers(entry, query->min_version, policy->single_row))
			return ENGINE_MISS;
		answer_fresh(ret_answer, entry, now_us, SOURCE_NEAR);
		engine->counters.hits_fresh++;
		return is_due_early(engine, ne, now_us) ? ENGINE_HIT_EARLY : ENGINE_HIT;
	}
	if (!answer_may_be_stale(query, entry, now_us))
		return ENGINE_MISS;
	answer_stale(ret_answer, entry, now_us, SOURCE_NEAR, stale_reason(ne));
	engine->counters.hits_stale++;
	if (now_us < ne->retry_at_us)
		return ENGINE_HIT;
	return is_crowded(ne, now_us) ? ENGINE_HIT_CROWD : ENGINE_HIT_REFRESH;
}

enum engine_lookup engine_lookup(struct engine *engine, const struct query *query, int64_t now_us,
				 struct answer *ret_answer)
{
	struct near_entry *ne = near_find(&engine->near, &query->key);
	if (query->kind == QUERY_GET && hotlist_is_due(&engine->hotlist))
		hotlist_count(&engine->hotlist, query->key.hash, query->key.bytes, query->key.len,
			      now_us);
	if (!ne)
		return ENGINE_MISS;
	ne->visited = true;
	ne->hits += query->kind == QUERY_GET;
	if (now_us < ne->next_at_us && ne->generation == query->key.keyspace->generation &&
	    query->kind == QUERY_GET && !query->has_min_version) {
		answer_fresh(ret_answer, &ne->entry, now_us, SOURCE_NEAR);
		engine->counters.hits_fresh++;
		return ENGINE_HIT;
	}
	return lookup_slowly(engine, query, ne, now_us, ret_answer);
}

uint64_t engine_hash(const struct engine *engine, const char *bytes, size_t len)
{
	return key_hash(engine->secret, bytes, len);
}

static inline const struct entry *hit(struct engine *engine, uint64_t hash, const char *bytes,
				      size_t len, int64_t now_us)
{
	struct near_entry *ne = near_hit(&engine->near, hash, bytes, len, now_us);
	if (!ne)
		return NULL;
	if (hotlist_is_due(&engine->hotlist))
		hotlist_count(&engine->hotlist, hash, bytes, len, now_us);
	engine->counters.hits_fresh++;
	ne->keyspace->account.gets[ANSWER_FRESH][SOURCE_NEAR][REASON_NONE]++;
	return &ne->entry;
}

const struct entry *engine_hit(struct engine *engine, uint64_t hash, const char *bytes, size_t len,
			       int64_t now_us)
{
	return hit(engine, hash, bytes, len, now_us);
}

const struct entry *engine_hit_of_many(struct engine *engine, uint64_t hash, const char *bytes,
				       size_t len, int64_t now_us)
{
	return hit(engine, hash, bytes, len, now_us);
}
