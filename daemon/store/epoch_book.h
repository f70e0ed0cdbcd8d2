/* The epochs of all keyspaces as this daemon knows them, so that they outlive a store that is
 * flushed.
 *
 * Each is known by its moment on the store's clock, and has one moment on the daemon's: however it
 * is heard of again, it is the same. The last EPOCHS_MAX of a keyspace are kept (core/epoch.h).
 * Pure. One owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "core/epoch.h"

enum {
	EPOCH_FORM_LEN =
		8 + 8 + 1, /* f64 moment, f64 spread, u8 length of the name; then the name */
	EPOCH_BOOK_BYTES = KEYSPACES_MAX * EPOCHS_MAX * (EPOCH_FORM_LEN + KEYSPACE_NAME_MAX),
};

struct epoch_line {
	int64_t store_us;  /* its moment on the store's clock */
	int64_t moment_us; /* on ours */
	int64_t spread_us;
};

struct epoch_page {
	char keyspace[KEYSPACE_NAME_MAX + 1];
	uint32_t count;
	struct epoch_line lines[EPOCHS_MAX]; /* by store_us */
};

struct epoch_book {
	uint32_t count;
	struct epoch_page pages[KEYSPACES_MAX];
};

/* Enters an epoch, whose moment on our clock is `moment_us` unless it is known already. Returns its
   line, valid until the next call, and whether it is new; NULL where the name is no keyspace's, the
   book is full, or the epoch is older than all that are kept. */
const struct epoch_line *epoch_book_enter(struct epoch_book *book, const char *keyspace, size_t len,
					  int64_t store_us, int64_t moment_us, int64_t spread_us,
					  bool *ret_is_new);

/* Writes all epochs in the scripts' form (lua/epochs.lua); returns how many bytes. */
size_t epoch_book_write(const struct epoch_book *book, char ret_bytes[EPOCH_BOOK_BYTES]);

/* Reads one epoch in that form from `bytes`; how many bytes it has, or 0: malformed. */
size_t epoch_form_read(const char *bytes, size_t len, int64_t *ret_store_us, int64_t *ret_spread_us,
		       const char **ret_keyspace, size_t *ret_keyspace_len);
