/* A doubly linked list whose nodes live inside the objects they link.
 *
 * A list never owns its objects. A node is in at most one list; one that is in none links to
 * itself, so that removing it again does no harm.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/check.h"

struct list_node {
	struct list_node *prev, *next;
};

struct list {
	struct list_node head;
	size_t count;
};

static inline void list_init(struct list *list)
{
	list->head.prev = list->head.next = &list->head;
	list->count = 0;
}

static inline void list_node_init(struct list_node *node)
{
	node->prev = node->next = node;
}

static inline bool list_linked(const struct list_node *node)
{
	return node->next != node;
}

static inline bool list_empty(const struct list *list)
{
	return list->head.next == &list->head;
}

static inline void list_insert_before(struct list *list, struct list_node *at,
				      struct list_node *node)
{
	node->prev = at->prev;
	node->next = at;
	at->prev->next = node;
	at->prev = node;
	list->count++;
}

static inline void list_push_back(struct list *list, struct list_node *node)
{
	list_insert_before(list, &list->head, node);
}

static inline void list_push_front(struct list *list, struct list_node *node)
{
	list_insert_before(list, list->head.next, node);
}

static inline void list_remove(struct list *list, struct list_node *node)
{
	CHECK(list_linked(node) && list->count > 0);
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_node_init(node);
	list->count--;
}

/* The first or last node, or NULL. */
static inline struct list_node *list_first(const struct list *list)
{
	return list_empty(list) ? NULL : list->head.next;
}

static inline struct list_node *list_last(const struct list *list)
{
	return list_empty(list) ? NULL : list->head.prev;
}

static inline struct list_node *list_pop_front(struct list *list)
{
	struct list_node *node = list_first(list);
	if (node)
		list_remove(list, node);
	return node;
}

#define list_foreach(list, node)                                                                   \
	for (struct list_node *node = (list)->head.next; node != &(list)->head; node = node->next)
