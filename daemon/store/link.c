#include "store/link.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"

enum {
	REST_FIRST_MS = 20, /* doubling up to … */
	REST_MOST_MS = 2000,
};

/* A question to the resolver, which blocks a thread for as long as it likes: who closes meanwhile
   leaves it behind, and it frees itself. */
struct link_resolving {
	uv_getaddrinfo_t request;
	struct link *link; /* NULL: nobody waits any more */
};

const char *link_state_name(enum link_state state)
{
	static const char *const names[] = {
#define X(NAME, name, next) [LINK_##NAME] = #name,
		LINK_STATE_MAP(X)
#undef X
	};
	return names[state];
}

static void link_move(struct link *link, enum link_state to)
{
#define TO(NAME) (1u << LINK_##NAME)
	static const unsigned allowed[] = {
#define X(NAME, name, next) [LINK_##NAME] = next,
		LINK_STATE_MAP(X)
#undef X
	};
#undef TO
	CHECK_MSG(allowed[link->state] & (1u << to), "%s may not become %s",
		  link_state_name(link->state), link_state_name(to));
	link->state = to;
}

bool link_is_hopeful(const struct link *link)
{
	return link->state != LINK_READY && link->failures == 0 && !link->closing;
}

/* Not the loop's own time, which stands still while a callback runs, or the process is stopped. */
static uint64_t now_ms(void)
{
	return uv_hrtime() / 1000000;
}

/* ---- what is due ------------------------------------------------------------------------- */

static void link_attempt(struct link *link);
static void link_heartbeat(struct link *link);
static void link_give_up(struct link *link, enum store_error error, const char *text);

static uint64_t link_overdue_at(const struct link *link)
{
	const struct list_node *first = list_first(&link->calls);
	uint64_t at = link->heartbeat_overdue_at_ms;
	if (first && container_of(first, struct link_call, node)->overdue_at_ms < at)
		at = container_of(first, struct link_call, node)->overdue_at_ms;
	if (link->state != LINK_READY && link->greeting_overdue_at_ms < at)
		at = link->greeting_overdue_at_ms;
	return at;
}

static void link_on_timer(uv_timer_t *timer);

static void link_arm(struct link *link)
{
	if (link->state == LINK_RESTING || link->state == LINK_PARTING || link->closing)
		return;
	uint64_t at = link_overdue_at(link), now = now_ms();
	if (link->heartbeat_at_ms < at)
		at = link->heartbeat_at_ms;
	if (at == UINT64_MAX)
		uv_timer_stop(&link->timer);
	else
		uv_timer_start(&link->timer, link_on_timer, at > now ? at - now : 0, 0);
}

static void link_on_timer(uv_timer_t *timer)
{
	struct link *link = container_of(timer, struct link, timer);
	uint64_t now = now_ms();
	if (link->state == LINK_RESTING) {
		link_attempt(link);
	} else if (link_overdue_at(link) <= now && link->was_overdue) {
		link_give_up(link, STORE_ERROR_TIMEOUT, NULL);
		return;
	} else if (link_overdue_at(link) <= now) {
		/* Perhaps it is us who were stopped: what lies in the socket is read first. */
		link->was_overdue = true;
		uv_timer_start(&link->timer, link_on_timer, 1, 0);
		return;
	} else if (link->heartbeat_at_ms <= now) {
		link_heartbeat(link);
	}
	link_arm(link);
}

/* ---- down -------------------------------------------------------------------------------- */

static void link_on_timer_closed(uv_handle_t *handle)
{
	struct link *link = container_of(handle, struct link, timer);
	link->config.events->closed(link);
}

static void link_rest(struct link *link)
{
	link_move(link, LINK_RESTING);
	if (link->closing) {
		uv_close((uv_handle_t *)&link->timer, link_on_timer_closed);
		return;
	}
	/* With jitter, the first time too: a fleet that lost its store at once comes back spread.
	 */
	int64_t most = REST_FIRST_MS;
	for (uint32_t i = 0; i < link->failures && most < REST_MOST_MS; i++)
		most *= 2;
	if (most > REST_MOST_MS)
		most = REST_MOST_MS;
	uv_timer_start(&link->timer, link_on_timer,
		       (uint64_t)rng_between(&link->rng, most / 2, most), 0);
}

