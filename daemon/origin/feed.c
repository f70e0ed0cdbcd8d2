#include "origin/feed.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "origin/feed_state.h"

enum { GAP_MS = 10 }; /* from one read to the next, however often it rings */

static void read_log(struct feed *feed);
static void apply_next(struct feed *feed);
static void go_on_closing(struct feed *feed);

void feed_move(struct feed *feed, enum feed_state state)
{
	feed->state = state;
}

static void on_timer(uv_timer_t *timer)
{
	struct feed *feed = timer->data;
	if (feed->state == FEED_RESTING)
		feed_ask(feed);
	else if (feed->state == FEED_WAITING)
		read_log(feed);
}

void feed_arm(struct feed *feed, uint64_t ms)
{
	CHECK(uv_timer_start(&feed->timer, on_timer, ms, 0) == 0);
}

static void on_called(struct change_call *call);

void feed_submit(struct feed *feed, enum change_verb verb)
{
	CHECK(!feed->calling);
	feed->calling = true;
	feed->call.verb = verb;
	feed->call.done = on_called;
	feed->options.store.submit(feed->options.store.impl, &feed->call);
}

/* ---- applying ---------------------------------------------------------------------------- */

static void apply(struct feed *feed, uint32_t count, bool is_last)
{
	feed->is_last = is_last;
	feed->call.changes = feed->rows.changes;
	feed->call.count = count;
	feed->call.from = feed->store_text;
	feed->call.to = is_last ? feed->next.text : NULL;
	feed->call.keep_us = feed->options.standby ? feed->options.retention_us : 0;
	feed->call.history = feed->history;
	feed->stats.keys += count;
	feed_move(feed, FEED_APPLYING);
	feed->apply_waits = feed->calling;
	if (!feed->calling)
		feed_submit(feed, CHANGE_APPLY);
}

static void expire_next(struct feed *feed)
{
	/* A snapshot of now has seen all that may have been missed. */
	uint32_t count = feed_rows_expire_all(&feed->rows, &feed->expire_at, FEED_SPREAD_US,
					      feed->present_xmax - 1);
	apply(feed, count, feed->expire_at >= feed->rows.policies_count);
}

static void fetch(struct feed *feed)
{
	feed_move(feed, FEED_READING);
	feed_say(feed, FEED_TURN_MORE);
}

/* The next of the rows that are here, or else more of them. */
static void apply_next(struct feed *feed)
{
	struct feed_rows *rows = &feed->rows;
	uint32_t count = feed_rows_next(rows);
	bool all = rows->next == rows->count, is_last = all && rows->count < FEED_ROWS_FETCHED;
	if (count == 0 && !is_last)
		fetch(feed);
	else
		apply(feed, count, is_last);
}

static void note_position(struct feed *feed)
{
	uint64_t now_ms = uv_now(feed->loop);
	if (feed->at.xmin != feed->next.xmin || feed->next.xmin == feed->next.xmax)
		feed->stuck_at_ms = now_ms;
	feed->stats.open_ms = (int64_t)(now_ms - feed->stuck_at_ms);
	feed->at = feed->next;
	strcpy(feed->store_text, feed->at.text);
}

static void on_applied(struct feed *feed)
{
	if (feed->call.outcome != CHANGE_DONE) {
		feed_start_over(feed);
		return;
	}
	if (!feed->is_last) {
		if (feed->expiring)
			expire_next(feed);
		else
			apply_next(feed);
		return;
	}
	note_position(feed);
	if (feed->expiring) {
		feed->expiring = false;
		read_log(feed);
		return;
	}
	feed_rows_drop(&feed->rows);
	feed_move(feed, FEED_FINISHING);
	feed_say(feed, FEED_TURN_END);
}

