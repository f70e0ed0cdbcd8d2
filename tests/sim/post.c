#include "post.h"

#include <stdlib.h>

#include "base/check.h"
#include "fleet.h"
#include "store/share.h"

enum {
	ATTEMPTS = 2,
	REFUSED_US = MS,           /* a connection that nobody takes fails so soon */
	PERMIT_LATE_US = 100 * MS, /* this and what follows as in store/redis.c */
	TIME_OF_DAY_WRONG_US = 600 * SECOND,
	REST_LEAST_US = 50 * MS,
	REST_MOST_US = 500 * MS,
};

/* One way to the store and back. A second attempt is what a new connection repeats, or an old one
   delivers late. */
struct attempt {
	struct parcel *parcel;
	struct timer travel;
	struct errand answer;
	struct store_op op; /* its own copy: counted parts are the attempt's */
	struct receipt receipt;
	enum store_error error;
};

struct parcel {
	struct post *post;
	struct list_node node; /* in waiting or unanswered, until it is answered */
	enum cargo cargo;
	struct store_op *op;
	enum store_verb verb; /* of an operation or amend */
	struct key key;
	char key_bytes[24];
	struct caller caller;
	bool sent, answered;
	int64_t sent_us;       /* local */
	int64_t sent_store_us; /* the store's clock, as the daemon has it */
	int64_t deadline_us;   /* the same: past this the script refuses */
	struct errand overdue;
	struct attempt attempts[ATTEMPTS];
	int refs; /* timers and errands that are set, and the answer that is due */
};

static struct vtime *vtime_of(const struct post *post)
{
	return &post->node->fleet->vtime;
}

static struct weather *weather_of(const struct post *post)
{
	return &post->node->fleet->weather;
}

int64_t post_local(const struct post *post)
{
	return node_local(post->node);
}

int64_t post_store_clock(struct post *post)
{
	return fleet_clock_store(&post->clock, post_local(post));
}

struct caller post_caller(const struct post *post)
{
	return (struct caller){ .node = post->node->number,
				.life = post->node->life,
				.before = post->place.before,
				.place = post->place.number };
}

static void parcel_unref(struct parcel *parcel)
{
	if (--parcel->refs > 0)
		return;
	for (int i = 0; i < ATTEMPTS; i++) {
		value_unref(parcel->attempts[i].op.entry.value);
		value_unref(parcel->attempts[i].op.failure.text);
	}
	free(parcel);
}

/* ---- operations: what they are worth without an answer ------------------------------------ */

static void op_fail(struct post *post, struct store_op *op, enum store_error error)
{
	trace(post->node->fleet, "node=%d ev=away verb=%s key=%.*s error=%s", post->node->number,
	      store_verb_name(op->verb), (int)op->key.len, op->key.len ? op->key.bytes : "",
	      store_error_name(error));
	amends_make(&post->amends, op, error, post_local(post));
	op->outcome = STORE_AWAY;
	op->has_entry = op->has_value = op->has_claim = op->has_failure = false;
	if (op->verb == STORE_PERMIT && !post->node->buried)
		alone_answer(&post->alone, &post->place, op, post_store_clock(post),
			     post_local(post));
}

/* ---- operations: translated --------------------------------------------------------------- */

/* Moments leave by the store's clock, and come back by the daemon's. */
static void op_leaves(struct post *post, struct store_op *op)
{
	struct entry *entry = &op->entry;
	int64_t local_us = post_local(post);
	op->failure.until_us -= fleet_clock_now(&post->clock, local_us);
	entry->era = post->era.number;
	entry->generated_at_us =
		fleet_clock_to_store(&post->clock, entry->generated_at_us, local_us);
	entry->fresh_until_us = fleet_clock_to_store(&post->clock, entry->fresh_until_us, local_us);
	entry->stale_until_us = fleet_clock_to_store(&post->clock, entry->stale_until_us, local_us);
}

