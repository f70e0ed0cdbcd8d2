/* The origin's log of changes, as sql/05_changes.sql and sql/06_feed.sql keep it: what committed
 * transactions have changed, as keys, and how far the fleet has read.
 *
 * Rows of the log are here in the order of their commits, those of their transactions' numbers are
 * any: so it is with open transactions. What a failover loses stays here, as lost, and so does what
 * is trimmed: the judge wants to know.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/change.h"
#include "scene.h"

enum { SNAPSHOT_OPEN_MAX = 64, SNAPSHOT_MAX = 960 };

struct logged {
	uint64_t xid;
	int key;    /* or keyspace, where `whole` */
	bool whole; /* all keys of a keyspace; nothing has really changed */
	int64_t version;
	int64_t begun_us, at_us; /* true time; of its transaction, of its commit */
	uint64_t history;
	int64_t trimmed_us; /* INT64_MAX: it is there */
	bool lost;
	/* For the judge: since when nothing from before it is fresh in the store; INT64_MAX: it is
	   not applied. And when that was done. */
	int64_t applied_us, marked_us;
};

/* segar.fleets at times: a failover goes back. */
struct fleet_row {
	int64_t at_us;
	char history[40], position[SNAPSHOT_MAX];
};

struct fleet;
struct changelog {
	struct fleet *fleet;
	struct logged *rows;        /* owned */
	uint32_t count, first;      /* before that all are trimmed or lost */
	uint32_t *of_key[KEYS_MAX]; /* owned: numbers of its rows */
	uint32_t of_key_count[KEYS_MAX];
	uint64_t xid_last, xid_completed;
	struct fleet_row *fleets; /* owned; the last one counts */
	uint32_t fleets_count;
};

/* What a transaction sees: xmin:xmax:xip,… */
struct snapshot {
	uint64_t xmin, xmax;
	uint64_t xip[SNAPSHOT_OPEN_MAX];
	uint32_t xip_count;
};

void changelog_init(struct changelog *log, struct fleet *fleet);
void changelog_close(struct changelog *log);

uint64_t changelog_begin(struct changelog *log); /* a transaction's number */
void changelog_end(struct changelog *log, uint64_t xid);

/* A row of the database is another; or all of a keyspace are said to be. */
void changelog_add(struct changelog *log, uint64_t xid, int row, int64_t version, int64_t begun_us);
void changelog_add_whole(struct changelog *log, uint64_t xid, int keyspace, int64_t version,
			 int64_t begun_us);

/* All that was committed since then is lost. */
void changelog_promote(struct changelog *log, int64_t since_us);

/* pg_current_snapshot(), as text and back. */
void changelog_snapshot(const struct changelog *log, char ret_text[SNAPSHOT_MAX]);
void snapshot_read(const char *text, struct snapshot *ret_snapshot);
bool snapshot_sees(const struct snapshot *snapshot, uint64_t xid);

/* segar.trim_changes and segar.trimmed. */
void changelog_trim(struct changelog *log, int64_t retention_us);
uint64_t changelog_trimmed_before(const struct changelog *log);

/* segar.fleets: NULL: no such row; and segar.move_fleet. */
const struct fleet_row *changelog_fleet(const struct changelog *log);
bool changelog_move_fleet(struct changelog *log, const char *history, const char *was,
			  const char *now_at);
