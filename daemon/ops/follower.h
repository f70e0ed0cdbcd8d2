/* The daemon's reader of the log of changes (origin/feed.h), as long as a keyspace follows it: a
 * reload ends it and begins another, which goes on from where the store says that it is.
 *
 *   follower_open ──> follower_renew … ──> follower_end ──gone──> follower_close
 *
 * On the loop's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/policy.h"
#include "core/pump.h"
#include "ops/own_changes.h"
#include "ops/stores.h"
#include "origin/feed.h"
#include "store/changes.h"

struct follower {
	/* The owner's to fill in; borrowed. */
	uv_loop_t *loop;
	struct pump *pump;
	struct stores *stores;
	const struct config *first;         /* its DSN and prefix, which no reload changes */
	const struct config *const *config; /* the one in force */
	uint64_t seed;
	void (*gone)(void *arg); /* once, later, after follower_end of one that reads */
	void *arg;

	struct feed *feed;           /* NULL: no keyspace follows changes, or it has ended */
	bool ends;                   /* it is being closed */
	bool over;                   /* and no other follows it */
	const struct policy *policy; /* counted: one of those that the feed was opened with */
	bool has_own_changes;        /* where nothing is shared */
	struct own_changes own_changes;
};

/* Begins, if any keyspace follows the log. False: there is too little memory. */
bool follower_open(struct follower *follower) __attribute__((warn_unused_result));

/* Another configuration is in force. What cannot be opened then is logged. */
void follower_renew(struct follower *follower);

/* Gives the right to read back, so that another daemon's may take over at once. */
void follower_end(struct follower *follower);

/* After that. */
void follower_close(struct follower *follower);
