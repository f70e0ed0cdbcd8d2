/* YAML text, read from a file and made into one small, plain document.
 *
 * Everything in YAML that can surprise is refused by name, with its place: several documents in one
 * file, anchors and aliases, tags, deep nesting. What is left is mappings, lists and scalars, each
 * written where it counts. One thread at a time.
 */
#pragma once

#include <stddef.h>

#include "base/config_errors.h"

struct yaml_document_s;

/* Reads the regular file at `path`, at most CONFIG_BYTES_MAX bytes. 0, with the text (for the
 * caller to free) and its length, or a negative errno with the finding in `errors`. Blocks on the
 * disk. */
int yaml_file_read(const char *path, char **ret_text, size_t *ret_len, struct config_errors *errors)
	__attribute__((warn_unused_result));

/* Parses `len` bytes at `text`. 0, with a document whose root is a mapping, for the caller to
 * yaml_document_delete(); it borrows nothing of the text. Or a negative errno with at least one
 * error in `errors`. A document is also returned when anchors or tags were refused: then 0, with
 * errors, so that what else is wrong can be told in the same run. */
int yaml_file_parse(const char *text, size_t len, struct yaml_document_s *ret_document,
		    struct config_errors *errors) __attribute__((warn_unused_result));
