/* The file that keeps the hot keys over a restart: state_dir/hot, the hottest first.
 *
 *   "segarhot", u32 format (1), u32 count; then for each key: u16 length, its bytes; at last the
 *   XXH3 (seed 0) of all before. High bytes first.
 *
 * It is written beside itself and renamed, readable by its owner alone (keys may be names of
 * people), and at most HOT_FILE_MAX long. What does not read as one to its last byte is none of it
 * taken. Blocks on the disk; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/hotlist.h"

enum {
	HOT_FILE_HEAD = 8 + 4 + 4,
	HOT_FILE_SUM = 8,
	HOT_FILE_MAX = HOT_FILE_HEAD + HOT_KEYS_MAX * (2 + HOT_KEY_BYTES) + HOT_FILE_SUM,
};

/* Keys in the file's own form: `bytes` is all of it. */
struct hot_file {
	unsigned char *bytes; /* owned */
	size_t len;
	uint32_t count;
};

void hot_file_close(struct hot_file *file); /* accepts a zeroed one */

/* Room for so many keys; then each is added, and the end sealed. Of more keys, or longer ones than
 * HOT_KEY_BYTES, nothing is added. False when memory is missing. */
bool hot_file_begin(struct hot_file *file, uint32_t keys) __attribute__((warn_unused_result));
void hot_file_add(struct hot_file *file, const char *key, size_t len);
void hot_file_seal(struct hot_file *file);

/* The first key, or the next after `*at`, which begins as 0. NULL: there are no more. */
const char *hot_file_next(const struct hot_file *file, size_t *at, size_t *ret_len);

/* Checks bytes that came from elsewhere, `len` of them, which the file owns from now on. NULL, or
 * what is wrong with them: then they are freed. */
const char *hot_file_take(struct hot_file *file, unsigned char *bytes, size_t len);

/* Reads the file at `path`. NULL; or what is wrong, with nothing in `ret_file`. No such file: an
 * empty one. */
const char *hot_file_read(const char *path, struct hot_file *ret_file);

/* Writes it to `path`, by way of `path` and `suffix`. 0 or a negative errno. */
int hot_file_write(const struct hot_file *file, const char *path, const char *suffix);
