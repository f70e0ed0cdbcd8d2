#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "origin/feed_state.h"

enum {
	ASK_MS = 800,        /* for the right that another has; with jitter of a half */
	KEEP_MS = 1000,      /* it is lengthened so often, and lasts three times that */
	REST_FIRST_MS = 200, /* after trouble, doubling … */
	REST_MOST_MS = 5000,
	BUSY_MS = 10, /* a call is under way: asked again after this */
};

void feed_rest(struct feed *feed, uint64_t ms)
{
	feed_rows_drop(&feed->rows);
	feed_link_close(&feed->link);
	feed_move(feed, FEED_RESTING);
	feed_arm(feed, ms / 2 + (uint64_t)rng_between(&feed->rng, 0, (int64_t)ms / 2));
}

void feed_stop_following(struct feed *feed)
{
	if (feed->following)
		log_info("feed.end");
	feed->following = false;
	uv_timer_stop(&feed->keep);
}

void feed_leave(struct feed *feed)
{
	if (!feed->calling)
		feed_rows_drop(&feed->rows); /* else the call has them still */
	feed_link_close(&feed->link);
	uv_timer_stop(&feed->timer);
	feed->apply_waits = false;
	feed_move(feed, FEED_LEAVING);
	feed->leave_waits = feed->calling;
	if (!feed->calling)
		feed_submit(feed, CHANGE_LEAVE);
}

uint64_t feed_rest_ms(const struct feed *feed)
{
	uint64_t ms = REST_FIRST_MS;
	for (uint32_t i = 1; i < feed->losses && ms < REST_MOST_MS; i++)
		ms *= 2;
	return ms < REST_MOST_MS ? ms : REST_MOST_MS;
}

static void note_trouble(struct feed *feed, const char *why)
{
	feed->losses++;
	feed->stats.failures++;
	if (strncmp(feed->why, why, sizeof(feed->why) - 1) == 0)
		return;
	snprintf(feed->why, sizeof(feed->why), "%.*s", (int)sizeof(feed->why) - 1, why);
	log_warning("feed.lost", LOG_TEXT("why", why));
}

void feed_fail(struct feed *feed, const char *why)
{
	note_trouble(feed, why);
	feed_leave(feed);
}

void feed_start_over(struct feed *feed)
{
	feed_stop_following(feed);
	feed_rest(feed, feed_rest_ms(feed));
}

void feed_ask(struct feed *feed)
{
	if (feed->calling) {
		feed_arm(feed, BUSY_MS);
		return;
	}
	feed_move(feed, FEED_ASKING);
	feed_submit(feed, CHANGE_FOLLOW);
}

static void on_keep(uv_timer_t *timer)
{
	struct feed *feed = timer->data;
	if (feed->calling)
		return;
	feed->keeping = true;
	feed_submit(feed, CHANGE_FOLLOW);
}

void feed_on_asked(struct feed *feed)
{
	struct change_call *call = &feed->call;
	switch (call->outcome) {
	case CHANGE_DONE:
		break;
	case CHANGE_HELD:
		feed->losses = 0;
		feed_rest(feed, ASK_MS);
		return;
	case CHANGE_REFUSED:
	case CHANGE_AWAY:
		feed_rest(feed, KEEP_MS);
		return;
	}
	strcpy(feed->store_text, call->position);
	feed->following = true;
	CHECK(uv_timer_start(&feed->keep, on_keep, KEEP_MS, KEEP_MS) == 0);
	feed_move(feed, FEED_CONNECTING);
	feed_policies_adopt(feed);
	feed_link_open(&feed->link, feed->options.dsn);
}

void feed_on_kept(struct feed *feed)
{
	if (feed->leave_waits) {
		feed_leave(feed);
	} else if (feed->state == FEED_RESTING) {
		return;
	} else if (feed->call.outcome == CHANGE_HELD) {
		feed->apply_waits = false;
		feed_start_over(feed);
	} else if (feed->apply_waits) {
		feed->apply_waits = false;
		feed_submit(feed, CHANGE_APPLY);
	}
}
