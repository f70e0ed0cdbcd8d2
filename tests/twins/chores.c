/* What daemons do for themselves: each of store/pulse.c's errands by itself, when it is its turn
 * here, not by the clock.
 */
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "twins.h"
#include "wire.h"

enum chore { CHORE_CLOCK, CHORE_PLACE, CHORE_BEAT, CHORE_SUCCEED, CHORE_EPOCHS, CHORE_NONE };

/* ---- amends ------------------------------------------------------------------------------ */

/* The server's clock has jumped, and the daemon does not know it yet: the scripts do nothing. */
static bool is_late(const struct twins *twins, int daemon)
{
	struct redis_store *redis = twins->daemons[daemon];
	return twins->server_us > redis_deadline_us(redis, &redis->control);
}

static void simulate_amend(struct twins *twins, int daemon, const struct amend *amend)
{
	struct caller caller = twins_caller(twins, daemon);
	struct store_op op = { .verb = amend->verb,
			       .token = amend->token,
			       .slot = amend->slot,
			       .key = { .bytes = amend->key, .len = amend->key_len } };
	shared_execute(twins->shared, &op, &caller);
}

/* One after the other, until one comes late. */
static void simulate_amends(struct twins *twins, int daemon, bool first_is_late)
{
	struct amends *amends = &twins->amends[daemon];
	struct amend *amend;
	bool late = first_is_late;
	while ((amend = amends_take(amends, twins->local_us))) {
		if (late && amend->verb != STORE_FREE) {
			amends_put_back(amends, amend);
			return;
		}
		simulate_amend(twins, daemon, amend);
		amends_done(amend);
		late = is_late(twins, daemon);
	}
}

/* ---- the pulse --------------------------------------------------------------------------- */

/* The pulse's timer fires with one thing that is due, and amends. */
static void pulse(struct twins *twins, int daemon, enum chore chore)
{
	struct redis_store *redis = twins->daemons[daemon];
	struct pulse *its = &redis->pulse;
	its->clock_due_us = chore == CHORE_CLOCK ? 0 : INT64_MAX;
	its->place_due_us = chore == CHORE_PLACE ? 0 : INT64_MAX;
	its->beat_due_us = chore == CHORE_BEAT ? 0 : INT64_MAX;
	its->successor_due_us = chore == CHORE_SUCCEED ? 0 : INT64_MAX;
	its->epochs_due = chore == CHORE_EPOCHS;
	its->epochs_again_us = INT64_MAX;
	its->beat_heard_us = INT64_MIN / 2; /* nobody's: it is for us to try */
	bool late = is_late(twins, daemon);
	its->timer.timer_cb(&its->timer);
	twins_turn(twins);
	simulate_amends(twins, daemon, late);
}

void chores_amend(struct twins *twins, int daemon)
{
	if (!list_empty(&twins->amends[daemon].list))
		pulse(twins, daemon, CHORE_NONE);
}

static void note_place(const struct twins *twins, int daemon, FILE *out)
{
	const struct redis_store *redis = twins->daemons[daemon];
	fprintf(out, "place=%d full=%d succeeds=%d", redis->place.number, redis->place.full,
		redis->pulse.successor_due_us != INT64_MAX);
}

/* The simulated store's answer; before the real daemon asks. */
static void simulate_place(struct twins *twins, int daemon, FILE *out)
{
	struct caller caller = twins_caller(twins, daemon);
	bool succeeds = false;
	int place = shared_place(twins->shared, &caller, &succeeds);
	fprintf(out, "place=%d full=%d succeeds=%d", place, place == PLACE_NONE, succeeds);
}

static void place(struct twins *twins, int daemon)
{
	struct pair pair;
	pair_open(&pair);
	struct redis_store *redis = twins->daemons[daemon];
	redis->pulse.successor_due_us = INT64_MAX;
	/* What is booked of its own share comes first: it does not ask. */
	bool booked = alone_booked_us(&redis->alone, redis_store_clock_us(redis)) > 0;
	if (booked || is_late(twins, daemon))
		note_place(twins, daemon, pair.sim);
	else
		simulate_place(twins, daemon, pair.sim);
	pulse(twins, daemon, CHORE_PLACE);
	note_place(twins, daemon, pair.real);
	pair_compare(&pair, twins, "place");
}

static void print_time(FILE *out, int64_t now_us, uint32_t era, int64_t since_us, int64_t jump_us)
{
	fprintf(out, "now=%" PRId64 " era=%u since=%" PRId64 " jump=%" PRId64, now_us, era,
		since_us, jump_us);
}

static void simulate_clock(struct twins *twins, int daemon, FILE *out)
{
	struct caller caller = twins_caller(twins, daemon);
	const struct era *era = &twins->daemons[daemon]->era;
	struct shared_time time =
		shared_time(twins->shared, &caller, era_jump_to_tell(era, twins->local_us));
	/* What the daemon adopts, and when: an era that it knows keeps what it knew of it. */
	if (time.era == era->number)
		print_time(out, time.now_us, era->number, era->since_us, era->jump_us);
	else
		print_time(out, time.now_us, time.era, time.since_us, time.jump_us);
}

static void note_clock(struct twins *twins, int daemon, FILE *out)
{
	struct redis_store *redis = twins->daemons[daemon];
	print_time(out, redis_store_clock_us(redis), redis->era.number, redis->era.since_us,
		   redis->era.jump_us);
}

void chores_clock(struct twins *twins, int daemon)
{
	struct pair pair;
	pair_open(&pair);
	simulate_clock(twins, daemon, pair.sim);
	pulse(twins, daemon, CHORE_CLOCK);
	note_clock(twins, daemon, pair.real);
	pair_compare(&pair, twins, "clock");
}

