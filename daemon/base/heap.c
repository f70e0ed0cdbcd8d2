#include "base/heap.h"

#include "base/check.h"

/* Makes the later of two roots the other's first child. */
static struct heap_node *heap_link(struct heap_node *a, struct heap_node *b)
{
	if (!a || !b)
		return a ? a : b;
	if (b->at < a->at) {
		struct heap_node *swap = a;
		a = b;
		b = swap;
	}
	b->prev = a;
	b->next = a->child;
	if (a->child)
		a->child->prev = b;
	a->child = b;
	return a;
}

/* Merges a row of siblings into one root: pairs from the left, then all pairs from the right. */
static struct heap_node *heap_merge_row(struct heap_node *row)
{
	struct heap_node *pairs = NULL; /* linked by `prev`, last pair first */
	while (row) {
		struct heap_node *a = row, *b = a->next;
		row = b ? b->next : NULL;
		a->next = a->prev = NULL;
		if (b)
			b->next = b->prev = NULL;
		a = heap_link(a, b);
		a->prev = pairs;
		pairs = a;
	}
	struct heap_node *root = NULL;
	while (pairs) {
		struct heap_node *pair = pairs;
		pairs = pair->prev;
		pair->prev = NULL;
		root = heap_link(root, pair);
	}
	return root;
}

void heap_insert(struct heap *heap, struct heap_node *node, int64_t at)
{
	CHECK(!node->in_heap);
	*node = (struct heap_node){ .at = at, .in_heap = true };
	heap->root = heap_link(heap->root, node);
	heap->count++;
}

void heap_remove(struct heap *heap, struct heap_node *node)
{
	if (!node->in_heap)
		return;
	CHECK(heap->count > 0);
	if (node == heap->root) {
		heap->root = heap_merge_row(node->child);
	} else {
		if (node->prev->child == node)
			node->prev->child = node->next;
		else
			node->prev->next = node->next;
		if (node->next)
			node->next->prev = node->prev;
		heap->root = heap_link(heap->root, heap_merge_row(node->child));
	}
	*node = (struct heap_node){ .at = node->at };
	heap->count--;
}
