/* What a shared store's answers lead to: entries of other daemons, trust, a store that is away. */
#include "core/loading.h"

#include <criterion/criterion.h>
#include <string.h>

#include "world.h"

static struct world world;
static struct client a, b;

static void open_world(void)
{
	world_defaults(&world);
	world_open(&world);
}

static void close_world(void)
{
	world_close(&world);
}

TestSuite(loading, .init = open_world, .fini = close_world);

#define ASSERT_VALUE(client, at_state, at_value)                                                   \
	do {                                                                                       \
		cr_assert((client)->answered, "no answer yet");                                    \
		cr_assert_eq((client)->answer.status, STATUS_OK, "%s",                             \
			     status_name((client)->answer.status));                                \
		cr_assert_str_eq(answer_state_name((client)->answer.state), at_state);             \
		cr_assert_str_eq((client)->value, at_value);                                       \
	} while (0)

static struct store_listener listener(void)
{
	return pump_listener(&world.pump);
}

/* A first value of our own, as the store has it too. */
static void have_shared_value(void)
{
	world_get(&world, &a, "a");
	world_run(&world, SECOND);
	struct query query = a.request.query;
	struct near_entry *ne = near_find(&world.engine->near, &query.key);
	world_share(&world, "v1", ne->entry.generated_at_us, ne->entry.fence);
}

static void distrust(void)
{
	struct store_listener told = listener();
	told.trusted(told.impl, 0);
}

static void trust(void)
{
	struct store_listener told = listener();
	told.trusted(told.impl, world.now_us + 100 * SECOND);
}

Test(loading, what_another_built_is_an_answer_without_a_build)
{
	world_share(&world, "theirs", world.now_us - SECOND, 7);
	world_get(&world, &a, "a");
	world_run(&world, 0);
	ASSERT_VALUE(&a, "fresh", "theirs");
	cr_assert_eq(a.answer.source, SOURCE_STORE);
	cr_assert_eq(a.answer.age_us, SECOND);
	cr_assert_eq(world.builds, 0);
	world_get(&world, &a, "a");
	cr_assert_eq(a.answer.source, SOURCE_NEAR);
	cr_assert_eq(a.answer.ttl_us, 9 * SECOND, "a copy's life began anew");
}

/* Else a fleet's copies would only be refreshed early by the few daemons that have built before. */
Test(loading, who_has_built_nothing_yet_refreshes_early_by_what_the_others_needed)
{
	world.policy.early = 1;
	world_share(&world, "theirs", world.now_us, 5);
	world.shared.build_us = 100 * MS;
	world_get(&world, &a, "a");
	world_run(&world, 10 * MS);
	ASSERT_VALUE(&a, "fresh", "theirs");
	for (int i = 0; i < 990 && world.builds == 0; i++) {
		world_get(&world, &a, "a");
		ASSERT_VALUE(&a, "fresh", "theirs");
		world_run(&world, 10 * MS);
	}
	cr_assert_eq(world.builds, 1);
}

Test(loading, a_stale_entry_is_served_at_once_while_it_is_refreshed)
{
	world_share(&world, "theirs", world.now_us - 11 * SECOND, 7);
	world_get(&world, &a, "a");
	world_run(&world, 10 * MS);
	ASSERT_VALUE(&a, "stale", "theirs");
	world_run(&world, SECOND);
	cr_assert_eq(world.builds, 1);
	world_get(&world, &b, "a");
	ASSERT_VALUE(&b, "fresh", "v1");
}

Test(loading, who_forbids_stale_waits_for_the_build)
{
	world_share(&world, "theirs", world.now_us - 11 * SECOND, 7);
	world_get(&world, &a, "a");
	b = (struct client){ 0 };
	b.request.query.wait_us = SECOND;
	b.request.query.has_max_stale = true;
	world_ask(&world, &b, "a");
	world_run(&world, 10 * MS);
	ASSERT_VALUE(&a, "stale", "theirs");
	cr_assert_not(b.answered);
	world_run(&world, SECOND);
	ASSERT_VALUE(&b, "fresh", "v1");
}

Test(loading, a_refresh_builds_whatever_the_store_has)
{
	world_share(&world, "theirs", world.now_us, 7);
	world_refresh(&world, &a, "a");
	world_get(&world, &b, "a");
	world_run(&world, 10 * MS);
	ASSERT_VALUE(&b, "fresh", "theirs");
	cr_assert_not(a.answered);
	world_run(&world, SECOND);
	cr_assert(a.answered && a.answer.built);
	cr_assert_eq(world.builds, 1);
}

