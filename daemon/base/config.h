/* The configuration file: from YAML to struct config.
 *
 * A config is made by config_load(), read by everyone, changed by nobody, and given back by its
 * owner with config_free(). What may be written is one table in config.c; docs/CONFIG.md is printed
 * from it. What is accepted has its effect; a key that is not known is refused by name.
 */
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "base/config_errors.h"
#include "base/policy.h"

/* Reads and checks the file at `path`. 0, with a config for the caller to free; or a negative errno
 * (-EINVAL: the content is wrong), with everything that is wrong, and where, in `errors`. Warnings
 * may be there in both cases. `errors` needs no preparation and keeps `path`. Blocks on the disk,
 * and on the group database if a group is named. One thread at a time. */
int config_load(const char *path, struct config **ret_config, struct config_errors *errors)
	__attribute__((warn_unused_result));

/* The same from `len` bytes at `text`; `path` only names it in errors. */
int config_parse(const char *path, const char *text, size_t len, struct config **ret_config,
		 struct config_errors *errors) __attribute__((warn_unused_result));

/* Gives the loader's reference back: the config goes now, or with the last of its policies that is
 * still held. NULL is none. */
void config_free(struct config *config);

/* Tells each key, as "origin.dsn", whose value differs from one config to the other, in the order
 * of the reference; what only fills in another's default does not count beside that other.
 * `is_live`: a running daemon can take it over. The keyspaces are one key. */
typedef void config_differ_cb(void *arg, const char *key, bool is_live);
void config_compare(const struct config *a, const struct config *b, config_differ_cb *differ,
		    void *arg);

/* Whether two keyspaces are the same in all that the file says of them. */
bool config_same_keyspace(const struct policy *a, const struct policy *b);

/* Writes the reference of all keys, with types, ranges and defaults, as Markdown (docs/CONFIG.md).
 */
void config_print_reference(FILE *out);
