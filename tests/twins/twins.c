#include "twins.h"

#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "store/messages.h"
#include "wire.h"

enum { LOCAL_FIRST_US = 1000 * SECOND };

/* ---- comparing --------------------------------------------------------------------------- */

void pair_open(struct pair *pair)
{
	pair->quiet = false;
	pair->sim = fmemopen(pair->sim_text, sizeof(pair->sim_text), "w");
	pair->real = fmemopen(pair->real_text, sizeof(pair->real_text), "w");
	CHECK(pair->sim && pair->real);
	pair->sim_text[0] = pair->real_text[0] = '\0';
}

void pair_compare(struct pair *pair, struct twins *twins, const char *what)
{
	CHECK(fclose(pair->sim) == 0 && fclose(pair->real) == 0);
	if (pair->real_text[0] != '\0' && !pair->quiet)
		twins_note(twins, "  %s", pair->real_text);
	if (twins->differs || strcmp(pair->sim_text, pair->real_text) == 0)
		return;
	twins->differs = true;
	snprintf(twins->difference, sizeof(twins->difference),
		 "%s\n  simulated: %s\n  real:      %s", what, pair->sim_text, pair->real_text);
}

void twins_note(const struct twins *twins, const char *format, ...)
{
	va_list args;
	if (!twins->traced)
		return;
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

/* ---- what is told ------------------------------------------------------------------------ */

static void print_tiding(FILE *out, const struct twins *twins, const struct tiding *tiding)
{
	static const char *const names[] = { "settled", "changed", "row", "beat" };
	if (tiding->kind == TIDING_EPOCH) {
		fprintf(out, "epoch %s at=%" PRId64 " spread=%" PRId64 "; ",
			twins->scene.policies[tiding->key].name, tiding->told_us,
			tiding->spread_us);
		return;
	}
	fprintf(out, "%s fence=%" PRIu64, names[tiding->kind], tiding->fence);
	if (tiding->kind == TIDING_BEAT)
		fprintf(out, " at=%" PRId64 " emptied=%d", tiding->told_us, tiding->emptied);
	else
		fprintf(out, " key=%s hard=%d", twins->scene.keys[tiding->key].bytes, tiding->hard);
	if (tiding->kind == TIDING_ROW)
		fprintf(out, " tells=%d version=%" PRId64, tiding->has_version, tiding->version);
	fputs("; ", out);
}

static void print_message(FILE *out, const struct heard *heard)
{
	struct message message;
	if (!message_read(heard->bytes, heard->len, &message)) {
		fputs("malformed; ", out);
		return;
	}
	switch (message.kind) {
	case MESSAGE_BEAT:
		fprintf(out, "beat fence=%" PRIu64 " at=%" PRId64 " emptied=%d; ", message.number,
			message.published_at_us, message.emptied);
		return;
	case MESSAGE_EPOCH:
		fprintf(out, "epoch %.*s at=%" PRId64 " spread=%" PRId64 "; ",
			(int)message.keyspace_len, message.keyspace, message.moment_us,
			message.spread_us);
		return;
	case MESSAGE_FOREIGN:
		fputs("foreign; ", out);
		return;
	case MESSAGE_SETTLED:
	case MESSAGE_CHANGED:
	case MESSAGE_ROW:
		break;
	}
	while (message.keys_count > 0) {
		struct message_key key = message_next(&message);
		fprintf(out, "%s fence=%" PRIu64 " key=%.*s hard=%d",
			message.kind == MESSAGE_SETTLED   ? "settled"
			: message.kind == MESSAGE_CHANGED ? "changed"
							  : "row",
			key.fence, (int)key.len, key.bytes, key.hard);
		if (message.kind == MESSAGE_ROW)
			fprintf(out, " tells=%d version=%" PRId64, key.has_version, key.version);
		fputs("; ", out);
	}
}

static void compare_told(struct twins *twins)
{
	struct pair pair;
	const struct tidings *tidings = model_tidings();
	if (tidings->count == 0 && wire.heard_count == 0)
		return;
	pair_open(&pair);
	for (unsigned i = 0; i < tidings->count; i++)
		print_tiding(pair.sim, twins, &tidings->at[i]);
	for (unsigned i = 0; i < wire.heard_count; i++)
		print_message(pair.real, &wire.heard[i]);
	pair_compare(&pair, twins, "told");
	model_hush();
	wire_forget();
}

/* ---- time -------------------------------------------------------------------------------- */

void twins_stand(struct twins *twins, int64_t local_us, int64_t server_us)
{
	twins->local_us = local_us;
	twins->server_us = server_us;
	wire_stand(local_us, server_us);
	model_stand(twins->shared, server_us);
}

void twins_turn(struct twins *twins)
{
	wire_carry();
	uv_run(&twins->loop, UV_RUN_NOWAIT);
	wire_carry(); /* the second command of an answer that came without its value */
	uv_run(&twins->loop, UV_RUN_NOWAIT);
}

static void wait(struct twins *twins, struct rng *rng)
{
	static const int64_t lengths[] = {
		1, MS, 50 * MS, 200 * MS, SECOND, 4 * SECOND, 20 * SECOND
	};
	int64_t wait_us = rng_between(rng, 1, lengths[rng_between(rng, 0, 6)]);
	int64_t edge_us = stock_edge(twins, rng);
	if (edge_us > twins->server_us && draw_chance(rng, 0.5))
		wait_us = edge_us + rng_between(rng, -1, 1) - twins->server_us;
	twins_note(twins, "  for %" PRId64 " us", wait_us);
	twins_stand(twins, twins->local_us + wait_us, twins->server_us + wait_us);
}

static void jump(struct twins *twins, struct rng *rng)
{
	/* Less than a second would be slewed: the daemons would be wrong about the time, rightly.
	 */
	int64_t jump_us = rng_between(rng, 2 * SECOND, 30 * SECOND);
	if (draw_chance(rng, 0.5))
		jump_us = -jump_us;
	twins_note(twins, "  by %" PRId64 " us", jump_us);
	stock_sweep(twins);
	twins_stand(twins, twins->local_us, twins->server_us + jump_us);
	for (int i = 0; i < twins->daemons_count; i++)
		if (draw_chance(rng, 0.8))
			chores_clock(twins, i);
}

/* ---- acts -------------------------------------------------------------------------------- */

struct caller twins_caller(const struct twins *twins, int daemon)
{
	const struct redis_store *redis = twins->daemons[daemon];
	return (struct caller){ .node = daemon,
				.life = redis->place.token,
				.before = redis->place.before,
				.place = redis->place.number,
				.owes = alone_owes(&redis->alone,
						   redis_store_clock_us(twins->daemons[daemon])),
				.era = redis->era.number };
}

static void flush(struct twins *twins)
{
	freeReplyObject(wire_ask("FLUSHALL"));
	shared_flush(twins->shared);
}

static void unlearn(struct twins *twins)
{
	freeReplyObject(wire_ask("SCRIPT FLUSH"));
	twins->learned = 0;
}

bool twins_do(struct twins *twins, const struct act *act)
{
	struct rng rng;
	rng_seed(&rng, act->chance);
	twins_note(twins, "%s daemon=%d key=%s", act_name(act->kind), act->daemon,
		   twins->scene.keys[twins->keys[act->key]].bytes);
	switch (act->kind) {
	case ACT_WAIT:
		wait(twins, &rng);
		break;
	case ACT_JUMP:
		jump(twins, &rng);
		break;
	case ACT_FORGET:
		stock_forget(twins, act);
		break;
	case ACT_FLUSH:
		flush(twins);
		break;
	case ACT_REBORN:
		freeReplyObject(wire_ask("DEBUG CHANGE-REPL-ID"));
		shared_restart(twins->shared);
		break;
	case ACT_UNLEARN:
		unlearn(twins);
		break;
	case ACT_LOAD:
	case ACT_LEASE:
	case ACT_RENEW:
	case ACT_SAVE:
	case ACT_RELEASE:
	case ACT_INVALIDATE:
	case ACT_PERMIT:
	case ACT_FREE:
	case ACT_EPOCH:
		deeds_do(twins, act);
		break;
	case ACT_FOLLOW:
	case ACT_CHANGE:
		feeds_do(twins, act);
		break;
	case ACT_CLOCK:
	case ACT_PLACE:
	case ACT_EPOCHS:
	case ACT_BEAT:
	case ACT_SUCCEED:
	case ACT_RESTART:
		chores_do(twins, act);
		break;
	}
	compare_told(twins);
	return !twins->differs;
}

bool twins_agree(struct twins *twins)
{
	stock_compare(twins);
	return !twins->differs;
}

/* ---- life -------------------------------------------------------------------------------- */

/* Small enough that keys, slots and places are fought for. */
static void draw_scene(struct scene *scene, uint64_t seed)
{
	struct rng rng;
	scene_draw(scene, seed, &(struct scene_options){ 0 });
	scene_stream(scene, STREAM_SCENE, 1, &rng);
	scene->nodes = (int)rng_between(&rng, 1, TWINS_DAEMONS_MAX);
	scene->concurrency = (int)rng_between(&rng, 1, 6);
	scene->budget_per_s = (double)rng_between(&rng, 1, draw_chance(&rng, 0.5) ? 10 : 1000);
	scene->trust_us = rng_between(&rng, 100 * MS, 4 * SECOND);
}

void twins_open(struct twins *twins, uint64_t seed, const char *socket, int64_t *stands_at_us,
		bool traced)
{
	*twins = (struct twins){ .traced = traced };
	draw_scene(&twins->scene, seed);
	for (int i = 0; i < TWINS_KEYS; i++)
		twins->keys[i] = i % KEYSPACES * (int)twins->scene.keys_each + i / KEYSPACES;
	twins->daemons_count =
		twins->scene.nodes < TWINS_DAEMONS_MAX ? twins->scene.nodes + 1 : TWINS_DAEMONS_MAX;
	for (uint32_t i = 0; i < KEYSPACES; i++)
		twins->keyspaces[i] =
			(struct keyspace){ .policy = &twins->scene.policies[i], .index = i };
	CHECK(uv_loop_init(&twins->loop) == 0);
	twins->shared = model_open(&twins->scene);
	wire_open(socket, stands_at_us, "t:changes:0");
	twins_stand(twins, LOCAL_FIRST_US, FLEET_EPOCH_US);
	freeReplyObject(wire_ask("FLUSHALL"));
	unlearn(twins);
	for (int i = 0; i < twins->daemons_count; i++) {
		amends_init(&twins->amends[i]);
		chores_start(twins, i);
	}
	compare_told(twins);
}

void twins_close(struct twins *twins)
{
	for (int i = 0; i < twins->daemons_count; i++) {
		redis_store_close(twins->daemons[i], NULL, NULL);
		amends_close(&twins->amends[i]);
	}
	twins_turn(twins);
	CHECK(uv_loop_close(&twins->loop) == 0);
	wire_close();
	model_close(twins->shared);
	scene_close(&twins->scene);
}