/* The connection is no more, or there will be none: tells the owner, once. */
static void link_went_down(struct link *link, enum store_error error, const char *text)
{
	bool was_ready = link->state == LINK_READY;
	link->error = error;
	snprintf(link->error_text, sizeof(link->error_text), "%s",
		 text && *text ? text : store_error_text(error));
	link->failures = was_ready ? 0 : link->failures + 1;
	link->was_overdue = false;
	link->heartbeat_at_ms = link->heartbeat_overdue_at_ms = UINT64_MAX;
	if (link->context)
		link_move(link, LINK_PARTING);
	link->context = NULL;
	link->config.events->down(link, was_ready);
}

/* An attempt that has no connection yet ends. */
static void link_fail(struct link *link, enum store_error error, const char *text)
{
	link_went_down(link, error, text);
	link_rest(link);
}

static void link_give_up(struct link *link, enum store_error error, const char *text)
{
	if (link->state == LINK_RESOLVING) {
		link->resolving->link = NULL;
		uv_cancel((uv_req_t *)&link->resolving->request);
		link->resolving = NULL;
		link_fail(link, error, text);
	} else {
		link_drop(link, error, text);
	}
}

void link_drop(struct link *link, enum store_error error, const char *text)
{
	if (!link->context || link->dropped != STORE_ERROR_NONE)
		return;
	link->dropped = error;
	snprintf(link->error_text, sizeof(link->error_text), "%s", text ? text : "");
	redisAsyncFree(link->context);
}

/* Why this connection ends, as its calls are told. */
static enum store_error link_reason(const struct link *link, const redisAsyncContext *context)
{
	if (link->dropped != STORE_ERROR_NONE)
		return link->dropped;
	if (link->state == LINK_CONNECTING)
		return STORE_ERROR_CONNECT;
	/* An error that came without having been asked for. */
	return context->err == REDIS_ERR_OTHER ? store_error_read(context->errstr)
					       : STORE_ERROR_LOST;
}

static void link_on_detached(struct adapter *adapter, const redisAsyncContext *context)
{
	struct link *link = container_of(adapter, struct link, adapter);
	char text[sizeof(link->error_text)];
	snprintf(text, sizeof(text), "%s",
		 link->dropped == STORE_ERROR_NONE && context->errstr ? context->errstr
								      : link->error_text);
	link_went_down(link, link_reason(link, context), text);
}

static void link_on_adapter_closed(struct adapter *adapter)
{
	struct link *link = container_of(adapter, struct link, adapter);
	link_rest(link);
}

/* ---- calls ------------------------------------------------------------------------------- */

static void link_on_reply(redisAsyncContext *context, void *reply, void *arg)
{
	struct link_call *call = arg;
	struct link *link = call->link;
	list_remove(&link->calls, &call->node);
	link->was_overdue = false;
	link_arm(link);
	call->done(call, reply, reply ? STORE_ERROR_NONE : link_reason(link, context));
}

bool link_send(struct link *link, struct link_call *call, int argc, const char **argv,
	       const size_t *lens)
{
	CHECK(link->state == LINK_GREETING || link->state == LINK_READY);
	call->link = link;
	if (redisAsyncCommandArgv(link->context, link_on_reply, call, argc, argv, lens) != REDIS_OK)
		return false;
	call->overdue_at_ms = now_ms() + link->config.call_timeout_ms;
	list_push_back(&link->calls, &call->node);
	if (list_first(&link->calls) == &call->node)
		link_arm(link);
	return true;
}

/* ---- heartbeats -------------------------------------------------------------------------- */

static void link_heartbeat_answered(struct link *link)
{
	link->was_overdue = false;
	link->heartbeat_overdue_at_ms = UINT64_MAX;
	link->heartbeat_at_ms = now_ms() + link->config.heartbeat_ms;
}

