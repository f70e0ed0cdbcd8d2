/* Allocation, with a way to make it fail: tests call mem_fail_at(n) for every n.
 *
 * All of the daemon's own objects come from here. Not for libraries' memory. The counter is one
 * per process. Any thread, but for mem_fail_at.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* `size` zeroed bytes, or NULL. The caller owns them and gives them to mem_free. */
void *mem_zalloc(size_t size) __attribute__((malloc, warn_unused_result));

/* `size` bytes, not initialised, or NULL. */
void *mem_alloc(size_t size) __attribute__((malloc, warn_unused_result));

void mem_free(void *ptr); /* NULL is fine */

/* What `ptr` really costs, the allocator's own overhead included. */
size_t mem_cost(const void *ptr);

/* Lets the n-th allocation from now (1 = the next) return NULL, once; 0 turns it off. */
void mem_fail_at(uint64_t n);

/* Allocations so far, the failed ones included. */
uint64_t mem_calls(void);
