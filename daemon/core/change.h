/* Changes: what the origin's log tells of rows, and the store applies for the whole fleet.
 *
 * One daemon reads the log at a time, by a right that the store gives (FOLLOW) and that lapses when
 * it is not lengthened. It hands on what it reads (APPLY), and how far it has read, its position: a
 * text that is the reader's own affair. The store compares and sets it in the same step, so that
 * nothing is skipped, whoever reads next.
 *
 * Implemented by store/changes.h (Redis) and, where nothing is shared, by ops/stores.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/policy.h"
#include "core/entry.h"

enum {
	POSITION_MAX = 64 * 1024,      /* bytes of a position, its NUL included */
	CHANGES_MAX = 256,             /* in one call */
	CHANGES_BYTES_MAX = 256 * 1024 /* of their keys, unless one alone has more */
};

/* A key, or all keys of a keyspace, of which something has changed. */
struct logged_change {
	const char *key; /* canonical; the keyspace's name where `whole` */
	uint32_t len;
	const struct policy *policy; /* of its keyspace */
	bool whole;
	int64_t spread_us; /* whole: over which time its entries expire */
	bool has_version;  /* an entry of this version, or where versions order of a later, contains
			      it */
	int64_t version;
	uint64_t xid; /* the last transaction that changed it */
};

enum change_verb {
	CHANGE_FOLLOW, /* take or lengthen the right */
	CHANGE_LEAVE,  /* give it back */
	CHANGE_APPLY,
};

enum change_outcome {
	CHANGE_DONE,
	CHANGE_HELD,    /* FOLLOW: another reads */
	CHANGE_REFUSED, /* APPLY: the right is lost, or the position is another */
	CHANGE_AWAY,    /* no answer: it may have been carried out all the same */
};

/* One call, embedded in its owner, which keeps it in place until `done`. One at a time. */
struct change_call {
	enum change_verb verb;
	const struct logged_change *changes; /* APPLY: borrowed until done */
	uint32_t count;
	const char *from; /* APPLY: the position there is, as FOLLOW told it */
	const char *to;   /* APPLY: what it becomes; NULL: it stays */
	int64_t keep_us;  /* APPLY: where builds read a standby: for so long one counts as after the
			     change only if its snapshot says so. 0: fences tell */
	uint64_t history; /* APPLY: of the xids (core/entry.h) */
	void (*done)(struct change_call *call); /* once, never inside submit, also at close */

	enum change_outcome outcome;
	int64_t left_us;             /* HELD: at most for so long */
	char position[POSITION_MAX]; /* FOLLOW: what there is; "" none */
};

struct change_store {
	void *impl;
	void (*submit)(void *impl, struct change_call *call);
};

/* What is told of a row's change: builds of no greater fence than the floor are not known to be
   after it, unless they contain it. */
struct row_change {
	uint64_t floor;
	bool hard;
	bool has_version;
	int64_t version;
};

/* Whether an entry surely contains it. Pure. */
bool row_change_is_in(const struct row_change *change, const struct entry *entry, bool single_row);

/* Two changes as one: what contains that contains both. Pure. */
void row_change_join(struct row_change *change, const struct row_change *other, bool single_row);
