#include "core/moment.h"

const char *moment_name(enum moment_kind kind)
{
	static const char *const names[] = {
#define X(NAME, name, text) [MOMENT_##NAME] = #name,
		MOMENT_MAP(X)
#undef X
	};
	return names[kind];
}

/* A moment of which there is no more to say. */
static struct moment moment_of(enum moment_kind kind, const struct key *key, int64_t now_us)
{
	return (struct moment){
		.kind = kind, .key = *key, .at_us = now_us, .took_us = -1, .left_us = -1
	};
}

static void tell(const struct moment_listener *to, const struct moment *moment)
{
	to->told(to->impl, moment);
}

void moment_asked(const struct moment_listener *to, const struct request *request, int64_t now_us)
{
	struct moment moment = moment_of(request->joined ? MOMENT_JOINED : MOMENT_ASKED,
					 &request->query.key, now_us);
	moment.what = request->query.kind == QUERY_GET ? "get" : "refresh";
	tell(to, &moment);
}

void moment_refreshed(const struct moment_listener *to, const struct flight *flight, int64_t now_us)
{
	struct moment moment = moment_of(MOMENT_REFRESHED, &flight->key, now_us);
	moment.what = refresh_cause_name(flight->cause);
	tell(to, &moment);
}

/* Whether the lease's answer, or a permit's. */
static const char *outcome_text(enum store_outcome outcome)
{
	switch (outcome) {
	case STORE_DONE:
		return "done";
	case STORE_ENOUGH:
		return "enough";
	case STORE_FAILED:
		return "failed_lately";
	case STORE_HELD:
		return "held";
	case STORE_RETRY:
		return "not_yet";
	case STORE_REFUSED:
		return "refused";
	case STORE_AWAY:
		return "away";
	}
	return NULL;
}

/* What a load has brought, by the entry's own times: how good it is here is decided later. */
static const char *load_text(const struct store_op *op, int64_t now_us)
{
	if (op->outcome != STORE_DONE)
		return outcome_text(op->outcome);
	if (!op->has_entry)
		return op->has_failure ? "failed_lately" : "missing";
	switch (entry_phase(&op->entry, now_us)) {
	case ENTRY_FRESH:
		return "fresh";
	case ENTRY_STALE:
		return "stale";
	case ENTRY_DEAD:
		return "dead";
	}
	return NULL;
}

static bool kind_of(enum store_verb verb, enum moment_kind *ret_kind)
{
	switch (verb) {
	case STORE_LOAD:
		*ret_kind = MOMENT_LOADED;
		return true;
	case STORE_LEASE:
		*ret_kind = MOMENT_LEASED;
		return true;
	case STORE_RENEW:
		*ret_kind = MOMENT_RENEWED;
		return true;
	case STORE_SAVE:
		*ret_kind = MOMENT_SAVED;
		return true;
	case STORE_RELEASE:
		*ret_kind = MOMENT_RELEASED;
		return true;
	case STORE_PERMIT:
	case STORE_FREE:
	case STORE_INVALIDATE:
	case STORE_EPOCH:
		return false;
	}
	return false;
}

static uint64_t fence_of(const struct store_op *op)
{
	if (op->verb == STORE_LEASE && op->outcome == STORE_DONE)
		return op->fence;
	return op->has_entry || op->verb == STORE_SAVE ? op->entry.fence : 0;
}

void moment_stored(const struct moment_listener *to, const struct store_op *op, int64_t now_us)
{
	enum moment_kind kind;
	if (!kind_of(op->verb, &kind))
		return;
	struct moment moment = moment_of(kind, &op->key, now_us);
	moment.what = kind == MOMENT_LOADED ? load_text(op, now_us) : outcome_text(op->outcome);
	moment.took_us = now_us - op->sent_at_us;
	moment.fence = fence_of(op);
	if (op->outcome == STORE_HELD)
		moment.left_us = op->left_us;
	tell(to, &moment);
}

void moment_queued(const struct moment_listener *to, const struct flight *flight, int64_t now_us)
{
	struct moment moment = moment_of(MOMENT_QUEUED, &flight->key, now_us);
	tell(to, &moment);
}

void moment_permitted(const struct moment_listener *to, const struct batch *batch, int64_t now_us)
{
	const struct store_op *op = &batch->op;
	list_foreach (&batch->members, node) {
		const struct flight *flight = container_of(node, struct flight, link);
		struct moment moment = moment_of(MOMENT_PERMITTED, &flight->key, now_us);
		moment.what = outcome_text(op->outcome);
		moment.took_us = now_us - op->sent_at_us;
		if (op->outcome == STORE_DONE || op->outcome == STORE_RETRY)
			moment.left_us = op->left_us;
		tell(to, &moment);
	}
}

void moment_builds(const struct moment_listener *to, const struct build *build, int64_t now_us)
{
	const char *what = build->next ? "together" : "alone";
	for (; build; build = build->next) {
		struct moment moment = moment_of(MOMENT_BUILDS, &build->key, now_us);
		moment.what = what;
		tell(to, &moment);
	}
}

void moment_built(const struct moment_listener *to, const struct build *build, int64_t now_us)
{
	for (; build; build = build->next) {
		const struct flight *flight = container_of(build, struct flight, build);
		struct moment moment = moment_of(MOMENT_BUILT, &build->key, now_us);
		moment.what = build_outcome_name(build->outcome);
		moment.took_us = now_us - flight->begun_at_us;
		moment.fence = flight->fence;
		tell(to, &moment);
	}
}

void moment_answered(const struct moment_listener *to, const struct key *key,
		     const struct answer *answer, int64_t now_us)
{
	struct moment moment = moment_of(MOMENT_ANSWERED, key, now_us);
	moment.what = answer->status == STATUS_OK ? answer_state_name(answer->state)
						  : status_name(answer->status);
	tell(to, &moment);
}

void moment_changed(const struct moment_listener *to, const struct key *key, uint64_t floor,
		    const char *what, int64_t now_us)
{
	struct moment moment = moment_of(MOMENT_CHANGED, key, now_us);
	moment.what = what;
	moment.fence = floor;
	tell(to, &moment);
}

void moment_evicted(const struct moment_listener *to, const struct near_entry *ne, int64_t now_us)
{
	const struct key key = { .keyspace = ne->keyspace,
				 .bytes = ne->key,
				 .len = ne->key_len,
				 .hash = ne->node.hash };
	struct moment moment = moment_of(MOMENT_EVICTED, &key, now_us);
	moment.fence = ne->entry.fence;
	tell(to, &moment);
}
