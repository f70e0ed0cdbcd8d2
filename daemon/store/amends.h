/* Amends: what the store may still think is ours, to be given back when it answers again.
 *
 * A lease or slot whose answer was lost may have been given all the same; a give-back that failed
 * was perhaps not heard. Both would lapse by themselves, but only after a build's longest time. So
 * they are given back by their token, which does no harm where there is nothing to give. Bounded:
 * what does not fit, or is too old to matter, is left to lapse.
 *
 * Pure but for memory. One owner.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/store.h"
#include "store/store_error.h"

enum { AMENDS_BYTES_MAX = 1024 * 1024 };

struct amend {
	struct list_node node;
	enum store_verb verb; /* FREE or RELEASE */
	uint64_t token;
	int slot;         /* FREE: -1: not known */
	int64_t until_us; /* local: it has lapsed by then */
	uint32_t key_len;
	char key[]; /* RELEASE */
};

struct amends {
	struct list list; /* of struct amend, owned */
	size_t bytes;
	uint64_t dropped; /* for want of room */
};

void amends_init(struct amends *amends);
void amends_close(struct amends *amends);

/* Notes that the operation's lease or slot is to be given back. */
void amends_add(struct amends *amends, enum store_verb verb, const struct store_op *op,
		int64_t until_us);

/* The store gave no answer to this operation, because of `error`: notes what may be ours in the
   store all the same. */
void amends_make(struct amends *amends, const struct store_op *op, enum store_error error,
		 int64_t local_us);

/* The oldest that still matters, taken out; NULL: none. The caller frees it with amends_done, or
   puts it back. */
struct amend *amends_take(struct amends *amends, int64_t local_us);
void amends_put_back(struct amends *amends, struct amend *amend);
void amends_done(struct amend *amend);