Test(loading, without_trust_a_near_entry_is_looked_up_by_its_header)
{
	have_shared_value();
	distrust();
	int loads = world.loads, values = world.values_loaded;
	for (int i = 0; i < 3; i++) {
		world_get(&world, &a, "a");
		cr_assert_not(a.answered);
		world_run(&world, 0);
		ASSERT_VALUE(&a, "fresh", "v1");
	}
	cr_assert_eq(world.loads, loads + 3);
	cr_assert_eq(world.values_loaded, values, "the value was sent again");
	cr_assert_eq(world.builds, 1);
}

Test(loading, with_trust_again_each_entry_is_looked_up_once)
{
	have_shared_value();
	distrust();
	trust();
	int loads = world.loads;
	for (int i = 0; i < 3; i++) {
		world_get(&world, &a, "a");
		world_run(&world, 0);
		ASSERT_VALUE(&a, "fresh", "v1");
	}
	cr_assert_eq(world.loads, loads + 1);
}

Test(loading, trust_ends_by_itself)
{
	have_shared_value();
	struct store_listener told = listener();
	told.trusted(told.impl, world.now_us + 2 * SECOND);
	world_get(&world, &a, "a");
	cr_assert(a.answered);
	world.now_us += 3 * SECOND; /* as if the process had been stopped */
	pump_now_us(&world.pump);
	world_get(&world, &a, "a");
	cr_assert_not(a.answered, "trusted after its time");
	world_run(&world, 0);
	ASSERT_VALUE(&a, "fresh", "v1");
}

Test(loading, without_trust_what_the_store_has_lost_is_not_fresh)
{
	have_shared_value();
	distrust();
	world.has_shared = false;
	world_get(&world, &a, "a");
	world_run(&world, 10 * MS);
	cr_assert(!a.answered || a.answer.state == ANSWER_STALE);
	world_run(&world, SECOND);
	cr_assert_eq(world.builds, 2);
}

Test(loading, a_newer_entry_of_the_store_replaces_ours)
{
	have_shared_value();
	world_share(&world, "newer", world.now_us, UINT64_MAX / 2);
	struct store_listener told = listener();
	told.settled(told.impl, "k:a", 3, UINT64_MAX / 2);
	world_get(&world, &a, "a");
	world_run(&world, 0);
	ASSERT_VALUE(&a, "fresh", "newer");
	cr_assert_eq(world.builds, 1);
}

Test(loading, an_older_row_does_not_come_back_from_a_store_that_lost_its_last_writes)
{
	world.policy.single_row = true;
	world.script.version = 9;
	have_shared_value();
	world_share(&world, "older", world.now_us, UINT64_MAX / 2);
	world.shared.has_version = true;
	world.shared.version = 8;
	distrust();
	world_get(&world, &a, "a");
	world_run(&world, SECOND);
	cr_assert(a.answered);
	cr_assert_geq(a.answer.version, 9);
}

Test(loading, nor_when_the_near_cache_has_evicted_what_it_served)
{
	world.policy.single_row = true;
	world.script.version = 9;
	have_shared_value();
	struct near_entry *ne = near_find(&world.engine->near, &a.request.query.key);
	ghosts_note(&world.engine->near.ghosts, ne->node.hash ^ ne->entry.definition, 9,
		    ne->entry.stale_until_us, world.now_us);
	near_remove(&world.engine->near, ne);
	world_share(&world, "older", world.now_us, UINT64_MAX / 2);
	world.shared.has_version = true;
	world.shared.version = 8;
	world_get(&world, &a, "a");
	world_run(&world, SECOND);
	cr_assert(a.answered);
	cr_assert_geq(a.answer.version, 9);
}

Test(loading, nor_when_it_is_the_lease_that_finds_the_older_row)
{
	world_close(&world);
	world_defaults(&world);
	world.limits.concurrency = 1;
	world.policy.single_row = true;
	world.script.version = 9;
	world_open(&world);
	world_get(&world, &a, "a");
	world_run(&world, 12 * SECOND);
	world_get(&world, &b, "b"); /* has the only room */
	a = (struct client){ 0 };
	a.request.query.wait_us = SECOND;
	a.request.query.has_max_stale = true;
	world_ask(&world, &a, "a");
	world_run(&world, SECOND / 100);
	world_share(&world, "older", world.now_us, UINT64_MAX / 2);
	world.shared.has_version = true;
	world.shared.version = 8;
	world_run(&world, SECOND);
	cr_assert(a.answered);
	cr_assert_eq(a.answer.status, STATUS_OK);
	cr_assert_geq(a.answer.version, 9);
}

