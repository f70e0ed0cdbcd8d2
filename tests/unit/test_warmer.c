/* A daemon's part in warm-ups, in virtual time: chunks in, statements and reports out. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "core/warmer.h"
#include "store/job_book.h"
#include "world.h"

static struct world world;
static struct job_book book;
static struct warmer warmer;
static struct list submitted; /* of struct job_call */
static int64_t wake_at_us;
static bool stopped, away;

static int64_t host_now(void *impl)
{
	(void)impl;
	return world.now_us;
}

static void host_wake_at(void *impl, int64_t at_us)
{
	(void)impl;
	wake_at_us = at_us;
}

static void host_stopped(void *impl)
{
	(void)impl;
	stopped = true;
}

static void submit(void *impl, struct job_call *call)
{
	(void)impl;
	list_node_init(&call->node);
	list_push_back(&submitted, &call->node);
}

static void answer_calls(void)
{
	for (size_t n = submitted.count; n > 0; n--) {
		struct job_call *call =
			container_of(list_pop_front(&submitted), struct job_call, node);
		if (away)
			call->outcome = JOB_AWAY;
		else
			job_book_do(&book, call, world.now_us);
		call->done(call);
	}
}

/* Lets so much time pass, a ms at a time. */
static void run(int64_t for_us)
{
	int64_t until_us = world.now_us + for_us;
	while (world.now_us < until_us) {
		world_run(&world, MS);
		answer_calls();
		for (int i = 0; i < 100 && wake_at_us <= world.now_us; i++) {
			wake_at_us = INT64_MAX;
			warmer_turn(&warmer);
		}
		cr_assert_gt(wake_at_us, world.now_us, "it wants to be called again and again");
	}
}

static bool read_key(char *bytes, uint32_t *len, uint32_t *ret_keyspace_len, const char **ret_why)
{
	const char *colon = memchr(bytes, ':', *len);
	*ret_keyspace_len = colon ? (uint32_t)(colon - bytes) : *len;
	*ret_why = "it has a % in it";
	return !memchr(bytes, '%', *len);
}

static void open_warmer(void)
{
	warmer_init(&warmer, &(struct warmer_options){
				     .pump = &world.pump,
				     .read_key = read_key,
				     .jobs = { NULL, submit },
				     .host = { NULL, host_now, host_wake_at, host_stopped },
				     .concurrency = 8,
				     .fleet = 1,
				     .alone = true,
				     .token = 11 });
	stopped = false;
	wake_at_us = 0;
}

static void open_world(void)
{
	world_defaults(&world);
	world.policy.fresh_us = 1000 * (int64_t)SECOND;
	world.policy.batch =
		(struct batch_policy){ .query = (char *)"q", .linger_us = 2 * MS, .max = 64 };
	world.limits.near_bytes_max = 64 << 20;
	world_open(&world);
	job_book_init(&book);
	list_init(&submitted);
	away = false;
	open_warmer();
}

static void close_world(void)
{
	warmer_stop(&warmer);
	away = false;
	run(2 * SECOND);
	cr_assert(stopped);
	cr_assert(list_empty(&submitted));
	job_book_close(&book);
	world_close(&world);
}

TestSuite(warmer, .init = open_world, .fini = close_world);

/* ---- jobs --------------------------------------------------------------------------------- */

static void do_call(struct job_call *call)
{
	job_book_do(&book, call, world.now_us);
	cr_assert_eq(call->outcome, JOB_OK);
}

static int times = 1; /* each key is there */

/* Feeds the keys k<from> and on, in chunks of so many. */
static void feed(int from, int count, int each, bool last)
{
	static char bytes[CHUNK_BYTES_MAX];
	static int64_t fed;
	if (from == 0)
		fed = 0;
	for (int at = from; at < from + count || count == 0; at += each) {
		struct job_call call = { .verb = JOB_FEED,
					 .name = "plan",
					 .id = 5,
					 .token = 1,
					 .length_us = SECOND,
					 .total = -1,
					 .from = fed,
					 .ahead_max = JOB_AHEAD_MAX };
		for (int i = at; i < at + each && i < from + count; i++) {
			char key[32];
			int len = snprintf(key, sizeof(key), "k:k%d", i / times);
			call.len += (uint32_t)chunk_put(bytes + call.len, sizeof(bytes) - call.len,
							key, (uint32_t)len);
			call.keys++;
		}
		call.bytes = bytes;
		call.to = fed += call.len;
		call.last = last && at + each >= from + count;
		do_call(&call);
	}
}

static void open_job(int64_t interval_us, const char *spec)
{
	struct job_call call = {
		.verb = JOB_OPEN, .name = "plan", .id = 5, .interval_us = interval_us
	};
	strcpy(call.spec, spec);
	do_call(&call);
}

static struct job_call look_at_job(void)
{
	struct job_call call = { .verb = JOB_LOOK, .name = "plan" };
	do_call(&call);
	return call;
}

