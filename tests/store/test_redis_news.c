/* What a fleet tells each other over a real Redis: trust, changes, epochs, and the time. */
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "fleet.h"
#include "store/scripts.h"

static struct fleet fleet;
static struct doing doing;

static void setup(void)
{
	fleet_open(&fleet, NULL);
	fleet.options.fleet = 4;
	fleet.options.trust_us = 400000;
}

static void teardown(void)
{
	fleet_close(&fleet);
}

TestSuite(redis_news, .init = setup, .fini = teardown, .timeout = 60);

static bool is_trusted(struct daemon *daemon)
{
	return daemon->trusted_until_us > redis_store_now_us(daemon->redis);
}

/* ---- trust ------------------------------------------------------------------------------- */

Test(redis_news, one_beats_and_all_trust)
{
	struct daemon *a = fleet_add(&fleet), *b = fleet_add(&fleet);
	AWAIT(&fleet, is_trusted(a) && is_trusted(b));
	unsigned losses = a->trust_losses + b->trust_losses;
	int64_t until_us = redis_store_now_us(a->redis) + 2 * SECOND;
	while (redis_store_now_us(a->redis) < until_us) {
		uv_run(&fleet.loop, UV_RUN_ONCE);
		cr_assert(is_trusted(a) && is_trusted(b));
		cr_assert_leq(a->trusted_until_us, redis_store_now_us(a->redis) + 400000);
	}
	cr_assert_eq(a->trust_losses + b->trust_losses, losses);
	cr_assert_lt(daemon_stats(b).messages, 40, "not each of them beats");
}

Test(redis_news, who_beats_is_not_interrupted)
{
	struct daemon *a = fleet_add(&fleet);
	AWAIT(&fleet, is_trusted(a));
	const char *answer = server_ask(
		&fleet.server, "EVALSHA %s 1 t:{fleet}:beat %lld BBBBBBBB 200000 t:changes:0",
		scripts[SCRIPT_BEAT].sha, server_now_us(&fleet.server) + SECOND);
	cr_assert_eq(strncmp(answer, "[held ", 6), 0, "%s", answer);
}

Test(redis_news, another_beats_when_the_one_is_gone)
{
	struct daemon *a = fleet_add(&fleet);
	AWAIT(&fleet, is_trusted(a));
	struct daemon *b = fleet_add(&fleet);
	AWAIT(&fleet, is_trusted(b));
	unsigned losses = b->trust_losses;
	daemon_close(a);
	int64_t until_us = redis_store_now_us(b->redis) + 2 * SECOND;
	AWAIT(&fleet, redis_store_now_us(b->redis) >= until_us);
	cr_assert(is_trusted(b));
	cr_assert_eq(b->trust_losses, losses, "the row of numbers went on");
}

Test(redis_news, silence_ends_trust)
{
	struct daemon *a = fleet_add(&fleet);
	AWAIT(&fleet, is_trusted(a));
	server_pause(&fleet.server);
	AWAIT(&fleet, !is_trusted(a));
	server_resume(&fleet.server);
	AWAIT(&fleet, is_trusted(a));
}

Test(redis_news, a_connection_that_breaks_ends_trust_at_once)
{
	struct daemon *a = fleet_add(&fleet);
	AWAIT(&fleet, is_trusted(a));
	unsigned losses = a->trust_losses;
	server_ask(&fleet.server, "CLIENT KILL TYPE pubsub");
	AWAIT(&fleet, a->trust_losses > losses);
	AWAIT(&fleet, is_trusted(a));
}

Test(redis_news, a_gap_ends_trust_before_it_begins_anew)
{
	struct daemon *a = fleet_add(&fleet);
	AWAIT(&fleet, is_trusted(a));
	unsigned losses = a->trust_losses;
	server_ask(&fleet.server,
		   "EVAL redis.call('SET',KEYS[1],redis.call('GET',KEYS[1]):sub(1,16).."
		   "struct.pack('>d',struct.unpack('>d',redis.call('GET',KEYS[1]),17)+5)) "
		   "1 t:{fleet}:beat");
	AWAIT(&fleet, a->trust_losses > losses);
	AWAIT(&fleet, is_trusted(a));
	cr_assert_eq(a->emptied, 0);
}

