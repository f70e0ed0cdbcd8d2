/* The store as the core sees it: what the fleet shares. Claims, leases, fences, permits, entries.
 *
 * Implemented by store/memory.h (one host, nothing shared), Redis, and the simulator. One operation
 * is one atomic step of the store. Rules for implementations:
 *   - `done` fires exactly once for each submitted operation, never inside submit, also at close;
 *   - an answer that is no answer (store away, out of memory, …) is STORE_AWAY, never "held" and
 *     never "no entry";
 *   - the store returns lengths, never moments: `left_us` counts from the operation's end.
 * Everything happens on the loop's thread.
 *
 * Besides answering, a store tells: struct store_listener. What it tells is never the answer to an
 * operation, and comes on its own turn.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/change.h"
#include "core/entry.h"
#include "core/failure.h"
#include "core/keyspace.h"

/* X(NAME, name, what it does) */
#define STORE_VERB_MAP(X)                                                                          \
	X(LOAD, load, "read the key's entry and claim")                                            \
	X(LEASE, lease, "take the right to build the key, unless there is enough already")         \
	X(RENEW, renew, "lengthen the lease, if it is still ours")                                 \
	X(PERMIT, permit, "take a token of the rate and a slot of the concurrency")                \
	X(FREE, free, "give a slot back: its statement ended")                                     \
	X(SAVE, save, "store the entry and give the lease back, if the lease is still ours")       \
	X(RELEASE, release, "give the lease back, perhaps with a failure to remember")             \
	X(INVALIDATE, invalidate, "end the freshness of the key: a new floor")                     \
	X(EPOCH, epoch, "end the freshness of a keyspace's entries, over a time")

enum store_verb {
#define X(NAME, name, text) STORE_##NAME,
	STORE_VERB_MAP(X)
#undef X
};
enum {
#define X(NAME, name, text) +1
	STORE_VERB_COUNT = 0 STORE_VERB_MAP(X)
#undef X
};
const char *store_verb_name(enum store_verb verb);

enum store_outcome {
	STORE_DONE,    /* as asked: loaded, leased, permitted, saved, … */
	STORE_ENOUGH,  /* LEASE: `entry` satisfies already */
	STORE_FAILED,  /* LEASE: a failure of the key is remembered: `failure` */
	STORE_HELD,    /* LEASE: someone else's, for at most `left_us` */
	STORE_RETRY,   /* PERMIT: nothing free; try again in `left_us`; SAVE of what is given: later
			*/
	STORE_REFUSED, /* SAVE, RENEW: the lease is not ours any more, or what is there is newer */
	STORE_AWAY,    /* the store did not answer */
};

/* What makes an entry enough for those who wait. */
struct want {
	uint64_t fence_after; /* built under a greater fence, if not 0 */
	int64_t min_version;  /* covers this version, if has_min_version */
	bool has_min_version;
	bool fresh; /* fresh now */
};

/* So often may a warm-up start a statement, over the whole fleet, whatever the budget leaves. */
struct pace {
	uint64_t id;         /* whose pace it is */
	int64_t interval_us; /* 0: none */
};

struct store_op;
typedef void (*store_done_cb)(struct store_op *op);

/* One operation, embedded in its owner, which keeps it in place until `done`. */
struct store_op {
	enum store_verb verb;
	struct key key; /* bytes borrowed until done; not for PERMIT and FREE */
	store_done_cb done;

