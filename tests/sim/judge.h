/* The judge: knows what really happened, and checks the promises of the design after each step.
 *
 * It keeps the true history in true time: each build with what it read, each entry that was in the
 * store, each floor. Daemons are held to it by what they tell clients and do to the origin, not by
 * what they believe. Where a promise has an exception the judge demands its cause: a build too many
 * needs a lease that was lost, which needs a trouble that can lose one.
 *
 *   judge.c          what he knows, the end
 *   judge_store.c    what the store does
 *   judge_origin.c   what the origin is asked
 *   judge_feed.c     the log of changes
 *   judge_replies.c  what clients are told
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/pump.h"
#include "database.h"
#include "scene.h"

struct node;
struct call;

/* One build, from the daemon's order on. */
struct build_record {
	int key, node;
	uint64_t life, token, fence;
	bool away;
	int64_t leased_us, began_us, ran_us, ended_us; /* true time; 0: not yet */
	int64_t read_us; /* what it read was the database's state then */
	uint64_t history;
	int64_t error_us; /* how wrong that clock was */
	bool over;
	bool unsettled; /* its daemon's clock was: see node.h */
	enum build_outcome outcome;
	struct reading read;
};

/* An entry that was in the store. */
struct saved {
	int64_t at_us;
	uint32_t build;
	bool lost; /* with a failover: it counts as never stored */
};

/* Of a row's change that the log told, `from_us` is when it was committed: what was read before is
   from before it. Else it is when the key was invalidated, and counts from there. */
struct change {
	int64_t at_us, from_us;
	uint64_t floor, history;
	bool hard, lost, row;
};

struct lease {
	uint64_t token;
	int node;
	int64_t at_us;
	bool settled, built, lost;
	/* It may lapse: a message of it went astray or came late, its holder was killed or paused,
	   or the store stood still. */
	bool hindered;
};

/* A keyspace's epoch, and since when the store has had it without a break; INT64_MAX: it lost it.
 */
struct epoch_record {
	int keyspace;
	struct epoch epoch; /* by the store's clock */
	int64_t at_us, kept_since_us;
};

struct key_history {
	struct saved *saves;
	struct change *changes;
	struct lease *leases;
	uint32_t *builds; /* numbers */
	uint64_t *astray; /* a hash set of the tokens of flights that the store was away for */
	uint32_t saves_count, changes_count, leases_count, builds_count, astray_count, astray_room;
};

struct judge {
	struct fleet *fleet;
	struct key_history keys[KEYS_MAX];
	struct build_record *builds; /* owned; number 0 is none */
	uint32_t builds_count;
	struct epoch_record *epochs; /* owned */
	uint32_t epochs_count;

	int64_t *starts; /* owned; of statements at the server, true time */
	uint32_t starts_count;
	uint64_t batches; /* of these, those for several keys */
	int running;      /* statements that hold a slot */
	int running_most;

	uint32_t unapplied;            /* of the log: before it all is applied, or need not be */
	int64_t expired_us[KEYSPACES]; /* since then all is gone that the last expiry of all ends */

	bool jumped;          /* the store's clock has, and it has no new era yet */
	int64_t era_error_us; /* what daemons' measures of jumps were wrong by, at most */

	/* Troubles that last now, and when one last began or ended, true time. */
	int store_troubles, origin_troubles;
	int64_t store_trouble_us, origin_trouble_us;

	uint64_t digest; /* of all that was told and built: two equal runs have the same */
	uint64_t replies, errors;
};

enum {
	START_US = 3 * SECOND,    /* a cold fleet's first permits come late */
	HEALING_US = 12 * SECOND, /* what troubles leave behind has lapsed so long after the last */
	LATE_US = 5 * MS,         /* of an answer: turns of the loop */
	CLOCKS_US = 10 * MS, /* clocks that are slewed may go wrong by so much in an entry's life */
	FOLLOWED_US = 3 * SECOND, /* a change is applied so soon */
	CAUSE_US = 8 * SECOND,    /* what a trouble leaves behind shows no later after it */
};

void judge_init(struct judge *judge, struct fleet *fleet);
void judge_close(struct judge *judge);

