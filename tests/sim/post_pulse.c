/* What the daemon asks the store for itself, in the order of store/pulse.c: the time each second,
 * its place each half second, the epochs where one may have been missed, the heartbeat if it is the
 * one that publishes or nobody does, and the amends. On a new connection the time, the place and
 * the epochs come first.
 */
#include "base/check.h"
#include "fleet.h"
#include "post.h"

enum {
	TICK_US = 100 * MS, /* this and what follows as in store/pulse.c */
	CLOCK_US = SECOND,
	SUCCESSION_US = 2 * SECOND,
	BEATS_PER_TRUST = 4,
	EPOCHS_PER_TRUST = 2,
	BEAT_LEAST_US = 50 * MS,
};

static int64_t beat_interval_us(const struct post *post)
{
	int64_t interval_us = post->node->fleet->scene.trust_us / BEATS_PER_TRUST;
	return interval_us < BEAT_LEAST_US ? BEAT_LEAST_US : interval_us;
}

static void ask(struct post *post, enum cargo cargo)
{
	post->asked[cargo] = true;
	if (cargo == CARGO_PLACE)
		place_sent(&post->place, POST_CONTROL_US, post_local(post));
	post_send(post, cargo, NULL);
}

/* Who publishes goes on; the others step in when they hear nothing any more. */
static bool beat_is_due(const struct post *post, int64_t now_us)
{
	if (post->asked[CARGO_BEAT] || now_us < post->beat_due_us)
		return false;
	return post->is_beating || now_us - post->beat_heard_us > beat_interval_us(post) * 3 / 2;
}

static void amend_next(struct post *post)
{
	if (post->asked[CARGO_AMEND] || post->state != POST_READY)
		return;
	post->amending = amends_take(&post->amends, post_local(post));
	if (!post->amending)
		return;
	struct store_op op = { .verb = post->amending->verb,
			       .token = post->amending->token,
			       .slot = post->amending->slot,
			       .key = { .bytes = post->amending->key,
					.len = post->amending->key_len } };
	post->asked[CARGO_AMEND] = true;
	post_send(post, CARGO_AMEND, &op);
}

static void on_tick(struct errand *errand)
{
	struct post *post = &errand->node->post;
	int64_t now_us = post_local(post);
	node_at(post->node, errand, post->node->fleet->vtime.now_us + TICK_US, on_tick, NULL);
	if (post->state != POST_READY)
		return;
	if (!post->asked[CARGO_CLOCK] && now_us >= post->clock_due_us)
		ask(post, CARGO_CLOCK);
	if (!post->asked[CARGO_PLACE] && now_us >= post->place_due_us &&
	    alone_booked_us(&post->alone, post_store_clock(post)) == 0)
		ask(post, CARGO_PLACE);
	if (!post->asked[CARGO_SUCCESSOR] && now_us >= post->successor_due_us &&
	    post->place.number != PLACE_NONE) {
		post->successor_due_us = INT64_MAX;
		ask(post, CARGO_SUCCESSOR);
	}
	bool told = node_now(post->node) < post->trusted_until_us;
	if (!post->asked[CARGO_EPOCHS] &&
	    (post->epochs_due || (!told && now_us >= post->epochs_again_us))) {
		post->epochs_again_us =
			now_us + post->node->fleet->scene.trust_us / EPOCHS_PER_TRUST;
		post->epochs_due = false;
		ask(post, CARGO_EPOCHS);
	}
	if (beat_is_due(post, now_us)) {
		post->beat_due_us = now_us + beat_interval_us(post);
		ask(post, CARGO_BEAT);
	}
	amend_next(post);
}

void post_pulse_open(struct post *post)
{
	post->successor_due_us = INT64_MAX;
}

void post_pulse_begin(struct post *post)
{
	node_at(post->node, &post->tick, post->node->fleet->vtime.now_us + TICK_US, on_tick, NULL);
	post_pulse_greet(post);
}

void post_pulse_greet(struct post *post)
{
	ask(post, CARGO_CLOCK);
}

void post_pulse_close(struct post *post)
{
	if (post->amending)
		amends_done(post->amending);
}

/* ---- at the store ------------------------------------------------------------------------- */

static void execute_clock(struct post *post, const struct caller *caller,
			  struct shared_time *ret_time)
{
	struct fleet *fleet = post->node->fleet;
	uint32_t era = fleet->shared.data.era;
	*ret_time =
		shared_time(&fleet->shared, caller, era_jump_to_tell(&post->era, post_local(post)));
	if (ret_time->era == era || ret_time->jump_us == 0)
		return;
	judge_on_era(&fleet->judge, ret_time->jump_us);
	trace(fleet, "ev=era number=%u jump=%" PRId64, ret_time->era, ret_time->jump_us);
}

/* What the daemon knows is written back, and all are given. */
static void execute_epochs(struct fleet *fleet, struct epochs *epochs)
{
	for (int i = 0; i < KEYSPACES; i++) {
		for (uint32_t j = 0; j < epochs[i].count; j++)
			shared_know_epoch(&fleet->shared, fleet->scene.policies[i].name,
					  epochs[i].at[j].moment_us, epochs[i].at[j].spread_us);
		epochs[i] = fleet->shared.data.epochs[i];
	}
	judge_on_epochs_kept(&fleet->judge);
}

