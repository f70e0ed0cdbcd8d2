/* Permits in a real Redis: the rate, the slots, places, and a daemon's own share. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fleet.h"

static struct fleet fleet;
static struct doing doing;
static uint64_t next_token = 1;

static void setup(void)
{
	fleet_open(&fleet, NULL);
}

static void teardown(void)
{
	fleet_close(&fleet);
}

TestSuite(redis_permits, .init = setup, .fini = teardown, .timeout = 60);

/* The same while the daemons stand still. */
#define AWAIT_BLOCKED(condition)                                                                   \
	while (!(condition))                                                                       \
		;

/* ---- the rate ---------------------------------------------------------------------------- */

static int64_t starts[4096];
static unsigned starts_count;

static unsigned worst_second(void)
{
	unsigned worst = 0;
	for (unsigned i = 0; i < starts_count; i++) {
		unsigned inside = 0;
		for (unsigned j = 0; j < starts_count; j++)
			inside += starts[j] >= starts[i] && starts[j] < starts[i] + SECOND;
		worst = inside > worst ? inside : worst;
	}
	return worst;
}

/* All daemons ask for all they can get, and give it back at once, for so long. */
static void storm(int64_t length_us)
{
	static struct doing asks[DAEMONS_MAX], frees[DAEMONS_MAX];
	static int64_t retry_at_us[DAEMONS_MAX];
	int64_t now_us, until_us = redis_store_now_us(fleet.daemons[0].redis) + length_us;
	memset(asks, 0, sizeof(asks));
	memset(frees, 0, sizeof(frees));
	memset(retry_at_us, 0, sizeof(retry_at_us));
	while ((now_us = redis_store_now_us(fleet.daemons[0].redis)) < until_us) {
		for (unsigned i = 0; i < fleet.daemons_count; i++) {
			struct daemon *daemon = &fleet.daemons[i];
			struct doing *ask = &asks[i], *give = &frees[i];
			if (ask->done && ask->op.token && ask->op.outcome == STORE_DONE &&
			    (give->done || !give->op.token)) {
				starts[starts_count++] = now_us + ask->op.left_us;
				doing_init(give, daemon, STORE_FREE, "rows:1", ask->op.token);
				give->op.slot = ask->op.slot;
				doing_start(give, daemon);
				ask->op.token = 0;
			} else if (ask->done && ask->op.token && ask->op.outcome == STORE_RETRY) {
				retry_at_us[i] = now_us + ask->op.left_us;
				ask->op.token = 0;
			}
			if (!ask->op.token && now_us >= retry_at_us[i]) {
				doing_init(ask, daemon, STORE_PERMIT, "rows:1", next_token++);
				ask->op.reach_us = 200000;
				doing_start(ask, daemon);
			}
		}
		uv_run(&fleet.loop, UV_RUN_ONCE);
	}
	for (unsigned i = 0; i < fleet.daemons_count; i++) {
		AWAIT(&fleet, !asks[i].op.token || asks[i].done);
		AWAIT(&fleet, !frees[i].op.token || frees[i].done);
	}
}

Test(redis_permits, ten_daemons_together_keep_the_budget)
{
	fleet.options.fleet = 10;
	fleet.options.budget_per_s = 50;
	for (int i = 0; i < 10; i++)
		fleet_add(&fleet);
	storm(4 * SECOND);
	cr_assert_leq(worst_second(), 50, "%u", worst_second());
	cr_assert_geq(starts_count, 100, "%u: but it is used", starts_count);
}

Test(redis_permits, the_live_have_their_part_and_no_more)
{
	fleet.options.fleet = 10;
	fleet.options.budget_per_s = 100;
	fleet_add(&fleet);
	fleet_add(&fleet);
	storm(4 * SECOND);
	cr_assert_leq(worst_second(), 20, "%u", worst_second());
	cr_assert_geq(starts_count, 30, "%u", starts_count);
	cr_assert_eq(daemon_stats(&fleet.daemons[0]).places_live, 2);
}

Test(redis_permits, a_flush_gives_nothing_away)
{
	fleet.options.fleet = 2;
	fleet.options.budget_per_s = 50;
	fleet_add(&fleet);
	fleet_add(&fleet);
	storm(2 * SECOND);
	unsigned before = starts_count;
	server_ask(&fleet.server, "FLUSHALL");
	storm(500000);
	cr_assert_leq(starts_count, before + 1, "the bucket starts in a second");
	storm(3 * SECOND);
	cr_assert_leq(worst_second(), 50, "%u", worst_second());
	cr_assert_geq(starts_count, before + 40);
}

