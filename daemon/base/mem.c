#include "base/mem.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>

static atomic_uint_fast64_t calls;
static uint64_t fail_at; /* value of `calls` at which to fail; 0: never */

enum { MALLOC_HEADER = sizeof(size_t) }; /* glibc keeps a chunk's size before it */

static int mem_fails(void)
{
	return atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed) + 1 == fail_at;
}

void *mem_zalloc(size_t size)
{
	return mem_fails() ? NULL : calloc(1, size);
}

void *mem_alloc(size_t size)
{
	return mem_fails() ? NULL : malloc(size);
}

void mem_free(void *ptr)
{
	free(ptr);
}

size_t mem_cost(const void *ptr)
{
	return ptr ? malloc_usable_size((void *)ptr) + MALLOC_HEADER : 0;
}

void mem_fail_at(uint64_t n)
{
	fail_at = n ? calls + n : 0;
}

uint64_t mem_calls(void)
{
	return calls;
}
