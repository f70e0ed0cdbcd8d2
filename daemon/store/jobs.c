#include "store/jobs.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "store/redis_state.h"

enum {
	JOB_ITEMS = 12, /* what job_reply tells (prelude.lua) */
	KEY_MAX = KEYS_FLEET_MAX + JOB_NAME_MAX,
};

/* A call on its way. */
struct job_errand {
	struct script_call call;
	struct redis_store *redis;
	struct job_call *op;
	char key[KEY_MAX]; /* the job's */
};

/* ---- what is sent ------------------------------------------------------------------------ */

static enum script_name script_of(enum job_verb verb)
{
	static const enum script_name of_verb[] = {
		[JOB_LIST] = SCRIPT_JOBS,     [JOB_OPEN] = SCRIPT_JOB_OPEN,
		[JOB_FEED] = SCRIPT_JOB_FEED, [JOB_WORK] = SCRIPT_JOB_WORK,
		[JOB_END] = SCRIPT_JOB_END,   [JOB_LOOK] = SCRIPT_JOB_LOOK,
	};
	return of_verb[verb];
}

static void write_bytes(struct script_args *args, const char *bytes, uint32_t len)
{
	args_bytes(args, bytes ? bytes : "", bytes ? len : 0);
}

static void write_feed(const struct job_call *op, struct script_args *args)
{
	args_u64(args, op->token);
	args_number(args, op->length_us);
	args_number(args, op->from);
	args_number(args, op->to);
	args_number(args, op->keys);
	write_bytes(args, op->bytes, op->len);
	args_flag(args, op->last);
	args_number(args, op->total);
	args_number(args, op->ahead_max);
	args_u64(args, op->spool);
}

static void write_work(const struct job_call *op, struct script_args *args)
{
	args_u64(args, op->token);
	args_number(args, op->length_us);
	args_number(args, (int64_t)op->seq);
	args_flag(args, op->final);
	args_number(args, op->counts.fresh);
	args_number(args, op->counts.built);
	args_number(args, op->counts.failed);
	args_number(args, op->failures_count);
	write_bytes(args, op->failures, op->failures_len);
	args_flag(args, op->wants);
	args_number(args, JOB_FAILURES_MAX);
	args_number(args, JOB_FAILURES_BYTES);
}

static void job_write(struct script_call *call, struct script_args *args)
{
	struct job_errand *errand = container_of(call, struct job_errand, call);
	struct redis_store *redis = errand->redis;
	const struct job_call *op = errand->op;
	if (op->verb != JOB_LOOK)
		args_text(args, redis->keys.jobs);
	if (op->verb != JOB_LIST)
		args_text(args, errand->key);
	if (op->verb == JOB_LIST) {
		args_text(args, redis->keys.job);
		return;
	}
	if (op->verb == JOB_LOOK)
		return;
	args_number(args, redis_deadline_us(redis, &redis->control));
	args_text(args, op->name);
	if (op->verb == JOB_END && op->id == 0)
		args_text(args, "");
	else
		args_u64(args, op->id);
	if (op->verb == JOB_OPEN) {
		args_number(args, op->interval_us);
		args_text(args, op->spec);
		args_number(args, JOBS_MAX);
	} else if (op->verb == JOB_END) {
		args_text(args, job_state_name(op->end));
		args_text(args, op->why);
	} else if (op->verb == JOB_FEED) {
		write_feed(op, args);
	} else {
		write_work(op, args);
	}
}

/* ---- what comes back --------------------------------------------------------------------- */

static bool read_text(const redisReply *item, char *ret_text, size_t size)
{
	if (item->type != REDIS_REPLY_STRING || item->len >= size)
		return false;
	memcpy(ret_text, item->str, item->len);
	ret_text[item->len] = '\0';
	return true;
}

static bool read_bytes(const redisReply *item, struct job_call *op)
{
	if (item->type != REDIS_REPLY_STRING || item->len > UINT32_MAX)
		return false;
	op->data = item->str;
	op->data_len = (uint32_t)item->len;
	return true;
}

static bool read_state(const redisReply *item, enum job_state *ret_state)
{
	for (int i = 0; i < JOB_STATE_COUNT; i++) {
		if (item->type == REDIS_REPLY_STRING &&
		    strcmp(item->str, job_state_name((enum job_state)i)) == 0) {
			*ret_state = (enum job_state)i;
			return true;
		}
	}
	return false;
}

static bool read_job(const redisReply *reply, size_t at, struct job *job)
{
	*job = (struct job){ .id = reply_u64(reply, at),
			     .interval_us = reply_number(reply, at + 2),
			     .keys = reply_number(reply, at + 4),
			     .total = reply_number(reply, at + 5),
			     .all = reply_number(reply, at + 6) != 0,
			     .counts = { .fresh = reply_number(reply, at + 7),
					 .built = reply_number(reply, at + 8),
					 .failed = reply_number(reply, at + 9) },
			     .elapsed_us = reply_number(reply, at + 10) };
	return read_state(reply->element[at + 1], &job->state) &&
	       read_text(reply->element[at + 3], job->spec, sizeof(job->spec)) &&
	       read_text(reply->element[at + 11], job->why, sizeof(job->why));
}