static void entry_comes(struct post *post, struct store_op *op)
{
	struct entry *entry = &op->entry;
	int64_t local_us = post_local(post);
	era_translate(&post->era, entry, op->key.keyspace->policy, post_store_clock(post));
	entry->generated_at_us =
		fleet_clock_from_store(&post->clock, entry->generated_at_us, local_us);
	entry->fresh_until_us =
		fleet_clock_from_store(&post->clock, entry->fresh_until_us, local_us);
	entry->stale_until_us =
		fleet_clock_from_store(&post->clock, entry->stale_until_us, local_us);
}

static void permit_comes(const struct parcel *parcel, struct store_op *op)
{
	struct post *post = parcel->post;
	op->left_us += parcel->sent_us - parcel->sent_store_us - post_local(post);
	if (op->left_us < -PERMIT_LATE_US) {
		amends_add(&post->amends, STORE_FREE, op, post_local(post) + op->length_us);
		op->outcome = STORE_RETRY;
	}
	if (op->left_us < 0)
		op->left_us = 0;
}

static void op_comes(const struct parcel *parcel, struct store_op *op, const struct store_op *from)
{
	struct post *post = parcel->post;
	op->outcome = from->outcome;
	op->has_entry = from->has_entry;
	op->has_value = from->has_value;
	op->has_claim = from->has_claim;
	op->has_failure = from->has_failure;
	op->fence = from->fence;
	op->floor = from->floor;
	op->left_us = from->left_us;
	if (op->verb == STORE_LOAD || op->verb == STORE_LEASE) {
		op->entry = from->entry;
		op->failure = from->failure;
		op->failure.until_us =
			fleet_clock_now(&post->clock, post_local(post)) + op->failure.retry_in_us;
		value_ref(op->entry.value);
		value_ref(op->failure.text);
		if (op->has_entry)
			entry_comes(post, op);
	} else if (op->verb == STORE_PERMIT && op->outcome == STORE_DONE) {
		op->slot = from->slot;
		permit_comes(parcel, op);
	}
}

/* ---- answers ------------------------------------------------------------------------------ */

static void parcel_answer(struct parcel *parcel, const struct attempt *attempt,
			  enum store_error error)
{
	struct post *post = parcel->post;
	struct store_op *op = parcel->op;
	if (parcel->answered)
		return;
	parcel->answered = true;
	list_remove(parcel->sent ? &post->unanswered : &post->waiting, &parcel->node);
	if (parcel->overdue.node) {
		node_cancel(&parcel->overdue);
		parcel->overdue.node = NULL;
		parcel->refs--;
	}
	if (!op && !post->node->buried) {
		post_pulse_done(post, parcel->cargo, attempt ? &attempt->receipt : NULL,
				parcel->sent_us, error);
	} else if (op) {
		if (error == STORE_ERROR_NONE)
			op_comes(parcel, op, &attempt->op);
		else
			op_fail(post, op, error);
		op->done(op);
	}
	parcel_unref(parcel);
}

static void on_answer(struct errand *errand)
{
	struct attempt *attempt = container_of(errand, struct attempt, answer);
	struct parcel *parcel = attempt->parcel;
	parcel_answer(parcel, attempt, attempt->error);
	parcel_unref(parcel);
}

static void on_answer_drop(struct errand *errand)
{
	parcel_unref(container_of(errand, struct attempt, answer)->parcel);
}

/* A reply that is overdue ends the connection, and with it all that waits for one. */
static void on_overdue(struct errand *errand)
{
	struct parcel *parcel = container_of(errand, struct parcel, overdue);
	struct post *post = parcel->post;
	bool sent = parcel->sent, refused = post->node->fleet->shared.down;
	enum store_error error = refused ? STORE_ERROR_CONNECT : STORE_ERROR_TIMEOUT;
	parcel->overdue.node = NULL;
	parcel->refs--; /* what is to be answered holds the parcel still */
	parcel_answer(parcel, NULL, error);
	if (sent)
		post_rest(post, error);
}

static void on_overdue_drop(struct errand *errand)
{
	struct parcel *parcel = container_of(errand, struct parcel, overdue);
	parcel->overdue.node = NULL;
	parcel->refs--;
}

/* ---- the way there ------------------------------------------------------------------------ */