static void link_on_pong(redisAsyncContext *context, void *reply, void *arg)
{
	struct link *link = arg;
	(void)context;
	if (!reply)
		return;
	link_heartbeat_answered(link);
	link_arm(link);
}

/* ---- subscription ------------------------------------------------------------------------ */

static void link_on_subscription(redisAsyncContext *context, void *reply, void *arg)
{
	struct link *link = arg;
	const redisReply *r = reply;
	(void)context;
	if (!r || r->type != REDIS_REPLY_ARRAY || r->elements != 3 || !r->element[0]->str)
		return;
	if (strcmp(r->element[0]->str, "message") == 0) {
		if (link->state == LINK_READY && r->element[2]->type == REDIS_REPLY_STRING)
			link->config.events->message(link, r->element[2]->str, r->element[2]->len);
		return;
	}
	link_heartbeat_answered(link);
	if (link->state == LINK_GREETING)
		link_greeted(link);
	link_arm(link);
}

/* Where a command cannot be sent the connection is going down anyway. */
static void link_heartbeat(struct link *link)
{
	link->heartbeat_at_ms = UINT64_MAX;
	link->heartbeat_overdue_at_ms = now_ms() + link->config.connect_timeout_ms;
	if (link->channel[0])
		redisAsyncCommand(link->context, link_on_subscription, link, "SUBSCRIBE %s",
				  link->channel);
	else if (list_empty(&link->calls))
		redisAsyncCommand(link->context, link_on_pong, link, "PING");
	else
		link_heartbeat_answered(link); /* those under way have their own times */
}

void link_subscribe(struct link *link, const char *channel)
{
	CHECK(link->state == LINK_GREETING && strlen(channel) <= LINK_CHANNEL_MAX);
	strcpy(link->channel, channel);
	link_heartbeat(link);
	link_arm(link);
}

/* ---- up ---------------------------------------------------------------------------------- */

void link_greeted(struct link *link)
{
	link_move(link, LINK_READY);
	link->failures = 0;
	if (!link->channel[0])
		link_heartbeat_answered(link);
	link->config.events->ready(link);
	link_arm(link);
}

static void link_on_named(redisAsyncContext *context, void *reply, void *arg)
{
	(void)context, (void)reply, (void)arg; /* only for the operator's eyes */
}

static void link_on_greeting(redisAsyncContext *context, void *reply, void *arg)
{
	struct link *link = context->data;
	const redisReply *r = reply;
	bool last = arg != NULL;
	if (!r || link->dropped != STORE_ERROR_NONE)
		return;
	link->was_overdue = false;
	if (r->type == REDIS_REPLY_ERROR)
		link_drop(link, store_error_of(r), r->str);
	else if (last)
		link->config.events->greet(link);
}

static void link_greet(struct link *link)
{
	static char last;
	const struct store_url *url = link->config.url;
	redisAsyncContext *context = link->context;
	if (url->password[0] && url->user[0])
		redisAsyncCommand(context, link_on_greeting, NULL, "AUTH %s %s", url->user,
				  url->password);
	else if (url->password[0])
		redisAsyncCommand(context, link_on_greeting, NULL, "AUTH %s", url->password);
	if (url->db)
		redisAsyncCommand(context, link_on_greeting, NULL, "SELECT %d", (int)url->db);
	redisAsyncCommand(context, link_on_named, NULL, "CLIENT SETNAME segard:%s",
			  link->config.name);
	redisAsyncCommand(context, link_on_greeting, &last, "PING");
}

static void link_on_connected(const redisAsyncContext *context, int status)
{
	struct link *link = context->data;
	if (status != REDIS_OK || link->dropped != STORE_ERROR_NONE)
		return; /* link_on_detached follows */
	link_move(link, LINK_GREETING);
	link_greet(link);
}