Test(redis_permits, a_bucket_absurdly_far_ahead_starts_in_a_second)
{
	struct daemon *daemon = fleet_add(&fleet);
	await_bucket(&doing, daemon);
	server_ask(
		&fleet.server,
		"EVAL redis.call('SETRANGE',KEYS[1],8,struct.pack('>d',9e15)) 1 t:{fleet}:permits");
	cr_assert_eq(do_permit(&doing, daemon, 5, 0), STORE_RETRY);
	cr_assert(doing.op.left_us > 900000 && doing.op.left_us <= 1200000);
	await_bucket(&doing, daemon);
}

Test(redis_permits, a_start_is_booked_ahead_within_reach)
{
	fleet.options.budget_per_s = 10;
	struct daemon *daemon = fleet_add(&fleet);
	await_bucket(&doing, daemon);
	int64_t begun_us = redis_store_now_us(daemon->redis);
	take(&doing, daemon, 5);
	take(&doing, daemon, 6);
	int64_t start_us = redis_store_now_us(daemon->redis) + doing.op.left_us;
	cr_assert_geq(start_us - begun_us, 105000);
	cr_assert_eq(do_permit(&doing, daemon, 6, 200000), STORE_DONE);
	cr_assert(llabs(redis_store_now_us(daemon->redis) + doing.op.left_us - start_us) < 20000 ||
			  doing.op.left_us == 0,
		  "a repeat gets the same moment");
	take(&doing, daemon, 7);
	cr_assert_eq(do_permit(&doing, daemon, 8, 0), STORE_RETRY);
	cr_assert_gt(doing.op.left_us, 0);
}

/* ---- slots ------------------------------------------------------------------------------- */

Test(redis_permits, slots_never_exceed_the_concurrency)
{
	fleet.options.concurrency = 4;
	struct daemon *daemon = fleet_add(&fleet);
	bool used[4] = { false };
	int slot_of_12 = -1;
	await_bucket(&doing, daemon);
	for (uint64_t token = 11; token <= 14; token++) {
		int slot = take(&doing, daemon, token);
		cr_assert(slot >= 0 && slot < 4 && !used[slot]);
		used[slot] = true;
		if (token == 12)
			slot_of_12 = slot;
	}
	for (int i = 0; i < 20; i++)
		cr_assert_eq(do_permit(&doing, daemon, 15, 200000), STORE_RETRY);
	free_slot(&doing, daemon, 12, (slot_of_12 + 1) % 4);
	free_slot(&doing, daemon, 99, slot_of_12);
	cr_assert_eq(do_permit(&doing, daemon, 15, 200000), STORE_RETRY, "it was another's");
	free_slot(&doing, daemon, 12, -1);
	cr_assert_eq(take(&doing, daemon, 15), slot_of_12,
		     "where its number is not known, its token tells");
}

Test(redis_permits, slots_end_by_themselves)
{
	fleet.options.concurrency = 1;
	struct daemon *daemon = fleet_add(&fleet);
	await_bucket(&doing, daemon);
	doing_init(&doing, daemon, STORE_PERMIT, "rows:1", 5);
	doing.op.length_us = 50000;
	doing.op.reach_us = 200000;
	cr_assert_eq(doing_wait(&doing, daemon), STORE_DONE);
	cr_assert_eq(do_permit(&doing, daemon, 6, 200000), STORE_RETRY);
	take(&doing, daemon, 6);
}

Test(redis_permits, slots_scale_with_the_live_part_but_for_the_last)
{
	fleet.options.concurrency = 4;
	fleet.options.fleet = 2;
	struct daemon *a = fleet_add(&fleet);
	await_bucket(&doing, a);
	take(&doing, a, 11);
	take(&doing, a, 12);
	for (int i = 0; i < 20; i++)
		cr_assert_eq(do_permit(&doing, a, 13, 200000), STORE_RETRY, "one of two daemons");
	struct daemon *b = fleet_add(&fleet);
	take(&doing, b, 13);
	take(&doing, b, 14);
	fleet.options.prefix = "u:";
	fleet.options.concurrency = 1;
	fleet.options.fleet = 10;
	a = fleet_add(&fleet);
	await_bucket(&doing, a);
	take(&doing, a, 15);
}

