/* Parcels: what goes between a daemon and the store, there and back, late, twice or never. */
#include <stdlib.h>

#include "base/check.h"
#include "fleet.h"
#include "post.h"

enum {
	ATTEMPTS = 2,
	REFUSED_US = MS,        /* a connection that nobody takes fails so soon */
	SLOW_WAY_US = 100 * MS, /* a message that takes longer may cost a lease */
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
	struct change_call *change; /* owned; a copy */
	enum store_verb verb;       /* of an operation or amend */
	struct key key;
	uint64_t token;
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

static void parcel_unref(struct parcel *parcel)
{
	if (--parcel->refs > 0)
		return;
	for (int i = 0; i < ATTEMPTS; i++) {
		value_unref(parcel->attempts[i].op.entry.value);
		value_unref(parcel->attempts[i].op.failure.text);
		free(parcel->attempts[i].receipt.epochs);
		free(parcel->attempts[i].receipt.change);
	}
	post_change_free(parcel->change);
	free(parcel);
}

/* The judge is to know which flights the store was away for, and which leases may lapse. */
static void note_astray(const struct parcel *parcel)
{
	struct fleet *fleet = parcel->post->node->fleet;
	if (parcel->key.len == 0 || parcel->verb == STORE_EPOCH)
		return;
	int key = scene_find(&fleet->scene, parcel->key_bytes, parcel->key.len);
	judge_on_astray(&fleet->judge, key, parcel->token);
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
	if (error != STORE_ERROR_NONE)
		note_astray(parcel);
	list_remove(parcel->sent ? &post->unanswered : &post->waiting, &parcel->node);
	if (parcel->overdue.node) {
		node_cancel(&parcel->overdue);
		parcel->overdue.node = NULL;
		parcel->refs--;
	}
	if (parcel->change) {
		bool is_answer = attempt && error == STORE_ERROR_NONE;
		post_change_done(post, is_answer ? attempt->receipt.change : NULL);
	} else if (!op && !post->node->buried) {
		post_pulse_done(post, parcel->cargo, attempt ? &attempt->receipt : NULL,
				parcel->sent_us, error);
	} else if (op) {
		if (error == STORE_ERROR_NONE)
			post_op_comes(post, op, &attempt->op,
				      parcel->sent_store_us - parcel->sent_us);
		else
			post_op_fail(post, op, error);
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
	if (shared->full && (attempt->op.verb == STORE_LEASE || attempt->op.verb == STORE_SAVE))
		return STORE_ERROR_OOM; /* the other scripts allow-oom */
	struct value *value = attempt->op.entry.value, *text = attempt->op.failure.text;
	shared_execute(shared, &attempt->op, &parcel->caller);
	if (attempt->op.verb == STORE_EPOCH)
		judge_on_epoch(&shared->fleet->judge,
			       (int)shared_keyspace(shared, parcel->key_bytes, parcel->key.len),
			       &(struct epoch){ .moment_us = attempt->op.moment_us,
						.spread_us = attempt->op.length_us });
	trace(shared->fleet,
	      "node=%d ev=%s key=%s token=%" PRIx64 " outcome=%d fence=%" PRIu64 " left=%" PRId64,
	      parcel->caller.node, store_verb_name(attempt->op.verb), parcel->key_bytes,
	      attempt->op.token, (int)attempt->op.outcome, attempt->op.fence, attempt->op.left_us);
	/* What was asked gives way to what is answered. */
	if (attempt->op.verb != STORE_LOAD && attempt->op.verb != STORE_LEASE) {
		value_unref(value);
		value_unref(text);
		attempt->op.entry.value = attempt->op.failure.text = NULL;
	}
	return STORE_ERROR_NONE;
}

static enum store_error execute(struct attempt *attempt)
{
	struct parcel *parcel = attempt->parcel;
	struct shared *shared = &parcel->post->node->fleet->shared;
	bool is_op = parcel->cargo == CARGO_OP || parcel->cargo == CARGO_AMEND;
	bool ages = is_op ? parcel->verb != STORE_LOAD && parcel->verb != STORE_FREE
			  : parcel->cargo == CARGO_PLACE || parcel->cargo == CARGO_BEAT ||
				    parcel->cargo == CARGO_EPOCHS || parcel->change;
	if (ages && shared_now(shared) > parcel->deadline_us)
		return STORE_ERROR_LATE;
	if (is_op)
		return execute_op(attempt);
	if (shared->readonly)
		return STORE_ERROR_READONLY;
	if (parcel->change)
		return post_change_execute(parcel->post, parcel->change, &parcel->caller,
					   attempt->receipt.change)
			       ? STORE_ERROR_NONE
			       : STORE_ERROR_OTHER;
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
	/* What comes once more may take again what was given back: it lapses. */
	if (arrives && attempt != &parcel->attempts[0])
		note_astray(parcel);
	int64_t delay_us = weather_delay(weather);
	bool answers = arrives && !weather_loses(weather) && parcel->caller.life == node->life &&
		       node->state != NODE_DOWN;
	if (!parcel->answered && (!answers || delay_us > SLOW_WAY_US || attempt->error))
		note_astray(parcel);
	if (answers)
		node_at(node, &attempt->answer, vtime_of(post)->now_us + delay_us, on_answer,
			on_answer_drop);
	else
		parcel_unref(parcel);
}

static void attempt_send(struct attempt *attempt, int64_t delay_us)
{
	struct parcel *parcel = attempt->parcel;
	struct post *post = parcel->post;
	bool lost = post->cut || weather_loses(weather_of(post));
	if (lost || delay_us > SLOW_WAY_US)
		note_astray(parcel);
	if (lost)
		return;
	parcel->refs++;
	attempt->receipt.row = post->row;
	if (parcel->cargo == CARGO_EPOCHS) {
		attempt->receipt.epochs = calloc(KEYSPACES, sizeof(*attempt->receipt.epochs));
		CHECK(attempt->receipt.epochs);
		post_write_epochs(post, attempt->receipt.epochs);
	}
	if (parcel->change) {
		attempt->receipt.change = calloc(1, sizeof(*attempt->receipt.change));
		CHECK(attempt->receipt.change);
	}
	if (parcel->op) {
		attempt->op = *parcel->op;
		attempt->op.key = parcel->key;
		post_op_leaves(post, &attempt->op);
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
	parcel->token = sent->token;
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

void post_send_op(struct post *post, struct store_op *op)
{
	parcel_go(parcel_create(post, CARGO_OP, op, NULL));
}

void post_send_change(struct post *post, const struct change_call *call)
{
	struct parcel *parcel = parcel_create(post, CARGO_CHANGE, NULL, NULL);
	parcel->change = post_change_copy(call);
	parcel_go(parcel);
}

void post_send_later(struct post *post, struct store_op *op)
{
	struct parcel *parcel = parcel_create(post, CARGO_OP, op, NULL);
	note_astray(parcel);
	list_push_back(&post->waiting, &parcel->node);
	parcel->refs++;
	node_at(post->node, &parcel->overdue, vtime_of(post)->now_us + POST_CONTROL_US, on_overdue,
		on_overdue_drop);
}

void post_send_waiting(struct post *post)
{
	struct list_node *first;
	while (post->state == POST_READY && (first = list_pop_front(&post->waiting))) {
		struct parcel *parcel = container_of(first, struct parcel, node);
		node_cancel(&parcel->overdue);
		parcel->overdue.node = NULL;
		parcel->refs--;
		parcel_go(parcel);
	}
}

void post_fail_all(struct post *post, enum store_error sent, enum store_error waiting)
{
	struct list_node *first;
	while ((first = list_first(&post->unanswered)))
		parcel_answer(container_of(first, struct parcel, node), NULL, sent);
	while ((first = list_first(&post->waiting)))
		parcel_answer(container_of(first, struct parcel, node), NULL, waiting);
}
