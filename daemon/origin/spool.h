/* A spool: the keys of a warm-up, fetched once and quickly, in a file of their own.
 *
 * A thread asks PostgreSQL, row by row, or reads the operator's file, and writes; so neither a slow
 * query nor a slow disk holds up the loop, no cursor stays open, and memory is one row's. The file
 * is there as a whole or not at all. It has each key as chunk_put() writes it, in canonical form
 * where it is a key at all.
 *
 *   spool_start ──> told ──> spool_end, or at any time: spool_end
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

enum { SPOOL_ERROR_MAX = 256, SPOOLS_MAX = 4 };

#define SPOOL_KEYS_MAX  INT64_C(100000000)
#define SPOOL_BYTES_MAX (INT64_C(16) << 30)

/* Where the keys come from: a query, or a file of the operator's. */
struct spool_source {
	const char *dsn;
	const char *query; /* its rows have one column, the key; NULL: it is a file */
	int64_t timeout_us;
	const char *file; /* a key a line; empty lines, and those that begin with #, are none */
};

struct spool;

/* All is copied. `told`, which must stay open until spool_end, is sent when it is done. NULL: no
   thread, no memory, or too many are under way. */
struct spool *spool_start(const struct spool_source *source, const char *path, uv_async_t *told)
	__attribute__((warn_unused_result));

/* Whether it is done: then how many keys there are, or why there is no file ("": there is one). */
bool spool_is_done(struct spool *spool, int64_t *ret_keys, const char **ret_error);

/* Lets go of it, done or not; a file that is not whole does not come to be. NULL is fine. */
void spool_end(struct spool *spool);