Test(redis_news, a_flush_is_told_and_breaks_no_trust)
{
	struct daemon *a = fleet_add(&fleet), *b = fleet_add(&fleet);
	AWAIT(&fleet, is_trusted(a) && is_trusted(b));
	unsigned losses = a->trust_losses + b->trust_losses;
	for (unsigned times = 1; times <= 2; times++) {
		server_ask(&fleet.server, "FLUSHALL");
		AWAIT(&fleet, a->emptied == times && b->emptied == times);
	}
	cr_assert_eq(a->trust_losses + b->trust_losses, losses, "the row of numbers went on");
	cr_assert(is_trusted(a) && is_trusted(b));
}

Test(redis_news, a_server_that_comes_back_empty_has_broken_trust)
{
	struct daemon *a = fleet_add(&fleet);
	AWAIT(&fleet, is_trusted(a));
	unsigned losses = a->trust_losses;
	fleet_restart(&fleet);
	AWAIT(&fleet, a->trust_losses > losses);
	AWAIT(&fleet, is_trusted(a));
	cr_assert_eq(a->emptied, 0);
}

Test(redis_news, a_beat_that_was_on_its_way_for_too_long_is_not_trusted)
{
	struct daemon *a = fleet_add(&fleet);
	AWAIT(&fleet, is_trusted(a));
	int64_t until_us = a->trusted_until_us;
	server_ask(&fleet.server,
		   "EVAL redis.call('PUBLISH',KEYS[1],struct.pack('>c1BI2i8i8','b',1,0,%lld,%lld)) "
		   "1 t:changes:0",
		   0LL, server_now_us(&fleet.server) - 3600 * SECOND);
	AWAIT(&fleet, a->trusted_until_us != until_us);
	cr_assert_not(is_trusted(a));
	AWAIT(&fleet, is_trusted(a));
}

Test(redis_news, without_trust_nobody_beats)
{
	fleet.options.trust_us = 0;
	struct daemon *a = fleet_add(&fleet);
	int64_t until_us = redis_store_now_us(a->redis) + SECOND;
	AWAIT(&fleet, redis_store_now_us(a->redis) >= until_us);
	cr_assert_not(is_trusted(a));
	cr_assert_str_eq(server_ask(&fleet.server, "EXISTS t:{fleet}:beat"), "0");
}

/* ---- messages ---------------------------------------------------------------------------- */

Test(redis_news, a_message_of_many_keys_is_told_key_by_key)
{
	struct daemon *a = fleet_add(&fleet);
	AWAIT(&fleet, daemon_stats(a).connects == 3);
	server_ask(&fleet.server,
		   "EVAL redis.call('PUBLISH',KEYS[1],struct.pack('>c1BI2','c',1,100).."
		   "string.rep(struct.pack('>i8BI4',9,1,6)..'rows:1',100)) 1 t:changes:0");
	AWAIT(&fleet, a->told_count == 100);
	cr_assert(a->told[99].changed && a->told[99].hard && a->told[99].fence == 9);
}

Test(redis_news, what_anybody_else_publishes_does_no_harm)
{
	static const char *const messages[] = { "",      "hello",
						"s\001", "x\002\002\002",
						"b\001", "c\001\377\377\377\377" };
	struct daemon *a = fleet_add(&fleet);
	AWAIT(&fleet, daemon_stats(a).connects == 3);
	server_ask(&fleet.server, "PING"); /* connects */
	for (size_t i = 0; i < sizeof(messages) / sizeof(*messages); i++)
		freeReplyObject(
			redisCommand(fleet.server.context, "PUBLISH t:changes:0 %s", messages[i]));
	AWAIT(&fleet, daemon_stats(a).messages_bad == 4);
	cr_assert_eq(a->told_count, 0);
}

/* ---- epochs ------------------------------------------------------------------------------ */

static int64_t begin_epoch(struct daemon *daemon, int64_t spread_us)
{
	doing_init(&doing, daemon, STORE_EPOCH, "rows", 0);
	doing.op.length_us = spread_us;
	cr_assert_eq(doing_wait(&doing, daemon), STORE_DONE);
	return doing.op.moment_us;
}

