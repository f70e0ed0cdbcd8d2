#include "server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "fleet.h"

/* One key of a statement. */
struct part {
	uint32_t record; /* the judge's number of it */
	int key;
	bool lock_key, holds_key;
	enum build_outcome outcome;
	enum status status;
	const char *text; /* static */
};

struct statement {
	struct server *server;
	struct node *node;
	struct build
		*build; /* of the first part, which leads the others; NULL: nobody waits for it */
	struct list_node of_node, running;
	struct timer arrive, end;
	struct errand answer;
	int slot;
	bool holds_slot, cancelled;
	int64_t timeout_us;
	int refs; /* timers and errand that are set, and the build */
	uint32_t parts_count;
	struct part parts[BATCH_KEYS_MAX];
};

static struct vtime *vtime_of(const struct statement *statement)
{
	return &statement->server->fleet->vtime;
}

static void statement_unref(struct statement *statement)
{
	if (--statement->refs > 0)
		return;
	statement->server->statements--;
	free(statement);
}

/* ---- the answer -------------------------------------------------------------------------- */

static void fill_row(const struct statement *statement, const struct part *part,
		     struct build *build)
{
	const struct build_record *record =
		judge_record(&statement->server->fleet->judge, part->record);
	char text[32];
	int len = snprintf(text, sizeof(text), "b%u", part->record);
	build->value = value_create(text, (size_t)len);
	if (!build->value) {
		build->outcome = BUILD_NO_ROOM; /* as origin/outcome.c does without memory */
		build->status = STATUS_OVERLOADED;
		return;
	}
	build->has_version = record->read.has_version;
	build->version = record->read.version;
}

static void finish_part(const struct statement *statement, const struct part *part,
			struct build *build)
{
	build->outcome = part->outcome;
	build->status = part->status;
	if (part->status == STATUS_UNAVAILABLE)
		judge_on_origin_lost(statement->node);
	if (part->text)
		build->text = value_create(part->text, strlen(part->text));
	if (build->outcome == BUILD_ROW || build->outcome == BUILD_NO_ROW)
		build->history =
			judge_record(&statement->server->fleet->judge, part->record)->history;
	if (build->outcome == BUILD_ROW)
		fill_row(statement, part, build);
	judge_on_built(&statement->server->fleet->judge, part->record, build->outcome);
}

/* The builds are over for the daemon. */
static void finish(struct statement *statement)
{
	struct build *first = statement->build, *build = first;
	if (!first)
		return;
	statement->build = NULL;
	list_remove(&statement->node->statements, &statement->of_node);
	for (uint32_t i = 0; i < statement->parts_count; i++, build = build->next)
		finish_part(statement, &statement->parts[i], build);
	first->done(first);
	statement_unref(statement);
}

static void on_answer(struct errand *errand)
{
	struct statement *statement = container_of(errand, struct statement, answer);
	finish(statement);
	statement_unref(statement);
}

static void on_answer_drop(struct errand *errand)
{
	statement_unref(container_of(errand, struct statement, answer));
}

static void answer_later(struct statement *statement, int64_t delay_us)
{
	if (!statement->build || list_linked(&statement->answer.pending))
		return;
	statement->refs++;
	node_at(statement->node, &statement->answer, vtime_of(statement)->now_us + delay_us,
		on_answer, on_answer_drop);
}

static void decide_part(struct part *part, enum build_outcome outcome, enum status status,
			const char *text)
{
	part->outcome = outcome;
	part->status = status;
	part->text = text;
}

static void decide(struct statement *statement, enum build_outcome outcome, enum status status,
		   const char *text)
{
	for (uint32_t i = 0; i < statement->parts_count; i++)
		decide_part(&statement->parts[i], outcome, status, text);
}

static int64_t way(struct server *server)
{
	return rng_between(&server->rng, 50, 2 * MS);
}

/* ---- at the server ----------------------------------------------------------------------- */

static void leave(struct statement *statement)
{
	list_remove(&statement->server->running, &statement->running);
	statement->holds_slot = false;
	judge_on_statement_end(&statement->server->fleet->judge);
}

static void on_end(struct timer *timer)
{
	struct statement *statement = container_of(timer, struct statement, end);
	leave(statement);
	answer_later(statement, way(statement->server));
	statement_unref(statement);
}