Test(redis_permits, background_takes_half_of_the_slots_and_only_what_is_free_now)
{
	fleet.options.concurrency = 4;
	fleet.options.budget_per_s = 20;
	struct daemon *daemon = fleet_add(&fleet);
	await_bucket(&doing, daemon);
	unsigned granted = 0;
	for (int i = 0; i < 200 && granted < 2; i++) {
		doing_init(&doing, daemon, STORE_PERMIT, "rows:1", next_token++);
		doing.op.background = true;
		granted += doing_wait(&doing, daemon) == STORE_DONE;
		if (doing.op.outcome == STORE_DONE)
			cr_assert_eq(doing.op.left_us, 0);
		int64_t again_us = redis_store_now_us(daemon->redis) + 5000;
		AWAIT(&fleet, redis_store_now_us(daemon->redis) >= again_us);
	}
	cr_assert_eq(granted, 2);
	for (int i = 0; i < 20; i++) {
		doing_init(&doing, daemon, STORE_PERMIT, "rows:1", next_token++);
		doing.op.background = true;
		cr_assert_eq(doing_wait(&doing, daemon), STORE_RETRY);
		int64_t again_us = redis_store_now_us(daemon->redis) + 10000;
		AWAIT(&fleet, redis_store_now_us(daemon->redis) >= again_us);
	}
	take(&doing, daemon, next_token++);
	take(&doing, daemon, next_token++);
}

Test(redis_permits, a_permit_whose_moment_has_passed_unheard_is_void)
{
	fleet.options.concurrency = 1;
	struct daemon *daemon = fleet_add(&fleet);
	struct doing late;
	await_bucket(&doing, daemon);
	doing_init(&late, daemon, STORE_PERMIT, "rows:1", 5);
	late.op.reach_us = 200000;
	/* The server gets it while it is stopped, and the daemon does not read the answer for a
	 * while. */
	server_pause(&fleet.server);
	doing_start(&late, daemon);
	for (int i = 0; i < 10; i++)
		uv_run(&fleet.loop, UV_RUN_NOWAIT);
	server_resume(&fleet.server);
	AWAIT_BLOCKED(
		server_number(
			&fleet.server,
			"EVAL return(struct.unpack('>I4',redis.call('GETRANGE',KEYS[1],32,39),5)) "
			"1 t:{fleet}:permits") == 5);
	long long until_us = server_now_us(&fleet.server) + 150000;
	AWAIT_BLOCKED(server_now_us(&fleet.server) >= until_us);
	cr_assert_eq(doing_wait(&late, daemon), STORE_RETRY);
	cr_assert_eq(daemon_stats(daemon).permits_late, 1);
	take(&doing, daemon, 6); /* it was given back */
}

/* ---- places ------------------------------------------------------------------------------ */

Test(redis_permits, each_daemon_has_a_place_of_its_own)
{
	bool used[4] = { false };
	fleet.options.fleet = 4;
	for (int i = 0; i < 4; i++) {
		int place = daemon_stats(fleet_add(&fleet)).place;
		cr_assert(place >= 0 && place < 4 && !used[place]);
		used[place] = true;
	}
	struct daemon *fifth = fleet_add(&fleet);
	cr_assert_eq(daemon_stats(fifth).place, -1);
	await_bucket(&doing, fifth);
	take(&doing, fifth, 5);
}

Test(redis_permits, a_dead_daemon_s_place_is_given_away_after_its_heartbeat)
{
	fleet.options.fleet = 1;
	struct daemon *first = fleet_add(&fleet), *second = fleet_add(&fleet);
	cr_assert_eq(daemon_stats(second).place, -1);
	daemon_close(first);
	AWAIT(&fleet, daemon_stats(second).place == 0);
}

static char state_dir[] = "/tmp/segar-state-XXXXXX";

static void remove_state(void)
{
	char path[64];
	snprintf(path, sizeof(path), "%s/place", state_dir);
	unlink(path);
	cr_assert_eq(rmdir(state_dir), 0);
}

Test(redis_permits, a_restarted_daemon_frees_what_its_predecessor_held)
{
	cr_assert_not_null(mkdtemp(state_dir));
	fleet.options.fleet = 3;
	fleet.options.concurrency = 4;
	struct daemon *other = fleet_add(&fleet);
	fleet.options.state_dir = state_dir;
	struct daemon *first = fleet_add(&fleet);
	int place = daemon_stats(first).place;
	await_bucket(&doing, first);
	take(&doing, other, 11);
	take(&doing, first, 12);
	cr_assert_eq(do_permit(&doing, other, 13, 200000), STORE_RETRY);
	daemon_close(first);
	struct daemon *second = fleet_add(&fleet);
	cr_assert_eq(daemon_stats(second).place, place);
	long long freed_us = server_now_us(&fleet.server);
	take(&doing, second, 14);
	freed_us = server_now_us(&fleet.server) - freed_us;
	cr_assert(freed_us > 1800000 && freed_us < 4000000, "%lld", freed_us);
	for (int i = 0; i < 20; i++)
		cr_assert_eq(do_permit(&doing, other, 15, 200000), STORE_RETRY,
			     "the other's slot is still held");
	free_slot(&doing, second, 14, -1);
	free_slot(&doing, other, 11, -1);
	remove_state();
}

