#include "core/near.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"

enum { NEAR_TABLE_SIZE = 1024 };

int near_init(struct near *near, size_t bytes_max)
{
	*near = (struct near){ .bytes_max = bytes_max };
	list_init(&near->queue);
	return table_init(&near->table, NEAR_TABLE_SIZE);
}

void near_close(struct near *near)
{
	struct list_node *node;
	while (near->table.buckets && (node = list_first(&near->queue)))
		near_remove(near, container_of(node, struct near_entry, link));
	table_close(&near->table);
}

size_t near_cost(const struct near *near)
{
	return near->bytes + table_cost(&near->table);
}

struct near_entry *near_find(const struct near *near, const struct key *key)
{
	for (struct table_node *node = table_find(&near->table, key->hash); node;
	     node = table_next(node)) {
		struct near_entry *ne = container_of(node, struct near_entry, node);
		if (ne->key_len == key->len && memcmp(ne->key, key->bytes, key->len) == 0)
			return ne;
	}
	return NULL;
}

void near_remove(struct near *near, struct near_entry *ne)
{
	if (near->hand == &ne->link)
		near->hand = ne->link.prev == &near->queue.head ? NULL : ne->link.prev;
	list_remove(&near->queue, &ne->link);
	table_remove(&near->table, &ne->node);
	CHECK(near->bytes >= ne->cost);
	near->bytes -= ne->cost;
	value_unref(ne->entry.value);
	mem_free(ne);
}

/* Each step evicts one entry or takes one entry's mark away: at most two rounds of the queue. */
static void near_evict_one(struct near *near)
{
	for (;;) {
		struct list_node *node = near->hand ? near->hand : list_last(&near->queue);
		CHECK(node);
		struct near_entry *ne = container_of(node, struct near_entry, link);
		near->hand = node->prev == &near->queue.head ? NULL : node->prev;
		if (!ne->visited) {
			near_remove(near, ne);
			near->evictions++;
			return;
		}
		ne->visited = false;
	}
}

static struct near_entry *near_entry_create(const struct key *key)
{
	struct near_entry *ne = mem_zalloc(sizeof(*ne) + key->len);
	if (!ne)
		return NULL;
	ne->keyspace = key->keyspace;
	ne->key_len = key->len;
	memcpy(ne->key, key->bytes, key->len);
	list_node_init(&ne->link);
	return ne;
}

struct near_entry *near_put(struct near *near, const struct key *key, const struct entry *entry,
			    int64_t now_us)
{
	struct near_entry *ne = near_find(near, key);
	bool visited = ne && ne->visited;
	if (ne)
		near_remove(near, ne);
	ne = near_entry_create(key);
	if (!ne)
		return NULL;
	ne->cost = mem_cost(ne) + value_cost(entry->value);
	if (ne->cost + table_cost(&near->table) > near->bytes_max) {
		near->refused++;
		mem_free(ne);
		return NULL;
	}
	while (near_cost(near) + table_growth(&near->table) + ne->cost > near->bytes_max)
		near_evict_one(near);

	ne->entry = *entry;
	value_ref(ne->entry.value);
	ne->visited = visited;
	ne->generation = key->keyspace->generation;
	ne->next_at_us = entry->fresh_until_us;
	ne->put_at_us = now_us;
	near->bytes += ne->cost;
	list_push_front(&near->queue, &ne->link);
	table_insert(&near->table, &ne->node, key->hash);
	return ne;
}
