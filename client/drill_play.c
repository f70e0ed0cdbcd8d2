#include "client/drill_play.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "client/ctl_find.h"

enum {
	LOOK_US = 100 * 1000, /* between two looks */
	TOO_MANY = 3,         /* builds in a second that are never too many */
};

enum tag {
	TAG_GET,
	TAG_ABSENT,
	TAG_SOFT,
	TAG_HARD,
	TAG_REFRESH,
	TAG_SPREAD,
	TAG_ALL,
	TAG_KEYSPACE
};

void play_stop(struct drill *drill, const char *format, ...)
{
	va_list args;

	if (drill->end != DRILL_WHOLE)
		return;
	drill->end = DRILL_STOPPED;
	va_start(args, format);
	vsnprintf(drill->why, sizeof(drill->why), format, args);
	va_end(args);
}

int64_t drill_builds(const struct drill *drill)
{
	const struct watch_counts since = watch_less(watch_sum(&drill->watch), drill->before);

	return since.builds - since.locks_held;
}

/* ---- answers ------------------------------------------------------------------------------- */

static const char *key_of(const struct play *play, const struct load_answer *answer)
{
	const struct drill_plan *plan = &play->drill->plan;

	return answer->tag == TAG_ABSENT ? plan->absent[answer->key] : plan->keys[answer->key];
}

static void on_get(struct play *play, const struct load_answer *answer)
{
	struct drill *drill = play->drill;
	const struct judge_reply reply = {
		.key = key_of(play, answer),
		.key_at = answer->tag == TAG_ABSENT ? UINT32_MAX : answer->key,
		.socket = drill->load.paths[answer->socket],
		.connection = answer->connection,
		.daemon = answer->socket,
		.scene_us = play->begun_us,
		.due_us = answer->due_us,
		.sent_us = answer->sent_us,
		.came_us = answer->came_us,
		.noise_us = drill->load.noise_us,
		.reply = answer->reply,
	};

	play->gets--;
	judge_take(&drill->judge, &play->result->tally, &reply);
}

/* What cannot be done to a key is no breach, but then there is nothing to be seen. */
static void on_act(struct play *play, const struct load_answer *answer)
{
	struct drill *drill = play->drill;

	play->others--;
	if (answer->reply->status != SEGAR_OK)
		play_stop(drill, "%s: %s answered the drill's invalidation with %s: %.200s",
			  play->result->tally.name, drill->load.paths[answer->socket],
			  segar_status_name(answer->reply->status), answer->reply->error);
	else if (answer->tag != TAG_SPREAD)
		judge_invalidated(&drill->judge, answer->key, answer->socket,
				  answer->tag == TAG_HARD, answer->sent_us, answer->came_us);
}

static void on_refresh(struct play *play, const struct load_answer *answer)
{
	struct drill *drill = play->drill;

	play->others--;
	if (answer->reply->status != SEGAR_OK)
		judge_breach(&drill->judge, DRILL_SERVED,
			     "refused: %s at %.3f s: refresh of %s by %s: %s: %.100s",
			     play->result->tally.name,
			     (double)(answer->sent_us - play->begun_us) / 1e6, key_of(play, answer),
			     drill->load.paths[answer->socket],
			     segar_status_name(answer->reply->status), answer->reply->error);
}

static void check_limits(struct drill *drill)
{
	const double most = fmax(TOO_MANY, drill->facts.budget_per_s / 2);
	const int64_t builds = drill_builds(drill);

	if (builds > drill->plan.builds_max)
		play_stop(drill,
			  "%" PRId64 " builds of the keyspace were begun, and %" PRId64 " may be",
			  builds, drill->plan.builds_max);
	if ((double)drill->watch.most_in_a_second > most)
		play_stop(drill,
			  "the fleet began %" PRId64
			  " builds within a second: more than half of its budget",
			  drill->watch.most_in_a_second);
}

static void on_look(struct play *play, const struct load_answer *answer)
{
	struct drill *drill = play->drill;
	const struct wire_span stats = ctl_encoded(answer->reply);

	play->look_waits--;
	if (answer->reply->status != SEGAR_OK)
		play_stop(drill, "%s answered stats with %s: %.200s",
			  drill->load.paths[answer->socket],
			  segar_status_name(answer->reply->status), answer->reply->error);
	else if (answer->tag == TAG_ALL)
		watch_take_all(&drill->watch, answer->socket, stats);
	else
		watch_take_keyspace(&drill->watch, answer->socket, stats);
	if (play->look_waits > 0 || answer->reply->status != SEGAR_OK)
		return;
	watch_look(&drill->watch, play->look_begun_us, answer->came_us);
	play->looks++;
	check_limits(drill);
}

