#include "core/warm_pace.h"

#include "base/check.h"
#include "core/schedule.h"

enum {
	TROUBLES_LEAST = 3,         /* in a row; fewer may be the keys' own fault */
	REST_FIRST_US = 500 * 1000, /* after trouble, doubling … */
	REST_DOUBLINGS = 6,         /* … up to half a minute */
	SLOW_TIMES = 2,             /* so many times the least is slow … */
	SLOW_MORE_US = 5 * 1000,    /* … and so much more: what is short varies a lot */
	SLOW_REST_MOST_US = 1000 * 1000,
	FORGETS = 128, /* statements in which the least grows by its own size */
};

void warm_pace_init(struct warm_pace *pace, uint32_t most)
{
	*pace = (struct warm_pace){ .window = 1, .most = most > 1 ? most : 1 };
}

bool warm_pace_admits(const struct warm_pace *pace, uint32_t under_way, int64_t now_us)
{
	return now_us >= pace->rest_until_us && under_way < (uint32_t)pace->window;
}

static void shrink(struct warm_pace *pace, double factor)
{
	pace->window *= factor;
	if (pace->window < 1)
		pace->window = 1;
}

void warm_pace_went_well(struct warm_pace *pace, uint32_t kind, int64_t took_us, int64_t now_us)
{
	struct warm_delay *delay = &pace->delays[kind % WARM_PACE_KINDS];
	pace->troubles = 0;
	delay->smooth_us = schedule_smooth(delay->smooth_us, took_us);
	delay->least_us += delay->least_us / FORGETS;
	if (delay->least_us == 0 || took_us < delay->least_us)
		delay->least_us = took_us + 1;
	if (delay->smooth_us <= SLOW_TIMES * delay->least_us + SLOW_MORE_US) {
		pace->window += 1 / pace->window;
		if (pace->window > pace->most)
			pace->window = pace->most;
		return;
	}
	/* With one at a time there is still the time between them. */
	int64_t rest_us =
		delay->smooth_us < SLOW_REST_MOST_US ? delay->smooth_us : SLOW_REST_MOST_US;
	shrink(pace, 0.75);
	if (pace->window < 2 && pace->rest_until_us < now_us + rest_us)
		pace->rest_until_us = now_us + rest_us;
}

void warm_pace_failed(struct warm_pace *pace, int64_t now_us)
{
	shrink(pace, 0.5);
	if (++pace->troubles < TROUBLES_LEAST)
		return;
	uint32_t doublings = pace->troubles - TROUBLES_LEAST;
	if (doublings > REST_DOUBLINGS)
		doublings = REST_DOUBLINGS;
	pace->rest_until_us = now_us + ((int64_t)REST_FIRST_US << doublings);
}
