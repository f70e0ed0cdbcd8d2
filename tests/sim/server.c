#include "server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "fleet.h"

struct statement {
	struct server *server;
	struct node *node;
	struct build *build; /* NULL: nobody waits for it */
	struct list_node of_node, running;
	struct timer arrive, end;
	struct errand answer;
	uint32_t record; /* the judge's number of it */
	int key, slot;
	bool lock_key, holds_slot, holds_key, cancelled;
	int64_t timeout_us;
	enum build_outcome outcome;
	enum status status;
	const char *text; /* static */
	int refs;         /* timers and errand that are set, and the build */
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

static void fill_row(const struct statement *statement, struct build *build)
{
	const struct build_record *record =
		judge_record(&statement->server->fleet->judge, statement->record);
	char text[32];
	int len = snprintf(text, sizeof(text), "b%u", statement->record);
	build->value = value_create(text, (size_t)len);
	if (!build->value) {
		build->outcome = BUILD_NO_ROOM; /* as origin/outcome.c does without memory */
		build->status = STATUS_OVERLOADED;
		return;
	}
	build->has_version = record->read.has_version;
	build->version = record->read.version;
}

/* The build is over for the daemon. */
static void finish(struct statement *statement)
{
	struct build *build = statement->build;
	if (!build)
		return;
	statement->build = NULL;
	list_remove(&statement->node->statements, &statement->of_node);
	build->outcome = statement->outcome;
	build->status = statement->status;
	if (statement->text)
		build->text = value_create(statement->text, strlen(statement->text));
	if (build->outcome == BUILD_ROW)
		fill_row(statement, build);
	judge_on_built(&statement->server->fleet->judge, statement->record, build->outcome);
	build->done(build);
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

static void decide(struct statement *statement, enum build_outcome outcome, enum status status,
		   const char *text)
{
	statement->outcome = outcome;
	statement->status = status;
	statement->text = text;
}

static int64_t way(struct server *server)
{
	return rng_between(&server->rng, 50, 2 * MS);
}

/* ---- at the server ----------------------------------------------------------------------- */

static void leave(struct statement *statement)
{
	list_remove(&statement->server->running, &statement->running);
	statement->holds_slot = statement->holds_key = false;
	judge_on_statement_end(&statement->server->fleet->judge, statement->record);
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

static enum build_outcome try_locks(const struct statement *statement)
{
	list_foreach (&statement->server->running, node) {
		const struct statement *other = container_of(node, struct statement, running);
		if (other->holds_slot && other->slot == statement->slot)
			return BUILD_SLOT_HELD;
	}
	list_foreach (&statement->server->running, node) {
		const struct statement *other = container_of(node, struct statement, running);
		if (statement->lock_key && other->holds_key && other->key == statement->key)
			return BUILD_KEY_HELD;
	}
	return BUILD_ROW;
}

static void run(struct statement *statement)
{
	struct server *server = statement->server;
	int64_t now_us = vtime_of(statement)->now_us;
	double mean = (double)server->fleet->scene.build_mean_us;
	int64_t takes_us =
		draw_exponential(&server->rng, server->slower ? mean * server->slower : mean);
	bool hangs = draw_chance(&server->rng, server->hangs);
	bool fails = draw_chance(&server->rng, server->fails);
	statement->holds_slot = true;
	statement->holds_key = statement->lock_key;
	struct reading read = database_read(&server->fleet->database, statement->key, now_us);
	judge_on_read(&server->fleet->judge, statement->record, &read);
	decide(statement, read.exists ? BUILD_ROW : BUILD_NO_ROW, STATUS_OK, NULL);
	if (fails)
		decide(statement, BUILD_FAILED, STATUS_ORIGIN_ERROR, "division by zero");
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
		enum build_outcome held = try_locks(statement);
		judge_on_statement(&server->fleet->judge, statement->record, held == BUILD_ROW);
		if (held == BUILD_ROW) {
			list_push_back(&server->running, &statement->running);
			run(statement);
		} else {
			decide(statement, held, STATUS_OVERLOADED, NULL);
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
		.key = scene_find(&node->fleet->scene, build->key.bytes, build->key.len),
		.slot = build->slot,
		.lock_key = build->lock_key,
		.timeout_us = build->timeout_us,
		.refs = 2,
	};
	server->statements++;
	list_node_init(&statement->running);
	list_node_init(&statement->answer.pending);
	list_push_back(&node->statements, &statement->of_node);
	statement->record = judge_on_build(&node->fleet->judge, node, statement->key, build);
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
	list_foreach (&server->running, node) {
		struct statement *statement = container_of(node, struct statement, running);
		if (!statement->build || !draw_chance(&server->rng, share))
			continue;
		orphan(statement);
		lose(statement);
	}
}

void server_init(struct server *server, struct fleet *fleet)
{
	*server = (struct server){ .fleet = fleet };
	scene_stream(&fleet->scene, STREAM_ORIGIN, 0, &server->rng);
	list_init(&server->running);
}