/* The origin. The number of the new record. */
uint32_t judge_on_build(struct judge *judge, struct node *node, int key, const struct build *build);
const struct build_record *judge_record(const struct judge *judge, uint32_t number);
/* A statement has arrived, of so many keys; so many of them got their locks. */
void judge_on_statement(struct judge *judge, uint32_t keys, uint32_t free);
void judge_on_read(struct judge *judge, uint32_t record, const struct reading *read);
void judge_on_statement_end(struct judge *judge);
void judge_on_built(struct judge *judge, uint32_t record, enum build_outcome outcome);

/* The store. `key` -1: all keys. */
struct caller;
void judge_on_leased(struct judge *judge, int key, const struct caller *caller,
		     const struct store_op *op);
/* The store is away for a daemon's operation; the origin was lost to one. */
void judge_on_away(struct node *node, const struct store_op *op);
void judge_on_origin_lost(struct node *node);
/* An operation of that flight has come to nothing, or took long. */
void judge_on_astray(struct judge *judge, int key, uint64_t token);
/* The daemon is killed or paused; -1: the store stood still, for all. */
void judge_on_hindered(struct judge *judge, int node);
/* A daemon asks for a lease or a permit. */
void judge_on_asked(struct judge *judge, struct node *node, const struct store_op *op);
void judge_on_settled(struct judge *judge, int key, uint64_t token);
void judge_on_given(struct judge *judge, int key, int node, const struct entry *entry);
void judge_on_saved(struct judge *judge, int key, const struct entry *entry);
void judge_on_changed(struct judge *judge, int key, uint64_t floor, bool hard);
void judge_on_row_changed(struct judge *judge, int key, uint64_t floor, bool hard, int64_t version);
/* What was committed since then is lost by the origin. */
void judge_on_promoted(struct judge *judge, int64_t since_us);
void judge_on_forgotten(struct judge *judge, int key);
void judge_on_epoch(struct judge *judge, int keyspace, const struct epoch *epoch);
/* Its clock has jumped; a daemon sees that, by so much; it has a new era. */
void judge_on_jump(struct judge *judge);
void judge_on_seen_jump(struct judge *judge, int64_t jump_us);
void judge_on_era(struct judge *judge, int64_t jump_us);
/* The store's epochs are others now. */
void judge_on_epochs_kept(struct judge *judge);
/* A failover went back to what the store was at that moment. */
void judge_on_rolled_back(struct judge *judge, int64_t to_us);

/* Changes of the log were applied, and perhaps the position has moved with them. */
void judge_on_applied(struct judge *judge, const struct change_call *call);
/* The store has forgotten what was applied since then. */
void judge_on_unapplied(struct judge *judge, int64_t since_us);
/* In calm each change is applied in time; at rest what is stored says so. */
void judge_check_log(struct judge *judge);
void judge_check_stored(const struct judge *judge);

/* What clients are told. */
void judge_on_reply(struct judge *judge, struct call *call, const struct answer *answer);
void judge_on_hit(struct judge *judge, struct node *node, const struct query *query,
		  const struct answer *answer, int64_t at_us, int64_t clock_us);

/* The end: everything is at rest. */
void judge_on_rest(struct judge *judge);

/* No trouble in this scene, or the last is long over: nothing excuses anything. */
bool judge_is_calm(const struct judge *judge);

/* Whether there was trouble since then: with the store or the way to it, the origin, a daemon. */
bool judge_store_troubled(const struct judge *judge, int64_t since_us);
bool judge_origin_troubled(const struct judge *judge, int64_t since_us);
bool judge_node_troubled(const struct judge *judge, int node, int64_t since_us);

/* Why the daemon may say "unavailable" of the key: it stops, the store did not answer this flight
   of it, the origin was lost to it, or is being probed. */
bool judge_was_away(const struct node *node, int key);
bool judge_was_lost(const struct node *node, int key);

/* Between the files. */
void *judge_grow(void *array, uint32_t count, size_t size);
bool judge_is_early(const struct judge *judge, const struct node *node, int key,
		    const struct entry *entry, uint64_t newer_than, int64_t now_us);
bool judge_is_demanded(struct node *node, int key, const struct store_op *op);
bool judge_knew_better(const struct judge *judge, int key, uint64_t newer_than,
		       const struct entry *entry);
bool judge_is_astray(const struct key_history *history, uint64_t token);
struct lease *judge_lease_of(struct key_history *history, uint64_t token);

void judge_mix(struct judge *judge, uint64_t number);

/* Says what is wrong, and when, and ends the run. */
_Noreturn void judge_fail(const struct judge *judge, const char *promise, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