Test(loading, a_change_told_during_the_load_makes_its_entry_stale)
{
	world_share(&world, "theirs", world.now_us, 7);
	world_get(&world, &a, "a");
	struct store_listener told = listener();
	told.changed(told.impl, "k:a", 3, 8, false);
	world_run(&world, 0);
	ASSERT_VALUE(&a, "stale", "theirs");
	cr_assert_eq(a.answer.reason, REASON_CHANGED);
	world_run(&world, SECOND);
	cr_assert_eq(world.builds, 1);
}

Test(loading, a_hard_change_told_during_the_load_forbids_its_entry)
{
	world_share(&world, "theirs", world.now_us, 7);
	world_get(&world, &a, "a");
	struct store_listener told = listener();
	told.changed(told.impl, "k:a", 3, 8, true);
	world_run(&world, SECOND);
	ASSERT_VALUE(&a, "fresh", "v1");
}

/* An epoch expires it later, so that it says that it is changed. */
Test(loading, a_change_told_during_the_load_counts_before_an_epochs_time)
{
	struct store_listener told = listener();
	told.epoch(told.impl, "k", 1, world.now_us + 2 * SECOND, 0);
	for (int hard = 0; hard <= 1; hard++) {
		const char *arg = hard ? "hard" : "soft", *key = hard ? "k:hard" : "k:soft";
		struct client *client = hard ? &b : &a;
		world_share(&world, "theirs", world.now_us - 1, 7);
		world_get(&world, client, arg);
		told.changed(told.impl, key, strlen(key), 8, hard);
		world_run(&world, 0);
		if (hard)
			cr_assert_not(client->answered);
		else
			ASSERT_VALUE(client, "stale", "theirs");
		world_run(&world, SECOND);
	}
}

Test(loading, while_the_store_is_away_our_own_value_is_served_and_says_so)
{
	have_shared_value();
	distrust();
	world.away = true;
	world_get(&world, &a, "a");
	world_run(&world, 0);
	ASSERT_VALUE(&a, "fresh", "v1");
	cr_assert_eq(a.answer.reason, REASON_UNAVAILABLE);
	cr_assert_eq(world.builds, 1);
}

Test(loading, while_the_store_is_away_a_cold_key_is_built_once_without_the_keys_lock)
{
	world.away = true;
	world_get(&world, &a, "a");
	world_get(&world, &b, "a");
	world_run(&world, SECOND);
	ASSERT_VALUE(&a, "fresh", "v1");
	ASSERT_VALUE(&b, "fresh", "v1");
	cr_assert_eq(world.builds, 1);
	cr_assert_eq(world.key_locks, 0);
}

/* It came into a store that had been flushed between the refresh's look and its lease. */
Test(loading, a_refresh_is_not_answered_by_what_was_given_back_since_it_came)
{
	world.engine->bulkhead.limit = 1;
	world_get(&world, &b, "b");
	world_run(&world, 10 * MS);
	world_refresh(&world, &a, "a");
	world_run(&world, 10 * MS);
	world_share(&world, "old", world.now_us - SECOND, (uint64_t)world.now_us + SECOND);
	world_run(&world, SECOND);
	cr_assert(a.answered && a.answer.built, "answered by what was there before");
	cr_assert_eq(world.builds, 2);
}

/* Its fence is by a clock that may be ahead of the store's. */
Test(loading, what_was_built_while_the_store_was_away_ends_with_any_change_that_is_told)
{
	struct store_listener told = listener();
	world.away = true;
	world_get(&world, &a, "a");
	world_get(&world, &b, "b");
	world_run(&world, SECOND);
	ASSERT_VALUE(&a, "fresh", "v1");
	told.changed(told.impl, "k:a", 3, 1, true);
	told.changed(told.impl, "k:b", 3, 1, false);
	world_get(&world, &a, "a");
	world_get(&world, &b, "b");
	ASSERT_VALUE(&b, "stale", "v2");
	world_run(&world, SECOND);
	ASSERT_VALUE(&a, "fresh", "v3");
}

