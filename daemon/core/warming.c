#include "core/warming.h"

#include "base/check.h"
#include "core/boarding.h"
#include "core/building.h"
#include "core/calls.h"
#include "core/course.h"

enum {
	STARTS_MAX = 2, /* flights started in one step: each has a call */

	/* Where there is no room it comes again after this. */
	ROOM_AGAIN_US = 20 * 1000,
	TROUBLE_AGAIN_US = 1000 * 1000,

	/* Its moment comes after what the store takes in any case for the looks and for the leases,
	   each about as long as for the permit. */
	ANSWERS = 2,
};

static void settle(struct engine *engine, struct warming *warming)
{
	if (warming->left == 0 && !warming->batch && !list_linked(&warming->node))
		list_push_back(&engine->warmed, &warming->node);
}

static void put_off(struct engine *engine, struct warming *warming, int64_t retry_us)
{
	warming->later = true;
	warming->retry_us = retry_us > 0 ? retry_us : ROOM_AGAIN_US;
	warming->left = warming->arriving = 0;
	warming->next = warming->count;
	settle(engine, warming);
}

bool warming_is_fresh_here(struct engine *engine, const struct key *key, int64_t now_us)
{
	const struct near_entry *ne = engine_near(engine, key);
	return ne && ne->generation == key->keyspace->generation &&
	       entry_phase(&ne->entry, now_us) == ENTRY_FRESH;
}

/* ---- asking ------------------------------------------------------------------------------ */

/* 0: it may ask. */
static int64_t wait_for_room_us(const struct engine *engine, int64_t now_us)
{
	const struct breaker *breaker = &engine->breaker;
	bool may_probe = breaker->state == BREAKER_OPEN && now_us >= breaker->open_until_us;
	if (engine->stopping || engine->away || (breaker->state != BREAKER_CLOSED && !may_probe))
		return TROUBLE_AGAIN_US;
	return engine->bulkhead.queued > 0 || engine->permits.waiting > 0 ? ROOM_AGAIN_US : 0;
}

/* Where the origin was lost it is the probe, as nobody else may ask for anything. */
static struct batch *open_batch(struct engine *engine, struct warming *warming, int64_t now_us)
{
	struct batch *batch = batch_create(warming->keys[0].key.keyspace, warming->count,
					   PRIORITY_WARM, rng_next(&engine->rng));
	if (!batch)
		return NULL;
	if (bulkhead_enter(&engine->bulkhead, &batch->ticket, PRIORITY_WARM, 0, false) !=
	    ADMISSION_IN) {
		batch_free(batch);
		return NULL;
	}
	list_push_back(&engine->batches, &batch->all);
	batch->closed = true;
	batch->warming = warming;
	batch->is_probe = breaker_admits(&engine->breaker, now_us) &&
			  engine->breaker.state == BREAKER_PROBING;
	batch_move(batch, BATCH_GATHERING);
	batch_move(batch, BATCH_PERMITTING);
	permits_join(&engine->permits, &batch->link, PRIORITY_WARM);
	return batch;
}

void warming_start(struct engine *engine, struct warming *warming, int64_t now_us)
{
	CHECK(warming->count > 0 && warming->count <= BATCH_KEYS_MAX);
	list_node_init(&warming->node);
	warming->batch = NULL;
	warming->next = 0;
	warming->arriving = warming->left = warming->count;
	warming->later = false;
	warming->took_us = warming->began_us = 0;
	for (uint32_t i = 0; i < warming->count; i++)
		warming->keys[i].result = WARM_PENDING;
	int64_t wait_us = wait_for_room_us(engine, now_us);
	if (wait_us == 0) {
		warming->batch = open_batch(engine, warming, now_us);
		wait_us = ROOM_AGAIN_US;
	}
	if (!warming->batch)
		put_off(engine, warming, wait_us);
}

void warming_on_permitted(struct engine *engine, struct batch *batch, int64_t now_us,
			  struct effects *effects)
{
	struct warming *warming = batch->warming;
	const struct store_op *op = &batch->op;
	bool granted = op->outcome == STORE_DONE;
	if (granted && !op->away && !engine->stopping) {
		permits_leave(&engine->permits, &batch->link, batch->priority);
		batch_move(batch, BATCH_GATHERING);
		batch->start_us = now_us + ANSWERS * (now_us - op->sent_at_us);
		list_push_back(&engine->warmings, &warming->node);
		return;
	}
	bool retry = op->outcome == STORE_RETRY;
	put_off(engine, warming, retry ? op->left_us : TROUBLE_AGAIN_US);
	if (granted)
		calls_free(engine, batch, effects);
	boarding_end(engine, batch);
}