static void end_at(struct statement *statement, int64_t at_us)
{
	if (statement->end.node.in_heap)
		vtime_cancel(vtime_of(statement), &statement->end);
	else
		statement->refs++;
	vtime_set(vtime_of(statement), &statement->end, at_us, on_end);
}

static bool is_held(const struct server *server, int key)
{
	list_foreach (&server->running, node) {
		const struct statement *other = container_of(node, struct statement, running);
		for (uint32_t i = 0; i < other->parts_count; i++)
			if (other->parts[i].holds_key && other->parts[i].key == key)
				return true;
	}
	return false;
}

/* How many of its parts may run. */
static uint32_t try_locks(struct statement *statement)
{
	uint32_t free = 0;
	decide(statement, BUILD_SLOT_HELD, STATUS_OVERLOADED, NULL);
	list_foreach (&statement->server->running, node) {
		const struct statement *other = container_of(node, struct statement, running);
		if (other->holds_slot && other->slot == statement->slot)
			return 0;
	}
	for (uint32_t i = 0; i < statement->parts_count; i++) {
		struct part *part = &statement->parts[i];
		bool held = part->lock_key && is_held(statement->server, part->key);
		decide_part(part, held ? BUILD_KEY_HELD : BUILD_ROW, STATUS_OVERLOADED, NULL);
		free += !held;
	}
	return free;
}

/* One data error spoils all of several keys. */
static void spoil(struct statement *statement)
{
	for (uint32_t i = 0; i < statement->parts_count; i++)
		if (statement->parts_count > 1)
			decide_part(&statement->parts[i], BUILD_APART, STATUS_ORIGIN_ERROR, NULL);
		else
			decide_part(&statement->parts[i], BUILD_FAILED, STATUS_ORIGIN_ERROR,
				    "division by zero");
}

static void read_part(struct statement *statement, struct part *part, int64_t now_us)
{
	struct fleet *fleet = statement->server->fleet;
	if (part->outcome == BUILD_KEY_HELD)
		return;
	part->holds_key = part->lock_key;
	const struct database *database = &fleet->database;
	struct reading read =
		database_read(database, part->key, database_position(database, now_us));
	judge_on_read(&fleet->judge, part->record, &read);
	decide_part(part, read.exists ? BUILD_ROW : BUILD_NO_ROW, STATUS_OK, NULL);
}

static int64_t draw_length(struct server *server)
{
	const struct scene *scene = &server->fleet->scene;
	double mean = (double)scene->build_mean_us;
	if (scene->even_builds)
		return rng_between(&server->rng, (int64_t)(mean * 0.9), (int64_t)(mean * 1.1));
	return draw_exponential(&server->rng, server->slower ? mean * server->slower : mean);
}

static void run(struct statement *statement)
{
	struct server *server = statement->server;
	int64_t now_us = vtime_of(statement)->now_us;
	int64_t takes_us = draw_length(server);
	bool hangs = draw_chance(&server->rng, server->hangs);
	bool fails = draw_chance(&server->rng, server->fails);
	statement->holds_slot = true;
	for (uint32_t i = 0; i < statement->parts_count; i++)
		read_part(statement, &statement->parts[i], now_us);
	if (fails)
		spoil(statement);
	if (hangs || takes_us > statement->timeout_us) {
		takes_us = statement->timeout_us;
		decide(statement, BUILD_FAILED, STATUS_ORIGIN_ERROR, "statement timeout");
	}
	end_at(statement, now_us + takes_us);
	if (!statement->build) /* its daemon died while it was on its way */
		end_at(statement, now_us + rng_between(&server->rng, 0, CONNECTION_CHECK_US));
}

static void refuse(struct statement *statement)
{
	if (draw_chance(&statement->server->rng, 0.5))
		decide(statement, BUILD_NO_ROOM, STATUS_OVERLOADED, "too many connections");
	else
		decide(statement, BUILD_LOST, STATUS_UNAVAILABLE, "connection refused");
	answer_later(statement, way(statement->server));
}

static void on_arrive(struct timer *timer)
{
	struct statement *statement = container_of(timer, struct statement, arrive);
	struct server *server = statement->server;
	if (statement->cancelled) {
		decide(statement, BUILD_CANCELLED, STATUS_UNAVAILABLE, NULL);
		answer_later(statement, 1);
	} else if (server->refuses) {
		refuse(statement);
	} else {
		uint32_t free = try_locks(statement);
		judge_on_statement(&server->fleet->judge, statement->parts_count, free);
		if (free > 0) {
			list_push_back(&server->running, &statement->running);
			run(statement);
		} else {
			answer_later(statement, way(server));
		}
	}
	statement_unref(statement);
}