Test(redis_news, an_epoch_is_told_once_to_each)
{
	struct daemon *a = fleet_add(&fleet), *b = fleet_add(&fleet);
	AWAIT(&fleet, is_trusted(a) && is_trusted(b));
	int64_t moment_us = begin_epoch(a, 5 * SECOND);
	cr_assert(llabs(moment_us - redis_store_now_us(a->redis)) < SECOND);
	AWAIT(&fleet, b->epochs_count > 0);
	cr_assert_eq(b->epoch_spread_us, 5 * SECOND);
	cr_assert(llabs(b->epoch_us - moment_us) < 20000);
	begin_epoch(a, 0);
	AWAIT(&fleet, b->epochs_count > 1);
	cr_assert_eq(a->epochs_count, 2);
	cr_assert_eq(b->epochs_count, 2);
	cr_assert_eq(b->epoch_spread_us, 0);
}

Test(redis_news, who_comes_later_is_told_of_the_epochs)
{
	struct daemon *a = fleet_add(&fleet);
	int64_t moment_us = begin_epoch(a, 5 * SECOND);
	struct daemon *b = fleet_add(&fleet);
	cr_assert_eq(b->epochs_count, 1, "before it has opened");
	cr_assert(llabs(b->epoch_us - moment_us) < 20000);
	/* One who begins to listen only now. */
	struct daemon *c = fleet_start(&fleet);
	struct store_listener listener = c->listener;
	redis_store_listen(c->redis, &(struct store_listener){ 0 });
	AWAIT(&fleet, c->opened);
	cr_assert_eq(c->epochs_count, 0);
	redis_store_listen(c->redis, &listener);
	AWAIT(&fleet, c->epochs_count == 1);
}

Test(redis_news, epochs_outlive_a_flush)
{
	struct daemon *a = fleet_add(&fleet);
	AWAIT(&fleet, is_trusted(a));
	int64_t moment_us = begin_epoch(a, 5 * SECOND);
	begin_epoch(a, 6 * SECOND);
	server_ask(&fleet.server, "FLUSHALL");
	AWAIT(&fleet, server_number(&fleet.server, "HLEN t:{fleet}:epochs") == 1);
	struct daemon *b = fleet_add(&fleet);
	cr_assert_eq(b->epochs_count, 2);
	cr_assert_gt(b->epoch_us, moment_us);
	fleet_restart(&fleet);
	AWAIT(&fleet, server_number(&fleet.server, "HLEN t:{fleet}:epochs") == 1);
	cr_assert_eq(a->epochs_count, 2, "they were no news");
}

Test(redis_news, only_the_last_epochs_are_kept)
{
	struct daemon *a = fleet_add(&fleet);
	for (int i = 0; i < 20; i++)
		begin_epoch(a, SECOND);
	cr_assert_eq(server_number(&fleet.server, "HSTRLEN t:{fleet}:epochs rows"), 8 * 16);
	cr_assert_eq(fleet_add(&fleet)->epochs_count, 8);
}

/* ---- the time ---------------------------------------------------------------------------- */

static void save_value(struct daemon *daemon, const char *key)
{
	cr_assert_eq(do_lease(&doing, daemon, key, 7), STORE_DONE);
	uint64_t fence = doing.op.fence;
	cr_assert_eq(do_save(&doing, daemon, key, 7, fence, 1, "value"), STORE_DONE);
}

static void restart_with_skew(void)
{
	if (!server_can_skew(&fleet.server))
		cr_skip_test("built without the library that skews a server's clock");
	server_kill(&fleet.server);
	server_start(&fleet.server, NULL);
}