static void link_connect(struct link *link, const char *host)
{
	static const struct adapter_events events = { link_on_detached, link_on_adapter_closed };
	const struct store_url *url = link->config.url;
	redisAsyncContext *context = url->scheme == STORE_URL_UNIX
					     ? redisAsyncConnectUnix(host)
					     : redisAsyncConnect(host, url->port);
	link_move(link, LINK_CONNECTING);
	if (!context) {
		link_fail(link, STORE_ERROR_MEMORY, NULL);
		return;
	}
	if (context->err ||
	    adapter_attach(&link->adapter, link->config.loop, context, &events) != 0) {
		char text[sizeof(link->error_text)];
		snprintf(text, sizeof(text), "%s", context->err ? context->errstr : "");
		redisAsyncFree(context);
		link_fail(link, STORE_ERROR_CONNECT, text);
		return;
	}
	link->context = context;
	link->dropped = STORE_ERROR_NONE;
	context->data = link;
	redisAsyncSetConnectCallback(context, link_on_connected);
}

static void link_on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *list)
{
	struct link_resolving *resolving = container_of(request, struct link_resolving, request);
	struct link *link = resolving->link;
	char host[INET6_ADDRSTRLEN + 32] = "";
	uint32_t count = 0;

	for (const struct addrinfo *at = list; at; at = at->ai_next)
		count++;
	if (link && status == 0 && count > 0) {
		/* One after the other, attempt by attempt. */
		const struct addrinfo *at = list;
		for (uint32_t i = link->address_index++ % count; i > 0; i--)
			at = at->ai_next;
		if (getnameinfo(at->ai_addr, at->ai_addrlen, host, sizeof(host), NULL, 0,
				NI_NUMERICHOST) != 0)
			host[0] = '\0';
	}
	uv_freeaddrinfo(list);
	mem_free(resolving);
	if (!link)
		return;
	link->resolving = NULL;
	if (host[0])
		link_connect(link, host);
	else
		link_fail(link, STORE_ERROR_CONNECT,
			  status ? uv_strerror(status) : "the host has no address");
	link_arm(link);
}

static void link_resolve(struct link *link)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct link_resolving *resolving = mem_zalloc(sizeof(*resolving));
	link_move(link, LINK_RESOLVING);
	if (!resolving) {
		link_fail(link, STORE_ERROR_MEMORY, NULL);
		return;
	}
	resolving->link = link;
	int error = uv_getaddrinfo(link->config.loop, &resolving->request, link_on_resolved,
				   link->config.url->host, NULL, &hints);
	if (error) {
		mem_free(resolving);
		link_fail(link, STORE_ERROR_CONNECT, uv_strerror(error));
		return;
	}
	link->resolving = resolving;
}

static void link_attempt(struct link *link)
{
	const struct store_url *url = link->config.url;
	unsigned char address[16];
	link->greeting_overdue_at_ms = now_ms() + link->config.connect_timeout_ms;
	if (url->scheme == STORE_URL_UNIX || uv_inet_pton(AF_INET, url->host, address) == 0 ||
	    uv_inet_pton(AF_INET6, url->host, address) == 0)
		link_connect(link, url->host);
	else
		link_resolve(link);
}

/* ---- life -------------------------------------------------------------------------------- */

void link_open(struct link *link, const struct link_config *config, uint64_t seed)
{
	*link = (struct link){ .config = *config,
			       .state = LINK_RESTING,
			       .heartbeat_at_ms = UINT64_MAX,
			       .heartbeat_overdue_at_ms = UINT64_MAX };
	list_init(&link->calls);
	rng_seed(&link->rng, seed);
	CHECK(uv_timer_init(config->loop, &link->timer) == 0);
	CHECK(uv_timer_start(&link->timer, link_on_timer, 0, 0) == 0);
}

void link_close(struct link *link)
{
	CHECK(!link->closing);
	link->closing = true;
	uv_timer_stop(&link->timer);
	if (link->state == LINK_RESTING)
		uv_close((uv_handle_t *)&link->timer, link_on_timer_closed);
	else
		link_give_up(link, STORE_ERROR_CLOSED, NULL);
}