static enum store_error execute_op(struct attempt *attempt)
{
	struct parcel *parcel = attempt->parcel;
	struct shared *shared = &parcel->post->node->fleet->shared;
	if (shared->readonly && attempt->op.verb != STORE_LOAD)
		return STORE_ERROR_READONLY;
	shared_execute(shared, &attempt->op, &parcel->caller);
	trace(shared->fleet,
	      "node=%d ev=%s key=%s token=%" PRIx64 " outcome=%d fence=%" PRIu64 " left=%" PRId64,
	      parcel->caller.node, store_verb_name(attempt->op.verb), parcel->key_bytes,
	      attempt->op.token, (int)attempt->op.outcome, attempt->op.fence, attempt->op.left_us);
	/* What was asked gives way to what is answered. */
	if (attempt->op.verb != STORE_LOAD && attempt->op.verb != STORE_LEASE) {
		value_unref(attempt->op.entry.value);
		value_unref(attempt->op.failure.text);
		attempt->op.entry = (struct entry){ 0 };
		attempt->op.failure = (struct failure){ 0 };
	}
	return STORE_ERROR_NONE;
}

static enum store_error execute(struct attempt *attempt)
{
	struct parcel *parcel = attempt->parcel;
	struct shared *shared = &parcel->post->node->fleet->shared;
	bool is_op = parcel->cargo == CARGO_OP || parcel->cargo == CARGO_AMEND;
	bool ages = is_op ? parcel->verb != STORE_LOAD && parcel->verb != STORE_FREE
			  : parcel->cargo == CARGO_PLACE || parcel->cargo == CARGO_BEAT;
	if (ages && shared_now(shared) > parcel->deadline_us)
		return STORE_ERROR_LATE;
	if (is_op)
		return execute_op(attempt);
	if (shared->readonly)
		return STORE_ERROR_READONLY;
	return post_pulse_execute(parcel->post, parcel->cargo, &parcel->caller, &attempt->receipt)
		       ? STORE_ERROR_NONE
		       : STORE_ERROR_OTHER;
}

static void on_arrival(struct timer *timer)
{
	struct attempt *attempt = container_of(timer, struct attempt, travel);
	struct parcel *parcel = attempt->parcel;
	struct post *post = parcel->post;
	struct node *node = post->node;
	struct weather *weather = weather_of(post);
	if (node->fleet->shared.stalled) {
		weather_hold(weather, timer, on_arrival);
		return;
	}
	bool arrives = !node->fleet->shared.down && !post->cut;
	if (arrives)
		attempt->error = execute(attempt);
	if (arrives && !weather_loses(weather) && parcel->caller.life == node->life &&
	    node->state != NODE_DOWN)
		node_at(node, &attempt->answer, vtime_of(post)->now_us + weather_delay(weather),
			on_answer, on_answer_drop);
	else
		parcel_unref(parcel);
}

static void attempt_send(struct attempt *attempt, int64_t delay_us)
{
	struct parcel *parcel = attempt->parcel;
	struct post *post = parcel->post;
	if (post->cut || weather_loses(weather_of(post)))
		return;
	parcel->refs++;
	if (parcel->op) {
		attempt->op = *parcel->op;
		attempt->op.key = parcel->key;
		if (parcel->op->verb == STORE_SAVE || parcel->op->verb == STORE_RELEASE)
			op_leaves(post, &attempt->op);
		value_ref(attempt->op.entry.value);
		value_ref(attempt->op.failure.text);
	}
	vtime_set(vtime_of(post), &attempt->travel, vtime_of(post)->now_us + delay_us, on_arrival);
}

static void parcel_go(struct parcel *parcel)
{
	struct post *post = parcel->post;
	struct weather *weather = weather_of(post);
	bool values =
		parcel->op && (parcel->op->verb == STORE_LOAD || parcel->op->verb == STORE_SAVE);
	int64_t patience_us = values ? POST_VALUES_US : POST_CONTROL_US;
	list_push_back(&post->unanswered, &parcel->node);
	parcel->sent = true;
	parcel->caller = post_caller(post);
	parcel->sent_us = post_local(post);
	parcel->sent_store_us = post_store_clock(post);
	parcel->deadline_us = parcel->sent_store_us + patience_us;
	if (post->node->fleet->shared.down && !post->cut)
		patience_us = REFUSED_US;
	parcel->refs++;
	node_at(post->node, &parcel->overdue, vtime_of(post)->now_us + patience_us, on_overdue,
		on_overdue_drop);
	attempt_send(&parcel->attempts[0], weather_delay(weather));
	if (weather_doubles(weather))
		attempt_send(&parcel->attempts[1], rng_between(&weather->rng, 0, POST_CONTROL_US));
}

