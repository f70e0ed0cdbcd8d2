/* A drill's scenes: requests that are due, acts, looks at the daemons' counters, and what ends it.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "client/drill_play.h"

enum {
	BEGIN_WAIT_MS = 30 * 1000,   /* for the first value of each key */
	REST_US = 100 * 1000,        /* between two looks at it */
	LATE_US = 2 * 1000 * 1000,   /* past its deadline a request has so long to be answered */
	SETTLE_US = 2 * 1000 * 1000, /* builds under way have so long to end */
};

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
	(void)number;
	interrupted = 1;
}

static bool goes_on(struct drill *drill)
{
	if (interrupted && drill->end == DRILL_WHOLE) {
		drill->end = DRILL_INTERRUPTED;
		snprintf(drill->why, sizeof(drill->why), "it was interrupted");
	}
	return drill->end == DRILL_WHOLE;
}

/* A whole look, begun now. */
static bool look_afresh(struct play *play, int64_t until_us)
{
	uint64_t wanted = play->looks + (play->look_waits > 0 ? 2 : 1);

	while (goes_on(play->drill) && play->looks < wanted && load_now_us() < until_us) {
		if (play->look_waits == 0)
			play_look(play);
		load_wait(&play->drill->load, until_us);
	}
	return play->looks >= wanted;
}

/* ---- a scene ------------------------------------------------------------------------------- */

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static void play_out(struct play *play)
{
	struct drill *drill = play->drill;

	while (goes_on(drill) && load_now_us() < play->ended_us) {
		play_ask(play);
		while (play_act_due_us(play) <= load_now_us())
			play_act(play);
		const int64_t look_us = play_look_when_due(play);

		load_wait(&drill->load, least(least(look_us, play_act_due_us(play)),
					      least(play_due_us(play), play->ended_us)));
		/* What has no room waits for an answer, not for the clock. */
		if (play->no_room)
			load_wait(&drill->load, load_now_us() + 1000);
	}
}

/* Waits for what is under way: first answers, then builds that nobody waits for. */
static void wait_for_rest(struct play *play)
{
	struct drill *drill = play->drill;
	const int64_t until_us = load_now_us() + drill->facts.policy.wait_ms * 1000 + LATE_US;

	while (goes_on(drill) && (play->gets > 0 || play->others > 0) && load_now_us() < until_us)
		load_wait(&drill->load, least(until_us, play_look_when_due(play)));
	if (play->gets > 0 && goes_on(drill)) {
		judge_unanswered(&drill->judge, play->result->tally.name, play->gets);
		play_stop(drill, "requests are not answered");
	}
	if (play->others > 0)
		play_stop(drill, "%s: what the drill did to its keys is not answered",
			  play->result->tally.name);
	const int64_t settled_us = load_now_us() + SETTLE_US;

	while (look_afresh(play, load_now_us() + LATE_US) && watch_flights(&drill->watch) > 0 &&
	       load_now_us() < settled_us)
		load_wait(&drill->load, load_now_us() + REST_US);
}

/* How often the keys can have expired by themselves: never before half of their time. */
static int64_t natural_expiries(const struct play *play, const int64_t *built_us)
{
	const struct drill *drill = play->drill;
	const struct judge_policy *policy = &drill->facts.policy;
	const double now_us = (double)load_now_us();
	const double half_us = (double)policy->fresh_ms * 1000 * (1 - policy->jitter) / 2;
	const double absent_us = (double)policy->negative_ms * 1000 * (1 - policy->jitter) / 2;
	int64_t count = 0;

	for (uint32_t i = 0; i < drill->plan.keys_count && half_us > 0; i++)
		count += (int64_t)((now_us - (double)built_us[i]) / half_us);
	if (absent_us > 0)
		count += play->absents * (int64_t)((now_us - (double)play->begun_us) / absent_us);
	return count;
}

/* Changes of keys that the drill did not make. A daemon counts all that it is told of: its own
 * invalidations twice, when they are done and when all daemons are told. */
static int64_t changes_of_others(const struct play *play, const struct watch *before)
{
	const struct drill *drill = play->drill;
	const enum drill_scene scene = play->result->scene;
	const uint32_t acts = scene == SCENE_SOFT || scene == SCENE_HARD ? play->result->acts : 0;
	const uint32_t daemons = drill->watch.daemons;
	int64_t most = 0;

	for (uint32_t i = 0; i < daemons; i++) {
		const uint32_t own = (acts + daemons - 1 - i) / daemons;
		const int64_t changes = drill->watch.seen[i].counts.changes -
					before->seen[i].counts.changes - acts - own;

		most = changes > most ? changes : most;
	}
	return most;
}

/* One build for each act; one more for what cost one: an expiry, a failure, a lost lease. */
static void judge_builds(struct play *play, const struct watch *before, const int64_t *built_us)
{
	struct drill *drill = play->drill;
	struct drill_result *result = play->result;
	const struct judge_tally *tally = &result->tally;
	struct watch_counts *counts = &result->counts;

	*counts = watch_less(watch_sum(&drill->watch), watch_sum(before));
	result->builds = counts->builds - counts->locks_held;
	result->builds_allowed = result->acts + play->absents + natural_expiries(play, built_us) +
				 counts->build_failures + counts->builds_lost +
				 counts->leases_lost + counts->leases_overrun +
				 changes_of_others(play, before);
	if (drill->watch.was_alone)
		result->builds_allowed *= drill->load.sockets;
	/* A daemon that began anew counts from 0. */
	result->exact = counts->gets_total >= 0 && result->builds >= 0 &&
			(uint64_t)counts->gets_total <= tally->answered &&
			drill->watch.places <= drill->load.sockets;
	const int64_t seen = result->exact ? result->builds : (int64_t)tally->builds_seen;

	if (seen > result->builds_allowed)
		judge_breach(&drill->judge, DRILL_ONE_BUILD,
			     "%s: %" PRId64 " builds%s of %u key%s, and %" PRId64 " may be",
			     tally->name, seen, result->exact ? "" : " at least",
			     drill->plan.keys_count + play->absents,
			     drill->plan.keys_count + play->absents == 1 ? "" : "s",
			     result->builds_allowed);
}

