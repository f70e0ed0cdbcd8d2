#include "post.h"

#include <stdlib.h>

#include "base/check.h"
#include "fleet.h"
#include "store/share.h"

enum {
	TIME_OF_DAY_WRONG_US = 600 * SECOND,
	REST_LEAST_US = 50 * MS, /* this and the next as in store/redis.c */
	REST_MOST_US = 500 * MS,
};

static struct vtime *vtime_of(const struct post *post)
{
	return &post->node->fleet->vtime;
}

int64_t post_local(const struct post *post)
{
	return node_local(post->node);
}

int64_t post_store_clock(struct post *post)
{
	return fleet_clock_store(&post->clock, post_local(post));
}

struct caller post_caller(struct post *post)
{
	return (struct caller){ .node = post->node->number,
				.life = post->node->life,
				.before = post->place.before,
				.place = post->place.number,
				.owes = alone_owes(&post->alone, post_store_clock(post)),
				.era = post->era.number };
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

static void submit(void *impl, struct store_op *op)
{
	struct post *post = impl;
	if (!post->node->buried)
		judge_on_asked(&post->node->fleet->judge, post->node, op);
	list_node_init(&op->node);
	op->outcome = STORE_DONE;
	op->has_entry = op->has_value = op->has_claim = op->has_failure = false;
	op->floor = 0;
	op->left_us = 0;
	if (post->node->buried) {
		list_push_back(&post->abandoned, &op->node);
	} else if (op->verb == STORE_FREE && alone_free(&post->alone, op->token)) {
		answer_at_once(post, op);
	} else if (post->state == POST_RESTING) {
		if (op->key.len > 0 && op->verb != STORE_EPOCH)
			judge_on_astray(
				&post->node->fleet->judge,
				scene_find(&post->node->fleet->scene, op->key.bytes, op->key.len),
				op->token);
		post_op_fail(post, op, post->error);
		answer_at_once(post, op);
	} else if (post->state == POST_GREETING) {
		post_send_later(post, op);
	} else {
		post_send_op(post, op);
	}
}

struct store post_iface(struct post *post)
{
	return (struct store){ .impl = post, .submit = submit };
}

void post_abandon(struct post *post)
{
	struct list_node *first;
	post_fail_all(post, STORE_ERROR_CLOSED, STORE_ERROR_CLOSED);
	if (post->change)
		post_change_done(post, NULL);
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
	post_fail_all(post, STORE_ERROR_LOST, error);
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
	if (post->state != POST_GREETING)
		return;
	trace(post->node->fleet, "node=%d ev=ready", post->node->number);
	post->state = POST_READY;
	node_opened(post->node);
	post_send_waiting(post);
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
	post->epochs = calloc(1, sizeof(*post->epochs));
	CHECK(post->epochs);
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
	      list_empty(&post->abandoned) && !post->change);
	post_pulse_close(post);
	post_news_close(post);
	amends_close(&post->amends);
	free(post->epochs);
	post->epochs = NULL;
	alone_close(&post->alone);
}
