/* A hash table of objects that embed their node: chained, keyed by a 64-bit hash the caller makes.
 *
 * The caller compares keys; the table compares hashes. It grows a few buckets with each insert, so
 * that no single insert pays for all; where memory for growing is missing it goes on with longer
 * chains, so that an insert cannot fail.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct table_node {
	uint64_t hash;
	struct table_node *next;
};

struct table {
	struct table_node **buckets; /* owned; `size` of them, a power of two */
	struct table_node **old;     /* owned; the smaller array still being emptied, or NULL */
	size_t size;
	size_t old_size;
	size_t moved; /* buckets of `old` emptied so far */
	size_t count;
};

/* `size` a power of two. 0, or -1 when memory is missing. */
int table_init(struct table *table, size_t size) __attribute__((warn_unused_result));

/* Frees the arrays; the objects are the caller's. Accepts a zeroed table. */
void table_close(struct table *table);

void table_insert(struct table *table, struct table_node *node, uint64_t hash);

/* `node` must be in. */
void table_remove(struct table *table, struct table_node *node);

/* The first node with this hash, or NULL; then table_next for others of the same hash. */
struct table_node *table_find(const struct table *table, uint64_t hash);
struct table_node *table_next(struct table_node *node);

/* Has the processor fetch what table_find() reads first, and returns that node, or NULL: which of
 * them there is may be asked at leisure, of several hashes in turn, so that they wait for memory
 * together. */
void table_prefetch(const struct table *table, uint64_t hash);
struct table_node *table_peek(const struct table *table, uint64_t hash);

/* What the arrays cost, in bytes. */
size_t table_cost(const struct table *table);

/* What the next insert may add to that, if it makes the table grow. */
size_t table_growth(const struct table *table);
