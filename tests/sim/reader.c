#include "reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "fleet.h"
#include "loop.h"
#include "origin/feed_rows.h"
#include "origin/guard.h"

enum {
	WAY_MOST_US = 4 * MS,
	CONNECT_MOST_US = 20 * MS,
	HANG_MOST_US = 4 * SECOND,
	COLUMNS_MAX = FEED_ROW_COLUMNS,
};

static struct reader *reader_of(const struct feed_link *link)
{
	return &((struct node *)link->loop->data)->reader;
}

static struct fleet *fleet_of(const struct reader *reader)
{
	return reader->node->fleet;
}

/* ---- results ------------------------------------------------------------------------------ */

static PGresult *table(int columns)
{
	PGresAttDesc descriptions[COLUMNS_MAX];
	PGresult *result = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
	memset(descriptions, 0, sizeof(descriptions));
	for (int i = 0; i < columns; i++)
		descriptions[i].name = (char *)"?";
	CHECK(result && columns <= COLUMNS_MAX);
	CHECK(PQsetResultAttrs(result, columns, descriptions));
	return result;
}

static void put(PGresult *result, int row, int column, const char *text)
{
	int len = text ? (int)strlen(text) : -1;
	CHECK(PQsetvalue(result, row, column, (char *)text, len));
}

static void put_number(PGresult *result, int row, int column, int64_t number)
{
	char text[24];
	snprintf(text, sizeof(text), "%" PRId64, number);
	put(result, row, column, text);
}

/* ---- at the server ------------------------------------------------------------------------ */

/* Whether the keyspace of the key is among {a,b,…}. */
static bool is_listed(const char *list, const char *name)
{
	size_t len = strlen(name);
	for (const char *at = list; (at = strstr(at, name)); at += len)
		if ((at[-1] == '{' || at[-1] == ',') && (at[len] == '}' || at[len] == ','))
			return true;
	return false;
}

static PGresult *tell_history(const struct fleet *fleet)
{
	PGresult *result = table(2);
	put_number(result, 0, 0, FLEET_EPOCH_US);
	put_number(result, 0, 1, (int64_t)fleet->database.timeline);
	return result;
}

/* No pooler is between: it is the one that its connection says. */
static PGresult *tell_backend(void)
{
	PGresult *result = table(1);
	put_number(result, 0, 0, 0);
	return result;
}

static PGresult *tell_snapshot(const struct changelog *log)
{
	char snapshot[SNAPSHOT_MAX];
	PGresult *result = table(1);
	changelog_snapshot(log, snapshot);
	put(result, 0, 0, snapshot);
	return result;
}

static PGresult *tell_position(const struct changelog *log)
{
	const struct fleet_row *fleet = changelog_fleet(log);
	char snapshot[SNAPSHOT_MAX];
	PGresult *result = table(4);
	changelog_snapshot(log, snapshot);
	put(result, 0, 0, snapshot);
	put_number(result, 0, 1, (int64_t)changelog_trimmed_before(log));
	put(result, 0, 2, fleet ? fleet->position : NULL);
	put(result, 0, 3, fleet ? fleet->history : NULL);
	return result;
}

/* A key's changes, as one. */
struct group {
	const struct logged *any;
	int64_t version, count, begun_us;
};

static void add_to_group(struct group *group, const struct logged *row)
{
	if (!group->any || group->begun_us > row->begun_us)
		group->begun_us = row->begun_us;
	if (!group->any || group->version < row->version)
		group->version = row->version;
	group->any = row;
	group->count++;
}

/* What is there and was not seen in the snapshot, by key. */
static PGresult *read_log(const struct fleet *fleet, const char *since, const char *keyspaces)
{
	const struct changelog *log = &fleet->database.log;
	const struct scene *scene = &fleet->scene;
	struct group groups[KEYS_MAX + KEYSPACES] = { 0 };
	struct snapshot snapshot;
	PGresult *result = table(FEED_ROW_COLUMNS);
	int rows = 0;
	snapshot_read(since, &snapshot);
	for (uint32_t i = log->first; i < log->count; i++) {
		const struct logged *row = &log->rows[i];
		if (!row->lost && row->trimmed_us == INT64_MAX &&
		    !snapshot_sees(&snapshot, row->xid))
			add_to_group(&groups[row->whole ? KEYS_MAX + row->key : row->key], row);
	}
	for (int i = 0; i < KEYS_MAX + KEYSPACES; i++) {
		const struct group *group = &groups[i];
		int keyspace = i >= KEYS_MAX ? i - KEYS_MAX : (int)scene->keys[i].keyspace;
		const char *name = scene->policies[keyspace].name;
		if (!group->any || !is_listed(keyspaces, name))
			continue;
		put(result, rows, FEED_ROW_KEY, i >= KEYS_MAX ? name : scene->keys[i].bytes);
		put_number(result, rows, FEED_ROW_VERSION, group->version);
		put_number(result, rows, FEED_ROW_COUNT, group->count);
		put(result, rows, FEED_ROW_WHOLE, i >= KEYS_MAX ? "t" : "f");
		put_number(result, rows, FEED_ROW_AGE_MS,
			   (fleet->vtime.now_us - group->begun_us) / 1000);
		rows++;
	}
	CHECK(rows < FEED_ROWS_FETCHED);
	return result;
}

