/* Operations: what the daemon makes of them on their way out, of their answers, and without one. As
 * in store/errand.c and store/verbs.c.
 */
#include "base/check.h"
#include "fleet.h"
#include "moments.h"
#include "post.h"

enum { PERMIT_LATE_US = 50 * MS }; /* as in store/errand.c */

void post_op_fail(struct post *post, struct store_op *op, enum store_error error)
{
	trace(post->node->fleet, "node=%d ev=away verb=%s key=%.*s error=%s", post->node->number,
	      store_verb_name(op->verb), (int)op->key.len, op->key.len ? op->key.bytes : "",
	      store_error_name(error));
	judge_on_away(post->node, op);
	amends_make(&post->amends, op, error, post_local(post));
	op->outcome = STORE_AWAY;
	op->has_entry = op->has_value = op->has_claim = op->has_failure = false;
	if (op->verb == STORE_PERMIT && !post->node->buried)
		alone_answer(&post->alone, &post->place, op, post_store_clock(post),
			     post_local(post));
}

/* ---- translated ----------------------------------------------------------------------------- */

static struct moments moments_of(struct post *post)
{
	return (struct moments){ .clock = &post->clock,
				 .era = &post->era,
				 .local_us = post_local(post) };
}

/* The judge is to know whose ages are in doubt. */
static void note_doubt(struct post *post)
{
	if (era_jump_to_tell(&post->era, post_local(post)) != 0)
		post->node->doubted_us = post->node->fleet->vtime.now_us;
}

void post_op_leaves(struct post *post, struct store_op *op)
{
	struct moments moments = moments_of(post);
	moments_leave(&moments, op);
	op->heard_us = post->heard_us;
	note_doubt(post);
}

static void permit_comes(struct post *post, struct store_op *op, int64_t offset_us)
{
	op->left_us -= offset_us + post_local(post);
	if (op->background && op->left_us > 0)
		op->left_us = 0;
	if (op->left_us < -PERMIT_LATE_US - post->clock.rtt_us / 2) {
		amends_add(&post->amends, STORE_FREE, op, post_local(post) + op->length_us);
		op->outcome = STORE_RETRY;
	}
	if (op->left_us < 0)
		op->left_us = 0;
}

void post_op_comes(struct post *post, struct store_op *op, const struct store_op *from,
		   int64_t offset_us)
{
	struct moments moments = moments_of(post);
	moments_come(&moments, op, from);
	op->is_whole = post->trust.has_last && post->trust.last == from->beat;
	note_doubt(post);
	if (op->verb == STORE_EPOCH)
		op->moment_us = post_take_epoch(post, (int)op->key.keyspace->index, from->moment_us,
						op->length_us);
	if (op->verb == STORE_PERMIT && op->outcome == STORE_DONE)
		permit_comes(post, op, offset_us);
}