#define ASSERT_JOB(at_state, at_fresh, at_built, at_failed)                                        \
	do {                                                                                       \
		struct job_call looked = look_at_job();                                            \
		cr_assert_str_eq(job_state_name(looked.job.state), at_state);                      \
		cr_assert_eq(looked.job.counts.fresh, at_fresh, "fresh=%d",                        \
			     (int)looked.job.counts.fresh);                                        \
		cr_assert_eq(looked.job.counts.built, at_built, "built=%d",                        \
			     (int)looked.job.counts.built);                                        \
		cr_assert_eq(looked.job.counts.failed, at_failed, "failed=%d",                     \
			     (int)looked.job.counts.failed);                                       \
	} while (0)

Test(warmer, a_thousand_keys_are_as_few_statements_as_can_be)
{
	open_job(0, "plan 2");
	feed(0, 1000, 256, true);
	run(10 * SECOND);
	ASSERT_JOB("done", 0, 1000, 0);
	cr_assert_eq(world.keys, 1000);
	cr_assert_eq(world.builds, 16, "builds=%d", world.builds);
	cr_assert_eq(warmer.counters.statements, 16);
}

Test(warmer, keys_that_are_there_thrice_are_built_once)
{
	times = 3;
	open_job(0, "plan 2");
	feed(0, 900, 256, true);
	run(10 * SECOND);
	times = 1;
	ASSERT_JOB("done", 600, 300, 0);
	cr_assert_eq(world.keys, 300);
}

Test(warmer, what_is_fresh_costs_a_look_and_no_statement)
{
	open_job(0, "plan 2");
	feed(0, 500, 256, true);
	run(10 * SECOND);
	open_job(0, "plan 2");
	feed(0, 500, 256, true);
	run(3 * SECOND);
	ASSERT_JOB("done", 500, 0, 0);
	cr_assert_eq(world.keys, 500);
	cr_assert_eq(warmer.counters.looks, 1000);
}

Test(warmer, its_rate_is_kept_and_used)
{
	open_job(100 * MS, "plan 2");
	feed(0, 640, 256, true);
	run(500 * MS);
	cr_assert_leq(world.builds, 7);
	run(SECOND + 500 * MS);
	ASSERT_JOB("done", 0, 640, 0);
	cr_assert_eq(world.builds, 10);
	cr_assert_leq(world_most_builds(&world, SECOND), 13);
}

Test(warmer, a_key_that_fails_is_tried_again_and_then_listed)
{
	const char *text;
	uint32_t len;
	world.script.bad = "k3";
	world.script.text = "it is broken";
	open_job(0, "plan 2");
	feed(0, 10, 256, true);
	run(2 * SECOND);
	ASSERT_JOB("running", 0, 9, 0);
	run(60 * SECOND);
	ASSERT_JOB("done", 0, 9, 1);
	cr_assert_eq(world.builds, 1 + 10 + 2, "all, each, and twice more");
	struct job_call job = look_at_job();
	size_t step = chunk_next(job.data, job.data_len, &text, &len);
	cr_assert(len == 4 && memcmp(text, "k:k3", 4) == 0);
	chunk_next(job.data + step, job.data_len - step, &text, &len);
	cr_assert(len == 12 && memcmp(text, "it is broken", 12) == 0);
}

Test(warmer, a_key_of_no_keyspace_fails_at_once)
{
	char bytes[64];
	uint32_t len = (uint32_t)chunk_put(bytes, sizeof(bytes), "nobody:1", 8);
	len += (uint32_t)chunk_put(bytes + len, sizeof(bytes) - len, "k:%zz", 5);
	open_job(0, "plan 2");
	struct job_call call = { .verb = JOB_FEED,
				 .name = "plan",
				 .id = 5,
				 .token = 1,
				 .length_us = SECOND,
				 .bytes = bytes,
				 .len = len,
				 .keys = 2,
				 .to = len,
				 .last = true,
				 .ahead_max = 9 };
	do_call(&call);
	run(2 * SECOND);
	ASSERT_JOB("done", 0, 0, 2);
	cr_assert_eq(world.builds, 0);
}

Test(warmer, it_slows_down_while_builds_fail_and_goes_on_when_they_do_not)
{
	world.script.outcome = BUILD_FAILED;
	world.script.status = STATUS_ORIGIN_ERROR;
	world.script.takes_us = MS;
	world.policy.batch.query = NULL;
	open_job(0, "plan 100");
	feed(0, 500, 256, true);
	run(10 * SECOND);
	cr_assert_leq(world.builds, 12, "builds=%d", world.builds);
	world.script.outcome = BUILD_ROW;
	run(100 * SECOND);
	ASSERT_JOB("done", 0, 500, 0);
}

Test(warmer, it_takes_less_as_builds_take_longer)
{
	world.policy.batch.query = NULL;
	world.script.takes_us = 20 * MS;
	open_job(0, "plan 2");
	feed(0, 5000, 256, true);
	run(3 * SECOND);
	int most = world.building_most;
	cr_assert_eq(most, 4, "half of the slots");
	world.script.takes_us = 200 * MS;
	run(2 * SECOND);
	world.building_most = world.building;
	run(4 * SECOND);
	cr_assert_leq(world.building_most, 2);
	world.script.takes_us = 20 * MS;
	run(10 * SECOND);
	cr_assert_eq(world.building_most, 4);
}

