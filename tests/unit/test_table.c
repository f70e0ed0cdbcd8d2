#include "base/table.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/mem.h"

enum { NODES = 5000 };
static struct table_node nodes[NODES];
static bool in[NODES];

static uint64_t hash_of(int i)
{
	return (uint64_t)(i / 3) * 0x9e3779b97f4a7c15u; /* three of each hash */
}

static bool finds(const struct table *table, int i)
{
	for (struct table_node *node = table_find(table, hash_of(i)); node; node = table_next(node))
		if (node == &nodes[i])
			return true;
	return false;
}

static void use_at_random(struct table *table, int rounds)
{
	for (int round = 0; round < rounds; round++) {
		int i = rand() % NODES;
		cr_assert_eq(finds(table, i), in[i]);
		if (in[i])
			table_remove(table, &nodes[i]);
		else
			table_insert(table, &nodes[i], hash_of(i));
		in[i] = !in[i];
	}
	size_t count = 0;
	for (int i = 0; i < NODES; i++) {
		cr_assert_eq(finds(table, i), in[i]);
		count += in[i];
	}
	cr_assert_eq(table->count, count);
}

Test(table, finds_what_is_in_while_it_grows)
{
	struct table table;
	cr_assert_eq(table_init(&table, 4), 0);
	srand(1);
	for (int i = 0; i < 100; i++)
		use_at_random(&table, 500);
	cr_assert_geq(table.size, table.count);
	table_close(&table);
}

Test(table, goes_on_without_memory_to_grow)
{
	struct table table;
	cr_assert_eq(table_init(&table, 4), 0);
	for (int i = 0; i < NODES; i++) {
		mem_fail_at(1);
		table_insert(&table, &nodes[i], hash_of(i));
	}
	mem_fail_at(0);
	cr_assert_eq(table.size, 4);
	cr_assert(finds(&table, 0) && finds(&table, NODES - 1));
	table_close(&table);
}

Test(table, removing_what_is_not_in_is_a_bug, .signal = 6)
{
	struct table table;
	cr_assert_eq(table_init(&table, 4), 0);
	table_remove(&table, &nodes[0]);
}