static void on_called(struct change_call *call)
{
	struct feed *feed = container_of(call, struct feed, call);
	bool kept = feed->keeping;
	feed->calling = feed->keeping = false;
	if (feed->closing && feed->state != FEED_LEAVING) {
		go_on_closing(feed);
	} else if (kept) {
		feed_on_kept(feed);
	} else if (feed->state == FEED_ASKING) {
		feed_on_asked(feed);
	} else if (feed->state == FEED_APPLYING) {
		on_applied(feed);
	} else if (feed->state == FEED_LEAVING && feed->leave_waits) {
		feed_leave(feed);
	} else if (feed->state == FEED_LEAVING) {
		feed_stop_following(feed);
		if (feed->closing)
			go_on_closing(feed);
		else
			feed_rest(feed, feed_rest_ms(feed));
	}
}

/* ---- reading ----------------------------------------------------------------------------- */

static void expire_all(struct feed *feed, const char *why)
{
	log_warning("feed.expired", LOG_TEXT("why", why));
	feed->stats.expired++;
	feed->expiring = true;
	feed->expire_at = 0;
	CHECK(feed_position_make(&feed->next, feed->history, feed->followed,
				 feed_position_snapshot(&feed->at)));
	expire_next(feed);
}

static void on_learned(struct feed *feed)
{
	const char *why = feed_choose_position(feed);
	feed->rung = false;
	log_info("feed.begin", LOG_TEXT("position", feed_position_snapshot(&feed->at)));
	feed->stuck_at_ms = uv_now(feed->loop);
	if (!why) {
		read_log(feed);
		return;
	}
	expire_all(feed, why);
}

static void read_log(struct feed *feed)
{
	uint64_t followed = feed->followed;
	uv_timer_stop(&feed->timer);
	feed_policies_adopt(feed);
	if (feed->followed != followed) {
		expire_all(feed, "other keyspaces were followed before");
		return;
	}
	feed->rung = false;
	feed->read_at_ms = uv_now(feed->loop);
	feed->stats.reads++;
	feed_move(feed, FEED_READING);
	feed_say(feed, FEED_TURN_READ);
}

static void await_bell(struct feed *feed)
{
	uint64_t since_ms = uv_now(feed->loop) - feed->read_at_ms;
	uint64_t wait_ms = feed->rung ? GAP_MS : (uint64_t)(feed->options.poll_us / 1000);
	feed_move(feed, FEED_WAITING);
	feed_arm(feed, since_ms < wait_ms ? wait_ms - since_ms : 0);
}

static void on_rows(struct feed *feed)
{
	feed->stats.rows += feed->rows.count;
	if (feed->rows.count > 0)
		feed->stats.lag_ms = feed_rows_age_ms(&feed->rows);
	apply_next(feed);
}

static void on_finished(struct feed *feed)
{
	if (!feed->moved) {
		feed_start_over(feed); /* another has moved it */
		return;
	}
	feed->losses = 0;
	if (feed->why[0])
		log_info("feed.back");
	feed->why[0] = '\0';
	await_bell(feed);
}

/* ---- the link's events ------------------------------------------------------------------- */

static struct feed *feed_of(struct feed_link *link)
{
	return container_of(link, struct feed, link);
}

static void on_link_opened(struct feed_link *link)
{
	struct feed *feed = feed_of(link);
	feed_move(feed, FEED_LEARNING);
	feed->has_db = false;
	feed->history = 0;
	feed_say(feed, FEED_TURN_DIRECT);
}

static void on_link_result(struct feed_link *link, unsigned n, const PGresult *result)
{
	struct feed *feed = feed_of(link);
	if (feed_hear(feed, n, result) || link->has_trouble)
		return;
	link->has_trouble = true;
	trouble_set(&link->trouble, BUILD_FAILED, STATUS_ORIGIN_ERROR,
		    "an answer about the log of changes that is none, or no memory for it");
}

