#include "database.h"

#include <stdlib.h>

#include "base/check.h"
#include "fleet.h"

enum { OPEN_MAX = SNAPSHOT_OPEN_MAX };

struct transaction {
	struct timer end;
	struct database *database;
	int row;
	struct commit commit;
	bool rolls_back;
	bool is_over; /* with its server */
	uint64_t xid;
	int64_t begun_us;
};

static void row_commit(struct row *row, const struct commit *commit)
{
	if (row->count == row->room) {
		row->room = row->room ? 2 * row->room : 1;
		row->commits = realloc(row->commits, row->room * sizeof(*commit));
		CHECK(row->commits);
	}
	row->commits[row->count++] = *commit;
}

static const struct commit *row_at(const struct row *row, int64_t at_us)
{
	for (uint32_t i = row->count; i-- > 0;)
		if (row->commits[i].at_us <= at_us)
			return &row->commits[i];
	check_failed("row", __FILE__, __LINE__, "no row has no beginning");
}

/* ---- transactions ------------------------------------------------------------------------ */

/* It is committed: so the log says, and the bell rings. */
static void log_change(struct database *database, const struct transaction *transaction)
{
	const struct scene *scene = &database->fleet->scene;
	struct changelog *log = &database->log;
	if (!scene->follows)
		return;
	changelog_add(log, transaction->xid, transaction->row, transaction->commit.version,
		      transaction->begun_us);
	if (draw_chance(&database->bells, scene->whole_changes))
		changelog_add_whole(log, transaction->xid,
				    (int)scene->keys[transaction->row].keyspace,
				    ++database->sequence, transaction->begun_us);
	for (int i = 0; i < scene->nodes; i++)
		if (!draw_chance(&database->bells, scene->bells_lost))
			feed_ring(&database->fleet->nodes[i]);
}

static void on_end(struct timer *timer)
{
	struct transaction *transaction = container_of(timer, struct transaction, end);
	struct database *database = transaction->database;
	struct row *row = &database->rows[transaction->row];
	row->writer = NULL;
	database->open--;
	transaction->commit.at_us = database->fleet->vtime.now_us;
	if (!transaction->is_over)
		changelog_end(&database->log, transaction->xid);
	if (!transaction->rolls_back) {
		row_commit(row, &transaction->commit);
		log_change(database, transaction);
		trace(database->fleet, "ev=commit row=%d version=%" PRId64 " exists=%d",
		      transaction->row, transaction->commit.version, transaction->commit.exists);
		crowd_on_commit(&database->fleet->crowd, transaction->row,
				transaction->commit.version);
	}
	free(transaction);
}

static void begin(struct database *database, int number)
{
	struct row *row = &database->rows[number];
	bool exists = row->commits[row->count - 1].exists;
	struct transaction *transaction = calloc(1, sizeof(*transaction));
	CHECK(transaction);
	*transaction = (struct transaction){
		.database = database,
		.row = number,
		.commit = { .version = ++database->sequence,
			    .exists = !exists || !draw_chance(&database->rng, 0.1) },
		.rolls_back = draw_chance(&database->rng, 0.1),
		.xid = changelog_begin(&database->log),
		.begun_us = database->fleet->vtime.now_us,
	};
	row->writer = transaction;
	database->open++;
	double mean =
		draw_chance(&database->rng, 0.1) ? database->fleet->scene.open_mean_us : 10 * MS;
	vtime_set(&database->fleet->vtime, &transaction->end,
		  database->fleet->vtime.now_us + draw_exponential(&database->rng, mean), on_end);
}

static void on_next(struct timer *timer)
{
	struct database *database = container_of(timer, struct database, next);
	const struct scene *scene = &database->fleet->scene;
	/* The hot key's rows change more than others. */
	int row = draw_chance(&database->rng, 0.2)
			  ? HOT_KEY
			  : (int)rng_between(&database->rng, 0, scene->keys_count - 1);
	if (!database->rows[row].writer && database->open < OPEN_MAX)
		begin(database, row);
	int64_t now_us = database->fleet->vtime.now_us;
	if (now_us < scene->length_us)
		vtime_set(&database->fleet->vtime, &database->next,
			  now_us + draw_exponential(&database->rng, 1e6 / scene->commits_per_s),
			  on_next);
}

