/* The tables of config.c, for those who read by them. */
#pragma once

#include "base/policy.h"
#include "base/schema.h"

extern const struct schema config_schema;          /* of a struct config */
extern const struct schema config_keyspace_schema; /* of a struct policy */
