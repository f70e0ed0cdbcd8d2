/* The changes of the origin's log, which the daemon's reader hands on to the store: as in
 * store/changes.c.
 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "fleet.h"
#include "post.h"

/* ---- copies ------------------------------------------------------------------------------- */

static char *text_copy(const char *text)
{
	char *copy = text ? strdup(text) : NULL;
	CHECK(copy || !text);
	return copy;
}

/* The reader may give up what is still under way. Policies are the scene's. */
struct change_call *post_change_copy(const struct change_call *call)
{
	struct change_call *copy = calloc(1, sizeof(*copy));
	struct logged_change *changes = calloc(call->count + 1, sizeof(*changes));
	CHECK(copy && changes);
	copy->verb = call->verb;
	copy->from = text_copy(call->verb == CHANGE_APPLY ? call->from : NULL);
	copy->to = text_copy(call->verb == CHANGE_APPLY ? call->to : NULL);
	copy->count = call->verb == CHANGE_APPLY ? call->count : 0;
	copy->changes = changes;
	for (uint32_t i = 0; i < copy->count; i++) {
		changes[i] = call->changes[i];
		changes[i].key = text_copy(changes[i].key);
		struct policy *policy = malloc(sizeof(*policy));
		CHECK(policy);
		*policy = *changes[i].policy;
		changes[i].policy = policy;
	}
	return copy;
}

void post_change_free(struct change_call *call)
{
	for (uint32_t i = 0; call && i < call->count; i++) {
		free((char *)call->changes[i].key);
		free((struct policy *)call->changes[i].policy);
	}
	if (!call)
		return;
	free((struct logged_change *)call->changes);
	free((char *)call->from);
	free((char *)call->to);
	free(call);
}

/* ---- at the store ------------------------------------------------------------------------- */

bool post_change_execute(struct post *post, const struct change_call *call,
			 const struct caller *caller, struct shared_feed_answer *ret_answer)
{
	static const char *const verbs[] = { "follow", "leave", "apply" };
	struct fleet *fleet = post->node->fleet;
	shared_follow(&fleet->shared, call, caller->life, ret_answer);
	trace(fleet, "node=%d ev=%s outcome=%d count=%u to=%s", caller->node, verbs[call->verb],
	      (int)ret_answer->outcome, call->count, call->to ? call->to : "");
	if (call->verb == CHANGE_APPLY && ret_answer->outcome == CHANGE_DONE)
		judge_on_applied(&fleet->judge, call);
	return true;
}

/* ---- core's interface --------------------------------------------------------------------- */

void post_change_done(struct post *post, const struct shared_feed_answer *answer)
{
	struct change_call *call = post->change;
	post->change = NULL;
	call->outcome = answer ? answer->outcome : CHANGE_AWAY;
	call->left_us = answer ? answer->left_us : 0;
	strcpy(call->position, answer ? answer->position : "");
	call->done(call);
}

static void on_fails(struct errand *errand)
{
	post_change_done(&errand->node->post, NULL);
}

static void submit(void *impl, struct change_call *call)
{
	struct post *post = impl;
	CHECK(!post->change);
	post->change = call;
	call->position[0] = '\0';
	call->left_us = 0;
	if (post->node->buried)
		return; /* post_abandon answers */
	if (post->state == POST_READY && post->clock.in_touch)
		post_send_change(post, call);
	else
		node_at(post->node, &post->change_fails, post->node->fleet->vtime.now_us + 1,
			on_fails, NULL);
}

struct change_store post_changes(struct post *post)
{
	return (struct change_store){ .impl = post, .submit = submit };
}