/* Each permit given back for a lease that will not come is a build less. */
Test(loading, where_the_store_gives_permits_but_no_leases_no_permit_is_wasted)
{
	world.refuses_leases = true;
	world_get(&world, &a, "a");
	world_get(&world, &b, "b");
	world_run(&world, SECOND);
	ASSERT_VALUE(&a, "fresh", "v1");
	ASSERT_VALUE(&b, "fresh", "v2");
	cr_assert_eq(world.engine->counters.retries_lease, 0);
	world.refuses_leases = false;
	world_get(&world, &b, "c");
	world_run(&world, SECOND);
	ASSERT_VALUE(&b, "fresh", "v3");
	cr_assert_eq(world.engine->no_leases_us, 0, "it gives them again");
}

static struct client again;

/* Out of memory, read-only: what is built is not stored, however often. */
static void own_value_lives_its_time(void)
{
	world.refuses_leases = true;
	world_get(&world, &b, "a");
	world_run(&world, SECOND);
	ASSERT_VALUE(&b, "fresh", "v2");
	for (int i = 0; i < 5; i++) {
		world_get(&world, &again, "a");
		world_run(&world, SECOND);
		ASSERT_VALUE(&again, "fresh", "v2");
		cr_assert_eq(again.answer.reason, REASON_UNAVAILABLE);
	}
	cr_assert_eq(world.builds, 2);
}

Test(loading, out_of_memory_our_own_lives_its_time_with_trust)
{
	world_get(&world, &a, "b");
	world_run(&world, SECOND);
	own_value_lives_its_time();
}

Test(loading, beside_an_old_entry_of_a_store_that_takes_no_writes_our_own_lives_its_time)
{
	have_shared_value();
	world.shared.fresh_until_us = world.shared.stale_until_us = world.now_us;
	near_find(&world.engine->near, &a.request.query.key)->entry.fresh_until_us = world.now_us;
	near_find(&world.engine->near, &a.request.query.key)->entry.stale_until_us = world.now_us;
	near_find(&world.engine->near, &a.request.query.key)->next_at_us = world.now_us;
	distrust();
	own_value_lives_its_time();
}

Test(loading, what_a_store_that_takes_no_writes_does_not_have_lives_its_time)
{
	world_get(&world, &a, "b");
	world_run(&world, SECOND);
	distrust();
	own_value_lives_its_time();
}

Test(loading, once_the_store_takes_writes_again_our_own_is_built_anew)
{
	world_get(&world, &a, "b");
	world_run(&world, SECOND);
	distrust();
	own_value_lives_its_time();
	world.refuses_leases = false;
	trust();
	world_get(&world, &again, "a");
	world_run(&world, SECOND);
	world_get(&world, &again, "a");
	world_run(&world, SECOND);
	ASSERT_VALUE(&again, "fresh", "v3");
	cr_assert_eq(again.answer.reason, REASON_NONE);
	cr_assert_eq(world.builds, 3);
}

Test(loading, nor_does_trust_alone_end_it_while_the_store_takes_no_writes)
{
	world_get(&world, &a, "b");
	world_run(&world, SECOND);
	distrust();
	own_value_lives_its_time();
	trust();
	world_get(&world, &again, "a");
	world_run(&world, SECOND);
	ASSERT_VALUE(&again, "fresh", "v2");
	cr_assert_eq(again.answer.reason, REASON_UNAVAILABLE);
	cr_assert_eq(world.builds, 2);
}

/* The build ends when the store has been back for a while, and trust with it. */
Test(loading, what_was_built_on_our_own_is_not_kept_from_a_store_that_is_back)
{
	distrust();
	world.away = true;
	world_get(&world, &a, "a");
	world_run(&world, 50 * MS);
	world.away = false;
	trust();
	world_run(&world, SECOND);
	ASSERT_VALUE(&a, "fresh", "v1");
	world_get(&world, &b, "a");
	world_run(&world, 0);
	ASSERT_VALUE(&b, "stale", "v1");
	world_run(&world, SECOND);
	world_get(&world, &again, "a");
	world_run(&world, 0);
	ASSERT_VALUE(&again, "fresh", "v2");
	cr_assert_eq(again.answer.reason, REASON_NONE);
	cr_assert_eq(world.builds, 2);
}

Test(loading, what_the_store_has_of_old_does_not_vouch_for_our_own)
{
	distrust();
	world.away = true;
	world_get(&world, &a, "a");
	world_run(&world, SECOND);
	ASSERT_VALUE(&a, "fresh", "v1");
	world.away = false;
	world_share(&world, "old", world.now_us - 5 * SECOND, 7);
	trust();
	world_get(&world, &b, "a");
	world_run(&world, 0);
	ASSERT_VALUE(&b, "stale", "v1");
	world_run(&world, SECOND);
	world_get(&world, &again, "a");
	world_run(&world, 0);
	ASSERT_VALUE(&again, "fresh", "v2");
}

