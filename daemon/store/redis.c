#include "store/redis.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/redis_state.h"
#include "store/share.h"

enum {
	CONNECT_TIMEOUT_MS = 1000,
	CONTROL_TIMEOUT_MS = 1000,
	VALUES_TIMEOUT_MS = 5000,
	HEARTBEAT_MS = 1000, /* of an idle connection */
	QUIET_FIRST_US =
		10 * 1000 * 1000, /* an error that was logged is not for so long, doubling … */
	QUIET_MOST_US = 600 * 1000 * 1000,
};

/* ---- times ------------------------------------------------------------------------------- */

int64_t redis_local_us(void)
{
	struct timespec now;
	clock_gettime(CLOCK_BOOTTIME, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int64_t time_of_day_us(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t redis_store_now_us(struct redis_store *redis)
{
	return fleet_clock_now(&redis->clock, redis_local_us());
}

int64_t redis_store_clock_us(struct redis_store *redis)
{
	return fleet_clock_store(&redis->clock, redis_local_us());
}

int64_t redis_store_passed_us(const struct redis_store *redis)
{
	return fleet_clock_passed(&redis->clock, redis_local_us());
}

int64_t redis_deadline_us(struct redis_store *redis, const struct link *link)
{
	uint32_t timeout_ms =
		link == &redis->values ? redis->values_timeout_ms : redis->control_timeout_ms;
	return redis_store_clock_us(redis) + (int64_t)timeout_ms * 1000;
}

/* ---- errors ------------------------------------------------------------------------------ */

/* Whether to log it: what lasts is told ever less often. */
static bool is_to_be_told(struct told_last *told, int64_t now_us)
{
	if (now_us < told->quiet_until_us)
		return false;
	told->quiet_us = told->quiet_us ? 2 * told->quiet_us : QUIET_FIRST_US;
	if (told->quiet_us > QUIET_MOST_US)
		told->quiet_us = QUIET_MOST_US;
	told->quiet_until_us = now_us + told->quiet_us;
	return true;
}

void redis_note_error(struct redis_store *redis, const char *what, enum store_error error,
		      const char *text)
{
	redis->counters.errors[error]++;
	if (error == STORE_ERROR_CLOSED || !is_to_be_told(&redis->told[error], redis_local_us()))
		return;
	log_warning("store.error", LOG_TEXT("what", what),
		    LOG_TEXT("kind", store_error_name(error)),
		    LOG_TEXT("text", text ? text : store_error_text(error)));
}

void redis_note_foreign(struct redis_store *redis)
{
	redis->counters.saves_foreign++;
	if (is_to_be_told(&redis->told_foreign, redis_local_us()))
		log_error("store.foreign_origin",
			  LOG_TEXT("text", "this host builds from another database, or from an "
					   "earlier timeline, than the fleet; its values are not "
					   "shared (docs/REDIS.md)"));
}

struct store redis_store_iface(struct redis_store *redis)
{
	return (struct store){ .impl = redis, .submit = errand_submit };
}

/* ---- the turn ---------------------------------------------------------------------------- */

static void redis_tell_open(struct redis_store *redis)
{
	if (redis->is_open || redis->closing)
		return;
	redis->is_open = true;
	fleet_clock_begin(&redis->clock);
	if (redis->opened)
		redis->opened(redis->opened_arg);
}

static void redis_on_gone(uv_handle_t *handle)
{
	struct redis_store *redis = handle->data;
	if (--redis->handles > 0)
		return;
	CHECK(redis->errands == 0 && list_empty(&redis->answered));
	void (*closed)(void *) = redis->closed;
	void *arg = redis->closed_arg;
	amends_close(&redis->amends);
	alone_close(&redis->alone);
	keys_close(&redis->keys);
	mem_free(redis);
	if (closed)
		closed(arg);
}

static void redis_on_turn(uv_idle_t *handle)
{
	struct redis_store *redis = handle->data;
	CHECK(uv_idle_stop(handle) == 0);
	if (redis->epochs_untold)
		news_tell_epochs(redis);
	changes_turn(redis);
	jobs_turn(redis);
	errands_go_on(redis);
	/* Answers submit anew: those wait for the next turn. */
	for (size_t n = redis->answered.count; n > 0; n--) {
		struct store_op *op =
			container_of(list_pop_front(&redis->answered), struct store_op, node);
		op->done(op);
	}
	bool done = redis->closing && redis->links_open == 0 && redis->errands == 0 &&
		    list_empty(&redis->answered) && !redis->changes.op &&
		    list_empty(&redis->jobs_unsent);
	if (done && !uv_is_closing((uv_handle_t *)handle)) {
		uv_close((uv_handle_t *)handle, redis_on_gone);
		uv_close((uv_handle_t *)&redis->pulse.timer, redis_on_gone);
	}
}

void redis_kick(struct redis_store *redis)
{
	CHECK(uv_idle_start(&redis->turn, redis_on_turn) == 0);
}

/* ---- links ------------------------------------------------------------------------------- */

static void redis_on_greet(struct link *link)
{
	struct redis_store *redis = link->config.owner;
	if (link == &redis->control)
		pulse_greet(redis);
	else if (link == &redis->news)
		link_subscribe(link, redis->keys.channel);
	else
		link_greeted(link);
}

static void redis_on_ready(struct link *link)
{
	struct redis_store *redis = link->config.owner;
	redis->counters.connects++;
	if (link == &redis->control) {
		memset(redis->told, 0, sizeof(redis->told));
		log_info("store.up", LOG_MS("rtt_ms", redis->rtt_us));
		pulse_ready(redis);
		redis_tell_open(redis);
	}
	redis_kick(redis);
}

static void redis_on_down(struct link *link, bool was_ready)
{
	struct redis_store *redis = link->config.owner;
	if (link == &redis->news)
		news_lost(redis);
	redis_note_error(redis, link->config.name, link->error, link->error_text);
	if (was_ready && !redis->closing)
		log_warning("store.down", LOG_TEXT("link", link->config.name),
			    LOG_TEXT("kind", store_error_name(link->error)),
			    LOG_TEXT("text", link->error_text));
	if (link == &redis->control) {
		pulse_down(redis);
		redis_tell_open(redis);
	}
	redis_kick(redis);
}

static void redis_on_message(struct link *link, const char *bytes, size_t len)
{
	news_on_message(link->config.owner, bytes, len);
}

static void redis_on_link_closed(struct link *link)
{
	struct redis_store *redis = link->config.owner;
	redis->links_open--;
	redis_kick(redis);
}

static void redis_open_link(struct redis_store *redis, struct link *link, const char *name,
			    uint32_t connect_timeout_ms, uint32_t call_timeout_ms)
{
	static const struct link_events events = {
		.greet = redis_on_greet,
		.ready = redis_on_ready,
		.down = redis_on_down,
		.message = redis_on_message,
		.closed = redis_on_link_closed,
	};
	link_open(link,
		  &(struct link_config){ .loop = redis->loop,
					 .url = &redis->url,
					 .name = name,
					 .connect_timeout_ms = connect_timeout_ms,
					 .call_timeout_ms = call_timeout_ms,
					 .heartbeat_ms = HEARTBEAT_MS,
					 .events = &events,
					 .owner = redis },
		  rng_next(&redis->rng));
	redis->links_open++;
}

/* ---- birth and end ----------------------------------------------------------------------- */

static uint32_t or_usual(uint32_t asked, uint32_t usual)
{
	return asked ? asked : usual;
}

int redis_store_create(uv_loop_t *loop, const struct redis_options *options,
		       struct redis_store **ret_redis)
{
	CHECK(options->url->scheme != STORE_URL_NONE && options->budget_per_s > 0 &&
	      options->concurrency > 0 && options->fleet > 0);
	struct redis_store *redis = mem_zalloc(sizeof(*redis));
	if (!redis)
		return -ENOMEM;
	redis->loop = loop;
	redis->url = *options->url;
	redis->rate_per_s = share_rate(options->budget_per_s, options->fleet);
	redis->concurrency = options->concurrency;
	redis->fleet = options->fleet;
	redis->trust_us = options->trust_us;
	redis->standby = options->standby;
	redis->control_timeout_ms = or_usual(options->control_timeout_ms, CONTROL_TIMEOUT_MS);
	redis->values_timeout_ms = or_usual(options->values_timeout_ms, VALUES_TIMEOUT_MS);
	redis->opened = options->opened;
	redis->opened_arg = options->arg;
	if (keys_init(&redis->keys, options->prefix, redis->url.db) != 0 ||
	    alone_init(&redis->alone, redis->rate_per_s, redis->concurrency, redis->fleet) != 0) {
		keys_close(&redis->keys);
		mem_free(redis);
		return -ENOMEM;
	}
	rng_seed(&redis->rng, options->seed);
	list_init(&redis->waiting);
	list_init(&redis->answered);
	list_init(&redis->jobs_unsent);
	amends_init(&redis->amends);
	fleet_clock_init(&redis->clock, redis_local_us(), time_of_day_us());
	place_init(&redis->place, options->state_dir, redis->fleet, rng_next(&redis->rng) | 1,
		   redis_local_us());
	CHECK(uv_idle_init(loop, &redis->turn) == 0);
	pulse_init(redis);
	redis->turn.data = redis->pulse.timer.data = redis;
	redis->handles = 2;
	uint32_t connect_ms = or_usual(options->connect_timeout_ms, CONNECT_TIMEOUT_MS);
	redis_open_link(redis, &redis->control, "control", connect_ms, redis->control_timeout_ms);
	redis_open_link(redis, &redis->values, "values", connect_ms, redis->values_timeout_ms);
	redis_open_link(redis, &redis->news, "news", connect_ms, redis->control_timeout_ms);
	*ret_redis = redis;
	return 0;
}

void redis_store_listen(struct redis_store *redis, const struct store_listener *listener)
{
	redis->listener = *listener;
	redis->epochs_untold = redis->epochs.count > 0;
	redis_kick(redis);
}

void redis_store_define(struct redis_store *redis, const struct policy *policies, uint32_t count,
			bool insists)
{
	struct definition_book *book = &redis->definitions;
	uint32_t edition = book->edition;
	CHECK(count <= KEYSPACES_MAX);
	definition_book_begin(book);
	for (uint32_t i = 0; i < count; i++)
		definition_book_enter(book, policies[i].name, keyspace_definition(&policies[i]),
				      keyspace_spread_us(&policies[i]), insists);
	definition_book_end(book);
	if (book->edition != edition)
		redis->pulse.define_due_us = 0;
}

void redis_store_set_budget(struct redis_store *redis, double budget_per_s)
{
	redis->rate_per_s = share_rate(budget_per_s, redis->fleet);
	redis->alone.rate_per_s = redis->rate_per_s;
}

void redis_store_stats(struct redis_store *redis, struct redis_stats *ret_stats)
{
	bool up = link_is_ready(&redis->control) && link_is_ready(&redis->values);
	const struct link *down = link_is_ready(&redis->control) ? &redis->values : &redis->control;
	int64_t local_us = redis_local_us();
	uint32_t place, of;
	*ret_stats = redis->counters;
	ret_stats->state = up ? "up" : "down";
	ret_stats->error = up ? STORE_ERROR_NONE : down->error;
	ret_stats->error_text = up ? "" : down->error_text;
	ret_stats->rtt_us = redis->rtt_us;
	ret_stats->place = redis->place.number;
	ret_stats->places_live = redis->places_live;
	ret_stats->alone = place_is_alone(&redis->place, local_us, &place, &of);
	ret_stats->trusted = redis_store_now_us(redis) < redis->trusted_until_us;
	ret_stats->era = redis->era.number;
	ret_stats->clock_apart_us = redis_store_clock_us(redis) - redis_store_now_us(redis);
	ret_stats->waiting = redis->errands;
	ret_stats->amends_dropped = redis->amends.dropped;
}

const struct durations *redis_store_latencies(const struct redis_store *redis, enum store_verb verb)
{
	return &redis->latencies[verb];
}

void redis_store_close(struct redis_store *redis, void (*closed)(void *arg), void *arg)
{
	CHECK(!redis->closing);
	redis->closing = true;
	redis->closed = closed;
	redis->closed_arg = arg;
	uv_timer_stop(&redis->pulse.timer);
	link_close(&redis->control);
	link_close(&redis->values);
	link_close(&redis->news);
	redis_kick(redis);
}