static PGresult *move_fleet(struct changelog *log, const struct feed_statement *statement)
{
	PGresult *result = table(1);
	bool moved = changelog_move_fleet(log, statement->params[1], statement->params[2],
					  statement->params[3]);
	put(result, 0, 0, moved ? "t" : "f");
	return result;
}

static bool begins(const struct feed_statement *statement, const char *with)
{
	return strncmp(statement->sql, with, strlen(with)) == 0;
}

/* `rows`: of the cursor that is declared, up to its fetch. */
static PGresult *execute(struct reader *reader, const struct feed_statement *statement,
			 PGresult **rows)
{
	struct fleet *fleet = fleet_of(reader);
	struct changelog *log = &fleet->database.log;
	PGresult *result;
	if (begins(statement, "LISTEN"))
		reader->listens = true;
	if (begins(statement, "SELECT pg_backend_pid()")) {
		result = table(1);
		put_number(result, 0, 0, 0); /* that of no connection, which is what a reader has */
		return result;
	}
	if (statement->sql == GUARD_HISTORY_SQL)
		return tell_history(fleet);
	if (begins(statement, "SELECT pg_backend_pid()"))
		return tell_backend();
	if (begins(statement, "SELECT pg_current_snapshot()::text, (SELECT before_xid"))
		return tell_position(log);
	if (begins(statement, "SELECT pg_current_snapshot()::text"))
		return tell_snapshot(log);
	if (begins(statement, "SELECT segar.move_fleet"))
		return move_fleet(log, statement);
	if (begins(statement, "DECLARE"))
		*rows = read_log(fleet, statement->params[0], statement->params[1]);
	if (begins(statement, "FETCH")) {
		result = *rows ? *rows : table(FEED_ROW_COLUMNS);
		*rows = NULL;
		return result;
	}
	if (begins(statement, "SELECT segar.trim_changes")) {
		changelog_trim(log, fleet->scene.retention_us);
		return table(1);
	}
	CHECK_MSG(begins(statement, "SET ") || begins(statement, "LISTEN") ||
			  begins(statement, "BEGIN ") || begins(statement, "COMMIT") ||
			  begins(statement, "DECLARE"),
		  "what is this? %s", statement->sql);
	return PQmakeEmptyPGresult(NULL, PGRES_COMMAND_OK);
}

/* ---- the connection ------------------------------------------------------------------------ */

static void forget_turn(struct reader *reader)
{
	for (unsigned i = 0; i < reader->count; i++) {
		for (int p = 0; p < reader->statements[i].params_count; p++)
			free((char *)reader->statements[i].params[p]);
		PQclear(reader->results[i]);
		reader->results[i] = NULL;
	}
	reader->count = 0;
}

void feed_link_init(struct feed_link *link, uv_loop_t *loop, const struct feed_link_events *events)
{
	*link = (struct feed_link){ .loop = loop, .events = events };
	reader_of(link)->link = link;
}

void feed_link_close(struct feed_link *link)
{
	struct reader *reader = reader_of(link);
	node_cancel(&reader->next);
	node_cancel(&reader->bell);
	forget_turn(reader);
	reader->listens = reader->rang = reader->breaks = false;
	link->state = FEED_LINK_CLOSED;
}

static void lose(struct feed_link *link)
{
	struct trouble trouble;
	feed_link_close(link);
	trouble_set(&trouble, BUILD_LOST, STATUS_UNAVAILABLE, "connection lost");
	link->events->lost(link, &trouble);
}

static void set_next(struct reader *reader, int64_t in_us, void (*run)(struct errand *errand))
{
	node_at(reader->node, &reader->next, fleet_of(reader)->vtime.now_us + in_us, run, NULL);
}

static int64_t draw_way(struct reader *reader, int64_t most_us)
{
	struct server *server = &fleet_of(reader)->server;
	int64_t way_us = rng_between(&server->feeds, 100, most_us);
	if (draw_chance(&server->feeds, server->hangs))
		way_us += rng_between(&server->feeds, 0, HANG_MOST_US);
	return way_us;
}

static void on_connected(struct errand *errand)
{
	struct reader *reader = container_of(errand, struct reader, next);
	struct feed_link *link = reader->link;
	if (reader->breaks || fleet_of(reader)->server.refuses) {
		lose(link);
		return;
	}
	link->state = FEED_LINK_IDLE;
	link->events->opened(link);
}

