/* What a drill finds before it begins: the daemons' word on the keyspace, and a plan that they can
 * bear. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/ctl_find.h"
#include "client/drill.h"

enum {
	CONNECTIONS = 8,
	SECONDS = 20,
	TOP_KEYS = 1000,
	ABSENT_FROM = 2000000000, /* numbers that fit into an int4, and that nobody uses */
	ABSENT_RANGE = 100000000,
	BUILDS_IN_A_SCENE = 4, /* a scene is at least so many builds long */
};
static const double RATE = 100;

const char *drill_scene_name(enum drill_scene scene)
{
	static const char *const names[] = {
#define X(NAME, name, text) #name,
		DRILL_SCENE_MAP(X)
#undef X
	};
	return names[scene];
}

/* ---- the command line ---------------------------------------------------------------------- */

static bool add_scene(struct drill_plan *plan, const char *name, size_t len)
{
	for (int i = 0; i < DRILL_SCENES; i++) {
		const char *known = drill_scene_name((enum drill_scene)i);

		if (strlen(known) != len || memcmp(known, name, len) != 0)
			continue;
		plan->scenes[plan->scenes_count++] = (enum drill_scene)i;
		return true;
	}
	return false;
}

static enum ctl_exit take_scenes(struct drill *drill)
{
	const struct drill_line *line = &drill->ctl->drill;
	struct drill_plan *plan = &drill->plan;
	const char *at = line->scenes ? line->scenes : "soft,hard,burst,absent";

	for (;;) {
		const size_t len = strcspn(at, ",");

		if (plan->scenes_count == DRILL_SCENES_MAX)
			return drill_refuse(CTL_USAGE, "--scenes are %d at most", DRILL_SCENES_MAX);
		if (!add_scene(plan, at, len))
			return drill_refuse(
				CTL_USAGE,
				"there is no scene \"%.*s\": calm, soft, hard, burst, absent, "
				"spread",
				(int)len, at);
		if (plan->scenes[plan->scenes_count - 1] == SCENE_SPREAD && !line->whole_keyspace)
			return drill_refuse(
				CTL_USAGE,
				"scene spread invalidates the whole keyspace, also what others "
				"ask for: say --whole-keyspace");
		if (!at[len])
			return CTL_VALUE;
		at += len + 1;
	}
}

static bool is_of_keyspace(const char *key, const char *keyspace)
{
	const size_t len = strlen(keyspace);

	return strncmp(key, keyspace, len) == 0 && (key[len] == ':' || key[len] == '\0');
}

static enum ctl_exit take_line(struct drill *drill)
{
	const struct ctl *ctl = drill->ctl;
	struct drill_plan *plan = &drill->plan;

	plan->keyspace = ctl->args[0];
	plan->get = ctl->options;
	plan->connections =
		(uint32_t)(ctl->drill.connections ? ctl->drill.connections : CONNECTIONS);
	plan->rate_per_s = ctl->estimate.plan.rate_per_s > 0 ? ctl->estimate.plan.rate_per_s : RATE;
	if (strchr(plan->keyspace, ':'))
		return drill_refuse(
			CTL_USAGE, "drill takes a keyspace first, then keys: drill %.*s %s",
			(int)strcspn(plan->keyspace, ":"), plan->keyspace, plan->keyspace);
	if (plan->connections > LOAD_CONNECTIONS_MAX)
		return drill_refuse(CTL_USAGE, "--connections is %d at most", LOAD_CONNECTIONS_MAX);
	if (plan->rate_per_s > DRILL_RATE_MAX || plan->rate_per_s < 1)
		return drill_refuse(CTL_USAGE, "--rate is 1/s to %d/s", DRILL_RATE_MAX);
	for (int i = 1; i < ctl->args_count; i++) {
		if (!is_of_keyspace(ctl->args[i], plan->keyspace))
			return drill_refuse(CTL_USAGE, "%s is no key of %s", ctl->args[i],
					    plan->keyspace);
		plan->keys[plan->keys_count] = strdup(ctl->args[i]);
		if (!plan->keys[plan->keys_count])
			return drill_refuse(CTL_ERROR, "out of memory");
		plan->keys_count++;
	}
	return take_scenes(drill);
}

