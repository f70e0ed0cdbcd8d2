#include "core/permits.h"

#include "base/check.h"

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
	if (permits->asking || now_us < permits->retry_at_us)
		return NULL;
	for (int i = 0; i < PRIORITY_COUNT && !permits->asking; i++)
		permits->asking = list_first(&permits->lines[i]);
	return permits->asking;
}

void permits_answered(struct permits *permits, int64_t retry_at_us)
{
	CHECK(permits->asking);
	permits->asking = NULL;
	permits->retry_at_us = retry_at_us;
}
