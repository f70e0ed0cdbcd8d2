#include "core/bulkhead.h"

#include "base/check.h"

const char *priority_name(enum priority priority)
{
	static const char *const names[] = {
#define X(NAME, name, text) [PRIORITY_##NAME] = #name,
		PRIORITY_MAP(X)
#undef X
	};
	return names[priority];
}

void bulkhead_init(struct bulkhead *bulkhead, uint32_t limit, uint32_t queue_max)
{
	CHECK(limit > 0);
	*bulkhead = (struct bulkhead){ .limit = limit, .queue_max = queue_max };
	for (int i = 0; i < PRIORITY_COUNT; i++)
		list_init(&bulkhead->queues[i]);
}

enum admission bulkhead_enter(struct bulkhead *bulkhead, struct list_node *link,
			      enum priority priority, bool patient)
{
	if (bulkhead->inside < bulkhead->limit && bulkhead->queued == 0) {
		bulkhead->inside++;
		return ADMISSION_IN;
	}
	struct list *queue = &bulkhead->queues[priority];
	if (!patient || queue->count >= bulkhead->queue_max)
		return ADMISSION_FULL;
	list_push_back(queue, link);
	bulkhead->queued++;
	return ADMISSION_QUEUED;
}

void bulkhead_leave(struct bulkhead *bulkhead)
{
	CHECK(bulkhead->inside > 0);
	bulkhead->inside--;
}

struct list_node *bulkhead_next(struct bulkhead *bulkhead)
{
	if (bulkhead->queued == 0 || bulkhead->inside >= bulkhead->limit)
		return NULL;
	for (int i = 0; i < PRIORITY_COUNT; i++) {
		struct list_node *link = list_pop_front(&bulkhead->queues[i]);
		if (link) {
			bulkhead->queued--;
			bulkhead->inside++;
			return link;
		}
	}
	check_failed("queued", __FILE__, __LINE__, "queued=%u in empty queues", bulkhead->queued);
}

void bulkhead_give_up(struct bulkhead *bulkhead, struct list_node *link, enum priority priority)
{
	list_remove(&bulkhead->queues[priority], link);
	bulkhead->queued--;
}

void bulkhead_raise(struct bulkhead *bulkhead, struct list_node *link, enum priority from,
		    enum priority to)
{
	CHECK(to < from);
	list_remove(&bulkhead->queues[from], link);
	list_push_back(&bulkhead->queues[to], link);
}
