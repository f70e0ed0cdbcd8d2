/* Early refresh in whole fleets: one hot key, read 100 times in the time of a build, or oftener,
 * over all daemons together. Of its expiries
 *   - each is one build,
 *   - which takes at most three attempts at its lease on average, however many daemons there are,
 *   - and fewer than 1 % come before the new value is there: nobody but them sees a stale one.
 *
 * Usage: early [NODES...]. Exits with 0 if all hold. Seeds are fixed: two runs say the same.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "fleet.h"

enum {
	BUILD_US = 25 * MS,
	READS_PER_BUILD = 100, /* over the fleet */
	WARM_US = 8 * SECOND,  /* by then each daemon has a copy */
};

/* What came of one fleet; first what had come of it when it was warm. */
struct study {
	uint32_t expiries, stale, builds, lease_attempts;
};

/* So many saves came when the value before had expired. */
static uint32_t count_stale(const struct fleet *fleet, const struct key_history *history)
{
	uint32_t stale = 0;
	for (uint32_t i = 1; i < history->saves_count; i++) {
		const struct build_record *before =
			judge_record(&fleet->judge, history->saves[i - 1].build);
		stale += history->saves[i].at_us >=
			 before->began_us + fleet->scene.policies[0].fresh_us;
	}
	return stale;
}

/* The numbers since the last look. */
static void study_fleet(const struct fleet *fleet, void *arg)
{
	struct study *study = arg, before = *study;
	const struct key_history *history = &fleet->judge.keys[HOT_KEY];
	*study = (struct study){ .expiries = history->saves_count,
				 .stale = count_stale(fleet, history),
				 .builds = history->builds_count };
	for (int i = 0; i < fleet->scene.nodes; i++)
		study->lease_attempts += (uint32_t)fleet->nodes[i].engine->counters.leases_asked;
	study->expiries -= before.expiries;
	study->stale -= before.stale;
	study->builds -= before.builds;
	study->lease_attempts -= before.lease_attempts;
}

static void draw(struct scene *scene, int nodes, int seconds)
{
	struct scene_options options = { .nodes = nodes, .seconds = seconds, .only_set = true };
	scene_draw(scene, 7, &options);
	scene->concurrency = 40;
	scene->budget_per_s = 1000;
	scene->ample = scene->even_builds = true;
	scene->build_mean_us = BUILD_US;
	scene->trust_us = 2 * SECOND;
	scene->near_bytes = 1 << 20;
	scene->hot_per_s = READS_PER_BUILD * 1e6 / BUILD_US / nodes;
	scene->asks_per_s = 0;
	scene->commits_per_s = 0;
	scene->refreshes = scene->min_versions = scene->invalidations = 0;
	scene->immediates = scene->unstales = 0;
	scene->rest_us = scene->length_us;
	struct policy *policy = &scene->policies[0];
	policy->fresh_us = 1200 * MS;
	policy->stale_us = 2 * SECOND;
	policy->jitter = 0;
	policy->early = 1;
	policy->build_timeout_us = 4 * SECOND;
	policy->lease_us = 0;
}

static bool holds(const struct study *study)
{
	/* At the edges of the time a build may have begun whose value was not stored. */
	return study->stale * 100 < study->expiries && study->builds <= study->expiries + 1 &&
	       study->lease_attempts <= 3 * study->builds;
}

static bool try_fleet(int nodes, int seconds)
{
	struct scene scene;
	struct study study = { 0 };
	draw(&scene, nodes, seconds);
	fleet_study(&scene, WARM_US, study_fleet, &study);
	printf("nodes=%d expiries=%u stale=%u builds=%u attempts=%.2f %s\n", nodes, study.expiries,
	       study.stale, study.builds, (double)study.lease_attempts / study.builds,
	       holds(&study) ? "ok" : "BROKEN");
	return holds(&study);
}

int main(int argc, char **argv)
{
	/* Long enough for the average to say something: an expiry of 1,000 daemons takes 0 to 9. */
	static const struct {
		int nodes, seconds;
	} fleets[] = { { 10, 400 }, { 100, 400 }, { 1000, 600 } };
	bool all = true;
	for (int i = 1; i < argc; i++)
		all &= try_fleet(atoi(argv[i]), 60);
	for (size_t i = 0; i < sizeof(fleets) / sizeof(*fleets) && argc == 1; i++)
		all &= try_fleet(fleets[i].nodes, fleets[i].seconds);
	return all ? EXIT_SUCCESS : EXIT_FAILURE;
}
