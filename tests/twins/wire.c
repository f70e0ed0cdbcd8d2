#include "wire.h"

#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "store/link.h"

enum { SENT_MAX = 32, LINKS_MAX = 32, LISTEN_EVERY = 16 };

static const char mark[] = "mark";

struct sent {
	struct link_call *call;
	struct link *link;
	char *bytes; /* hiredis' own */
	int len;
	bool may_tell; /* it was given the channel */
};

struct wire wire;
static struct sent sent[SENT_MAX];
static unsigned sent_count;
static struct link *listening[LINKS_MAX];
static unsigned listening_count;

/* ---- clocks ------------------------------------------------------------------------------ */

int __wrap_clock_gettime(clockid_t id, struct timespec *ret_now);

int __wrap_clock_gettime(clockid_t id, struct timespec *ret_now)
{
	int64_t us = id == CLOCK_REALTIME ? *wire.stands_at_us : wire.local_us;
	*ret_now = (struct timespec){ .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000 };
	return 0;
}

void wire_stand(int64_t local_us, int64_t server_us)
{
	wire.local_us = local_us;
	*wire.stands_at_us = server_us;
}

/* ---- the server -------------------------------------------------------------------------- */

static redisReply *reply_of(redisContext *context)
{
	void *reply;
	CHECK_MSG(redisGetReply(context, &reply) == REDIS_OK, "%s", context->errstr);
	return reply;
}

struct redisReply *wire_ask(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	redisReply *reply = redisvCommand(wire.context, format, args);
	va_end(args);
	CHECK_MSG(reply, "%s", wire.context->errstr);
	CHECK_MSG(reply->type != REDIS_REPLY_ERROR, "%s: %s", format, reply->str);
	return reply;
}

void wire_open(const char *socket, int64_t *stands_at_us, const char *channel)
{
	wire = (struct wire){ .stands_at_us = stands_at_us,
			      .context = redisConnectUnix(socket),
			      .ears = redisConnectUnix(socket) };
	CHECK(wire.context && !wire.context->err && wire.ears && !wire.ears->err);
	CHECK(snprintf(wire.channel, sizeof(wire.channel), "%s", channel) <
	      (int)sizeof(wire.channel));
	redisReply *reply = redisCommand(wire.ears, "SUBSCRIBE %s", channel);
	CHECK(reply && reply->type == REDIS_REPLY_ARRAY);
	freeReplyObject(reply);
}

void wire_close(void)
{
	redisFree(wire.context);
	redisFree(wire.ears);
	CHECK(sent_count == 0);
}

void wire_forget(void)
{
	wire.heard_count = 0;
}

static void hear(const char *bytes, size_t len)
{
	CHECK(wire.heard_count < HEARD_MAX && len <= HEARD_BYTES);
	struct heard *heard = &wire.heard[wire.heard_count++];
	heard->len = len;
	memcpy(heard->bytes, bytes, len);
	for (unsigned i = 0; i < listening_count; i++)
		listening[i]->config.events->message(listening[i], bytes, len);
}

static void hear_marked(void)
{
	bool marked = false;
	while (!marked) {
		redisReply *message = reply_of(wire.ears);
		CHECK(message->type == REDIS_REPLY_ARRAY && message->elements == 3);
		const redisReply *said = message->element[2];
		marked = said->len == strlen(mark) && memcmp(said->str, mark, said->len) == 0;
		if (!marked)
			hear(said->str, said->len);
		freeReplyObject(message);
	}
}

/* Behind the command goes a mark over the fleet's channel: what the command told comes before.
   Where it is likely to tell nothing, the mark is left to a later one, which then hears of it. */
static void carry_one(struct sent *one)
{
	bool marks = one->may_tell || wire.commands++ % LISTEN_EVERY == 0;
	redisAppendFormattedCommand(wire.context, one->bytes, (size_t)one->len);
	if (marks)
		redisAppendCommand(wire.context, "PUBLISH %s %s", wire.channel, mark);
	free(one->bytes);
	redisReply *reply = reply_of(wire.context);
	if (marks) {
		freeReplyObject(reply_of(wire.context));
		hear_marked();
	}
	one->call->done(one->call, reply, STORE_ERROR_NONE);
	freeReplyObject(reply);
}

void wire_carry(void)
{
	while (sent_count > 0) {
		struct sent one = sent[0];
		memmove(&sent[0], &sent[1], --sent_count * sizeof(*sent));
		carry_one(&one);
	}
}

/* ---- in the place of store/link.c -------------------------------------------------------- */

const char *link_state_name(enum link_state state)
{
	return state == LINK_READY ? "ready" : "greeting";
}

void link_open(struct link *link, const struct link_config *config, uint64_t seed)
{
	(void)seed;
	*link = (struct link){ .config = *config, .state = LINK_GREETING };
}

bool link_is_hopeful(const struct link *link)
{
	return link->state != LINK_READY;
}

bool link_send(struct link *link, struct link_call *call, int argc, const char **argv,
	       const size_t *lens)
{
	CHECK(sent_count < SENT_MAX);
	struct sent *one = &sent[sent_count++];
	*one = (struct sent){ .call = call, .link = link };
	for (int i = 3; i < argc; i++)
		one->may_tell |= lens[i] == strlen(wire.channel) &&
				 memcmp(argv[i], wire.channel, lens[i]) == 0;
	one->len = redisFormatCommandArgv(&one->bytes, argc, argv, lens);
	CHECK(one->len > 0);
	return true;
}

void link_greeted(struct link *link)
{
	link->state = LINK_READY;
	link->config.events->ready(link);
}

void link_subscribe(struct link *link, const char *channel)
{
	CHECK(strcmp(channel, wire.channel) == 0 && listening_count < LINKS_MAX);
	listening[listening_count++] = link;
	link_greeted(link);
}

void link_drop(struct link *link, enum store_error error, const char *text)
{
	CHECK_MSG(false, "%s is dropped: %s %s", link->config.name, store_error_name(error),
		  text ? text : "");
}

void link_close(struct link *link)
{
	unsigned kept = 0;
	for (unsigned i = 0; i < listening_count; i++)
		if (listening[i] != link)
			listening[kept++] = listening[i];
	listening_count = kept;
	link->state = LINK_RESTING;
	link->config.events->closed(link);
}
