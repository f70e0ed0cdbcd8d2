/* "Did you mean ...?": the known name that a mistyped one is nearest to. Stateless; any thread. */
#pragma once

#include <stddef.h>

/* The name that needs the fewest edits (a letter more, less or other, or two swapped), if they are
 * few for its length; NULL if none is near, or `typed` is too long to be any. */
const char *suggest_nearest(const char *typed, const char *const names[], size_t names_count);