/* ---- keys ---------------------------------------------------------------------------------- */

static void take_hot(void *arg, struct wire_span item)
{
	struct drill_plan *plan = arg;
	const struct wire_span key = ctl_text(item, "key");
	char *text = plan->keys_count == 0 ? strndup(key.data, key.len) : NULL;

	if (text && is_of_keyspace(text, plan->keyspace))
		plan->keys[plan->keys_count++] = text;
	else
		free(text);
}

/* The hottest key of the keyspace that the first daemon knows. */
static enum ctl_exit find_key(struct drill *drill)
{
	enum ctl_exit exit_code;
	segar_reply *reply = drill_call(drill, drill->ctl->c, "top", NULL, TOP_KEYS, &exit_code);

	if (!reply)
		return exit_code;
	ctl_each(ctl_encoded(reply), "hot", take_hot, &drill->plan);
	segar_reply_free(reply);
	if (drill->plan.keys_count > 0)
		return CTL_VALUE;
	return drill_refuse(CTL_USAGE,
			    "%s knows no hot key of %s: name one: segarctl drill %s %s:...",
			    drill->ctl->sockets[0], drill->plan.keyspace, drill->plan.keyspace,
			    drill->plan.keyspace);
}

static bool is_number(const char *text)
{
	return *text && strspn(text, "0123456789") == strlen(text);
}

static bool is_uuid(const char *text)
{
	return strlen(text) == 36 && text[8] == '-' && text[13] == '-' &&
	       strspn(text, "0123456789abcdef-") == 36;
}

/* A key like the first one that nobody has, as far as one can tell; owned. */
static char *make_absent(const struct drill *drill, uint32_t number)
{
	const char *key = drill->plan.keys[0], *last = strrchr(key, ':');
	char *text = NULL;
	int len;

	if (drill->ctl->drill.absent)
		len = asprintf(&text, "%s%" PRIu32, drill->ctl->drill.absent, number);
	else if (is_number(last + 1))
		len = asprintf(&text, "%.*s%" PRIu32, (int)(last + 1 - key), key, number);
	else if (is_uuid(last + 1))
		len = asprintf(&text, "%.*s00000000-0000-4000-8000-%012" PRIx32,
			       (int)(last + 1 - key), key, number);
	else
		len = asprintf(&text, "%s-drill-%" PRIu32, key, number);
	return len < 0 ? NULL : text;
}

static enum ctl_exit make_absents(struct drill *drill)
{
	struct drill_plan *plan = &drill->plan;
	struct timespec now;

	if (drill->ctl->drill.absent && !is_of_keyspace(drill->ctl->drill.absent, plan->keyspace))
		return drill_refuse(CTL_USAGE, "--absent %s is no beginning of a key of %s",
				    drill->ctl->drill.absent, plan->keyspace);
	if (!drill->ctl->drill.absent && !strchr(plan->keys[0], ':')) {
		plan->no_absent = "its keys have no arguments";
		return CTL_VALUE;
	}
	if (drill->facts.policy.negative_ms < 1000) {
		plan->no_absent = "\"no such row\" is kept for less than a second";
		return CTL_VALUE;
	}
	/* Others than those of the last drill, which may be remembered still. */
	clock_gettime(CLOCK_REALTIME, &now);
	const uint32_t first =
		ABSENT_FROM +
		(uint32_t)((now.tv_sec * 1000 + now.tv_nsec / 1000000) % ABSENT_RANGE);

	for (uint32_t i = 0; i < plan->absent_count; i++) {
		plan->absent[i] = make_absent(drill, first + i);
		if (!plan->absent[i])
			return drill_refuse(CTL_ERROR, "out of memory");
	}
	return CTL_VALUE;
}

/* ---- the plan ------------------------------------------------------------------------------ */