static void survive_a_jump(int64_t jump_us)
{
	restart_with_skew();
	struct daemon *a = fleet_add(&fleet), *b = fleet_add(&fleet);
	AWAIT(&fleet, is_trusted(a) && is_trusted(b));
	save_value(a, "rows:1");
	cr_assert_eq(do_lease(&doing, a, "rows:2", 7), STORE_DONE);
	uint64_t fence = doing.op.fence;
	int64_t saved_us = redis_store_now_us(a->redis);

	*fleet.server.skew_us += jump_us;
	AWAIT(&fleet, daemon_stats(a).era == 2 && daemon_stats(b).era == 2);
	int64_t now_us = redis_store_now_us(b->redis);
	cr_assert_lt(now_us - saved_us, 5 * SECOND, "our clock has not jumped");
	cr_assert_geq(now_us, saved_us);
	cr_assert(llabs(daemon_stats(b).clock_apart_us - jump_us) < SECOND);

	/* The entry is as old as it is, and stale. */
	cr_assert_eq(do_load(&doing, b, "rows:1"), STORE_DONE);
	cr_assert(doing.op.has_entry && doing.op.entry.changed);
	cr_assert(llabs(doing.op.entry.generated_at_us - saved_us) < SECOND);
	cr_assert_eq(entry_phase(&doing.op.entry, redis_store_now_us(b->redis)), ENTRY_STALE);
	cr_assert_leq(doing.op.entry.stale_until_us, redis_store_now_us(b->redis) + 30 * SECOND);
	doing_free(&doing);
	cr_assert_eq(do_lease(&doing, b, "rows:1", 8), STORE_DONE, "it is not enough");
	cr_assert_eq(do_save(&doing, b, "rows:1", 8, doing.op.fence, 2, "newer"), STORE_DONE);
	cr_assert_eq(do_load(&doing, a, "rows:1"), STORE_DONE);
	cr_assert_eq(entry_phase(&doing.op.entry, redis_store_now_us(a->redis)), ENTRY_FRESH);
	doing_free(&doing);

	/* No lease is held for ten minutes more than it was given for; fences go on. */
	cr_assert_eq(do_lease(&doing, b, "rows:2", 8), STORE_DONE);
	cr_assert_gt(doing.op.fence, fence);
	while (do_permit(&doing, b, 5, 200000) == STORE_RETRY)
		;
	cr_assert_eq(doing.op.outcome, STORE_DONE);
	AWAIT(&fleet, is_trusted(a) && is_trusted(b));
}

Test(redis_news, a_server_whose_clock_jumps_back_begins_a_new_era)
{
	survive_a_jump(-600 * SECOND);
}

Test(redis_news, a_server_whose_clock_jumps_ahead_begins_a_new_era)
{
	survive_a_jump(600 * SECOND);
}

Test(redis_news, a_host_that_begins_with_another_time_takes_the_fleet_s)
{
	restart_with_skew();
	*fleet.server.skew_us = 3600 * SECOND;
	struct daemon *a = fleet_add(&fleet);
	cr_assert(llabs(redis_store_now_us(a->redis) - server_now_us(&fleet.server)) < 100000);
	cr_assert_eq(daemon_stats(a).era, 1);
	cr_assert_eq(daemon_stats(a).clock_jumps, 0);
}

static const char *clock_script(const char *token, int known, const char *jump)
{
	return server_ask(&fleet.server,
			  "EVALSHA %s 2 t:{fleet}:era t:{fleet}:places %d %s %s 2000000",
			  scripts[SCRIPT_CLOCK].sha, known, jump, token);
}

static long long era(void)
{
	return server_number(&fleet.server,
			     "EVAL return(struct.unpack('>I4',redis.call('GET',KEYS[1]))) 1 "
			     "t:{fleet}:era");
}

Test(redis_news, one_of_several_daemons_alone_begins_no_era)
{
	fleet_add(&fleet);
	fleet_add(&fleet);
	clock_script("AAAAAAAA", 1, "600000000");
	clock_script("AAAAAAAA", 1, "600000000");
	cr_assert_eq(era(), 1, "its own clock was wrong, perhaps");
	clock_script("BBBBBBBB", 1, "600000000");
	cr_assert_eq(era(), 2);
	clock_script("CCCCCCCC", 1, "600000000");
	clock_script("DDDDDDDD", 1, "600000000");
	cr_assert_eq(era(), 2, "they speak of the era before");
}

Test(redis_news, an_era_that_the_store_has_lost_is_told_to_it)
{
	fleet_add(&fleet);
	fleet_add(&fleet);
	clock_script("AAAAAAAA", 5, "0");
	cr_assert_eq(era(), 5);
	clock_script("BBBBBBBB", 3, "0");
	cr_assert_eq(era(), 5, "who is late does not bring the old one back");
}
