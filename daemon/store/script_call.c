#include "store/script_call.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "store/record.h"

/* ---- arguments --------------------------------------------------------------------------- */

void args_bytes(struct script_args *args, const void *bytes, size_t len)
{
	CHECK(args->count < SCRIPT_ARGS_MAX);
	args->at[args->count] = bytes;
	args->lens[args->count++] = len;
}

void args_text(struct script_args *args, const char *text)
{
	args_bytes(args, text, strlen(text));
}

static void args_format(struct script_args *args, int len)
{
	CHECK(len >= 0 && (size_t)len < SCRIPT_SPACE - args->used);
	args_bytes(args, args->space + args->used, (size_t)len);
	args->used += (size_t)len;
}

void args_number(struct script_args *args, int64_t number)
{
	args_format(args, snprintf(args->space + args->used, SCRIPT_SPACE - args->used, "%" PRId64,
				   number));
}

void args_real(struct script_args *args, double number)
{
	args_format(args,
		    snprintf(args->space + args->used, SCRIPT_SPACE - args->used, "%.17g", number));
}

void args_u64(struct script_args *args, uint64_t number)
{
	CHECK(args->used + 8 < SCRIPT_SPACE);
	record_put_u64((unsigned char *)args->space + args->used, number);
	args_format(args, 8);
}

void args_u32(struct script_args *args, uint32_t number)
{
	CHECK(args->used + 4 < SCRIPT_SPACE);
	record_put_u32((unsigned char *)args->space + args->used, number);
	args_format(args, 4);
}

void args_flag(struct script_args *args, bool flag)
{
	args_text(args, flag ? "1" : "0");
}

/* ---- calls ------------------------------------------------------------------------------- */

static void script_call_on_reply(struct link_call *link_call, const redisReply *reply,
				 enum store_error error)
{
	struct script_call *call = container_of(link_call, struct script_call, call);
	if (reply)
		error = store_error_of(reply);
	if (error == STORE_ERROR_NOSCRIPT && !call->with_text) {
		call->with_text = true;
		if (script_call_send(call, call->link))
			return;
		error = STORE_ERROR_LOST;
		reply = NULL;
	}
	if (error != STORE_ERROR_NONE) {
		call->done(call, NULL, error, reply ? reply->str : NULL);
		return;
	}
	bool is_answer = reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 &&
			 reply->element[0]->type == REDIS_REPLY_STRING;
	if (!is_answer)
		call->done(call, NULL, STORE_ERROR_GARBAGE, NULL);
	else if (strcmp(reply->element[0]->str, "late") == 0)
		call->done(call, NULL, STORE_ERROR_LATE, NULL);
	else
		call->done(call, reply, STORE_ERROR_NONE, NULL);
}

bool script_call_send(struct script_call *call, struct link *link)
{
	const struct script *script = &scripts[call->script];
	struct script_args args;
	args.count = 0;
	args.used = 0;
	args_text(&args, call->with_text ? "EVAL" : "EVALSHA");
	args_text(&args, call->with_text ? script->text : script->sha);
	args_number(&args, call->keys_count);
	call->write(call, &args);
	call->link = link;
	call->call.done = script_call_on_reply;
	return link_send(link, &call->call, args.count, args.at, args.lens);
}

/* ---- replies ----------------------------------------------------------------------------- */

bool reply_is(const redisReply *reply, const char *word, size_t items)
{
	return reply->elements == items && strcmp(reply->element[0]->str, word) == 0;
}

int64_t reply_number(const redisReply *reply, size_t item)
{
	const redisReply *r = reply->element[item];
	if (r->type == REDIS_REPLY_INTEGER)
		return r->integer;
	return r->type == REDIS_REPLY_STRING ? strtoll(r->str, NULL, 10) : 0;
}

uint64_t reply_u64(const redisReply *reply, size_t item)
{
	const redisReply *r = reply->element[item];
	if (r->type != REDIS_REPLY_STRING || r->len != 8)
		return 0;
	return record_get_u64((const unsigned char *)r->str);
}
