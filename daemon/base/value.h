/* A counted block of bytes: values and error texts, shared by the near cache, flights and replies.
 *
 * The count is not atomic: blocks live on the loop thread. Whoever holds a pointer that the struct
 * comment calls "counted" owns one reference.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct value {
	uint32_t refs;
	uint32_t len;
	char bytes[]; /* `len` of them, then a NUL that is not counted */
};

/* A new block with one reference and a copy of `len` bytes (NULL: left for the caller to fill).
   NULL when memory is missing. */
struct value *value_create(const void *bytes, size_t len) __attribute__((warn_unused_result));

/* One more, one fewer reference. NULL is fine for both. */
struct value *value_ref(struct value *value);
void value_unref(struct value *value);

/* What the block really costs, in bytes. 0 for NULL. */
size_t value_cost(const struct value *value);
