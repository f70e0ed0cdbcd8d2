/* A min-heap of moments whose nodes live inside the objects they order: a pairing heap.
 *
 * It allocates nothing, so that setting a deadline cannot fail; a node can be removed from
 * anywhere. Insert O(1), remove O(log n) amortised. Source: Fredman, Sedgewick, Sleator, Tarjan,
 * "The pairing heap: a new form of self-adjusting heap", Algorithmica 1 (1986).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_node {
	int64_t at; /* the order: least first; do not change it while the node is in a heap */
	struct heap_node *child, *next;
	struct heap_node *prev; /* the elder sibling, or the parent for a first child */
	bool in_heap;
};

struct heap {
	struct heap_node *root;
	size_t count;
};

/* Puts `node` in at moment `at`. The node must be in no heap; a zeroed node is in none. */
void heap_insert(struct heap *heap, struct heap_node *node, int64_t at);

/* Takes `node` out, if it is in. */
void heap_remove(struct heap *heap, struct heap_node *node);

/* The node with the least moment, or NULL. */
static inline struct heap_node *heap_first(const struct heap *heap)
{
	return heap->root;
}