void feed_link_open(struct feed_link *link, const char *dsn)
{
	struct reader *reader = reader_of(link);
	(void)dsn;
	CHECK(link->state == FEED_LINK_CLOSED);
	link->state = FEED_LINK_DIALLING;
	set_next(reader, draw_way(reader, CONNECT_MOST_US), on_connected);
}

static void on_bell(struct errand *errand);

/* It is heard between two turns. */
static void hear_bell(struct reader *reader, int64_t in_us)
{
	if (!errand_is_set(&reader->bell))
		node_at(reader->node, &reader->bell, fleet_of(reader)->vtime.now_us + in_us,
			on_bell, NULL);
}

static void on_bell(struct errand *errand)
{
	struct reader *reader = container_of(errand, struct reader, bell);
	struct feed_link *link = reader->link;
	reader->rang = link->state != FEED_LINK_IDLE;
	if (!reader->rang)
		link->events->rang(link);
}

static void on_answered(struct errand *errand)
{
	struct reader *reader = container_of(errand, struct reader, next);
	struct feed_link *link = reader->link;
	if (reader->breaks) {
		lose(link);
		return;
	}
	for (unsigned i = 0; i < reader->count; i++)
		link->events->result(link, i, reader->results[i]);
	forget_turn(reader);
	link->state = FEED_LINK_IDLE;
	link->events->answered(link, link->has_trouble ? &link->trouble : NULL);
	if (reader->rang && link->state != FEED_LINK_CLOSED)
		hear_bell(reader, 1);
}

/* What has been carried out is, also where its answer is lost. */
static void on_arrived(struct errand *errand)
{
	struct reader *reader = container_of(errand, struct reader, next);
	PGresult *rows = NULL;
	if (reader->breaks) {
		lose(reader->link);
		return;
	}
	for (unsigned i = 0; i < reader->count; i++) {
		reader->results[i] = execute(reader, &reader->statements[i], &rows);
		CHECK(reader->results[i]);
	}
	PQclear(rows);
	set_next(reader, draw_way(reader, WAY_MOST_US), on_answered);
}

void feed_link_send(struct feed_link *link, const struct feed_statement *statements, unsigned count)
{
	struct reader *reader = reader_of(link);
	CHECK(link->state == FEED_LINK_IDLE && count > 0 && count <= FEED_STATEMENTS_MAX);
	link->state = FEED_LINK_BUSY;
	link->has_trouble = false;
	reader->count = count;
	for (unsigned i = 0; i < count; i++) {
		reader->statements[i] = statements[i];
		for (int p = 0; p < statements[i].params_count; p++)
			if (statements[i].params[p])
				reader->statements[i].params[p] = strdup(statements[i].params[p]);
	}
	set_next(reader, draw_way(reader, WAY_MOST_US), on_arrived);
}

static void on_ended(struct errand *errand)
{
	struct reader *reader = container_of(errand, struct reader, end);
	struct feed_link *link = reader->link;
	reader->link = NULL;
	link->events->ended(link);
}

void feed_link_end(struct feed_link *link)
{
	struct reader *reader = reader_of(link);
	feed_link_close(link);
	node_at(reader->node, &reader->end, fleet_of(reader)->vtime.now_us + 1, on_ended, on_ended);
}

void feed_ring(struct node *node)
{
	struct reader *reader = &node->reader;
	if (node->state != NODE_DOWN && reader->link && reader->listens)
		hear_bell(reader, rng_between(&node->fleet->server.feeds, 100, WAY_MOST_US));
}

static void on_broken(struct errand *errand)
{
	struct reader *reader = container_of(errand, struct reader, next);
	lose(reader->link);
}

void reader_break(struct reader *reader)
{
	if (!reader->link || reader->link->state == FEED_LINK_CLOSED)
		return;
	reader->breaks = true;
	reader->listens = false;
	if (reader->link->state == FEED_LINK_IDLE)
		set_next(reader, rng_between(&fleet_of(reader)->server.feeds, 1, WAY_MOST_US),
			 on_broken);
}

/* ---- life ---------------------------------------------------------------------------------- */

void reader_open(struct reader *reader, struct node *node)
{
	const struct scene *scene = &node->fleet->scene;
	*reader = (struct reader){ .node = node };
	if (!scene->follows)
		return;
	loop_init(&reader->loop, node);
	CHECK(feed_create(&reader->loop,
			  &(struct feed_options){ .dsn = "",
						  .fleet = "sim",
						  .policies = scene->policies,
						  .policies_count = KEYSPACES,
						  .poll_us = scene->poll_us,
						  .retention_us = scene->retention_us,
						  .store = post_changes(&node->post),
						  .seed = rng_next(&node->post.rng) },
			  &reader->feed) == 0);
}

static void on_closed(void *arg)
{
	((struct reader *)arg)->feed = NULL;
}

void reader_close(struct reader *reader)
{
	if (reader->feed && !reader->closes)
		feed_close(reader->feed, on_closed, reader);
	reader->closes = true;
}
