/* The part of the configuration that says who may do what: struct access_rule. Its checks look at
 * the keyspaces, which must have been read.
 */
#pragma once

#include "base/schema.h"

extern const struct schema access_schema;