void play_on_answer(void *arg, const struct load_answer *answer)
{
	struct play *play = *(struct play **)arg;

	switch ((enum tag)answer->tag) {
	case TAG_GET:
	case TAG_ABSENT:
		on_get(play, answer);
		break;
	case TAG_SOFT:
	case TAG_HARD:
	case TAG_SPREAD:
		on_act(play, answer);
		break;
	case TAG_REFRESH:
		on_refresh(play, answer);
		break;
	case TAG_ALL:
	case TAG_KEYSPACE:
		on_look(play, answer);
		break;
	}
}

/* ---- requests ------------------------------------------------------------------------------ */

/* Asks for a key with options; on that connection, or where there is room. */
static bool ask_key(struct play *play, enum tag tag, uint32_t key, const char *text,
		    const struct options *options, int64_t due_us, int64_t connection)
{
	struct load *load = &play->drill->load;
	struct wire_buf params;
	struct load_request request = {
		.tag = (int)tag,
		.key = key,
		.due_us = due_us,
		.shape = tag == TAG_GET || tag == TAG_ABSENT ? CALL_RESULT
			 : tag == TAG_REFRESH                ? CALL_REFRESHED
							     : CALL_ANY,
		.method = tag == TAG_GET || tag == TAG_ABSENT ? "get"
			  : tag == TAG_REFRESH                ? "refresh"
							      : "invalidate",
		.params_count = 2,
	};
	bool asked = false;

	wire_buf_init(&params, WIRE_REQUEST_MAX);
	wire_buf_str(&params, text);
	options_put(&params, options);
	request.params = (struct wire_span){ (const char *)params.data, params.len };
	if (!wire_buf_failed(&params))
		asked = connection < 0 ? load_ask(load, &request)
				       : load_ask_on(load, (uint32_t)connection, &request);
	wire_buf_close(&params);
	return asked;
}

/* How many of the keys that aren't there are known by now: they come one after the other. */
static uint32_t absents_now(const struct play *play, int64_t now_us)
{
	const struct drill_plan *plan = &play->drill->plan;
	const double part = (double)(now_us - play->begun_us) / (0.7 * (double)plan->scene_us);
	const double count = ceil(part * plan->absent_count);

	return count < 1                            ? 1
	       : count > (double)plan->absent_count ? plan->absent_count
						    : (uint32_t)count;
}

/* Builds that the drill causes can be found by it in PostgreSQL's log. */
static void put_trace(const struct play *play, struct options *options)
{
	const char *trace = play->drill->plan.get.trace;

	if (!trace)
		return;
	options->trace = 1;
	options->trace_text = (struct wire_span){ trace, strlen(trace) };
}

static bool ask_get(struct play *play, int64_t due_us, int64_t now_us)
{
	const struct drill_plan *plan = &play->drill->plan;
	const bool absent = play->result->scene == SCENE_ABSENT && play->asked % 2 == 1;
	const uint64_t turn = absent ? play->asked / 2 : play->asked;
	const uint32_t known = absent ? absents_now(play, now_us) : plan->keys_count;
	const uint32_t key = (uint32_t)(turn % known);
	struct options options = options_unset();

	options.wait_ms = plan->get.wait_ms;
	options.max_stale_ms = plan->get.max_stale_ms;
	options.min_version = plan->get.min_version;
	put_trace(play, &options);
	if (!ask_key(play, absent ? TAG_ABSENT : TAG_GET, key,
		     absent ? plan->absent[key] : plan->keys[key], &options, due_us, -1))
		return false;
	if (absent && key >= play->absents)
		play->absents = key + 1;
	play->gets++;
	play->asked++;
	play->result->tally.asked++;
	return true;
}

int64_t play_due_us(const struct play *play)
{
	return play->begun_us + (int64_t)((double)play->asked * 1e6 / play->drill->plan.rate_per_s);
}