static void simulate_epochs(struct twins *twins, int daemon)
{
	const struct epoch_book *book = &twins->daemons[daemon]->epochs;
	for (uint32_t i = 0; i < book->count; i++) {
		const struct epoch_page *page = &book->pages[i];
		for (uint32_t j = 0; j < page->count; j++)
			shared_know_epoch(twins->shared, page->keyspace, page->lines[j].store_us,
					  page->lines[j].spread_us);
	}
}

/* Which epochs the daemon knows that the store keeps: all of them, or it has not read the answer.
 */
static void compare_epochs(struct twins *twins, int daemon)
{
	struct redis_store *redis = twins->daemons[daemon];
	struct pair pair;
	pair_open(&pair);
	for (uint32_t i = 0; i < KEYSPACES; i++) {
		const struct epochs *epochs = &twins->shared->data.epochs[i];
		const char *name = twins->scene.policies[i].name;
		for (uint32_t j = 0; j < epochs->count; j++) {
			bool is_new = false;
			const struct epoch *epoch = &epochs->at[j];
			epoch_book_enter(&redis->epochs, name, strlen(name), epoch->moment_us,
					 epoch->moment_us, epoch->spread_us, &is_new);
			fprintf(pair.sim, "%s@%" PRId64 " ", name, epoch->moment_us);
			fprintf(pair.real, "%s@%" PRId64 "%s ", name, epoch->moment_us,
				is_new ? " unknown" : "");
		}
	}
	pair_compare(&pair, twins, "epochs");
}

static void epochs(struct twins *twins, int daemon)
{
	if (is_late(twins, daemon))
		return;
	simulate_epochs(twins, daemon);
	pulse(twins, daemon, CHORE_EPOCHS);
	compare_epochs(twins, daemon);
}

static void beat(struct twins *twins, int daemon)
{
	struct redis_store *redis = twins->daemons[daemon];
	struct caller caller = twins_caller(twins, daemon);
	int64_t interval_us = twins->scene.trust_us / 4; /* as in store/pulse.c */
	struct pair pair;
	if (interval_us < 50 * MS)
		interval_us = 50 * MS;
	pair_open(&pair);
	bool beats = !is_late(twins, daemon) &&
		     shared_beat(twins->shared, &caller, 2 * interval_us, &twins->rows[daemon]);
	fprintf(pair.sim, "beats=%d", beats);
	pulse(twins, daemon, CHORE_BEAT);
	fprintf(pair.real, "beats=%d", redis->pulse.is_beating);
	pair_compare(&pair, twins, "beat");
}

static void succeed(struct twins *twins, int daemon)
{
	struct caller caller = twins_caller(twins, daemon);
	if (caller.place == PLACE_NONE)
		return;
	shared_free_before(twins->shared, &caller);
	pulse(twins, daemon, CHORE_SUCCEED);
}

/* ---- birth ------------------------------------------------------------------------------- */

static void on_told(void *impl, const char *key, size_t len, uint64_t fence)
{
	(void)key, (void)len, (void)fence;
	((struct twins *)impl)->told_by_daemons = true;
}

/* The store of a daemon whose predecessor had this place. */
static struct redis_store *create(struct twins *twins, int number, uint64_t before)
{
	const struct scene *scene = &twins->scene;
	struct store_url url;
	struct redis_store *redis;
	CHECK(store_url_parse("unix:///nowhere", &url) == NULL);
	CHECK(redis_store_create(
		      &twins->loop,
		      &(struct redis_options){ .url = &url,
					       .prefix = "t:",
					       .concurrency = (uint32_t)scene->concurrency,
					       .budget_per_s = scene->budget_per_s,
					       .fleet = (uint32_t)scene->nodes,
					       .trust_us = scene->trust_us,
					       .seed = scene->seed * 1000 + ++twins->lives },
		      &redis) == 0);
	redis_store_listen(redis, &(struct store_listener){ .impl = twins, .settled = on_told });
	uv_timer_stop(&redis->pulse.timer); /* fires when it is told to */
	if (before != 0) {
		redis->place.number = number;
		redis->place.before = before;
	}
	return redis;
}

/* Time, place and epochs, as on any new connection. */
void chores_start(struct twins *twins, int daemon)
{
	struct redis_store *old = twins->daemons[daemon];
	int number = old ? old->place.number : PLACE_NONE;
	uint64_t before = old && number != PLACE_NONE ? old->place.token : 0;
	struct redis_store *redis = create(twins, number, before);
	struct pair pair;
	if (old)
		redis_store_close(old, NULL, NULL);
	amends_close(&twins->amends[daemon]);
	twins->rows[daemon] = (struct shared_row){ 0 };
	twins->daemons[daemon] = redis;
	pair_open(&pair);
	simulate_clock(twins, daemon, pair.sim);
	simulate_place(twins, daemon, pair.sim);
	simulate_epochs(twins, daemon);
	redis->control.config.events->greet(&redis->control);
	redis->values.config.events->greet(&redis->values);
	redis->news.config.events->greet(&redis->news);
	twins_turn(twins);
	note_clock(twins, daemon, pair.real);
	note_place(twins, daemon, pair.real);
	pair_compare(&pair, twins, "greeting");
	compare_epochs(twins, daemon);
}

void chores_do(struct twins *twins, const struct act *act)
{
	switch ((int)act->kind) {
	case ACT_CLOCK:
		chores_clock(twins, act->daemon);
		return;
	case ACT_PLACE:
		place(twins, act->daemon);
		return;
	case ACT_EPOCHS:
		epochs(twins, act->daemon);
		return;
	case ACT_BEAT:
		beat(twins, act->daemon);
		return;
	case ACT_SUCCEED:
		succeed(twins, act->daemon);
		return;
	case ACT_RESTART:
		chores_start(twins, act->daemon);
		return;
	}
}