/* After the store's clock has gone back, and the claim is gone. */
Test(loading, a_dead_entry_is_not_taken_for_another_of_its_fence)
{
	have_shared_value();
	struct near_entry *ne = near_find(&world.engine->near, &a.request.query.key);
	uint64_t fence = ne->entry.fence;
	world_run(&world, 20 * SECOND);
	distrust();
	world_share(&world, "new", world.now_us, fence);
	world_get(&world, &a, "a");
	world_run(&world, SECOND);
	ASSERT_VALUE(&a, "fresh", "new");
	cr_assert_eq(world.builds, 1);
}

Test(loading, who_waits_for_room_hears_of_no_absence_that_is_over)
{
	struct client c = { 0 };
	world.engine->bulkhead.limit = 1;
	world.script.takes_us = 3 * SECOND;
	world.away = true;
	world_get(&world, &a, "a");
	world_run(&world, 0);
	world_get(&world, &b, "b");
	world_run(&world, 0);
	world.away = false;
	world_get(&world, &c, "c");
	world_run(&world, 1500 * MS);
	cr_assert_eq(b.answer.status, STATUS_OVERLOADED, "%s", b.text);
	cr_assert_eq(c.answer.status, STATUS_OVERLOADED, "%s", c.text);
	world_run(&world, 3 * SECOND);
}

Test(loading, a_slow_save_holds_nobody_up_who_came_before_the_build)
{
	world.hold_saves = true;
	world_get(&world, &a, "a");
	world_run(&world, 50 * MS);
	world_get(&world, &b, "a");
	world_run(&world, 100 * MS);
	cr_assert_not(a.answered, "the store gets a moment");
	world_run(&world, 150 * MS);
	ASSERT_VALUE(&a, "fresh", "v1");
	cr_assert_eq(a.answer.ttl_us, 0, "nobody knows yet whether it may be kept");
	cr_assert_not(b.answered, "it came after the build began: the save decides");
	world_release_save(&world);
	world_run(&world, 0);
	ASSERT_VALUE(&b, "fresh", "v1");
	cr_assert_gt(b.answer.ttl_us, 0);
}

Test(loading, anothers_build_is_waited_for_and_heard_of)
{
	world_rival_leases(&world, "a");
	world_get(&world, &a, "a");
	world_run(&world, 500 * MS);
	cr_assert_not(a.answered);
	cr_assert_eq(world.builds, 0);
	world_share(&world, "theirs", world.now_us, 7);
	world_rival_releases(&world, "a");
	struct store_listener told = listener();
	told.settled(told.impl, "k:a", 3, 7);
	world_run(&world, 0);
	ASSERT_VALUE(&a, "fresh", "theirs");
	cr_assert_eq(world.builds, 0);
}

static void refresh_if_older(struct client *client, int64_t if_older_us)
{
	client->request.query = (struct query){ .kind = QUERY_REFRESH,
						.wait_us = SECOND,
						.has_if_older = true,
						.if_older_us = if_older_us };
	world_ask(&world, client, "a");
}

Test(loading, a_refresh_of_what_is_older_takes_what_another_daemon_has_just_built)
{
	world_get(&world, &a, "a");
	world_run(&world, 2 * SECOND);
	world_share(&world, "theirs", world.now_us - 100 * MS, UINT64_MAX / 2);
	refresh_if_older(&b, SECOND);
	world_run(&world, 200 * MS);
	cr_assert(b.answered && b.answer.status == STATUS_OK);
	cr_assert_not(b.answer.built);
	cr_assert_eq(world.builds, 1);
}

Test(loading, a_refresh_of_what_is_older_is_not_content_with_what_is_that_old)
{
	world_get(&world, &a, "a");
	world_run(&world, 2 * SECOND);
	world_share(&world, "theirs", world.now_us - 1500 * MS, UINT64_MAX / 2);
	refresh_if_older(&b, SECOND);
	world_run(&world, 200 * MS);
	cr_assert(b.answered && b.answer.built);
	cr_assert_eq(world.builds, 2);
}

Test(loading, nor_with_a_long_build_that_ends_while_it_waits)
{
	world_get(&world, &a, "a");
	world_run(&world, 2 * SECOND);
	world_rival_leases(&world, "a");
	refresh_if_older(&b, SECOND);
	world_run(&world, 100 * MS);
	cr_assert_not(b.answered);
	world_share(&world, "theirs", world.now_us - 1500 * MS, UINT64_MAX / 2);
	world_rival_releases(&world, "a");
	world_run(&world, 900 * MS);
	cr_assert(b.answered && b.answer.built);
	cr_assert_eq(world.builds, 2);
}

