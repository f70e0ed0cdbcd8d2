/* What the daemon's memory can come to: the sum of its limits, for `segard --check` and MemoryMax.
 *
 * Each line is computed from the configuration and the limits that the code keeps to, so that none
 * has to be written down twice. It is what can come, not what usually does: most of it needs
 * clients that wait or do not read, and values of the greatest size, all at once.
 */
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "base/config.h"

/* The sum in bytes, with values of at most `value_bytes` each. */
size_t memory_sum(const struct config *config, size_t value_bytes);

/* Prints the lines and their sum. */
void memory_print(FILE *out, const struct config *config);