Test(redis_permits, the_last_heartbeat_of_a_predecessor_may_come_late)
{
	char token[17];
	cr_assert_not_null(mkdtemp(state_dir));
	fleet.options.state_dir = state_dir;
	struct daemon *first = fleet_add(&fleet);
	snprintf(token, sizeof(token), "%s", server_ask(&fleet.server, "HGET t:{fleet}:holders 0"));
	daemon_close(first);
	struct daemon *second = fleet_add(&fleet);
	cr_assert_eq(daemon_stats(second).place, 0);
	server_ask(&fleet.server, "HSET t:{fleet}:holders 0 %s", token);
	AWAIT(&fleet, strcmp(server_ask(&fleet.server, "HGET t:{fleet}:holders 0"), token) != 0);
	cr_assert_eq(daemon_stats(second).place, 0);
	remove_state();
}

Test(redis_permits, a_restarted_daemon_keeps_what_it_took_itself)
{
	cr_assert_not_null(mkdtemp(state_dir));
	fleet.options.concurrency = 2;
	fleet.options.state_dir = state_dir;
	struct daemon *first = fleet_add(&fleet);
	await_bucket(&doing, first);
	take(&doing, first, 11);
	daemon_close(first);
	struct daemon *second = fleet_add(&fleet);
	take(&doing, second, 12);
	take(&doing, second, 13); /* as soon as its predecessor's is freed */
	for (int i = 0; i < 20; i++)
		cr_assert_eq(do_permit(&doing, second, 14, 200000), STORE_RETRY);
	remove_state();
}

Test(redis_permits, the_bucket_s_first_second_begins_with_the_first_daemon)
{
	struct daemon *daemon = fleet_add(&fleet);
	int64_t until_us = redis_store_now_us(daemon->redis) + SECOND + 100000;
	AWAIT(&fleet, redis_store_now_us(daemon->redis) >= until_us);
	cr_assert_eq(do_permit(&doing, daemon, 5, 0), STORE_DONE);
}

/* ---- out of touch ------------------------------------------------------------------------ */

Test(redis_permits, out_of_touch_a_daemon_has_its_own_share_once_its_heartbeat_has_ended)
{
	fleet.options.fleet = 2;
	fleet.options.budget_per_s = 50;
	fleet.options.concurrency = 4;
	struct daemon *daemon = fleet_add(&fleet);
	await_bucket(&doing, daemon);
	server_kill(&fleet.server);
	int64_t killed_us = redis_store_now_us(daemon->redis);
	AWAIT(&fleet, !daemon_is_up(daemon));
	while (do_permit(&doing, daemon, 5, 200000) != STORE_DONE) {
		cr_assert_eq(doing.op.outcome, STORE_RETRY);
		cr_assert_gt(doing.op.left_us, 0);
		int64_t again_us = redis_store_now_us(daemon->redis) + doing.op.left_us;
		AWAIT(&fleet, redis_store_now_us(daemon->redis) >= again_us);
	}
	cr_assert_geq(redis_store_now_us(daemon->redis) - killed_us, 2 * SECOND);
	cr_assert(daemon_stats(daemon).alone);
	cr_assert_eq(doing.op.slot % 2, daemon_stats(daemon).place % 2);
	cr_assert_eq(free_slot(&doing, daemon, 5, doing.op.slot), STORE_DONE);
	starts_count = 0;
	storm(2 * SECOND);
	cr_assert_leq(worst_second(), 24, "%u: half of 45", worst_second());
	cr_assert_geq(starts_count, 30, "%u", starts_count);

	server_start(&fleet.server, NULL);
	AWAIT(&fleet, daemon_is_up(daemon));
	cr_assert_not(daemon_stats(daemon).alone);
	storm(2 * SECOND);
	cr_assert_leq(worst_second(), 50, "%u", worst_second());
	uint64_t alone = daemon_stats(daemon).permits_alone;
	await_bucket(&doing, daemon);
	take(&doing, daemon, next_token++);
	cr_assert_eq(daemon_stats(daemon).permits_alone, alone);
}

Test(redis_permits, who_starts_out_of_touch_has_half_a_share)
{
	server_kill(&fleet.server);
	fleet.options.fleet = 2;
	fleet.options.budget_per_s = 50;
	struct daemon *daemon = fleet_add(&fleet);
	AWAIT(&fleet, daemon_stats(daemon).alone);
	storm(2 * SECOND);
	cr_assert_leq(worst_second(), 13, "%u: a quarter of 45", worst_second());
	cr_assert_geq(starts_count, 15, "%u", starts_count);
	server_start(&fleet.server, NULL);
}
