#include "store/fallback.h"

#include "base/check.h"

/* The shared store's answer to a load or a lease, or to an invalidation. */
static void on_shared_done(struct store_op *op)
{
	struct fallback *fallback = op->route;
	op->done = op->route_done;
	if (op->outcome != STORE_AWAY) {
		op->away = false;
		op->done(op);
		return;
	}
	op->away = true;
	fallback->own.submit(fallback->own.impl, op);
}

/* Whether the fleet was told matters to who invalidates; this daemon forgets in any case. */
static void on_own_invalidated(struct store_op *op)
{
	op->done = op->route_done;
	op->outcome = STORE_AWAY;
	op->done(op);
}

static void on_shared_invalidated(struct store_op *op)
{
	struct fallback *fallback = op->route;
	if (op->outcome != STORE_AWAY) {
		op->done = op->route_done;
		op->done(op);
		return;
	}
	op->done = on_own_invalidated;
	fallback->own.submit(fallback->own.impl, op);
}

static void submit_routed(struct fallback *fallback, struct store_op *op, store_done_cb done)
{
	op->route = fallback;
	op->route_done = op->done;
	op->done = done;
	fallback->shared.submit(fallback->shared.impl, op);
}

static void fallback_submit(void *impl, struct store_op *op)
{
	struct fallback *fallback = impl;
	switch (op->verb) {
	case STORE_LOAD:
	case STORE_LEASE:
		submit_routed(fallback, op, on_shared_done);
		return;
	case STORE_INVALIDATE:
	case STORE_EPOCH:
		submit_routed(fallback, op, on_shared_invalidated);
		return;
	case STORE_RENEW:
	case STORE_SAVE:
	case STORE_RELEASE:
		if (op->away)
			fallback->own.submit(fallback->own.impl, op);
		else
			fallback->shared.submit(fallback->shared.impl, op);
		return;
	case STORE_PERMIT:
	case STORE_FREE:
		fallback->shared.submit(fallback->shared.impl, op);
		return;
	}
	check_failed("verb", __FILE__, __LINE__, "%d", (int)op->verb);
}

void fallback_init(struct fallback *fallback, const struct store *shared, const struct store *own)
{
	*fallback = (struct fallback){ .shared = *shared, .own = *own };
}

struct store fallback_iface(struct fallback *fallback)
{
	return (struct store){ .impl = fallback, .submit = fallback_submit };
}