static void play_scene(struct play *play, enum drill_scene scene)
{
	struct drill *drill = play->drill;
	const struct watch before = drill->watch;
	int64_t built_us[DRILL_KEYS_MAX];

	memcpy(built_us, drill->judge.built_us, drill->plan.keys_count * sizeof(*built_us));
	drill->watch.was_alone = false;
	play->result = &drill->results[drill->results_count++];
	*play->result =
		(struct drill_result){ .scene = scene, .tally.name = drill_scene_name(scene) };
	play->asked = 0;
	play->acted = play->absents = 0;
	play->begun_us = load_now_us();
	play->ended_us = play->begun_us + drill->plan.scene_us;
	play_out(play);
	if (goes_on(drill))
		wait_for_rest(play);
	if (!goes_on(drill))
		return;
	play->result->whole = true;
	judge_builds(play, &before, built_us);
}

/* ---- the drill ----------------------------------------------------------------------------- */

/* A young value of each key, so that none expires by itself meanwhile; none that is not there. */
static enum ctl_exit begin(struct drill *drill)
{
	enum ctl_exit exit_code = CTL_VALUE;

	segar_options options = SEGAR_OPTIONS;

	options.wait_ms = BEGIN_WAIT_MS;
	options.trace = drill->plan.get.trace;
	for (uint32_t i = 0; exit_code == CTL_VALUE && i < drill->plan.keys_count; i++) {
		const int64_t begun_us = load_now_us();
		segar_reply *reply = segar_refresh(drill->ctl->c, drill->plan.keys[i], &options);

		if (reply->status == SEGAR_OK) {
			segar_reply_free(reply);
			reply = segar_get(drill->ctl->c, drill->plan.keys[i], &options);
		}
		exit_code = ctl_exit_of(reply->status);
		if (exit_code != CTL_VALUE) {
			ctl_print_error(stdout, drill->ctl, reply->status, reply->error, -1);
		} else if (reply->results[0].state == SEGAR_ABSENT) {
			fprintf(stderr, "segarctl: there is no row of %s\n", drill->plan.keys[i]);
			exit_code = CTL_ABSENT;
		}
		segar_reply_free(reply);
		drill->judge.built_us[i] = load_now_us();
		if (i + 1 < drill->plan.keys_count)
			while (!interrupted && load_now_us() < begun_us + drill->plan.gap_us)
				load_wait(&drill->load, begun_us + drill->plan.gap_us);
		if (interrupted)
			return CTL_VALUE;
	}
	return exit_code;
}

static void play_scenes(struct drill *drill, struct play *play)
{
	if (!look_afresh(play, load_now_us() + LATE_US))
		play_stop(drill, "a daemon does not answer stats");
	drill->begin_builds = drill_builds(drill);
	for (uint32_t i = 0; i < drill->plan.scenes_count && goes_on(drill); i++)
		if (drill->plan.scenes[i] != SCENE_ABSENT || !drill->plan.no_absent)
			play_scene(play, drill->plan.scenes[i]);
	drill->builds = drill_builds(drill);
	if ((double)drill->watch.most_in_a_second > drill->facts.budget_per_s &&
	    drill->facts.budget_per_s > 0)
		judge_breach(&drill->judge, DRILL_BUDGET,
			     "%" PRId64 " builds began within a second; %.4g may",
			     drill->watch.most_in_a_second, drill->facts.budget_per_s);
	if (drill->load.strays > 0)
		judge_breach(&drill->judge, DRILL_WAITING,
			     "%" PRIu64 " responses came to no request", drill->load.strays);
}

enum ctl_exit drill_run(struct drill *drill)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct play play = { .drill = drill }, *playing = &play;
	const uint32_t sockets = (uint32_t)drill->ctl->sockets_count;
	const struct drill_plan *plan = &drill->plan;
	enum ctl_exit exit_code;

	/* Without SA_RESTART: they end a wait. A second one ends the process. */
	action.sa_flags = (int)SA_RESETHAND;
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	if (!load_open(&drill->load, drill->ctl->sockets, sockets, plan->connections,
		       play_on_answer, &playing) ||
	    !judge_open(&drill->judge, &drill->facts.policy, plan->keys_count,
			sockets * plan->connections, sockets)) {
		ctl_print_error(stdout, drill->ctl, SEGAR_NO_MEMORY, "out of memory", -1);
		return CTL_ERROR;
	}
	exit_code = begin(drill);
	if (exit_code == CTL_VALUE)
		play_scenes(drill, &play);
	return exit_code;
}

void drill_close(struct drill *drill)
{
	if (drill->load.conns)
		load_close(&drill->load);
	judge_close(&drill->judge);
	for (uint32_t i = 0; i < drill->plan.keys_count; i++)
		free(drill->plan.keys[i]);
	for (uint32_t i = 0; i < drill->plan.absent_count; i++)
		free(drill->plan.absent[i]);
}
