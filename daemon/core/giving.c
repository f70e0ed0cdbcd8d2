#include "core/giving.h"

#include "base/check.h"
#include "core/calls.h"
#include "core/course.h"
#include "core/landing.h"
#include "core/loading.h"
#include "core/tenure.h"

enum {
	GIVING_MAX = 512,       /* flights at once; what is asked for beyond is served from here */
	LOOKS_MAX = 256,        /* of these, not asked for */
	STEP_US = 2 * 1000,     /* between two that nobody asks for */
	SPREAD_US = 500 * 1000, /* the hosts don't begin all at once */
	TRIES_MAX = 4,          /* beats that were too early */
	WALK_STEPS = 16,        /* entries looked at in one step */
};

bool giving_is_unbroken(const struct engine *engine, const struct near_entry *ne)
{
	return engine->trusted && (int32_t)(ne->trust - engine->trusts_broken) >= 0 &&
	       engine->trusts - ne->trust <= 1;
}

bool giving_is_due(const struct engine *engine, const struct near_entry *ne, int64_t now_us)
{
	return giving_is_unbroken(engine, ne) && !ne->entry.changed && !ne->keyspace->removed &&
	       entry_phase(&ne->entry, now_us) == ENTRY_FRESH &&
	       (ne->entry.history == 0 || ne->entry.history == engine->history);
}

bool giving_has_room(const struct engine *engine, const struct flight *flight)
{
	const struct store_op *op = &flight->op;
	return engine->giving < GIVING_MAX && flight->give_tries == 0 && !flight->warming &&
	       !flight->stop && op->left_us == 0 && !op->has_failure;
}

void giving_begin(struct engine *engine, struct flight *flight)
{
	CHECK(!flight->gives);
	flight->gives = true;
	engine->giving++;
}

void giving_end(struct engine *engine, struct flight *flight)
{
	engine->giving -= flight->gives;
	flight->gives = false;
}

/* Nothing vouches for the near entry any more: it is to be looked up. */
static void withdraw(struct engine *engine, const struct flight *flight)
{
	struct near_entry *ne = near_find(&engine->near, &flight->key);
	if (ne && ne->entry.fence == flight->gives_fence)
		loading_confirm(engine, ne, false);
}

/* The lease goes back. Who waits still has it looked up once more, and built. */
static void give_up(struct engine *engine, struct flight *flight, int64_t now_us,
		    struct effects *effects)
{
	withdraw(engine, flight);
	flight->hold_next = !flight->stop && !flight_is_background(flight, now_us);
	calls_release(engine, flight, effects);
}

/* The near entry, if it may be given. */
static struct near_entry *gift(struct engine *engine, const struct flight *flight, int64_t now_us)
{
	struct near_entry *ne = engine_near(engine, &flight->key);
	bool given = ne && giving_is_due(engine, ne, now_us) && !flight->want_newer &&
		     !flight_wants_younger(flight, &ne->entry, now_us) &&
		     ne->entry.fence > flight->newer_than && flight->floor < ne->entry.fence &&
		     !flight_is_told_of(flight, &ne->entry) && !flight->stop;
	return given ? ne : NULL;
}

static void wait_for_beat(struct engine *engine, struct flight *flight)
{
	flight_move(flight, FLIGHT_GIVING);
	list_push_back(&engine->givings, &flight->step);
}

void giving_on_leased(struct engine *engine, struct flight *flight, int64_t now_us,
		      struct effects *effects)
{
	struct near_entry *ne = gift(engine, flight, now_us);
	flight->gives_fence = ne ? ne->entry.fence : 0;
	wait_for_beat(engine, flight);
	if (!ne) {
		list_remove(&engine->givings, &flight->step);
		give_up(engine, flight, now_us, effects);
		return;
	}
	/* Served again, though not of this trust: were the store emptied now, and the lease lost …
	 */
	uint32_t trust = ne->trust;
	loading_confirm(engine, ne, true);
	ne->trust = trust;
	loading_let_waiters_look(engine, flight);
}

void giving_on_beat(struct engine *engine)
{
	struct list_node *node;
	while ((node = list_pop_front(&engine->givings)))
		list_push_back(&engine->moving, node);
}

void giving_go(struct engine *engine, struct flight *flight, int64_t now_us,
	       struct effects *effects)
{
	struct near_entry *ne = gift(engine, flight, now_us);
	if (!ne || ne->entry.fence != flight->gives_fence || flight->give_tries == TRIES_MAX) {
		give_up(engine, flight, now_us, effects);
		return;
	}
	flight->give_tries++;
	flight->has_result = true;
	flight->result = ne->entry;
	value_ref(flight->result.value);
	flight->source = SOURCE_NEAR;
	flight_move(flight, FLIGHT_SETTLING);
	calls_ask(engine, flight, STORE_SAVE, effects);
	flight->op.given = true;
	flight->op.entry = flight->result;
}

bool giving_on_saved(struct engine *engine, struct flight *flight)
{
	const struct store_op *op = &flight->op;
	bool vouched = op->outcome == STORE_DONE &&
		       calls_are_vouched(engine, flight, flight->result.fence);
	struct near_entry *ne = near_find(&engine->near, &flight->key);
	if (op->outcome == STORE_DONE)
		ENGINE_COUNT(engine, flight->key.keyspace, given_back);
	if (ne && vouched && ne->entry.fence == flight->gives_fence)
		loading_confirm(engine, ne, true);
	else if (op->outcome != STORE_RETRY)
		withdraw(engine, flight);
	flight->saved = op->outcome == STORE_DONE;
	if (flight->saved)
		return true;
	value_unref(flight->result.value);
	flight->result = (struct entry){ 0 };
	flight->has_result = false;
	if (op->outcome == STORE_RETRY)
		wait_for_beat(engine, flight);
	return op->outcome != STORE_RETRY;
}

/* ---- what nobody asks for ------------------------------------------------------------------ */

void giving_on_emptied(struct engine *engine, int64_t now_us)
{
	if (!engine->trusted)
		return;
	struct keyspace *keyspace;
	engine->trusts++;
	for (uint32_t at = 0; (keyspace = roster_next_any(&engine->keyspaces, &at));)
		keyspace->generation++;
	near_walk_begin(&engine->near);
	engine->walk_at_us = now_us + rng_between(&engine->rng, 0, SPREAD_US);
}

int64_t giving_next_at(const struct engine *engine)
{
	bool walks =
		near_is_walking(&engine->near) && !engine->stopping && engine->fetching < LOOKS_MAX;
	return walks ? engine->walk_at_us : INT64_MAX;
}

void giving_advance(struct engine *engine, int64_t now_us, struct effects *effects)
{
	for (int i = 0; i < WALK_STEPS && now_us >= giving_next_at(engine); i++) {
		struct near_entry *ne = near_walk(&engine->near);
		if (!ne || ne->trust == engine->trusts || !giving_is_due(engine, ne, now_us))
			continue;
		const struct key key = { .keyspace = ne->keyspace,
					 .bytes = ne->key,
					 .len = ne->key_len,
					 .hash = ne->node.hash };
		engine->walk_at_us = now_us + STEP_US;
		if (!engine_flight(engine, &key))
			course_look(engine, &key, now_us, effects);
	}
}
