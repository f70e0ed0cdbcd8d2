#include "changelog.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "fleet.h"

static int64_t now_us(const struct changelog *log)
{
	return log->fleet->vtime.now_us;
}

/* ---- transactions ------------------------------------------------------------------------- */

uint64_t changelog_begin(struct changelog *log)
{
	return ++log->xid_last;
}

void changelog_end(struct changelog *log, uint64_t xid)
{
	if (log->xid_completed < xid && xid <= log->xid_last)
		log->xid_completed = xid;
}

static void add(struct changelog *log, const struct logged *row)
{
	uint32_t number = log->count;
	log->rows = judge_grow(log->rows, log->count, sizeof(*log->rows));
	log->rows[log->count++] = *row;
	if (row->whole)
		return;
	uint32_t *count = &log->of_key_count[row->key];
	log->of_key[row->key] = judge_grow(log->of_key[row->key], *count, sizeof(number));
	log->of_key[row->key][(*count)++] = number;
}

static struct logged logged_of(const struct changelog *log, uint64_t xid, int64_t version,
			       int64_t begun_us)
{
	return (struct logged){ .xid = xid,
				.version = version,
				.begun_us = begun_us,
				.at_us = now_us(log),
				.history = database_history(&log->fleet->database),
				.trimmed_us = INT64_MAX,
				.applied_us = INT64_MAX };
}

void changelog_add(struct changelog *log, uint64_t xid, int row, int64_t version, int64_t begun_us)
{
	const struct scene *scene = &log->fleet->scene;
	int keyspace = (int)scene->keys[row].keyspace, each = (int)scene->keys_each;
	int first = keyspace * each;
	int keys = keyspace == KEYSPACE_SUM ? ROWS_OF_SUM : 1;
	struct logged logged = logged_of(log, xid, version, begun_us);
	for (int i = 0; i < keys; i++) {
		logged.key = first + (row - first - i + each) % each; /* as database_read has it */
		add(log, &logged);
	}
}

void changelog_add_whole(struct changelog *log, uint64_t xid, int keyspace, int64_t version,
			 int64_t begun_us)
{
	struct logged logged = logged_of(log, xid, version, begun_us);
	logged.key = keyspace;
	logged.whole = true;
	add(log, &logged);
}

/* Numbers of transactions come again. */
void changelog_promote(struct changelog *log, int64_t since_us)
{
	log->first = 0;
	log->xid_last = 0;
	for (uint32_t i = 0; i < log->count; i++) {
		struct logged *row = &log->rows[i];
		row->lost |= row->at_us > since_us;
		if (row->trimmed_us > since_us)
			row->trimmed_us = INT64_MAX;
		if (!row->lost && log->xid_last < row->xid)
			log->xid_last = row->xid;
	}
	log->xid_completed = log->xid_last;
	while (log->fleets_count > 0 && log->fleets[log->fleets_count - 1].at_us > since_us)
		log->fleets_count--;
}

/* ---- snapshots ---------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
	return left < right ? -1 : left > right;
}

void changelog_snapshot(const struct changelog *log, char ret_text[SNAPSHOT_MAX])
{
	uint64_t open[SNAPSHOT_OPEN_MAX], xmax = log->xid_completed + 1;
	uint32_t count = database_open_before(&log->fleet->database, xmax, open);
	qsort(open, count, sizeof(*open), by_number);
	int len = snprintf(ret_text, SNAPSHOT_MAX, "%" PRIu64 ":%" PRIu64 ":",
			   count > 0 ? open[0] : xmax, xmax);
	for (uint32_t i = 0; i < count; i++)
		len += snprintf(ret_text + len, SNAPSHOT_MAX - (size_t)len, "%s%" PRIu64,
				i > 0 ? "," : "", open[i]);
	CHECK(len < SNAPSHOT_MAX);
}

void snapshot_read(const char *text, struct snapshot *ret_snapshot)
{
	char *end;
	*ret_snapshot = (struct snapshot){ .xmin = strtoull(text, &end, 10) };
	CHECK(*end == ':');
	ret_snapshot->xmax = strtoull(end + 1, &end, 10);
	CHECK(*end == ':');
	while (*end != '\0' && end[1] != '\0') {
		CHECK(ret_snapshot->xip_count < SNAPSHOT_OPEN_MAX);
		ret_snapshot->xip[ret_snapshot->xip_count++] = strtoull(end + 1, &end, 10);
	}
}

bool snapshot_sees(const struct snapshot *snapshot, uint64_t xid)
{
	for (uint32_t i = 0; i < snapshot->xip_count; i++)
		if (snapshot->xip[i] == xid)
			return false;
	return xid < snapshot->xmax;
}

/* ---- trimming ----------------------------------------------------------------------------- */

void changelog_trim(struct changelog *log, int64_t retention_us)
{
	struct snapshot present, read;
	char text[SNAPSHOT_MAX];
	const struct fleet_row *fleet = changelog_fleet(log);
	changelog_snapshot(log, text);
	snapshot_read(text, &present);
	uint64_t horizon = present.xmin;
	if (fleet) {
		snapshot_read(fleet->position, &read);
		horizon = read.xmin < horizon ? read.xmin : horizon;
	}
	for (uint32_t i = log->first; i < log->count; i++)
		if (log->rows[i].xid < horizon && !log->rows[i].lost &&
		    log->rows[i].begun_us < now_us(log) - retention_us &&
		    log->rows[i].trimmed_us == INT64_MAX)
			log->rows[i].trimmed_us = now_us(log);
	while (log->first < log->count &&
	       (log->rows[log->first].lost || log->rows[log->first].trimmed_us != INT64_MAX))
		log->first++;
}

uint64_t changelog_trimmed_before(const struct changelog *log)
{
	uint64_t before = 0;
	for (uint32_t i = 0; i < log->count; i++)
		if (log->rows[i].trimmed_us != INT64_MAX && before <= log->rows[i].xid)
			before = log->rows[i].xid + 1;
	return before;
}

/* ---- how far the fleet has read ------------------------------------------------------------ */

const struct fleet_row *changelog_fleet(const struct changelog *log)
{
	return log->fleets_count > 0 ? &log->fleets[log->fleets_count - 1] : NULL;
}

bool changelog_move_fleet(struct changelog *log, const char *history, const char *was,
			  const char *now_at)
{
	const struct fleet_row *before = changelog_fleet(log);
	if (was ? !before || strcmp(before->position, was) != 0 : before != NULL)
		return false;
	log->fleets = judge_grow(log->fleets, log->fleets_count, sizeof(*log->fleets));
	struct fleet_row *row = &log->fleets[log->fleets_count++];
	row->at_us = now_us(log);
	CHECK(strlen(history) < sizeof(row->history) && strlen(now_at) < sizeof(row->position));
	strcpy(row->history, history);
	strcpy(row->position, now_at);
	return true;
}

/* ---- life --------------------------------------------------------------------------------- */

void changelog_init(struct changelog *log, struct fleet *fleet)
{
	*log = (struct changelog){ .fleet = fleet, .xid_last = 700, .xid_completed = 700 };
}

void changelog_close(struct changelog *log)
{
	for (int i = 0; i < KEYS_MAX; i++)
		free(log->of_key[i]);
	free(log->rows);
	free(log->fleets);
}