Test(warmer, with_the_store_away_it_waits_and_goes_on)
{
	open_job(0, "plan 2");
	feed(0, 1000, 256, true);
	run(50 * MS);
	away = world.away = true;
	run(20 * SECOND);
	int builds = world.builds;
	cr_assert_lt(builds, 16);
	away = world.away = false;
	run(20 * SECOND);
	struct job_call job = look_at_job();
	cr_assert_eq(job.job.state, JOB_DONE);
	cr_assert_eq(job.job.counts.fresh + job.job.counts.built, 1000);
	cr_assert_eq(world.keys, 1000);
}

Test(warmer, what_a_daemon_leaves_another_takes_over)
{
	open_job(100 * MS, "plan 2");
	feed(0, 1000, 256, true);
	run(700 * MS);
	warmer_stop(&warmer);
	run(2 * SECOND);
	cr_assert(stopped);
	int keys = world.keys;
	cr_assert(keys > 0 && keys < 1000);
	open_warmer();
	warmer.options.token = 12;
	run(30 * SECOND);
	struct job_call job = look_at_job();
	cr_assert_eq(job.job.state, JOB_DONE);
	cr_assert_eq(job.job.counts.fresh + job.job.counts.built, 1000);
	cr_assert_eq(world.keys, 1000, "each once");
}

Test(warmer, a_store_that_was_emptied_is_given_the_job_anew_and_no_key_is_left_out)
{
	open_job(100 * MS, "plan 2");
	feed(0, 1000, 256, true);
	for (int i = 0; i < 5; i++) {
		run(150 * MS + i * 70 * MS);
		job_book_clear(&book);
		/* Before the warmer hears of it. Chunks have their numbers again, and other keys.
		 */
		open_job(100 * MS, "plan 2");
		feed(0, 1000, 100 + 20 * i, true);
	}
	run(30 * SECOND);
	struct job_call job = look_at_job();
	cr_assert_eq(job.job.state, JOB_DONE);
	cr_assert_eq(job.job.counts.fresh + job.job.counts.built, 1000);
	cr_assert_leq(world.keys, 1000 + 5 * 2 * 64, "what was being built then: %d", world.keys);
}

Test(warmer, a_job_that_is_cancelled_is_left)
{
	open_job(100 * MS, "plan 2");
	feed(0, 1000, 256, true);
	run(500 * MS);
	struct job_call call = { .verb = JOB_END, .name = "plan", .end = JOB_CANCELLED };
	do_call(&call);
	run(2 * SECOND);
	int keys = world.keys;
	run(10 * SECOND);
	cr_assert_eq(world.keys, keys);
	cr_assert(list_empty(&warmer.jobs));
}

Test(warmer, who_waits_is_not_held_up)
{
	static struct client clients[100];
	char arg[16];
	open_job(0, "plan 2");
	feed(0, 5000, 256, true);
	for (int i = 0; i < 100; i++) {
		run(20 * MS);
		snprintf(arg, sizeof(arg), "other%d", i);
		world_get(&world, &clients[i], arg);
	}
	run(10 * SECOND);
	for (int i = 0; i < 100; i++) {
		cr_assert_eq(clients[i].answer.state, ANSWER_FRESH);
		cr_assert_leq(clients[i].answered_at_us - clients[i].asked_at_us,
			      100 * MS + 2 * MS + 2 * MS, "its build, linger, a token");
	}
	run(10 * SECOND);
	ASSERT_JOB("done", 0, 5000, 0);
}

/* ---- the pace ----------------------------------------------------------------------------- */

Test(warmer, the_pace_in_numbers)
{
	struct warm_pace pace;
	char trace[512] = "", *at = trace;
	int64_t now_us = 0;
	warm_pace_init(&pace, 8);
	for (int i = 0; i < 30; i++) {
		int64_t took_us = i < 12 ? 100 * MS : i < 20 ? 500 * MS : 100 * MS;
		now_us += took_us;
		warm_pace_went_well(&pace, 3, took_us, now_us);
		if (i % 3 == 2)
			at += sprintf(at, "%.2f ", pace.window);
	}
	cr_assert_str_eq(trace, "2.90 3.83 4.57 5.20 4.18 1.76 1.00 1.00 2.00 3.24 ", "%s", trace);
	warm_pace_failed(&pace, now_us);
	warm_pace_failed(&pace, now_us);
	cr_assert(warm_pace_admits(&pace, 0, now_us), "it may have been the keys' fault");
	warm_pace_failed(&pace, now_us);
	cr_assert(!warm_pace_admits(&pace, 0, now_us + 499 * MS));
	cr_assert(warm_pace_admits(&pace, 0, now_us + 500 * MS));
	cr_assert(!warm_pace_admits(&pace, 1, now_us + 500 * MS));
	for (int i = 0; i < 10; i++)
		warm_pace_failed(&pace, now_us);
	cr_assert(!warm_pace_admits(&pace, 0, now_us + 31 * SECOND));
	cr_assert(warm_pace_admits(&pace, 0, now_us + 32 * SECOND));
}