/* `op` is answered; `amend` is only sent. */
static struct parcel *parcel_create(struct post *post, enum cargo cargo, struct store_op *op,
				    const struct store_op *amend)
{
	const struct store_op *sent = op ? op : amend;
	struct parcel *parcel = calloc(1, sizeof(*parcel));
	CHECK(parcel);
	*parcel = (struct parcel){ .post = post, .cargo = cargo, .op = op, .refs = 1 };
	for (int i = 0; i < ATTEMPTS; i++)
		parcel->attempts[i].parcel = parcel;
	if (!sent)
		return parcel;
	CHECK(sent->key.len < sizeof(parcel->key_bytes));
	if (sent->key.len > 0)
		memcpy(parcel->key_bytes, sent->key.bytes, sent->key.len);
	parcel->verb = sent->verb;
	parcel->key = sent->key;
	parcel->key.bytes = parcel->key_bytes;
	for (int i = 0; i < ATTEMPTS && amend; i++) {
		parcel->attempts[i].op = *amend;
		parcel->attempts[i].op.key = parcel->key;
	}
	return parcel;
}

void post_send(struct post *post, enum cargo cargo, const struct store_op *amend)
{
	parcel_go(parcel_create(post, cargo, NULL, amend));
}

/* ---- core's interface --------------------------------------------------------------------- */

/* An operation that is answered here, but never inside the call. */
struct at_once {
	struct errand errand;
	struct store_op *op;
};

static void on_at_once(struct errand *errand)
{
	struct at_once *at_once = container_of(errand, struct at_once, errand);
	struct store_op *op = at_once->op;
	free(at_once);
	op->done(op);
}

static void on_at_once_drop(struct errand *errand)
{
	struct at_once *at_once = container_of(errand, struct at_once, errand);
	list_push_back(&errand->node->post.abandoned, &at_once->op->node);
	free(at_once);
}

static void answer_at_once(struct post *post, struct store_op *op)
{
	struct at_once *at_once = calloc(1, sizeof(*at_once));
	CHECK(at_once);
	at_once->op = op;
	node_at(post->node, &at_once->errand, vtime_of(post)->now_us + 1, on_at_once,
		on_at_once_drop);
}

/* Until the connection is greeted, or given up. */
static void wait_for_ready(struct post *post, struct store_op *op)
{
	struct parcel *parcel = parcel_create(post, CARGO_OP, op, NULL);
	list_push_back(&post->waiting, &parcel->node);
	parcel->refs++;
	node_at(post->node, &parcel->overdue, vtime_of(post)->now_us + POST_CONTROL_US, on_overdue,
		on_overdue_drop);
}

static void submit(void *impl, struct store_op *op)
{
	struct post *post = impl;
	list_node_init(&op->node);
	op->outcome = STORE_DONE;
	op->has_entry = op->has_value = op->has_claim = op->has_failure = false;
	op->floor = 0;
	op->left_us = 0;
	if (post->node->buried) {
		list_push_back(&post->abandoned, &op->node);
	} else if (op->verb == STORE_FREE && alone_free(&post->alone, op->token)) {
		answer_at_once(post, op);
	} else if (post->state == POST_RESTING || op->verb == STORE_EPOCH) {
		op_fail(post, op, post->error);
		answer_at_once(post, op);
	} else if (post->state == POST_GREETING) {
		wait_for_ready(post, op);
	} else {
		parcel_go(parcel_create(post, CARGO_OP, op, NULL));
	}
}

struct store post_iface(struct post *post)
{
	return (struct store){ .impl = post, .submit = submit };
}

