#include "store/changes.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "store/redis_state.h"

enum {
	FOLLOW_US = 3 * 1000 *
		    1000, /* the right to read the log; a dead reader is replaced after that */
	RECORD_HEAD_LEN = 1 + 8 + 8 + 8 + 4,
};
enum { CHANGE_IS_HARD = 1, CHANGE_TELLS = 2, CHANGE_SINGLE_ROW = 4, CHANGE_WHOLE = 8 };

static struct redis_store *redis_of_call(struct script_call *call)
{
	return container_of(call, struct redis_store, changes.call);
}

/* ---- what is sent ------------------------------------------------------------------------ */

static unsigned char *put_change(unsigned char *at, const struct logged_change *change)
{
	const struct policy *policy = change->policy;
	double real = (double)(change->whole ? change->spread_us : policy->stale_us);
	uint64_t bits;
	at[0] = (unsigned char)((policy->on_change == ON_CHANGE_INVALIDATE ? CHANGE_IS_HARD : 0) |
				(change->has_version ? CHANGE_TELLS : 0) |
				(policy->single_row ? CHANGE_SINGLE_ROW : 0) |
				(change->whole ? CHANGE_WHOLE : 0));
	memcpy(&bits, &real, sizeof(bits));
	record_put_u64(at + 1, (uint64_t)change->version);
	record_put_u64(at + 9, bits);
	record_put_u64(at + 17, change->xid);
	record_put_u32(at + 25, change->len);
	memcpy(at + RECORD_HEAD_LEN, change->key, change->len);
	return at + RECORD_HEAD_LEN + change->len;
}

static bool write_form(struct redis_changes *changes, const struct change_call *op)
{
	size_t len = 1;
	for (uint32_t i = 0; i < op->count; i++)
		len += RECORD_HEAD_LEN + op->changes[i].len;
	mem_free(changes->form);
	changes->form = mem_alloc(len);
	if (!changes->form)
		return false;
	unsigned char *at = changes->form;
	for (uint32_t i = 0; i < op->count; i++)
		at = put_change(at, &op->changes[i]);
	changes->form_len = (size_t)(at - changes->form);
	return true;
}

static void changes_write(struct script_call *call, struct script_args *args)
{
	struct redis_store *redis = redis_of_call(call);
	const struct change_call *op = redis->changes.op;
	bool apply = op->verb == CHANGE_APPLY;
	args_text(args, redis->keys.feed);
	if (apply) {
		args_text(args, redis->keys.epochs);
		args_text(args, redis->keys.floors);
	}
	args_number(args, redis_deadline_us(redis, &redis->control));
	args_u64(args, redis->place.token);
	args_number(args, op->verb == CHANGE_LEAVE ? 0 : FOLLOW_US);
	if (!apply)
		return;
	args_text(args, op->from);
	args_text(args, op->to ? op->to : "");
	args_text(args, redis->keys.prefix);
	args_text(args, redis->keys.channel);
	args_bytes(args, redis->changes.form, redis->changes.form_len);
	args_number(args, op->keep_us);
	args_u64(args, op->history);
}

/* ---- what comes back --------------------------------------------------------------------- */

static void changes_end(struct redis_store *redis, enum change_outcome outcome)
{
	struct change_call *op = redis->changes.op;
	redis->changes.op = NULL;
	mem_free(redis->changes.form);
	redis->changes.form = NULL;
	op->outcome = outcome;
	op->done(op);
}

static bool read_position(struct change_call *op, const redisReply *item)
{
	if (item->type != REDIS_REPLY_STRING || item->len >= sizeof(op->position) ||
	    memchr(item->str, 0, item->len))
		return false;
	memcpy(op->position, item->str, item->len);
	op->position[item->len] = '\0';
	return true;
}

static enum store_error read_reply(struct redis_store *redis, struct change_call *op,
				   const redisReply *reply, enum change_outcome *ret_outcome)
{
	*ret_outcome = CHANGE_DONE;
	if (op->verb == CHANGE_LEAVE)
		return STORE_ERROR_NONE;
	if (reply_is(reply, "held", 2)) {
		*ret_outcome = CHANGE_HELD;
		op->left_us = reply_number(reply, 1);
		return STORE_ERROR_NONE;
	}
	if (op->verb == CHANGE_FOLLOW && reply_is(reply, "following", 2))
		/* What another version of the reader has written is no position. */
		return read_position(op, reply->element[1]) ? STORE_ERROR_NONE
							    : STORE_ERROR_GARBAGE;
	if (op->verb == CHANGE_APPLY && reply_is(reply, "refused", 2)) {
		*ret_outcome = CHANGE_REFUSED;
		return STORE_ERROR_NONE;
	}
	if (op->verb == CHANGE_APPLY && reply_is(reply, "applied", 2)) {
		redis->counters.changes += op->count;
		redis->counters.changes_touched += (uint64_t)reply_number(reply, 1);
		return STORE_ERROR_NONE;
	}
	return STORE_ERROR_GARBAGE;
}

static void changes_done(struct script_call *call, const redisReply *reply, enum store_error error,
			 const char *text)
{
	struct redis_store *redis = redis_of_call(call);
	enum change_outcome outcome = CHANGE_AWAY;
	if (reply)
		error = read_reply(redis, redis->changes.op, reply, &outcome);
	if (error != STORE_ERROR_NONE) {
		redis_note_error(redis, "changes", error, text);
		outcome = CHANGE_AWAY;
	}
	changes_end(redis, outcome);
}

/* ---- the interface ----------------------------------------------------------------------- */

void changes_turn(struct redis_store *redis)
{
	if (!redis->changes.failed)
		return;
	redis->changes.failed = false;
	changes_end(redis, CHANGE_AWAY);
}

static void changes_submit(void *impl, struct change_call *op)
{
	struct redis_store *redis = impl;
	struct redis_changes *changes = &redis->changes;
	bool apply = op->verb == CHANGE_APPLY;
	CHECK(!changes->op && (!apply || op->count <= CHANGES_MAX));
	changes->op = op;
	op->position[0] = '\0';
	op->left_us = 0;
	changes->call = (struct script_call){ .script = apply ? SCRIPT_CHANGE : SCRIPT_FOLLOW,
					      .keys_count = apply ? 3 : 1,
					      .write = changes_write,
					      .done = changes_done };
	bool sent = !redis->closing && link_is_ready(&redis->control) && redis->clock.in_touch &&
		    (!apply || write_form(changes, op));
	if (sent) {
		redis->counters.commands++;
		sent = script_call_send(&changes->call, &redis->control);
	}
	changes->failed = !sent;
	if (!sent)
		redis_kick(redis);
}

struct change_store redis_store_changes(struct redis_store *redis)
{
	return (struct change_store){ .impl = redis, .submit = changes_submit };
}
