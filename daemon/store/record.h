/* Records: an entry as it lies in the store.
 *
 * A header of fixed length, high bytes first, then the value's bytes. The scripts read and write it
 * too (lua/prelude.lua, which also has the claim's layout):
 *
 *    0 u8   'e'
 *    1 u8   format, 2
 *    2 u16  flags: 1 has_version, 2 absent, 4 changed, 8 the value is NULL, 16 times of its own
 *              32 it was overtaken by a row's change: set and read by the scripts alone
 *    4 u32  build_us
 *    8 i64  version
 *   16 u64  fence
 *   24 i64  covers
 *   32 i64  generated_at_us
 *   40 i64  fresh_until_us
 *   48 i64  stale_until_us
 *   56 u64  history
 *   64 u32  era
 *   68 u64  definition: which query it is of
 *   76 u32  length of the value
 *   80 ...  the value
 *
 * Another format is no entry: it will be built again and replaced. Moments are by the store's
 * clock; store/verbs.c translates them. Pure; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/entry.h"

enum { RECORD_HEADER_LEN = 80 };

/* Big-endian numbers, as everywhere in the store. */
void record_put_u64(unsigned char *at, uint64_t number);
uint64_t record_get_u64(const unsigned char *at);
void record_put_u32(unsigned char *at, uint32_t number);
uint32_t record_get_u32(const unsigned char *at);

/* Writes the entry's header, moments as they are. */
void record_encode(const struct entry *entry, unsigned char ret_header[RECORD_HEADER_LEN]);

/* Reads a header of `len` bytes. On true all of ret_entry but its value is set (value NULL), and
   ret_value_len says how long that is, or -1: it is NULL. False: these bytes are no header, or one
   that nobody wrote (a row that is absent, a value over the limit, moments out of order). */
bool record_decode(const void *header, size_t len, struct entry *ret_entry, int64_t *ret_value_len)
	__attribute__((warn_unused_result));
