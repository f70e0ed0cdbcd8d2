/* A key: the name of a keyspace, and the arguments of its query.
 *
 * On the wire it is a string `keyspace:arg[:arg…]` (str or bin), in which `:`, `%` and whatever
 * else the client likes are written %XX inside arguments, or an array [keyspace, arg, …] of
 * strings, binaries (raw, not percent-encoded) and integers. `ks:` has one, empty, argument; `ks`
 * has none.
 *
 * All ways to write one key have one *canonical text*: the string form with only `:` and `%`
 * encoded, in upper case. It is what the rest of the daemon knows a key by. The canonical text of a
 * canonical text is itself, which the hot path may use: a string that is found among canonical
 * texts as it came needs no parsing.
 *
 * Decoded arguments are valid UTF-8 without NUL, WIRE_KEY_BYTES_MAX in all, WIRE_KEY_ARGS_MAX of
 * them; a keyspace's name is 1 to WIRE_KEYSPACE_MAX of [A-Za-z0-9_.-].
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "proto/reader.h"
#include "proto/wire.h"

enum {
	/* The longest canonical text: every byte of the arguments encoded. */
	KEY_TEXT_MAX = WIRE_KEYSPACE_MAX + WIRE_KEY_ARGS_MAX + 3 * WIRE_KEY_BYTES_MAX,
	/* Room for the decoded arguments, each with a NUL. */
	KEY_ARGS_ROOM = WIRE_KEY_BYTES_MAX + WIRE_KEY_ARGS_MAX,
};

struct wire_key {
	const char *text; /* canonical, no NUL behind it; borrows the input or the scratch */
	size_t len;
	size_t keyspace_len; /* the name is the first bytes of `text` */
	unsigned args_count;
};

/* Reads the string form. `scratch` has room for KEY_TEXT_MAX bytes and is used only if the input
 * isn't canonical already. Refuses with STATUS_BAD_REQUEST, or STATUS_TOO_LARGE where a size is
 * over its limit; `error` tells the argument (counted from 1) or the byte (from 0). `ret_key` is
 * set on STATUS_OK only. */
__attribute__((warn_unused_result)) enum status key_parse(const char *text, size_t len,
							  char *scratch, struct wire_key *ret_key,
							  struct wire_error *error);

/* Takes a key in either form from a request's params; otherwise as key_parse. */
__attribute__((warn_unused_result)) enum status
key_read(struct reader *params, char *scratch, struct wire_key *ret_key, struct wire_error *error);

/* Decodes the arguments of a canonical text into `buf`, KEY_ARGS_ROOM bytes, each ended by a NUL,
 * and sets ret_args[0…] to them. Returns how many there are. Asserts that the text is canonical as
 * far as it depends on it. */
unsigned key_args(const char *text, size_t len, char *buf, const char *ret_args[WIRE_KEY_ARGS_MAX]);

/* How many bytes of a canonical text name the keyspace. */
size_t key_keyspace_len(const char *text, size_t len);

/* Whether a keyspace may be called that. */
bool key_is_keyspace_name(const char *name, size_t len);