/* ---- reading ----------------------------------------------------------------------------- */

struct reading database_read(const struct database *database, int key, int64_t at_us)
{
	const struct scene *scene = &database->fleet->scene;
	int keyspace = (int)scene->keys[key].keyspace, first = keyspace * (int)scene->keys_each;
	int rows = keyspace == KEYSPACE_SUM ? ROWS_OF_SUM : 1;
	struct reading reading = { 0 };
	for (int i = 0; i < rows; i++) {
		int row = first + (key - first + i) % (int)scene->keys_each;
		const struct commit *commit = row_at(&database->rows[row], at_us);
		if (!commit->exists)
			continue;
		reading.exists = reading.has_version = true;
		if (commit->version > reading.version)
			reading.version = commit->version;
	}
	return reading;
}

int64_t database_committed_at(const struct database *database, int row, int64_t version)
{
	const struct row *its = &database->rows[row];
	for (uint32_t i = its->count; i-- > 0;)
		if (its->commits[i].version == version)
			return its->commits[i].at_us;
	return INT64_MAX;
}

uint32_t database_open_before(const struct database *database, uint64_t xid,
			      uint64_t ret_xids[SNAPSHOT_OPEN_MAX])
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < database->fleet->scene.keys_count; i++) {
		const struct transaction *writer = database->rows[i].writer;
		if (writer && !writer->is_over && writer->xid < xid)
			ret_xids[count++] = writer->xid;
	}
	return count;
}

/* ---- standbys ---------------------------------------------------------------------------- */

int64_t database_position(const struct database *database, int64_t at_us)
{
	for (uint32_t i = database->lags_count; i-- > 0;) {
		const struct lag *lag = &database->lags[i];
		if (at_us >= lag->from_us && at_us < lag->to_us)
			return lag->from_us;
	}
	return at_us;
}

uint64_t database_history(const struct database *database)
{
	return history_of(FLEET_EPOCH_US, database->timeline);
}

void database_lag(struct database *database)
{
	CHECK(database->lags_count < LAGS_MAX);
	database->lags[database->lags_count++] =
		(struct lag){ database->fleet->vtime.now_us, INT64_MAX };
}

void database_catch_up(struct database *database)
{
	database->lags[database->lags_count - 1].to_us = database->fleet->vtime.now_us;
}

void database_promote(struct database *database, int64_t since_us)
{
	database->sequence = 0;
	for (uint32_t i = 0; i < database->fleet->scene.keys_count; i++) {
		struct row *row = &database->rows[i];
		while (row->commits[row->count - 1].at_us > since_us)
			row->count--;
		if (row->writer)
			row->writer->rolls_back = row->writer->is_over = true;
		if (database->sequence < row->commits[row->count - 1].version)
			database->sequence = row->commits[row->count - 1].version;
	}
	changelog_promote(&database->log, since_us);
	judge_on_promoted(&database->fleet->judge, since_us);
	database->timeline++;
	database->promoted_us = database->fleet->vtime.now_us;
	trace(database->fleet, "ev=promoted timeline=%u lost_since=%.6f", database->timeline,
	      (double)since_us / SECOND);
}

/* ---- life -------------------------------------------------------------------------------- */

void database_init(struct database *database, struct fleet *fleet)
{
	*database =
		(struct database){ .fleet = fleet, .timeline = 1, .promoted_us = INT64_MIN / 2 };
	scene_stream(&fleet->scene, STREAM_COMMITS, 0, &database->rng);
	scene_stream(&fleet->scene, STREAM_FEED, 1, &database->bells);
	changelog_init(&database->log, fleet);
	for (uint32_t i = 0; i < fleet->scene.keys_count; i++)
		row_commit(&database->rows[i],
			   &(struct commit){ .at_us = INT64_MIN,
					     .version = ++database->sequence,
					     .exists = !draw_chance(&database->rng, 0.1) });
	if (fleet->scene.commits_per_s > 0)
		vtime_set(&fleet->vtime, &database->next, 0, on_next);
}

void database_close(struct database *database)
{
	changelog_close(&database->log);
	for (int i = 0; i < KEYS_MAX; i++) {
		free(database->rows[i].commits);
		free(database->rows[i].writer);
	}
}