Test(loading, a_build_that_nobody_tells_of_is_found_all_the_same)
{
	world_rival_leases(&world, "a");
	world_get(&world, &a, "a");
	world_run(&world, 100 * MS);
	world_share(&world, "theirs", world.now_us, 7);
	world_rival_releases(&world, "a");
	world_run(&world, 800 * MS);
	ASSERT_VALUE(&a, "fresh", "theirs");
}

Test(loading, a_lapsed_lease_is_taken_over)
{
	world.policy.wait_us = 10 * SECOND;
	world_rival_leases(&world, "a");
	int64_t before = world.now_us;
	world_get(&world, &a, "a");
	world_run(&world, 5 * SECOND);
	ASSERT_VALUE(&a, "fresh", "v1");
	cr_assert_geq(a.answered_at_us - before, 3 * SECOND);
	cr_assert_leq(a.answered_at_us - before, 3 * SECOND + 200 * MS);
}

Test(loading, a_long_build_keeps_its_short_lease)
{
	world.policy.lease_us = SECOND;
	world.policy.wait_us = 30 * SECOND;
	world.script.takes_us = 20 * SECOND;
	world_get(&world, &a, "a");
	world_run(&world, 25 * SECOND);
	ASSERT_VALUE(&a, "fresh", "v1");
	cr_assert_geq(world.renewals, 50);
	cr_assert_eq(world.engine->counters.saves_refused, 0);
	cr_assert_eq(world.builds, 1);
}

Test(loading, a_paused_builders_value_answers_its_waiters_and_is_kept_by_nobody)
{
	world.policy.lease_us = SECOND;
	world_get(&world, &a, "a");
	world_run(&world, 50 * MS);
	world.now_us += 10 * SECOND; /* paused past its lease */
	world_rival_leases(&world, "a");
	world_run(&world, SECOND);
	cr_assert_eq(world.engine->counters.saves_refused, 1);
	cr_assert_eq(a.answers, 1);
	struct near_entry *ne = near_find(&world.engine->near, &a.request.query.key);
	cr_assert_null(ne);
}

/* A build that began after the hard change, and before a soft one: it may be stale, as any. */
Test(loading, a_hard_change_forbids_only_what_is_below_it)
{
	struct store_listener told = listener();
	world_get(&world, &a, "a");
	told.changed(told.impl, "k:a", 3, 5, true);
	world_run(&world, 50 * MS);
	told.changed(told.impl, "k:a", 3, (uint64_t)world.now_us, false);
	world_run(&world, SECOND);
	ASSERT_VALUE(&a, "fresh", "v1");
	world_get(&world, &b, "a");
	ASSERT_VALUE(&b, "stale", "v1");
}

/* The lease is asked for when the daemon stops, and another has it: no value is not "no value". */
Test(loading, who_waits_while_the_daemon_stops_is_told_so)
{
	world_rival_leases(&world, "a");
	world_get(&world, &a, "a");
	memory_store_turn(world.memory); /* the load is answered */
	pump_stop(&world.pump);
	world_run(&world, 10 * MS);
	cr_assert(a.answered);
	cr_assert_eq(a.answer.status, STATUS_UNAVAILABLE);
}

/* ---- what an answer is worth by the time it comes ----------------------------------------- */

/* The store answers so much later. */
static void answer_late(int64_t late_us)
{
	world.now_us += late_us;
	world_run(&world, 0);
}

Test(loading, an_answer_from_before_a_pause_is_asked_for_again)
{
	world.engine->limits.answer_old_us = SECOND;
	world.policy.wait_us = 20 * SECOND;
	world_share(&world, "theirs", world.now_us, 7);
	distrust();
	world_get(&world, &a, "a");
	answer_late(3 * SECOND);
	ASSERT_VALUE(&a, "fresh", "theirs");
	cr_assert_eq(world.loads, 2);
}

Test(loading, an_answer_that_was_under_way_when_trust_broke_is_looked_up_once_more)
{
	trust();
	world_share(&world, "theirs", world.now_us, 7);
	world_get(&world, &a, "a");
	distrust();
	trust();
	world_run(&world, 0);
	ASSERT_VALUE(&a, "fresh", "theirs");
	world_get(&world, &b, "a");
	cr_assert_not(b.answered);
	world_run(&world, 0);
	ASSERT_VALUE(&b, "fresh", "theirs");
	cr_assert_eq(world.loads, 2);
	world_get(&world, &b, "a");
	cr_assert(b.answered);
}