static bool plays(const struct drill_plan *plan, enum drill_scene scene)
{
	for (uint32_t i = 0; i < plan->scenes_count; i++)
		if (plan->scenes[i] == scene)
			return true;
	return false;
}

/* Builds that the scenes call for, with one of each key to begin with. */
static int64_t count_builds(const struct drill_plan *plan)
{
	int64_t builds = plan->keys_count;

	for (uint32_t i = 0; i < plan->scenes_count; i++) {
		if (plan->scenes[i] == SCENE_ABSENT)
			builds += plan->no_absent ? 0 : plan->absent_count;
		else if (plan->scenes[i] != SCENE_CALM)
			builds += plan->keys_count;
	}
	return builds;
}

static enum ctl_exit make_plan(struct drill *drill)
{
	const struct drill_line *line = &drill->ctl->drill;
	const struct drill_facts *facts = &drill->facts;
	struct drill_plan *plan = &drill->plan;
	const double seconds = line->seconds > 0 ? line->seconds : SECONDS;
	const double scene_s = seconds / plan->scenes_count;
	const double gap_s = facts->budget_per_s > 0 ? DRILL_BUDGET_SHARE / facts->budget_per_s : 0;
	/* Acts take up to three tenths of a scene, and their builds as long again. */
	const double least_s = fmax(fmax(1, BUILDS_IN_A_SCENE * facts->build_us / 1e6),
				    gap_s * plan->keys_count / 0.3);
	const double absent = facts->budget_per_s / DRILL_ABSENT_SHARE * scene_s * 0.7;
	enum ctl_exit exit_code;

	if (scene_s < least_s)
		return drill_refuse(
			CTL_USAGE,
			"%u scenes of %u keys take %.0f s at least, by a budget of %.4g/s and "
			"builds of %.0f ms: say --for, fewer --scenes or fewer keys",
			plan->scenes_count, plan->keys_count, ceil(least_s * plan->scenes_count),
			facts->budget_per_s, facts->build_us / 1e3);
	plan->scene_us = (int64_t)(scene_s * 1e6);
	plan->gap_us = (int64_t)(gap_s * 1e6);
	plan->absent_count =
		plays(plan, SCENE_ABSENT) ? (uint32_t)fmax(1, fmin(absent, DRILL_ABSENT_MAX)) : 0;
	exit_code = make_absents(drill);
	if (exit_code != CTL_VALUE)
		return exit_code;
	plan->builds_planned = count_builds(plan);
	plan->builds_max = line->builds > 0
				   ? (int64_t)line->builds
				   : (int64_t)fmin(DRILL_BUILDS_MAX,
						   2 * (double)plan->builds_planned + 10 +
							   2 * facts->builds_per_s * seconds);
	if (plan->builds_planned > plan->builds_max)
		return drill_refuse(CTL_USAGE,
				    "the plan asks for %" PRId64
				    " builds, and --builds allows %" PRId64,
				    plan->builds_planned, plan->builds_max);
	return CTL_VALUE;
}

enum ctl_exit drill_prepare(struct drill *drill)
{
	struct drill_facts *facts = &drill->facts;
	enum ctl_exit exit_code = take_line(drill);

	drill->watch.daemons = (uint32_t)drill->ctl->sockets_count;
	if (exit_code == CTL_VALUE)
		exit_code = drill_look_at_others(drill);
	if (exit_code == CTL_VALUE && drill->plan.keys_count == 0)
		exit_code = find_key(drill);
	if (exit_code == CTL_VALUE)
		exit_code = make_plan(drill);
	if (drill->plan.get.wait_ms != SEGAR_UNSET)
		facts->policy.wait_ms = drill->plan.get.wait_ms;
	if (drill->plan.get.max_stale_ms != SEGAR_UNSET &&
	    drill->plan.get.max_stale_ms < facts->policy.stale_ms)
		facts->policy.stale_ms = drill->plan.get.max_stale_ms;
	if (drill->ctl->drill.max_age_s > 0)
		facts->policy.max_age_ms = (int64_t)(drill->ctl->drill.max_age_s * 1000);
	return exit_code;
}