void play_ask(struct play *play)
{
	struct load *load = &play->drill->load;
	int64_t now_us = load_now_us();

	while (play_due_us(play) <= now_us && play_due_us(play) < play->ended_us) {
		const int64_t due_us = play_due_us(play);
		const bool had_room = !play->no_room;

		play->no_room = !ask_get(play, due_us, now_us);
		if (play->no_room)
			return;
		/* It is ours to be late, unless daemons held us up. */
		if (had_room && now_us - due_us > load->noise_us)
			load->noise_us = now_us - due_us;
	}
}

static void burst(struct play *play, uint32_t key)
{
	const struct drill *drill = play->drill;
	struct options options = options_unset();

	/* So long ago the value was not built, and so long the burst takes to be answered: one
	 * build is enough for all of it. */
	options.if_older_ms = drill->plan.scene_us * 45 / 100000;
	options.wait_ms = drill->facts.policy.wait_ms;
	put_trace(play, &options);
	for (uint32_t i = 0; i < drill->load.sockets * drill->load.connections; i++)
		play->others += ask_key(play, TAG_REFRESH, key, drill->plan.keys[key], &options,
					load_now_us(), i);
}

static void spread(struct play *play)
{
	struct drill *drill = play->drill;
	struct wire_buf params;
	struct load_request request = {
		.tag = TAG_SPREAD, .shape = CALL_ANY, .method = "invalidate", .params_count = 1
	};

	wire_buf_init(&params, WIRE_REQUEST_MAX);
	wire_buf_map(&params, 2);
	wire_buf_str(&params, "keyspace");
	wire_buf_str(&params, drill->plan.keyspace);
	wire_buf_str(&params, "spread_ms");
	wire_buf_int(&params, drill->plan.scene_us * 6 / 10 / 1000);
	request.params = (struct wire_span){ (const char *)params.data, params.len };
	play->others += load_ask_on(&drill->load, load_aside(&drill->load, 0), &request);
	wire_buf_close(&params);
}

/* Acts on the key of that number, by way of the daemons in turn. */
void play_act(struct play *play)
{
	struct drill *drill = play->drill;
	const uint32_t key = play->acted++;
	const bool hard = play->result->scene == SCENE_HARD;
	struct options options = options_unset();

	play->result->acts++;
	if (play->result->scene == SCENE_BURST) {
		burst(play, key);
		return;
	}
	if (play->result->scene == SCENE_SPREAD) {
		if (key == 0)
			spread(play);
		return;
	}
	if (hard)
		options.hard = 1;
	play->others +=
		ask_key(play, hard ? TAG_HARD : TAG_SOFT, key, drill->plan.keys[key], &options,
			load_now_us(), load_aside(&drill->load, key % drill->load.sockets));
}

int64_t play_act_due_us(const struct play *play)
{
	const struct drill_plan *plan = &play->drill->plan;
	const int64_t first_us = plan->scene_us *
				 (play->result->scene == SCENE_BURST    ? 50
				  : play->result->scene == SCENE_SPREAD ? 10
									: 20) /
				 100;

	if (play->result->scene == SCENE_CALM || play->result->scene == SCENE_ABSENT ||
	    play->acted == plan->keys_count)
		return INT64_MAX;
	return play->begun_us + first_us + play->acted * plan->gap_us;
}

/* ---- looks --------------------------------------------------------------------------------- */

void play_look(struct play *play)
{
	struct drill *drill = play->drill;
	struct wire_buf params;

	play->look_begun_us = load_now_us();
	wire_buf_init(&params, WIRE_REQUEST_MAX);
	wire_buf_str(&params, drill->plan.keyspace);
	for (uint32_t i = 0; i < drill->load.sockets; i++) {
		struct load_request request = { .tag = TAG_ALL, .method = "stats" };

		play->look_waits +=
			load_ask_on(&drill->load, load_aside(&drill->load, i), &request);
		request.tag = TAG_KEYSPACE;
		request.params = (struct wire_span){ (const char *)params.data, params.len };
		request.params_count = 1;
		play->look_waits +=
			load_ask_on(&drill->load, load_aside(&drill->load, i), &request);
	}
	wire_buf_close(&params);
}

int64_t play_look_when_due(struct play *play)
{
	const int64_t due_us = play->look_begun_us + LOOK_US;

	if (play->look_waits > 0 || load_now_us() < due_us)
		return load_now_us() < due_us ? due_us : load_now_us() + LOOK_US;
	play_look(play);
	return play->look_begun_us + LOOK_US;
}