bool post_pulse_execute(struct post *post, enum cargo cargo, const struct caller *caller,
			struct receipt *ret_receipt)
{
	struct shared *shared = &post->node->fleet->shared;
	switch (cargo) {
	case CARGO_OP:
	case CARGO_AMEND:
	case CARGO_CHANGE:
		return false;
	case CARGO_CLOCK:
		execute_clock(post, caller, &ret_receipt->time);
		return true;
	case CARGO_EPOCHS:
		execute_epochs(post->node->fleet, ret_receipt->epochs);
		return true;
	case CARGO_PLACE:
		ret_receipt->place = shared_place(shared, caller, &ret_receipt->yes);
		return true;
	case CARGO_BEAT:
		ret_receipt->yes =
			shared_beat(shared, caller, 2 * beat_interval_us(post), &ret_receipt->row);
		return true;
	case CARGO_SUCCESSOR:
		shared_free_before(shared, caller);
		return true;
	}
	return false;
}

/* Out of touch up to now, a permit of its own may be booked: it is used up first, so that no place
   is live and on its own. */
static void on_place_due(struct errand *errand)
{
	if (errand->node->post.state == POST_GREETING)
		ask(&errand->node->post, CARGO_PLACE);
}

static void ask_place(struct post *post)
{
	int64_t left_us = alone_booked_us(&post->alone, post_store_clock(post));
	if (left_us == 0)
		ask(post, CARGO_PLACE);
	else
		node_at(post->node, &post->place_due, post->node->fleet->vtime.now_us + left_us,
			on_place_due, NULL);
}

/* ---- answers ------------------------------------------------------------------------------ */

static void clock_done(struct post *post, const struct receipt *receipt, int64_t sent_us)
{
	int64_t now_us = post_local(post);
	const struct shared_time *time = &receipt->time;
	int64_t jump_us = fleet_clock_sample(&post->clock, sent_us, now_us, time->now_us);
	post->clock_due_us = now_us + CLOCK_US;
	if (jump_us != 0) {
		trace(post->node->fleet, "node=%d ev=jump by=%" PRId64, post->node->number,
		      jump_us);
		era_saw_jump(&post->era, jump_us, now_us);
		judge_on_seen_jump(&post->node->fleet->judge, jump_us);
		post->clock_due_us = now_us;
	}
	if (post->era.number == 0)
		post->node->unsettled = post->node->fleet->judge.jumped;
	era_adopt(&post->era, time->era, time->since_us, time->jump_us, now_us);
	if (post->state == POST_GREETING)
		ask_place(post);
}

static void place_done(struct post *post, const struct receipt *receipt)
{
	struct node *node = post->node;
	CHECK(place_given(&post->place, receipt->place) == 0);
	if (receipt->yes)
		post->successor_due_us = post_local(post) + SUCCESSION_US;
	if (receipt->place != PLACE_NONE) {
		node->kept_place = receipt->place; /* what the state folder keeps */
		node->kept_life = node->life;
	}
	if (post->state == POST_GREETING)
		ask(post, CARGO_EPOCHS);
}

static void epochs_done(struct post *post, const struct receipt *receipt)
{
	for (int i = 0; i < KEYSPACES; i++) {
		const struct epochs *epochs = &receipt->epochs[i];
		for (uint32_t j = 0; j < epochs->count; j++)
			post_take_epoch(post, i, epochs->at[j].moment_us, epochs->at[j].spread_us);
	}
	if (!post->epochs_due)
		post_epochs_are_known(post);
	post_ready(post);
}

static void amend_done(struct post *post, enum store_error error)
{
	if (error != STORE_ERROR_NONE)
		amends_put_back(&post->amends, post->amending);
	else
		amends_done(post->amending);
	post->amending = NULL;
	if (error == STORE_ERROR_NONE)
		amend_next(post);
}

static void failed(struct post *post, enum cargo cargo, enum store_error error)
{
	switch (cargo) {
	case CARGO_PLACE:
		post->place_due_us = post_local(post) + PLACE_BEAT_US;
		if (!store_error_is_doubtful(error))
			place_not_taken(&post->place);
		break;
	case CARGO_EPOCHS:
		post->epochs_due = true;
		break;
	case CARGO_SUCCESSOR:
		post->successor_due_us = post_local(post) + SUCCESSION_US;
		break;
	case CARGO_BEAT:
		post->is_beating = false;
		break;
	case CARGO_AMEND:
		amend_done(post, error);
		break;
	case CARGO_OP:
	case CARGO_CHANGE:
	case CARGO_CLOCK:
		break;
	}
	if (post->state == POST_GREETING)
		post_rest(post, error);
}

void post_pulse_done(struct post *post, enum cargo cargo, const struct receipt *receipt,
		     int64_t sent_us, enum store_error error)
{
	post->asked[cargo] = false;
	if (error != STORE_ERROR_NONE) {
		failed(post, cargo, error);
		return;
	}
	switch (cargo) {
	case CARGO_CLOCK:
		clock_done(post, receipt, sent_us);
		break;
	case CARGO_PLACE:
		post->place_due_us = post_local(post) + PLACE_BEAT_US;
		place_done(post, receipt);
		break;
	case CARGO_EPOCHS:
		epochs_done(post, receipt);
		break;
	case CARGO_BEAT:
		post->is_beating = receipt->yes;
		if (receipt->yes)
			post->row = receipt->row;
		break;
	case CARGO_AMEND:
		amend_done(post, error);
		break;
	case CARGO_OP:
	case CARGO_CHANGE:
	case CARGO_SUCCESSOR:
		break;
	}
}