Test(loading, an_answer_older_than_what_was_told_meanwhile_is_looked_up_once_more)
{
	struct store_listener told = listener();
	world_share(&world, "theirs", world.now_us, 7);
	world_get(&world, &a, "a");
	told.settled(told.impl, "k:a", 3, 8);
	world_run(&world, 0);
	world_share(&world, "newer", world.now_us, 8);
	world_get(&world, &b, "a");
	world_run(&world, 0);
	ASSERT_VALUE(&b, "fresh", "newer");
}

Test(loading, what_was_built_while_the_store_was_away_is_not_plainly_fresh)
{
	world.away = true;
	world_get(&world, &a, "a");
	world_run(&world, 50 * MS);
	world_get(&world, &b, "a");
	world_run(&world, SECOND);
	ASSERT_VALUE(&a, "fresh", "v1");
	ASSERT_VALUE(&b, "fresh", "v1");
	cr_assert_eq(b.answer.reason, REASON_UNAVAILABLE);
	world.away = false;
	world_share(&world, "theirs", world.now_us, UINT64_MAX - 1);
	world_get(&world, &b, "a");
	world_run(&world, 0);
	ASSERT_VALUE(&b, "fresh", "theirs");
}

/* The claim was evicted, the entry was not. */
Test(loading, a_refresh_is_not_answered_by_an_entry_without_a_claim)
{
	world_share(&world, "theirs", world.now_us, 7);
	world_refresh(&world, &a, "a");
	world_run(&world, SECOND);
	cr_assert(a.answered && a.answer.built);
	cr_assert_eq(world.builds, 1);
}

Test(loading, a_refresh_that_does_not_wait_builds_whatever_the_store_has)
{
	world_share(&world, "theirs", world.now_us, 7);
	a = (struct client){ .request.query = { .kind = QUERY_REFRESH } };
	world_ask(&world, &a, "a");
	cr_assert(a.answer.queued);
	world_run(&world, SECOND);
	cr_assert_eq(world.builds, 1);
}

Test(loading, a_refresh_that_does_not_wait_builds_after_a_build_under_way)
{
	world_get(&world, &a, "a");
	world_run(&world, 50 * MS);
	b = (struct client){ .request.query = { .kind = QUERY_REFRESH } };
	world_ask(&world, &b, "a");
	world_share(&world, "v1", world.now_us, UINT64_MAX / 2);
	world_run(&world, SECOND);
	cr_assert_eq(world.builds, 2);
}

/* A value that no store took was told to who had asked before its build: nobody hears of an older
   one after that. */
Test(loading, after_a_value_that_was_not_saved_no_older_one_is_served)
{
	world.policy.single_row = true;
	world.script.version = 1;
	world_get(&world, &a, "a");
	world_run(&world, 12 * SECOND);
	world.script.version = 2;
	world.refuses_saves = true;
	b = (struct client){ 0 };
	b.request.query.wait_us = SECOND;
	b.request.query.has_max_stale = true;
	world_ask(&world, &b, "a");
	world_run(&world, SECOND);
	ASSERT_VALUE(&b, "fresh", "v2");
	world_get(&world, &a, "a");
	world_run(&world, SECOND);
	ASSERT_VALUE(&a, "fresh", "v3");
}

Test(loading, after_a_value_that_a_change_forbids_no_older_one_is_served)
{
	struct store_listener told = listener();
	world.policy.single_row = true;
	world.script.version = 2;
	world_get(&world, &a, "a");
	world_run(&world, 50 * MS);
	told.changed(told.impl, "k:a", 3, UINT64_MAX, true);
	world_share(&world, "older", world.now_us, 7);
	world.shared.version = 1;
	world.shared.has_version = true;
	world_run(&world, SECOND);
	ASSERT_VALUE(&a, "fresh", "v1");
	world_get(&world, &b, "a");
	world_run(&world, SECOND);
	ASSERT_VALUE(&b, "fresh", "v2");
}

/* The daemon has an entry of a greater fence than a store that has failed over: the value that was
   left out for that is asked for, once. */
