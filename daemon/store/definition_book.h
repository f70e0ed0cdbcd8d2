/* Which query each keyspace has: this daemon's, and the fleet's.
 *
 * A keyspace's definition (core/keyspace.h) is told to the store every few seconds, which says
 * which one is the fleet's, and since when (lua/define.lua). So a fleet whose daemons are restarted
 * one by one with a changed query changes over once, and values of the old query are known for what
 * they are. Pure. One owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"

enum {
	DEFINITION_ASKED_LEN = 8 + 8 + 1 + 1, /* definition, spread, flags, length; then the name */
	DEFINITION_TOLD_LEN = 8 + 8 + 8 + 1,  /* definition, since, spread, length; then the name */
	DEFINITION_BOOK_BYTES = KEYSPACES_MAX * (DEFINITION_ASKED_LEN + KEYSPACE_NAME_MAX),
};

struct definition_page {
	char keyspace[KEYSPACE_NAME_MAX + 1];
	uint64_t own;
	int64_t spread_us;
	bool insists;     /* it was changed while the daemon ran: it is to be the fleet's */
	bool kept;        /* since definition_book_begin */
	uint64_t ruling;  /* the fleet's; 0: not known yet */
	int64_t since_us; /* by the store's clock */
};

struct definition_book {
	uint32_t count;
	uint32_t edition; /* grows with each change of what is our own */
	struct definition_page pages[KEYSPACES_MAX];
};

/* What the store has said of a keyspace. */
struct definition_told {
	const char *keyspace; /* borrows the book */
	uint64_t ruling;
	int64_t since_us; /* by the store's clock */
	int64_t spread_us;
	bool is_own;
};

/* Our own definitions from now on are those that are entered between these two; `insists`: those
   that differ from what was entered before were changed on purpose. At most KEYSPACES_MAX. */
void definition_book_begin(struct definition_book *book);
void definition_book_enter(struct definition_book *book, const char *keyspace, uint64_t own,
			   int64_t spread_us, bool insists);
void definition_book_end(struct definition_book *book);

/* Writes them for the script; how many bytes. */
size_t definition_book_write(const struct definition_book *book,
			     char ret_bytes[DEFINITION_BOOK_BYTES]);

/* Reads the next of what the script told from `bytes`; how many bytes that took, or 0: malformed,
   or a keyspace that is none of ours. `ret_is_news`: to be told on. */
size_t definition_book_read(struct definition_book *book, const char *bytes, size_t len,
			    struct definition_told *ret_told, bool *ret_is_news);
