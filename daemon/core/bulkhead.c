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
}

static uint32_t share_of(uint32_t client)
{
	return client * 2654435761u % BULKHEAD_SHARES; /* Knuth's multiplicative hash */
}

static int64_t next_tag(const struct bulkhead_queue *queue, uint32_t share)
{
	int64_t last = queue->shares[share].last_tag;
	return (last > queue->tag ? last : queue->tag) + 1;
}

static void queue_join(struct bulkhead_queue *queue, struct bulkhead_ticket *ticket)
{
	struct bulkhead_share *share = &queue->shares[ticket->share];
	int64_t tag = next_tag(queue, ticket->share);
	share->last_tag = tag;
	share->queued++;
	heap_insert(&queue->tickets, &ticket->node, tag);
}

static void queue_leave(struct bulkhead_queue *queue, struct bulkhead_ticket *ticket)
{
	CHECK(ticket->node.in_heap && queue->shares[ticket->share].queued > 0);
	heap_remove(&queue->tickets, &ticket->node);
	queue->shares[ticket->share].queued--;
}

enum admission bulkhead_enter(struct bulkhead *bulkhead, struct bulkhead_ticket *ticket,
			      enum priority priority, uint32_t client, bool patient)
{
	if (bulkhead->inside < bulkhead->limit && bulkhead->queued == 0) {
		bulkhead->inside++;
		return ADMISSION_IN;
	}
	struct bulkhead_queue *queue = &bulkhead->queues[priority];
	size_t count = queue->tickets.count;
	size_t room = count < bulkhead->queue_max ? bulkhead->queue_max - count : 0;
	ticket->share = share_of(client);
	if (!patient || queue->shares[ticket->share].queued >= room)
		return ADMISSION_FULL;
	queue_join(queue, ticket);
	bulkhead->queued++;
	return ADMISSION_QUEUED;
}

void bulkhead_leave(struct bulkhead *bulkhead)
{
	CHECK(bulkhead->inside > 0);
	bulkhead->inside--;
}

struct bulkhead_ticket *bulkhead_next(struct bulkhead *bulkhead)
{
	if (bulkhead->queued == 0 || bulkhead->inside >= bulkhead->limit)
		return NULL;
	for (int i = 0; i < PRIORITY_COUNT; i++) {
		struct bulkhead_queue *queue = &bulkhead->queues[i];
		struct heap_node *node = heap_first(&queue->tickets);
		if (!node)
			continue;
		struct bulkhead_ticket *ticket = container_of(node, struct bulkhead_ticket, node);
		queue->tag = node->at;
		queue_leave(queue, ticket);
		bulkhead->queued--;
		bulkhead->inside++;
		return ticket;
	}
	check_failed("queued", __FILE__, __LINE__, "queued=%u in empty queues", bulkhead->queued);
}

void bulkhead_join(struct bulkhead *bulkhead, struct bulkhead_ticket *ticket,
		   enum priority priority, uint32_t client)
{
	struct bulkhead_queue *queue = &bulkhead->queues[priority];
	uint32_t share = share_of(client);
	if (next_tag(queue, share) >= ticket->node.at)
		return;
	queue_leave(queue, ticket);
	ticket->share = share;
	queue_join(queue, ticket);
}

void bulkhead_give_up(struct bulkhead *bulkhead, struct bulkhead_ticket *ticket,
		      enum priority priority)
{
	queue_leave(&bulkhead->queues[priority], ticket);
	bulkhead->queued--;
}

void bulkhead_raise(struct bulkhead *bulkhead, struct bulkhead_ticket *ticket, enum priority from,
		    enum priority to)
{
	CHECK(to < from);
	queue_leave(&bulkhead->queues[from], ticket);
	queue_join(&bulkhead->queues[to], ticket);
}