void post_abandon(struct post *post)
{
	struct list *lists[] = { &post->unanswered, &post->waiting };
	struct list_node *first;
	for (int i = 0; i < 2; i++)
		while ((first = list_first(lists[i])))
			parcel_answer(container_of(first, struct parcel, node), NULL,
				      STORE_ERROR_CLOSED);
	while ((first = list_pop_front(&post->abandoned))) {
		struct store_op *op = container_of(first, struct store_op, node);
		op->outcome = STORE_AWAY;
		op->done(op);
	}
}

/* ---- the connection ----------------------------------------------------------------------- */

static void on_again(struct errand *errand)
{
	struct post *post = &errand->node->post;
	post->state = POST_GREETING;
	post_pulse_greet(post);
}

void post_rest(struct post *post, enum store_error error)
{
	struct list_node *first;
	if (post->state == POST_RESTING)
		return;
	trace(post->node->fleet, "node=%d ev=rests error=%s", post->node->number,
	      store_error_name(error));
	post->state = POST_RESTING;
	post->error = error;
	if (!post->node->buried)
		node_opened(post->node);
	node_at(post->node, &post->again,
		vtime_of(post)->now_us + rng_between(&post->rng, REST_LEAST_US, REST_MOST_US),
		on_again, NULL);
	while ((first = list_first(&post->unanswered)))
		parcel_answer(container_of(first, struct parcel, node), NULL, STORE_ERROR_LOST);
	while ((first = list_first(&post->waiting)))
		parcel_answer(container_of(first, struct parcel, node), NULL, error);
}

static void on_broken(struct errand *errand)
{
	post_rest(&errand->node->post, STORE_ERROR_LOST);
}

void post_break(struct post *post)
{
	post_deafen(post, true);
	node_at(post->node, &post->broken, vtime_of(post)->now_us + 1, on_broken, NULL);
}

void post_ready(struct post *post)
{
	struct list_node *first;
	if (post->state != POST_GREETING)
		return;
	trace(post->node->fleet, "node=%d ev=ready", post->node->number);
	post->state = POST_READY;
	node_opened(post->node);
	while (post->state == POST_READY && (first = list_pop_front(&post->waiting))) {
		struct parcel *parcel = container_of(first, struct parcel, node);
		node_cancel(&parcel->overdue);
		parcel->overdue.node = NULL;
		parcel->refs--;
		parcel_go(parcel);
	}
}

/* ---- life --------------------------------------------------------------------------------- */

void post_open(struct post *post, struct node *node, int place, uint64_t before)
{
	const struct scene *scene = &node->fleet->scene;
	bool cut = post->cut;
	*post = (struct post){ .node = node, .cut = cut, .error = STORE_ERROR_CONNECT };
	rng_seed(&post->rng, rng_next(&node->rng));
	list_init(&post->waiting);
	list_init(&post->unanswered);
	list_init(&post->abandoned);
	list_init(&post->letters);
	int64_t wrong_us =
		scene_has(scene, TROUBLE_SKEW)
			? rng_between(&post->rng, -TIME_OF_DAY_WRONG_US, TIME_OF_DAY_WRONG_US)
			: 0;
	fleet_clock_init(&post->clock, node_local(node),
			 FLEET_EPOCH_US + node->fleet->vtime.now_us + wrong_us);
	place_init(&post->place, NULL, (uint32_t)scene->nodes, node->life, node_local(node));
	if (place != PLACE_NONE) {
		post->place.number = place;
		post->place.before = before;
	}
	double rate = share_rate(scene->budget_per_s, (uint32_t)scene->nodes);
	CHECK(alone_init(&post->alone, rate, (uint32_t)scene->concurrency,
			 (uint32_t)scene->nodes) == 0);
	amends_init(&post->amends);
	post_pulse_open(post);
}

void post_begin(struct post *post)
{
	post->state = POST_GREETING;
	post_news_begin(post);
	post_pulse_begin(post);
}

void post_close(struct post *post)
{
	CHECK(list_empty(&post->unanswered) && list_empty(&post->waiting) &&
	      list_empty(&post->abandoned));
	post_pulse_close(post);
	post_news_close(post);
	amends_close(&post->amends);
	alone_close(&post->alone);
}