/* ---- core's interface -------------------------------------------------------------------- */

static void origin_build(void *impl, struct build *build)
{
	struct node *node = impl;
	struct server *server = &node->fleet->server;
	struct statement *statement = calloc(1, sizeof(*statement));
	CHECK(statement);
	*statement = (struct statement){
		.server = server,
		.node = node,
		.build = build,
		.slot = build->slot,
		.timeout_us = build->timeout_us,
		.refs = 2,
	};
	server->statements++;
	list_node_init(&statement->running);
	list_node_init(&statement->answer.pending);
	list_push_back(&node->statements, &statement->of_node);
	for (; build; build = build->next) {
		struct part *part = &statement->parts[statement->parts_count++];
		part->key = scene_find(&node->fleet->scene, build->key.bytes, build->key.len);
		part->lock_key = build->lock_key;
		part->record = judge_on_build(&node->fleet->judge, node, part->key, build);
	}
	vtime_set(vtime_of(statement), &statement->arrive,
		  vtime_of(statement)->now_us + way(server), on_arrive);
}

static struct statement *statement_of(struct node *node, const struct build *build)
{
	list_foreach (&node->statements, link) {
		struct statement *statement = container_of(link, struct statement, of_node);
		if (statement->build == build)
			return statement;
	}
	return NULL;
}

/* The cancel request is on its way for no time: what it races with is the statement's own way. */
static void origin_cancel(void *impl, struct build *build)
{
	struct statement *statement = statement_of(impl, build);
	CHECK(statement);
	if (statement->arrive.node.in_heap) {
		statement->cancelled = true;
	} else if (statement->end.node.in_heap) {
		decide(statement, BUILD_CANCELLED, STATUS_UNAVAILABLE, NULL);
		end_at(statement, vtime_of(statement)->now_us + way(statement->server));
	}
}

struct origin server_iface(struct node *node)
{
	return (struct origin){ .impl = node, .build = origin_build, .cancel = origin_cancel };
}

/* ---- faults ------------------------------------------------------------------------------ */

/* The statement goes on alone, up to the server's next look at its connection. */
static void orphan(struct statement *statement)
{
	int64_t check_us = vtime_of(statement)->now_us +
			   rng_between(&statement->server->rng, 0, CONNECTION_CHECK_US);
	if (statement->end.node.in_heap && vtime_due(&statement->end) > check_us)
		end_at(statement, check_us);
}

void server_abandon(struct node *node)
{
	struct list_node *first;
	while ((first = list_first(&node->statements))) {
		struct statement *statement = container_of(first, struct statement, of_node);
		orphan(statement);
		decide(statement, BUILD_CANCELLED, STATUS_UNAVAILABLE, NULL);
		finish(statement);
	}
}

static void lose(struct statement *statement)
{
	decide(statement, BUILD_LOST, STATUS_UNAVAILABLE, "connection lost");
	answer_later(statement, way(statement->server));
}

void server_crash(struct server *server)
{
	struct list_node *first;
	server_break_readers(server);
	while ((first = list_first(&server->running))) {
		struct statement *statement = container_of(first, struct statement, running);
		leave(statement);
		vtime_cancel(vtime_of(statement), &statement->end);
		lose(statement);
		statement_unref(statement);
	}
}

void server_drop(struct server *server, double share)
{
	server_break_readers(server);
	list_foreach (&server->running, node) {
		struct statement *statement = container_of(node, struct statement, running);
		if (!statement->build || !draw_chance(&server->rng, share))
			continue;
		orphan(statement);
		lose(statement);
	}
}

void server_break_readers(struct server *server)
{
	for (int i = 0; i < server->fleet->scene.nodes; i++)
		reader_break(&server->fleet->nodes[i].reader);
}

void server_init(struct server *server, struct fleet *fleet)
{
	*server = (struct server){ .fleet = fleet };
	scene_stream(&fleet->scene, STREAM_ORIGIN, 0, &server->rng);
	scene_stream(&fleet->scene, STREAM_FEED, 2, &server->feeds);
	list_init(&server->running);
}
