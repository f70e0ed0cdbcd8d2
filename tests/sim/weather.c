#include "weather.h"

enum {
	HOLD_LEAST_US = MS,
	HOLD_MOST_US = 5 * MS,
	LATE_MEAN_US = 80 * MS,
	LATE_MOST_US = SECOND,
	APART_US = 30 * MS
};

void weather_init(struct weather *weather, const struct scene *scene, struct vtime *vtime)
{
	*weather = (struct weather){ .vtime = vtime };
	scene_stream(scene, STREAM_NETWORK, 0, &weather->rng);
}

int64_t weather_delay(struct weather *weather)
{
	int64_t delay_us = rng_between(&weather->rng, 50, 400);
	if (weather->delays && draw_chance(&weather->rng, 0.2))
		delay_us += draw_exponential(&weather->rng, LATE_MEAN_US);
	if (weather->reorders)
		delay_us += rng_between(&weather->rng, 0, APART_US);
	return delay_us < LATE_MOST_US ? delay_us : LATE_MOST_US;
}

bool weather_loses(struct weather *weather)
{
	return weather->losses && draw_chance(&weather->rng, 0.08);
}

bool weather_doubles(struct weather *weather)
{
	return weather->doubles && draw_chance(&weather->rng, 0.15);
}

void weather_hold(struct weather *weather, struct timer *timer, void (*fire)(struct timer *timer))
{
	int64_t after_us = rng_between(&weather->rng, HOLD_LEAST_US, HOLD_MOST_US);
	vtime_set(weather->vtime, timer, weather->vtime->now_us + after_us, fire);
}