bool warming_is_asking(const struct warming *warming)
{
	return warming->batch && warming->batch->state == BATCH_PERMITTING;
}

/* ---- boarding ---------------------------------------------------------------------------- */

static void start_next(struct engine *engine, struct warming *warming, int64_t now_us,
		       struct effects *effects)
{
	uint32_t index = warming->next++;
	const struct key *key = &warming->keys[index].key;
	struct flight *flight = NULL;
	bool fresh = warming->alone && warming_is_fresh_here(engine, key, now_us);
	if (!fresh && !engine->stopping && !engine_flight(engine, key))
		flight = course_start(engine, key, PRIORITY_WARM, 0, now_us, effects);
	if (flight) {
		flight->cause = CAUSE_WARM;
		flight->warming = warming;
		flight->warming_index = index;
		flight->warming_boards = true;
		return;
	}
	warming->keys[index].result = fresh ? WARM_FRESH : WARM_AGAIN;
	warming->arriving--;
	warming->left--;
}

void warming_advance(struct engine *engine, int64_t now_us, struct effects *effects)
{
	struct list_node *node = list_first(&engine->warmings);
	if (!node)
		return;
	struct warming *warming = container_of(node, struct warming, node);
	for (int i = 0; i < STARTS_MAX && warming->next < warming->count; i++)
		start_next(engine, warming, now_us, effects);
	if (warming->next < warming->count)
		return;
	list_remove(&engine->warmings, node);
	if (warming->batch)
		boarding_on_arrived(engine, warming->batch);
	settle(engine, warming);
}

bool warming_can_advance(const struct engine *engine)
{
	return !list_empty(&engine->warmings);
}

void warming_on_seated(struct engine *engine, struct flight *flight)
{
	CHECK(flight->warming_boards && flight->warming->arriving > 0);
	(void)engine;
	flight->warming_boards = false;
	flight->warming->arriving--;
}

static void stray(struct engine *engine, struct warming *warming, struct flight *flight)
{
	flight->warming_boards = false;
	warming->arriving--;
	if (warming->batch)
		boarding_on_arrived(engine, warming->batch);
}

void warming_on_strayed(struct engine *engine, struct flight *flight)
{
	if (flight->warming_boards)
		stray(engine, flight->warming, flight);
}

/* ---- the end ----------------------------------------------------------------------------- */

static enum warm_result result_of(const struct flight *flight, enum refresh_outcome outcome)
{
	switch (outcome) {
	case OUTCOME_CHANGED:
	case OUTCOME_UNCHANGED:
		/* Whether the store has it is not known: the next look will tell. */
		return flight->reason == REASON_UNAVAILABLE ? WARM_AGAIN : WARM_BUILT;
	case OUTCOME_FOUND:
		return WARM_FRESH;
	case OUTCOME_FAILED:
		return WARM_FAILED;
	case OUTCOME_ELSEWHERE:
	case OUTCOME_UNAVAILABLE:
	case OUTCOME_REFUSED:
	case OUTCOME_DROPPED:
		break;
	}
	return flight->alone ? WARM_APART : WARM_AGAIN;
}

void warming_on_landed(struct engine *engine, struct flight *flight, enum refresh_outcome outcome)
{
	struct warming *warming = flight->warming;
	struct warming_key *key = &warming->keys[flight->warming_index];
	CHECK(key->result == WARM_PENDING && warming->left > 0);
	key->result = result_of(flight, outcome);
	if (key->result == WARM_FAILED) {
		key->failure = flight->failure;
		value_ref(key->failure.text);
	}
	flight->warming = NULL;
	warming->left--;
	if (flight->warming_boards)
		stray(engine, warming, flight);
	settle(engine, warming);
}

void warming_on_over(struct engine *engine, struct batch *batch)
{
	struct warming *warming = batch->warming;
	batch->warming = NULL;
	warming->batch = NULL;
	settle(engine, warming);
}
