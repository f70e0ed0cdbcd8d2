#include "base/heap.h"

#include <criterion/criterion.h>
#include <stdlib.h>

enum { NODES = 500 };
static struct heap_node nodes[NODES];

Test(heap, gives_the_least_first)
{
	struct heap heap = { 0 };
	srand(1);
	for (int i = 0; i < NODES; i++)
		heap_insert(&heap, &nodes[i], rand() % 100 - 50);
	int64_t last = INT64_MIN;
	for (int i = 0; i < NODES; i++) {
		struct heap_node *first = heap_first(&heap);
		cr_assert_geq(first->at, last);
		last = first->at;
		heap_remove(&heap, first);
	}
	cr_assert_null(heap_first(&heap));
	cr_assert_eq(heap.count, 0);
}

Test(heap, lets_any_node_go_and_come_back)
{
	struct heap heap = { 0 };
	srand(2);
	for (int round = 0; round < 200000; round++) {
		struct heap_node *node = &nodes[rand() % NODES];
		if (node->in_heap)
			heap_remove(&heap, node);
		else
			heap_insert(&heap, node, rand() % 1000);
		if (round % 1000 != 0)
			continue;
		int64_t least = INT64_MAX;
		size_t count = 0;
		for (int i = 0; i < NODES; i++) {
			count += nodes[i].in_heap;
			if (nodes[i].in_heap && nodes[i].at < least)
				least = nodes[i].at;
		}
		cr_assert_eq(heap.count, count);
		if (count > 0)
			cr_assert_eq(heap_first(&heap)->at, least);
	}
}

Test(heap, removing_what_is_not_in_does_nothing)
{
	struct heap heap = { 0 };
	struct heap_node node = { 0 };
	heap_remove(&heap, &node);
	heap_insert(&heap, &node, 5);
	heap_remove(&heap, &node);
	heap_remove(&heap, &node);
	cr_assert_eq(heap.count, 0);
}

Test(heap, inserting_twice_is_a_bug, .signal = 6)
{
	struct heap heap = { 0 };
	struct heap_node node = { 0 };
	heap_insert(&heap, &node, 1);
	heap_insert(&heap, &node, 2);
}
