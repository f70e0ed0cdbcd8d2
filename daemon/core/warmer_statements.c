#include "base/mem.h"
#include "core/warmer_state.h"

enum { REST_US = 200 * 1000 }; /* a key that another is at is looked at again after this */

static void take_key(struct warmer *warmer, struct warmer_statement *statement, uint32_t n,
		     int64_t now_us)
{
	struct warming_key *key = &statement->warming.keys[n];
	struct warm_chunk *chunk = statement->places[n].chunk;
	uint32_t index = statement->places[n].item;
	switch (key->result) {
	case WARM_PENDING:
		warm_item_move(chunk, index, ITEM_TO_BUILD);
		break;
	case WARM_BUILT:
		chunk->counts.built++;
		warmer->counters.built++;
		warm_item_move(chunk, index, ITEM_DONE);
		break;
	case WARM_FRESH:
		warm_item_fresh(chunk, index);
		break;
	case WARM_FAILED:
		warm_item_fail(chunk, index, &key->failure, now_us);
		break;
	case WARM_AGAIN:
		warm_item_rest(chunk, index, now_us + warmer_jittered(warmer, REST_US));
		break;
	case WARM_APART:
		chunk->items[index].alone = true;
		warm_item_move(chunk, index, ITEM_TO_BUILD);
		break;
	}
	value_unref(key->failure.text);
	chunk->under_way--;
	warm_chunk_release(chunk);
}

/* What the origin is to be thought of after it. */
static void judge(struct warmer *warmer, const struct warming *warming, int64_t now_us)
{
	uint32_t good = 0, apart = 0;
	for (uint32_t i = 0; i < warming->count; i++) {
		good += warming->keys[i].result == WARM_BUILT;
		apart += warming->keys[i].result == WARM_APART;
	}
	if (warming->later || warming->took_us == 0)
		return;
	uint32_t kind = 2 * warming->keys[0].key.keyspace->index + (warming->count > 1);
	if (good > 0)
		warm_pace_went_well(&warmer->pace, kind, warming->took_us, now_us);
	else if (apart == 0)
		warm_pace_failed(&warmer->pace, now_us);
}

static void on_warmed(struct warming *warming)
{
	struct warmer_statement *statement =
		container_of(warming, struct warmer_statement, warming);
	struct warmer *warmer = statement->warmer;
	int64_t now_us = warmer_now_us(warmer);
	warmer->statements--;
	if (warmer->asking == warming)
		warmer->asking = NULL;
	warmer->counters.later += warming->later;
	warmer->counters.statements += warming->took_us > 0;
	if (warming->later)
		statement->job->ask_us = now_us + warming->retry_us;
	judge(warmer, warming, now_us);
	for (uint32_t i = 0; i < warming->count; i++)
		take_key(warmer, statement, i, now_us);
	mem_free(statement);
	warmer_kick(warmer);
}

/* Whether the item's key may go with the statement, which it then does. */
static bool take_along(struct warmer_statement *statement, struct warm_chunk *chunk, uint32_t index,
		       uint32_t *seats, int64_t now_us)
{
	struct warming *warming = &statement->warming;
	struct key key;
	if (warming->count > 0 && chunk->items[index].alone)
		return false;
	if (!warm_item_key(chunk, index, &key))
		return false;
	const struct batch_policy *batch = &key.keyspace->policy->batch;
	if (warming->count == 0)
		*seats = batch->query && !chunk->items[index].alone ? (uint32_t)batch->max : 1;
	else if (warming->keys[0].key.keyspace != key.keyspace)
		return false;
	for (uint32_t i = 0; i < warming->count; i++)
		if (warming->keys[i].key.hash == key.hash) {
			/* It is there twice: the next look will find it. */
			warm_item_rest(chunk, index,
				       now_us + warmer_jittered(chunk->job->warmer, REST_US));
			return false;
		}
	warming->keys[warming->count] = (struct warming_key){ .key = key };
	statement->places[warming->count++] = (struct warm_place){ chunk, index };
	return true;
}

/* The keys that are to be built, as many as go together. */
static uint32_t gather(struct warmer_job *job, struct warmer_statement *statement, int64_t now_us)
{
	uint32_t seats = BATCH_KEYS_MAX;
	list_foreach (&job->chunks, node) {
		struct warm_chunk *chunk = container_of(node, struct warm_chunk, node);
		for (uint32_t i = 0; i < chunk->count && !chunk->given_up; i++) {
			if (chunk->items[i].state == ITEM_TO_BUILD)
				take_along(statement, chunk, i, &seats, now_us);
			if (statement->warming.count == seats)
				return seats;
		}
	}
	return seats;
}

/* Whether more keys of the job may be found missing soon: a statement waits for them to be full.
   Where there are keys enough, of several keyspaces, no more are claimed. */
static bool has_more_to_come(const struct warmer_job *job)
{
	bool claims = !job->over && (job->calling || job->misses == 0);
	list_foreach (&job->chunks, node) {
		const struct warm_chunk *chunk = container_of(node, struct warm_chunk, node);
		if (chunk->given_up)
			continue;
		if (chunk->to_look > 0)
			return true;
		for (uint32_t i = 0; i < chunk->count; i++)
			if (chunk->items[i].state == ITEM_LOOKING)
				return true;
	}
	return claims && warmer_job_wants(job, INT64_MAX);
}

static bool build_one(struct warmer *warmer, struct warmer_job *job, int64_t now_us)
{
	struct warmer_statement *statement = mem_zalloc(sizeof(*statement));
	if (!statement)
		return false;
	struct warming *warming = &statement->warming;
	uint32_t seats = gather(job, statement, now_us);
	if (warming->count == 0 || (warming->count < seats && has_more_to_come(job))) {
		mem_free(statement);
		return false;
	}
	statement->warmer = warmer;
	statement->job = job;
	warming->pace = (struct pace){ job->job.id, job->job.interval_us };
	warming->alone = warmer->options.alone;
	warming->done = on_warmed;
	for (uint32_t i = 0; i < warming->count; i++) {
		warm_item_move(statement->places[i].chunk, statement->places[i].item,
			       ITEM_BUILDING);
		statement->places[i].chunk->under_way++;
	}
	warmer->statements++;
	warmer->asking = warming;
	pump_warm(warmer->options.pump, warming);
	return true;
}

void warmer_build(struct warmer_job *job, int64_t now_us)
{
	struct warmer *warmer = job->warmer;
	if (warmer->asking && !warming_is_asking(warmer->asking))
		warmer->asking = NULL;
	if (!warmer->asking && now_us >= job->ask_us &&
	    warm_pace_admits(&warmer->pace, warmer->statements, now_us))
		build_one(warmer, job, now_us);
}
