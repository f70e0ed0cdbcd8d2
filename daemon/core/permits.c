#include "core/permits.h"

#include "base/check.h"
#include "core/schedule.h"

enum {
	TURN_MOST_US = 1000 * 1000, /* longer ones are times when nobody wanted to build */
	PATIENCE_LEAST_US = 50 * 1000,
	PATIENCE_MOST_US = 10 * 1000 * 1000,
};

void permits_init(struct permits *permits)
{
	*permits = (struct permits){ 0 };
	for (int i = 0; i < PRIORITY_COUNT; i++)
		list_init(&permits->lines[i]);
}

void permits_join(struct permits *permits, struct list_node *link, enum priority priority)
{
	list_push_back(&permits->lines[priority], link);
	permits->waiting++;
}

void permits_leave(struct permits *permits, struct list_node *link, enum priority priority)
{
	CHECK(link != permits->asking);
	list_remove(&permits->lines[priority], link);
	permits->waiting--;
}

struct list_node *permits_next(struct permits *permits, int64_t now_us)
{
	if (permits->asking || now_us < permits_retry_at(permits))
		return NULL;
	for (int i = 0; i < PRIORITY_COUNT && !permits->asking; i++) {
		permits->asking = list_first(&permits->lines[i]);
		permits->asked = (enum priority)i;
	}
	return permits->asking;
}

void permits_answered(struct permits *permits, int64_t retry_at_us)
{
	CHECK(permits->asking);
	permits->asking = NULL;
	if (permits->asked == PRIORITY_CROWD)
		permits->crowd_retry_at_us = retry_at_us;
	/* What a crowd cannot have, others can't either; what it got says nothing of them. */
	if (permits->asked != PRIORITY_CROWD || permits->retry_at_us < retry_at_us)
		permits->retry_at_us = retry_at_us;
}

int64_t permits_retry_at(const struct permits *permits)
{
	bool is_crowd = !list_empty(&permits->lines[PRIORITY_CROWD]);
	return is_crowd ? permits->crowd_retry_at_us : permits->retry_at_us;
}

void permits_granted(struct permits *permits, int64_t now_us)
{
	int64_t turn = now_us - permits->granted_at_us;
	permits->turn_us =
		schedule_smooth(permits->turn_us, turn < TURN_MOST_US ? turn : TURN_MOST_US);
	permits->granted_at_us = now_us;
}

int64_t permits_patience_us(const struct permits *permits, uint64_t before, int64_t now_us)
{
	int64_t wait = permits_retry_at(permits) - now_us;
	if (permits->turn_us > 0 && before >= (uint64_t)(PATIENCE_MOST_US / permits->turn_us))
		return PATIENCE_MOST_US;
	if (wait < (int64_t)before * permits->turn_us)
		wait = (int64_t)before * permits->turn_us;
	if (wait > PATIENCE_MOST_US)
		return PATIENCE_MOST_US;
	return wait > PATIENCE_LEAST_US ? wait : PATIENCE_LEAST_US;
}