	/* What is asked. */
	uint64_t token; /* LEASE, RENEW, SAVE, RELEASE, PERMIT, FREE: the flight's random number */
	uint64_t known_fence; /* LOAD: the near entry's; an entry of no greater fence comes without
				 its value. LEASE: the new fence is greater than this */
	struct want want;     /* LEASE */
	int64_t length_us;  /* LEASE, RENEW, PERMIT: ends by itself after this; EPOCH: its spread */
	int64_t longest_us; /* RENEW: so long after it was given the lease ends in any case */
	int64_t reach_us;   /* PERMIT: how far ahead it may be booked */
	bool background;    /* PERMIT: what is free now, and at most half of the slots */
	struct pace pace;   /* PERMIT: what it keeps to besides */
	int slot;           /* PERMIT: out; FREE: in */
	uint64_t snapshot;  /* SAVE: xmin of the build's; 0: unknown */
	struct entry entry; /* SAVE: in, value borrowed; LOAD, LEASE: out, value counted */
	struct failure failure; /* RELEASE: in, text borrowed; LOAD, LEASE: out, text counted.
				   LEASE/DONE: only `streak`, of a failure that ended not long
				   ago (about as long as it lasted) */
	bool hard;              /* INVALIDATE: also forbids to serve the old value stale */
	bool given;    /* SAVE: built under an earlier lease, and given back under this one, if all
			  that was told before it has been heard; RETRY: not yet */
	uint64_t beat; /* LOAD: the store's own, out: the number of the last one */
	int64_t heard_us; /* … the moment of the last beat heard: the store's own to fill in */
	bool away; /* LOAD, LEASE, PERMIT: out, the shared store is away and what is left of it
		      answered (store/fallback.h, a daemon's own share); RENEW, SAVE, RELEASE: in,
		      as it was at the lease */

	/* The answer. */
	enum store_outcome outcome;
	bool has_entry;   /* LOAD, LEASE, SAVE/REFUSED: what is there */
	bool has_value;   /* of it: false if LOAD left the value out */
	bool has_claim;   /* LOAD: the store remembers something of the key */
	bool is_whole;    /* LOAD: the store has lost nothing since the last beat that was heard */
	bool has_failure; /* LOAD: `failure` is remembered and still holds */
	uint64_t fence;   /* LOAD: the claim's; LEASE: the new one; INVALIDATE: the new floor */
	uint64_t floor; /* LOAD, LEASE, RENEW, SAVE: the claim's; a build of no greater fence is not
			   known to be after the last change. 0: none */
	int64_t lease_age_us; /* LOAD: for how long the lease has been held, for people: a store
				 that is one daemon's own does not tell it … */
	int holder;           /* … nor whose it is: the place of that daemon; -1: not known */
	int64_t moment_us;    /* EPOCH: when it began, by the fleet clock */
	int64_t left_us; /* LOAD: a lease is held so long, 0: none; LEASE/HELD, PERMIT/RETRY: see
			    there; PERMIT/DONE: start in this long */

	int64_t sent_at_us; /* the pump's: when it was submitted */

	/* Of a store that passes the operation on (store/fallback.h). */
	store_done_cb route_done;
	void *route;

	/* The implementation's own. */
	struct list_node node;
	void *work;
};

/* What a store tells by itself. Each may come at any time, also for keys that nobody here knows. */
struct store_listener {
	void *impl;

	/* Another's lease of the key ended, or a newer entry was stored: whoever waits looks again.
	 */
	void (*settled)(void *impl, const char *key, size_t len, uint64_t fence);

	/* The key changed or was invalidated: what was built under a fence of at most `floor` is
	   not fresh any more; `hard`: nor may it be served stale. */
	void (*changed)(void *impl, const char *key, size_t len, uint64_t floor, bool hard);

	/* The same for a change of a row that the key is built from, told by the origin's log. */
	void (*row_changed)(void *impl, const char *key, size_t len,
			    const struct row_change *change);

	/* The keyspace has an epoch: core/epoch.h. */
	void (*epoch)(void *impl, const char *keyspace, size_t len, int64_t moment_us,
		      int64_t spread_us);

	/* The fleet's definition of the keyspace is this one, since that moment; what was built
	   before by another goes over that spread (core/keyspace.h). */
	void (*defined)(void *impl, const char *keyspace, size_t len, uint64_t definition,
			int64_t moment_us, int64_t spread_us);

	/* The store has lost what it had, such as by a flush; no change has gone untold. */
	void (*emptied)(void *impl);

	/* Until this moment no change can have gone untold; in the past: trust is lost. */
	void (*trusted)(void *impl, int64_t until_us);
};

struct store {
	void *impl;

	/* Starts the operation; never fails: trouble is an outcome. */
	void (*submit)(void *impl, struct store_op *op);
};
