/* A drill: what becomes of a user's own fleet when a hot key expires, played with acts that are
 * safe on a live system. Words:
 *
 * A scene is one kind of trouble, played once while requests go on; an act is what it does to a
 *key. The plan says what will be done, the facts what daemons said before it began, the judge
 * (drill_judge.h) what clients got, the watch (drill_watch.h) what daemons counted.
 *
 *	drill_prepare ──> drill_run ──> drill_report ──> drill_close (from anywhere)
 *
 * Limits, kept by whatever is asked for: DRILL_…_MAX below, a tenth of the origin's budget for what
 * it expires, a twentieth for keys that aren't there, and plan.builds_max.
 */
#pragma once

#include "client/ctl.h"
#include "client/drill_judge.h"
#include "client/drill_load.h"
#include "client/drill_watch.h"

enum {
	DRILL_KEYS_MAX = 100,
	DRILL_RATE_MAX = 10000, /* requests a second, over all daemons */
	DRILL_SECONDS_MAX = 600,
	DRILL_BUILDS_MAX = 10000,
	DRILL_ABSENT_MAX = 50, /* keys that aren't there */
	DRILL_BUDGET_SHARE = 10,
	DRILL_ABSENT_SHARE = 20,
	DRILL_SCENES_MAX = 12, /* played; one may come again */
};

/* X(NAME, name, what it does) */
#define DRILL_SCENE_MAP(X)                                                                         \
	X(CALM, calm, "nothing is done")                                                           \
	X(SOFT, soft, "each key is invalidated: stale replies until it is built")                  \
	X(HARD, hard, "each key is invalidated and not served stale: all wait for its build")      \
	X(BURST, burst, "each connection asks for a refresh of each key at once")                  \
	X(ABSENT, absent, "half of the requests are for keys that aren't there")                   \
	X(SPREAD, spread, "the whole keyspace is invalidated, over most of the scene")

enum drill_scene {
#define X(NAME, name, text) SCENE_##NAME,
	DRILL_SCENE_MAP(X)
#undef X
};
#define X(NAME, name, text) +1
enum { DRILL_SCENES = DRILL_SCENE_MAP(X) };
#undef X

const char *drill_scene_name(enum drill_scene scene);

struct drill_plan {
	const char *keyspace;
	char *keys[DRILL_KEYS_MAX]; /* owned */
	uint32_t keys_count;
	uint32_t connections; /* to each daemon */
	double rate_per_s;    /* requests, over all daemons */
	enum drill_scene scenes[DRILL_SCENES_MAX];
	uint32_t scenes_count;
	int64_t builds_planned, builds_max;
	segar_options get;
	/* what follows from the facts */
	int64_t scene_us; /* of each */
	int64_t gap_us;   /* between two acts */
	uint32_t absent_count;
	char *absent[DRILL_ABSENT_MAX]; /* owned */
	const char *no_absent;          /* why that scene cannot be played, or NULL */
};

/* What was so before it began. */
struct drill_facts {
	struct judge_policy policy;
	double budget_per_s, concurrency, fleet;
	double places;                   /* daemons that live; 0: it stands alone */
	double build_us;                 /* how long a build takes, smoothed; 0: not known */
	double gets_per_s, builds_per_s; /* of the keyspace, by others */
	double all_builds_per_s;         /* of all keyspaces */
};

/* What came of a scene. */
struct drill_result {
	enum drill_scene scene;
	struct judge_tally tally;
	struct watch_counts counts; /* what daemons counted meanwhile */
	int64_t builds, builds_allowed;
	bool exact; /* nobody else asked: the daemons' count of builds is that of the drill's keys
		     */
	bool whole; /* it was played to its end */
	uint32_t acts;
};

enum drill_end { DRILL_WHOLE, DRILL_STOPPED, DRILL_INTERRUPTED };

struct drill {
	struct ctl *ctl;
	struct drill_plan plan;
	struct drill_facts facts;
	struct load load;
	struct judge judge;
	struct watch watch;
	struct watch_counts before; /* the whole */
	int64_t builds,
		begin_builds; /* in all; of these, to begin with a young value of each key */
	struct drill_result results[DRILL_SCENES_MAX];
	uint32_t results_count;
	enum drill_end end;
	char why[512]; /* it did not come to its end */
};

/* Asks the daemons, and makes the plan from the command line. Says what is wrong. */
enum ctl_exit drill_prepare(struct drill *drill);

/* Parts of it: asks the daemons, twice; asks one, the reply is the caller's, or NULL once its error
 * has been shown; says what is wrong. */
enum ctl_exit drill_look_at_others(struct drill *drill);
segar_reply *drill_call(const struct drill *drill, segar *c, const char *method, const char *param,
			int64_t number, enum ctl_exit *ret_exit);
__attribute__((format(printf, 2, 3))) enum ctl_exit drill_refuse(enum ctl_exit exit_code,
								 const char *format, ...);

/* Shows what will be done, on stderr. */
void drill_show_plan(const struct drill *drill);

/* Plays the scenes. */
enum ctl_exit drill_run(struct drill *drill);

/* Shows what came of it; how it ends. */
enum ctl_exit drill_report(const struct drill *drill);

void drill_close(struct drill *drill);

/* Builds that the daemons have begun since the drill began. */
int64_t drill_builds(const struct drill *drill);