static bool read_open(const redisReply *reply, struct job_call *op)
{
	if (reply_is(reply, "full", 1)) {
		op->outcome = JOB_FULL;
		return true;
	}
	if (!reply_is(reply, "job", 3))
		return false;
	op->joined = reply_number(reply, 1) != 0;
	op->job.id = reply_u64(reply, 2);
	return op->job.id != 0;
}

static bool read_feed(const redisReply *reply, struct job_call *op)
{
	if (reply_is(reply, "lost", 1)) {
		op->outcome = JOB_LOST;
		return true;
	}
	if (reply_is(reply, "held", 2)) {
		op->outcome = JOB_HELD;
		op->left_us = reply_number(reply, 1);
		return true;
	}
	bool full = reply_is(reply, "full", 5);
	if (!full && !reply_is(reply, "feeding", 5))
		return false;
	if (full)
		op->outcome = JOB_FULL;
	op->fed = reply_number(reply, 1);
	op->ahead = (uint32_t)reply_number(reply, 2);
	op->of = reply_u64(reply, 3);
	op->job.all = reply_number(reply, 4) != 0;
	return true;
}

static bool read_work(const redisReply *reply, struct job_call *op)
{
	if (!reply_is(reply, "work", 4 + JOB_ITEMS))
		return false;
	op->lost = reply_number(reply, 1) != 0;
	op->next = (uint64_t)reply_number(reply, 2);
	return read_bytes(reply->element[3], op) && read_job(reply, 4, &op->job);
}

static bool read_reply(const redisReply *reply, struct job_call *op)
{
	op->outcome = JOB_OK;
	if (reply_is(reply, "gone", 1)) {
		op->outcome = JOB_GONE;
		return true;
	}
	switch (op->verb) {
	case JOB_LIST:
		return reply_is(reply, "jobs", 2) && read_bytes(reply->element[1], op);
	case JOB_OPEN:
		return read_open(reply, op);
	case JOB_FEED:
		return read_feed(reply, op);
	case JOB_WORK:
		return read_work(reply, op);
	case JOB_END:
		return reply_is(reply, "ended", 1);
	case JOB_LOOK:
		return reply_is(reply, "job", 2 + JOB_ITEMS) && read_bytes(reply->element[1], op) &&
		       read_job(reply, 2, &op->job);
	}
	return false;
}

static void job_done(struct script_call *call, const redisReply *reply, enum store_error error,
		     const char *text)
{
	struct job_errand *errand = container_of(call, struct job_errand, call);
	struct redis_store *redis = errand->redis;
	struct job_call *op = errand->op;
	if (reply && !read_reply(reply, op))
		error = STORE_ERROR_GARBAGE;
	if (error != STORE_ERROR_NONE) {
		redis_note_error(redis, "jobs", error, text);
		op->outcome = JOB_AWAY;
	}
	redis->errands--;
	mem_free(errand);
	op->done(op);
	redis_kick(redis);
}

/* ---- the interface ----------------------------------------------------------------------- */

static bool send_errand(struct redis_store *redis, struct job_call *op)
{
	if (redis->closing || !link_is_ready(&redis->control) || !redis->clock.in_touch)
		return false;
	struct job_errand *errand = mem_zalloc(sizeof(*errand));
	if (!errand)
		return false;
	errand->redis = redis;
	errand->op = op;
	snprintf(errand->key, sizeof(errand->key), "%s%s", redis->keys.job, op->name);
	bool one = op->verb == JOB_LIST || op->verb == JOB_LOOK;
	errand->call = (struct script_call){ .script = script_of(op->verb),
					     .keys_count = one ? 1 : 2,
					     .write = job_write,
					     .done = job_done };
	redis->counters.commands++;
	if (!script_call_send(&errand->call, &redis->control)) {
		mem_free(errand);
		return false;
	}
	redis->errands++;
	return true;
}

static void jobs_submit(void *impl, struct job_call *op)
{
	struct redis_store *redis = impl;
	job_call_reset(op, JOB_AWAY);
	list_node_init(&op->node);
	if (send_errand(redis, op))
		return;
	list_push_back(&redis->jobs_unsent, &op->node);
	redis_kick(redis);
}

void jobs_turn(struct redis_store *redis)
{
	for (size_t n = redis->jobs_unsent.count; n > 0; n--) {
		struct job_call *op =
			container_of(list_pop_front(&redis->jobs_unsent), struct job_call, node);
		op->done(op);
	}
}

struct job_store redis_store_jobs(struct redis_store *redis)
{
	return (struct job_store){ .impl = redis, .submit = jobs_submit };
}
