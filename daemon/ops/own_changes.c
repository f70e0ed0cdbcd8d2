#include "ops/own_changes.h"

#include <string.h>

#include "base/check.h"

static void apply_one(struct own_changes *own, const struct logged_change *change)
{
	const struct store_listener *listener = &own->listener;
	struct keyspace *keyspace =
		engine_keyspace(own->engine, change->policy->name, strlen(change->policy->name));
	struct key key;
	if (change->whole) {
		listener->epoch(listener->impl, change->key, change->len, own->now_us(own->arg),
				change->spread_us);
		return;
	}
	if (!keyspace)
		return; /* a reload has ended it */
	engine_key(own->engine, keyspace, change->key, change->len, &key);
	const struct row_change row = {
		.floor = memory_store_change(own->memory, &key),
		.hard = change->policy->on_change == ON_CHANGE_INVALIDATE,
		.has_version = change->has_version,
		.version = change->version,
	};
	listener->row_changed(listener->impl, change->key, change->len, &row);
}

static void carry_out(struct own_changes *own, struct change_call *call)
{
	call->outcome = CHANGE_DONE;
	switch (call->verb) {
	case CHANGE_FOLLOW:
		strcpy(call->position, own->position);
		break;
	case CHANGE_LEAVE:
		break;
	case CHANGE_APPLY:
		CHECK(strcmp(call->from, own->position) == 0);
		for (uint32_t i = 0; i < call->count; i++)
			apply_one(own, &call->changes[i]);
		if (call->to)
			strcpy(own->position, call->to);
		break;
	}
}

static void on_turn(uv_idle_t *idle)
{
	struct own_changes *own = idle->data;
	struct change_call *call = own->call;
	uv_idle_stop(idle);
	own->call = NULL;
	carry_out(own, call);
	call->done(call);
}

static void own_submit(void *impl, struct change_call *call)
{
	struct own_changes *own = impl;
	CHECK(!own->call);
	own->call = call;
	CHECK(uv_idle_start(&own->turn, on_turn) == 0);
}

void own_changes_open(struct own_changes *own, uv_loop_t *loop)
{
	own->call = NULL;
	own->position[0] = '\0';
	CHECK(uv_idle_init(loop, &own->turn) == 0);
	own->turn.data = own;
}

struct change_store own_changes_iface(struct own_changes *own)
{
	return (struct change_store){ .impl = own, .submit = own_submit };
}

void own_changes_close(struct own_changes *own)
{
	CHECK(!own->call);
	uv_close((uv_handle_t *)&own->turn, NULL);
}
