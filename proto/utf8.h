/* Strict UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF. */
#pragma once

#include <stddef.h>

/* Returns how many leading bytes of the `len` at `text` are whole, valid characters: `len` if all
 * of them are. NUL is a valid character here. */
size_t utf8_valid_len(const char *text, size_t len);
