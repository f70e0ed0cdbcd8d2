/* The keyspaces there are: those of the configuration in force, and those that have left it but are
 * still in use.
 *
 *   configured ──> serving <──> removed ──(no users)──> gone
 *
 * A keyspace keeps its name and its place (`index`) as long as it is in use, whatever becomes of
 * its policy, and so one that comes back is the one that was there. One owner.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"
#include "base/list.h"
#include "core/keyspace.h"

/* What became of a reload. But for OK nothing has changed. */
enum reload_outcome {
	RELOAD_OK,
	RELOAD_NO_MEMORY,
	RELOAD_NO_PLACE, /* too many removed keyspaces are still in use */
	RELOAD_NEAR,     /* the near cache cannot become so small */
};

/* As many again may have left and be in use. */
enum { ROSTER_MAX = 2 * KEYSPACES_MAX };

struct roster {
	struct keyspace *at[ROSTER_MAX];       /* owned; by index; NULL: free */
	uint32_t end;                          /* none at or beyond this */
	struct keyspace *names[KEYSPACES_MAX]; /* by their names' hash, chained */
	struct list removed;                   /* of struct keyspace */
};

void roster_init(struct roster *roster);

/* Nobody may use them any more. */
void roster_close(struct roster *roster);

/* Makes the policies those that are served (core/engine.h: engine_reload). */
enum reload_outcome roster_reload(struct roster *roster, const struct policy *policies,
				  uint32_t count, int64_t now_us)
	__attribute__((warn_unused_result));

/* The keyspace of that name that is served, or NULL. */
struct keyspace *roster_find(const struct roster *roster, const char *name, size_t len);

/* The same, removed ones included: what others tell concerns those as well, as long as they have
   entries. */
struct keyspace *roster_find_any(const struct roster *roster, const char *name, size_t len);

/* The first that is served at `*at` or later, or NULL; `*at` goes behind it. */
struct keyspace *roster_next(const struct roster *roster, uint32_t *at);

/* The same, removed ones included. */
struct keyspace *roster_next_any(const struct roster *roster, uint32_t *at);

/* Whether a removed one has no users any more. */
bool roster_has_gone(const struct roster *roster);

/* Frees one of these: its index, or -1. */
int roster_collect(struct roster *roster);
