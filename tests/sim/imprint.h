/* The state of a daemon in one number: two that have come to the same have the same. */
#pragma once

#include <stdint.h>

struct node;
uint64_t imprint_of(const struct node *node);
