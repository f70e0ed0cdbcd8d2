/* Whether a key's arguments are written the one way that counts.
 *
 * `042`, ` 42 ` and `+42` mean 42 to PostgreSQL, but they are other keys to us: such aliases would
 * multiply builds and miss the row's change events, which name the key by its canonical form. So an
 * argument must be written as PostgreSQL's cast to text writes it:
 *
 *   smallint, integer, bigint, oid   decimal, no plus, no leading zeros, no -0, in range
 *   uuid                             lower case, 8-4-4-4-12
 *   boolean                          true or false
 *   date                             YYYY-MM-DD, a day that exists; infinity, -infinity
 *
 * All other types pass as they are: PostgreSQL judges them. Pure functions, any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"

/* Room for the decoded arguments of one key, each with its NUL. */
enum { CANONICAL_ROOM = KEY_BYTES_MAX + KEY_ARGS_MAX };

/* A key's arguments as they are bound. */
struct arguments {
	unsigned count;
	const char *args[KEY_ARGS_MAX]; /* into `room` */
	char room[CANONICAL_ROOM];
};

/* Decodes the arguments of a key's canonical bytes (proto/key.h). */
void arguments_decode(struct arguments *arguments, const char *key, size_t len);

/* NULL if `arg` is the canonical form of a value of type `type_oid`, or of a type that is not
   checked here; else what was expected ("an integer from … in plain decimal"), static storage. */
const char *canonical_expected(uint32_t type_oid, const char *arg);

/* Whether the arguments fit a query with these parameters. On false, `text` says why in one line of
   UTF-8 without the arguments' own bytes, NUL-terminated, cut to `text_size`. */
bool arguments_fit(const struct arguments *arguments, const char *keyspace,
		   const uint32_t *param_types, unsigned params_count, char *text,
		   size_t text_size);