Test(loading, an_older_fence_in_a_store_that_failed_over_is_loaded_whole)
{
	have_shared_value();
	distrust();
	world_run(&world, 20 * SECOND);
	world_share(&world, "older", world.now_us, 7);
	int loads = world.loads;
	world_get(&world, &a, "a");
	world_run(&world, 10 * MS);
	ASSERT_VALUE(&a, "fresh", "older");
	cr_assert_eq(world.loads, loads + 1);
}

/* Expired early by a change, its version is remembered as long as an older copy may live. */
Test(loading, after_a_changed_version_has_died_no_older_one_is_served)
{
	struct store_listener told = listener();
	for (int hard = 0; hard <= 1; hard++) {
		const char *arg = hard ? "hard" : "soft";
		const char *key = hard ? "k:hard" : "k:soft";
		world.policy.single_row = true;
		world.script.version = 2;
		world.has_shared = false;
		world_get(&world, &a, arg);
		world_run(&world, SECOND);
		cr_assert_eq(a.answer.version, 2);
		told.changed(told.impl, key, strlen(key), UINT64_MAX, hard);
		world_run(&world, 6 * SECOND);
		world_share(&world, "older", world.now_us, 7);
		world.shared.version = 1;
		world.shared.has_version = true;
		world_get(&world, &b, arg);
		world_run(&world, SECOND);
		cr_assert_eq(b.answer.version, 2, "%s", arg);
	}
}

/* A change that was not told shows in the claim. */
Test(loading, what_is_here_is_stale_after_a_change_that_the_claim_tells_of)
{
	have_shared_value();
	distrust();
	world.has_shared = false;
	world.floor = UINT64_MAX;
	world_get(&world, &a, "a");
	world_run(&world, 10 * MS);
	cr_assert_not(a.answered && a.answer.state == ANSWER_FRESH);
	world.floor = 0;
	world_run(&world, SECOND);
	cr_assert_eq(world.builds, 2);
}

/* Its save was lost: the store has only what was there before. */
Test(loading, a_value_that_was_never_stored_is_built_anew)
{
	have_shared_value();
	distrust();
	trust();
	world_share(&world, "older", world.now_us, 7);
	world_get(&world, &a, "a");
	world_run(&world, SECOND);
	cr_assert_eq(world.builds, 2);
	world_get(&world, &a, "a");
	ASSERT_VALUE(&a, "fresh", "v2");
}

/* A renewal that was long under way says nothing of the lease that the flight has taken since. */
Test(loading, a_renewal_of_an_earlier_lease_is_not_one_of_the_next)
{
	world.policy.lease_us = 150 * MS;
	world.holds_renewals = true;
	world.script = (struct script){ .outcome = BUILD_KEY_HELD, .takes_us = 60 * MS };
	world_get(&world, &a, "a");
	world_run(&world, 70 * MS);
	cr_assert_not_null(world.renewal);
	world.script = (struct script){ .outcome = BUILD_ROW, .takes_us = 200 * MS };
	world.holds_renewals = false;
	world_run(&world, 50 * MS);
	world_answer_renewal(&world);
	world_run(&world, SECOND);
	ASSERT_VALUE(&a, "fresh", "v2");
	cr_assert_eq(world.engine->counters.leases_lost, 0);
}

/* ---- fetching ----------------------------------------------------------------------------- */

static void fetch(const char *bytes)
{
	struct key key;
	engine_key(world.engine, engine_keyspace(world.engine, "k", 1), bytes, strlen(bytes), &key);
	pump_fetch(&world.pump, &key);
	cr_assert_eq(world.engine->fetching, 1);
}

Test(loading, a_fetch_brings_what_the_store_has)
{
	world_share(&world, "theirs", world.now_us, 5);
	fetch("k:a");
	world_run(&world, 0);
	cr_assert_eq(world.engine->fetching, 0);
	world_get(&world, &a, "a");
	ASSERT_VALUE(&a, "fresh", "theirs");
	cr_assert_eq(a.answer.source, SOURCE_NEAR);
	cr_assert_eq(world.builds, 0);
}

Test(loading, a_fetch_builds_nothing)
{
	fetch("k:a");
	world_run(&world, SECOND);
	cr_assert_eq(world.engine->fetching, 0);
	cr_assert_eq(world.builds, 0);
	cr_assert_eq(world.engine->leases, 0);
}

Test(loading, who_joins_a_fetch_has_it_built)
{
	fetch("k:a");
	world_get(&world, &a, "a");
	world_run(&world, SECOND);
	ASSERT_VALUE(&a, "fresh", "v1");
	cr_assert_eq(world.engine->fetching, 0);
}
