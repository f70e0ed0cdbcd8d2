#include "base/table.h"

#include <stdbool.h>

#include "base/check.h"
#include "base/mem.h"

enum { MOVE_PER_INSERT = 4 };

static struct table_node **table_bucket(const struct table *table, uint64_t hash)
{
	if (table->old) {
		size_t at = hash & (table->old_size - 1);
		if (at >= table->moved)
			return &table->old[at];
	}
	return &table->buckets[hash & (table->size - 1)];
}

static void table_move_some(struct table *table)
{
	for (int i = 0; i < MOVE_PER_INSERT && table->moved < table->old_size; i++) {
		struct table_node *node = table->old[table->moved++];
		while (node) {
			struct table_node *next = node->next;
			struct table_node **to = &table->buckets[node->hash & (table->size - 1)];
			node->next = *to;
			*to = node;
			node = next;
		}
	}
	if (table->moved == table->old_size) {
		mem_free(table->old);
		table->old = NULL;
	}
}

static void table_grow(struct table *table)
{
	struct table_node **bigger = mem_zalloc(2 * table->size * sizeof(*bigger));
	if (!bigger)
		return;
	table->old = table->buckets;
	table->old_size = table->size;
	table->moved = 0;
	table->buckets = bigger;
	table->size *= 2;
}

int table_init(struct table *table, size_t size)
{
	CHECK(size > 0 && (size & (size - 1)) == 0);
	*table = (struct table){ .size = size,
				 .buckets = mem_zalloc(size * sizeof(struct table_node *)) };
	return table->buckets ? 0 : -1;
}

void table_close(struct table *table)
{
	mem_free(table->buckets);
	mem_free(table->old);
	*table = (struct table){ 0 };
}

void table_insert(struct table *table, struct table_node *node, uint64_t hash)
{
	if (table->old)
		table_move_some(table);
	else if (table->count >= table->size)
		table_grow(table);
	struct table_node **bucket = table_bucket(table, hash);
	node->hash = hash;
	node->next = *bucket;
	*bucket = node;
	table->count++;
}

void table_remove(struct table *table, struct table_node *node)
{
	struct table_node **at = table_bucket(table, node->hash);
	while (*at != node) {
		CHECK_MSG(*at, "the node is not in the table (count %zu)", table->count);
		at = &(*at)->next;
	}
	*at = node->next;
	node->next = NULL;
	table->count--;
}

struct table_node *table_find(const struct table *table, uint64_t hash)
{
	struct table_node *node = *table_bucket(table, hash);
	while (node && node->hash != hash)
		node = node->next;
	return node;
}

void table_prefetch(const struct table *table, uint64_t hash)
{
	__builtin_prefetch(table_bucket(table, hash));
}

struct table_node *table_peek(const struct table *table, uint64_t hash)
{
	return *table_bucket(table, hash);
}

struct table_node *table_next(struct table_node *node)
{
	uint64_t hash = node->hash;
	do
		node = node->next;
	while (node && node->hash != hash);
	return node;
}

size_t table_cost(const struct table *table)
{
	return mem_cost(table->buckets) + mem_cost(table->old);
}

size_t table_growth(const struct table *table)
{
	bool grows = !table->old && table->count >= table->size;
	/* An allocator's own share of so large a block is a page at most. */
	return grows ? 2 * table->size * sizeof(struct table_node *) + 4096 : 0;
}
