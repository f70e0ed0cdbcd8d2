/* What comes back to the fleet: a Redis with what it knew long ago, and daemons that were out of
 * touch. */
#include "fleet.h"
#include "store/redis_state.h"

static struct fleet fleet;
static struct doing doing;

static void setup(void)
{
	fleet_open(&fleet, NULL);
}

static void teardown(void)
{
	fleet_close(&fleet);
}

TestSuite(redis_returns, .init = setup, .fini = teardown, .timeout = 60);

/* ---- a server with an old bucket ---------------------------------------------------------- */

/* No permit is given for the rest of a second from now, but then it goes on. */
static void check_begins_in_a_second(struct daemon *daemon)
{
	cr_assert_eq(do_permit(&doing, daemon, 100, 0), STORE_RETRY);
	cr_assert(doing.op.left_us > 400000 && doing.op.left_us <= 1100000, "%lld",
		  (long long)doing.op.left_us);
	take(&doing, daemon, 101);
}

/* For a build that may take so long that no test waits for its slot to end by itself. */
static void take_for_an_hour(struct daemon *daemon, uint64_t token)
{
	do {
		doing_init(&doing, daemon, STORE_PERMIT, "rows:1", token);
		doing.op.reach_us = 200000;
		doing.op.length_us = 3600 * SECOND;
	} while (doing_wait(&doing, daemon) == STORE_RETRY);
}

/* What was given back after the snapshot is taken in it. */
Test(redis_returns, a_bucket_of_an_old_snapshot_starts_in_a_second_and_all_of_it_is_free)
{
	struct daemon *daemon = fleet_add(&fleet);
	await_bucket(&doing, daemon);
	for (uint64_t token = 1; token <= fleet.options.concurrency; token++)
		take_for_an_hour(daemon, token);
	server_ask(&fleet.server, "CONFIG SET dir %s", fleet.server.folder);
	server_ask(&fleet.server, "SAVE");
	for (uint64_t token = 1; token <= fleet.options.concurrency; token++)
		free_slot(&doing, daemon, token, -1);
	server_kill(&fleet.server);
	AWAIT(&fleet, !daemon_is_up(daemon));
	server_start(&fleet.server, "--dir", fleet.server.folder, NULL);
	cr_assert_eq(server_number(&fleet.server, "EXISTS t:{fleet}:permits"), 1);
	AWAIT(&fleet, daemon_is_up(daemon));
	check_begins_in_a_second(daemon);
	for (uint64_t token = 200; token < 200 + fleet.options.concurrency - 1; token++)
		take(&doing, daemon, token);
	cr_assert_eq(do_permit(&doing, daemon, 300, 200000), STORE_RETRY);
}

Test(redis_returns, a_bucket_of_a_replica_that_is_promoted_starts_in_a_second)
{
	struct daemon *daemon = fleet_add(&fleet);
	await_bucket(&doing, daemon);
	take(&doing, daemon, 5);
	server_ask(&fleet.server, "REPLICAOF 127.0.0.1 1");
	server_ask(&fleet.server, "REPLICAOF NO ONE");
	check_begins_in_a_second(daemon);
}

Test(redis_returns, a_bucket_that_this_server_has_kept_goes_on)
{
	struct daemon *daemon = fleet_add(&fleet);
	await_bucket(&doing, daemon);
	for (uint64_t token = 1; token < 20; token++) {
		cr_assert_eq(do_permit(&doing, daemon, token, 200000), STORE_DONE);
		free_slot(&doing, daemon, token, -1);
	}
}

/* ---- a daemon that was out of touch -------------------------------------------------------- */

#define NEXT_AT "struct.unpack('>d',redis.call('GETRANGE',KEYS[1],8,15))"

/* When the next permit may start, from now on, in µs; far in the past where that is 0. */
static long long next_in_us(void)
{
	return server_number(&fleet.server,
			     "EVAL return(" NEXT_AT
			     "-redis.call('TIME')[1]*1000000-redis.call('TIME')[2]) 1 "
			     "t:{fleet}:permits");
}

static void forget_next(void)
{
	server_ask(&fleet.server,
		   "EVAL redis.call('SETRANGE',KEYS[1],8,struct.pack('>d',0)) 1 t:{fleet}:permits");
}

/* When the daemon's heartbeat ends; 0: it has no place. */
static long long beat_at(void)
{
	return server_number(&fleet.server, "EVAL return(redis.call('ZSCORE',KEYS[1],0)or(0)) 1 "
					    "t:{fleet}:places");
}

Test(redis_returns, who_was_out_of_touch_pays_for_its_own_share)
{
	fleet.options.budget_per_s = 5;
	struct daemon *daemon = fleet_add(&fleet);
	await_bucket(&doing, daemon);
	forget_next();
	for (int beats = 0; beats < 3; beats++) {
		long long at = beat_at();
		AWAIT(&fleet, beat_at() != at);
		cr_assert_lt(next_in_us(), -SECOND, "a heartbeat in time costs nothing");
	}
	server_ask(&fleet.server, "ZADD t:{fleet}:places 1 0");
	AWAIT(&fleet, next_in_us() > -SECOND);
	long long in_us = next_in_us();
	cr_assert(in_us > 0 && in_us <= 223000, "%lld: one permit of 4.5 a second", in_us);
}

Test(redis_returns, who_had_no_place_pays_for_what_it_used_just_now)
{
	fleet.options.budget_per_s = 5;
	struct daemon *daemon = fleet_add(&fleet);
	await_bucket(&doing, daemon);
	forget_next();
	server_ask(&fleet.server, "ZREM t:{fleet}:places 0");
	AWAIT(&fleet, beat_at() > 0);
	cr_assert_lt(next_in_us(), -SECOND, "it has used nothing");
	daemon->redis->alone.used_us = redis_store_clock_us(daemon->redis);
	server_ask(&fleet.server, "ZREM t:{fleet}:places 0");
	AWAIT(&fleet, beat_at() > 0);
	cr_assert_gt(next_in_us(), -SECOND);
}

Test(redis_returns, who_pays_when_a_second_is_to_pass_anyway_pays_nothing)
{
	fleet.options.budget_per_s = 1;
	fleet.options.fleet = 4;
	struct daemon *daemon = fleet_add(&fleet);
	await_bucket(&doing, daemon);
	long long in_us = next_in_us();
	int64_t then_us = redis_store_clock_us(daemon->redis);
	cr_assert_gt(in_us, SECOND);
	server_ask(&fleet.server, "ZADD t:{fleet}:places 1 0");
	AWAIT(&fleet, beat_at() > 1);
	in_us -= redis_store_clock_us(daemon->redis) - then_us;
	cr_assert_leq(next_in_us(), in_us + 100000);
}

Test(redis_returns, what_is_booked_of_the_own_share_is_used_before_the_place_is_taken)
{
	struct daemon *daemon = fleet_add(&fleet);
	struct redis_store *redis = daemon->redis;
	server_ask(&fleet.server, "CLIENT KILL TYPE normal");
	AWAIT(&fleet, redis->control.state != LINK_READY);
	/* What was booked last, when the connection is there again. */
	while (redis->control.state != LINK_GREETING) {
		redis->alone.used_us = redis_store_clock_us(redis) + 190000;
		uv_run(&fleet.loop, UV_RUN_ONCE);
	}
	int64_t booked_us = redis->alone.used_us;
	AWAIT(&fleet, daemon_is_up(daemon));
	cr_assert_geq(redis_store_clock_us(redis), booked_us - 1000);
	cr_assert_eq(daemon_stats(daemon).place, 0);
}
