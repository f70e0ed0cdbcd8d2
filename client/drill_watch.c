#include "client/drill_watch.h"

#include "client/ctl_find.h"

void watch_take_keyspace(struct watch *watch, uint32_t daemon, struct wire_span stats)
{
#define X(name) watch->seen[daemon].counts.name = (int64_t)ctl_number(stats, #name);
	WATCH_COUNTER_MAP(X)
#undef X
}

void watch_take_all(struct watch *watch, uint32_t daemon, struct wire_span stats)
{
	struct watch_daemon *seen = &watch->seen[daemon];

	seen->all_builds = (int64_t)(ctl_number(stats, "builds") - ctl_number(stats, "locks_held"));
	seen->all_batches = (int64_t)ctl_number(stats, "batches");
	seen->flights = (int64_t)ctl_number(stats, "flights");
	seen->building = (int64_t)ctl_number(stats, "origin_building");
	seen->alone = ctl_find(stats, "store_up").data &&
		      (ctl_number(stats, "store_up") == 0 || ctl_number(stats, "store_alone") != 0);
	watch->was_alone |= seen->alone;
	const int64_t places = (int64_t)ctl_number(stats, "store_places_live");

	if (places > watch->places)
		watch->places = places;
}

/* The builds between two looks all began within a second, if the looks did. Those of a batch share
 * a statement, and it is statements that the budget is of: then nothing is known. */
static void compare(struct watch *watch, const struct watch_look *then,
		    const struct watch_look *now)
{
	const int64_t builds = now->builds - then->builds;

	if (now->ended_us - then->begun_us <= 1000000 && now->batches == then->batches &&
	    builds > watch->most_in_a_second)
		watch->most_in_a_second = builds;
}

void watch_look(struct watch *watch, int64_t begun_us, int64_t ended_us)
{
	struct watch_look now = { .begun_us = begun_us, .ended_us = ended_us };
	int64_t building = 0;

	for (uint32_t i = 0; i < watch->daemons; i++) {
		now.builds += watch->seen[i].all_builds;
		now.batches += watch->seen[i].all_batches;
		building += watch->seen[i].building;
	}
	if (building > watch->most_at_once)
		watch->most_at_once = building;
	for (uint64_t i = 0; i < watch->looked && i < WATCH_LOOKS; i++)
		compare(watch, &watch->looks[i], &now);
	watch->looks[watch->looked++ % WATCH_LOOKS] = now;
}

struct watch_counts watch_sum(const struct watch *watch)
{
	struct watch_counts sum = { 0 };

	for (uint32_t i = 0; i < watch->daemons; i++) {
#define X(name) sum.name += watch->seen[i].counts.name;
		WATCH_COUNTER_MAP(X)
#undef X
	}
	return sum;
}

int64_t watch_flights(const struct watch *watch)
{
	int64_t flights = 0;

	for (uint32_t i = 0; i < watch->daemons; i++)
		flights += watch->seen[i].flights;
	return flights;
}

struct watch_counts watch_less(struct watch_counts after, struct watch_counts before)
{
#define X(name) after.name -= before.name;
	WATCH_COUNTER_MAP(X)
#undef X
	return after;
}