static void on_link_answered(struct feed_link *link, const struct trouble *trouble)
{
	struct feed *feed = feed_of(link);
	/* Who may not know the history goes without. */
	if (trouble && feed->turn != FEED_TURN_HISTORY) {
		feed_fail(feed, trouble->text);
		return;
	}
	switch (feed->turn) {
	case FEED_TURN_DIRECT:
		feed_say(feed, FEED_TURN_SET);
		return;
	case FEED_TURN_SET:
		feed_say(feed, FEED_TURN_HISTORY);
		return;
	case FEED_TURN_HISTORY:
		feed_say(feed, FEED_TURN_POSITION);
		return;
	case FEED_TURN_POSITION:
		on_learned(feed);
		return;
	case FEED_TURN_READ:
	case FEED_TURN_MORE:
		on_rows(feed);
		return;
	case FEED_TURN_END:
		on_finished(feed);
		return;
	}
}

static void on_link_rang(struct feed_link *link)
{
	struct feed *feed = feed_of(link);
	feed->rung = true;
	if (feed->state == FEED_WAITING)
		await_bell(feed);
}

static void on_link_lost(struct feed_link *link, const struct trouble *trouble)
{
	feed_fail(feed_of(link), trouble->text);
}

/* ---- birth and end ----------------------------------------------------------------------- */

static void on_handle_closed(uv_handle_t *handle)
{
	struct feed *feed = handle->data;
	if (--feed->handles > 0)
		return;
	void (*closed)(void *) = feed->closed;
	void *arg = feed->closed_arg;
	feed_policies_free(feed);
	feed_policies_drop_later(feed);
	mem_free(feed);
	if (closed)
		closed(arg);
}

static void on_link_ended(struct feed_link *link)
{
	struct feed *feed = feed_of(link);
	uv_close((uv_handle_t *)&feed->timer, on_handle_closed);
	uv_close((uv_handle_t *)&feed->keep, on_handle_closed);
}

static void go_on_closing(struct feed *feed)
{
	if (feed->following) {
		feed_leave(feed);
		return;
	}
	feed_rows_drop(&feed->rows);
	feed_link_end(&feed->link);
}

void feed_close(struct feed *feed, void (*closed)(void *arg), void *arg)
{
	CHECK(!feed->closing);
	feed->closing = true;
	feed->closed = closed;
	feed->closed_arg = arg;
	uv_timer_stop(&feed->timer);
	uv_timer_stop(&feed->keep);
	feed_link_close(&feed->link);
	if (!feed->calling)
		go_on_closing(feed);
}

bool feed_is_wanted(const struct policy *policies, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (policies[i].on_change != ON_CHANGE_IGNORE)
			return true;
	return false;
}

int feed_create(uv_loop_t *loop, const struct feed_options *options, struct feed **ret_feed)
{
	static const struct feed_link_events events = {
		.opened = on_link_opened,
		.result = on_link_result,
		.answered = on_link_answered,
		.rang = on_link_rang,
		.lost = on_link_lost,
		.ended = on_link_ended,
	};
	struct feed *feed = mem_zalloc(sizeof(*feed));
	if (!feed)
		return -ENOMEM;
	if (feed_policies_take(feed, options->policies, options->policies_count) != 0) {
		mem_free(feed);
		return -ENOMEM;
	}
	feed_policies_adopt(feed);
	feed->options = *options;
	feed->loop = loop;
	rng_seed(&feed->rng, options->seed);
	CHECK(uv_timer_init(loop, &feed->timer) == 0 && uv_timer_init(loop, &feed->keep) == 0);
	feed->timer.data = feed->keep.data = feed;
	feed->handles = 2;
	feed_link_init(&feed->link, loop, &events);
	feed_move(feed, FEED_RESTING);
	feed_arm(feed, 0);
	*ret_feed = feed;
	return 0;
}

int feed_follow(struct feed *feed, const struct policy *policies, size_t count)
{
	return feed_policies_take(feed, policies, count);
}

void feed_get_stats(const struct feed *feed, struct feed_stats *ret_stats)
{
	static const char *const names[] = {
#define X(NAME, name) [FEED_##NAME] = #name,
		FEED_STATE_MAP(X)
#undef X
	};
	*ret_stats = feed->stats;
	ret_stats->state = names[feed->state];
	ret_stats->following = feed->following;
	ret_stats->bad_keys = (int64_t)feed->rows.bad_keys;
}
