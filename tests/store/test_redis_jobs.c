/* Warm-ups' jobs in a real Redis and in the book that stands for it in memory: every act is done to
 * both, and both must answer alike. */
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "fleet.h"
#include "store/job_book.h"
#include "store/jobs.h"

enum {
	LONG = 1000 * 1000 * 1000, /* µs */
	LAPSES = 1,                /* by the next act it has */
	ACTS = 8000,
};

static struct fleet fleet;
static struct daemon *daemon_a;
static struct job_store jobs;
static struct job_book book;
static int64_t now_us;

static void setup(void)
{
	fleet_open(&fleet, NULL);
	daemon_a = fleet_add(&fleet);
	jobs = redis_store_jobs(daemon_a->redis);
	job_book_init(&book);
	now_us = 1000 * SECOND;
}

static void teardown(void)
{
	job_book_close(&book);
	fleet_close(&fleet);
}

TestSuite(redis_jobs, .init = setup, .fini = teardown, .timeout = 60);

/* ---- one act ------------------------------------------------------------------------------ */

struct act {
	struct job_call call;
	bool done;
	char data[256 * 1024]; /* what it was told, kept */
};

static void on_done(struct job_call *call)
{
	struct act *act = container_of(call, struct act, call);
	cr_assert(!act->done);
	cr_assert_leq(call->data_len, sizeof(act->data));
	if (call->data)
		memcpy(act->data, call->data, call->data_len);
	act->done = true;
}

static void print(const struct job_call *call, char *line, size_t size)
{
	const struct job *job = &call->job;
	int len = snprintf(line, size, "%d outcome=%d", (int)call->verb, (int)call->outcome);
	if (call->outcome == JOB_GONE || call->outcome == JOB_LOST || call->verb == JOB_LIST ||
	    call->verb == JOB_END)
		return;
	if (call->verb == JOB_OPEN)
		snprintf(line + len, size - (size_t)len, " joined=%d id=%llu", call->joined,
			 (unsigned long long)call->job.id);
	else if (call->verb == JOB_FEED)
		snprintf(line + len, size - (size_t)len,
			 " held=%d fed=%lld ahead=%u of=%llu all=%d", call->left_us > 0,
			 (long long)call->fed, call->ahead, (unsigned long long)call->of, job->all);
	else
		snprintf(line + len, size - (size_t)len,
			 " lost=%d next=%llu state=%s id=%llu interval=%lld spec=%s keys=%lld "
			 "total=%lld all=%d fresh=%lld built=%lld failed=%lld why=%s",
			 call->lost, (unsigned long long)call->next, job_state_name(job->state),
			 (unsigned long long)job->id, (long long)job->interval_us, job->spec,
			 (long long)job->keys, (long long)job->total, job->all,
			 (long long)job->counts.fresh, (long long)job->counts.built,
			 (long long)job->counts.failed, job->why);
}

/* Does it to both. The answer is Redis'; `call->data` is kept until the next. */
static enum job_outcome both(struct job_call *call)
{
	static struct act act;
	char real[1024], mine[1024];
	struct job_call other = *call;
	act.call = *call;
	act.done = false;
	act.call.done = on_done;
	jobs.submit(jobs.impl, &act.call);
	cr_assert(!act.done, "told inside the call");
	AWAIT(&fleet, act.done);
	now_us += 1000;
	job_book_do(&book, &other, now_us);
	print(&act.call, real, sizeof(real));
	print(&other, mine, sizeof(mine));
	cr_assert_str_eq(real, mine);
	cr_assert_eq(act.call.data_len, other.data_len, "%s: %u and %u bytes", real,
		     act.call.data_len, other.data_len);
	if (other.verb != JOB_LIST || other.data_len < 20) /* Redis lists them in no order */
		cr_assert(other.data_len == 0 || memcmp(act.data, other.data, other.data_len) == 0);
	*call = act.call;
	call->data = act.data;
	return call->outcome;
}

/* Both forget everything. */
static void flush(void)
{
	server_ask(&fleet.server, "FLUSHALL");
	job_book_clear(&book);
}

/* ---- the usual ones ------------------------------------------------------------------------ */

static struct job_call last; /* what was done last */

static enum job_outcome job_open(const char *name, uint64_t id)
{
	last = (struct job_call){ .verb = JOB_OPEN, .id = id, .interval_us = 20000 };
	snprintf(last.name, sizeof(last.name), "%s", name);
	snprintf(last.spec, sizeof(last.spec), "plan");
	return both(&last);
}

static enum job_outcome feed(uint64_t token, int64_t length_us, int64_t from, const char *keys)
{
	char bytes[64];
	last = (struct job_call){ .verb = JOB_FEED,
				  .name = "deploy",
				  .id = 7,
				  .token = token,
				  .length_us = length_us,
				  .from = from,
				  .total = -1,
				  .ahead_max = 3 };
	if (keys) {
		last.len = (uint32_t)chunk_put(bytes, sizeof(bytes), keys, (uint32_t)strlen(keys));
		last.bytes = bytes;
		last.keys = 1;
		last.to = from + last.len;
	}
	return both(&last);
}

static enum job_outcome feed_end(uint64_t token, int64_t from)
{
	last = (struct job_call){ .verb = JOB_FEED,
				  .name = "deploy",
				  .id = 7,
				  .token = token,
				  .length_us = LONG,
				  .from = from,
				  .last = true,
				  .ahead_max = 3 };
	return both(&last);
}

static enum job_outcome work(uint64_t token, int64_t length_us, uint64_t seq, bool final,
			     int64_t built)
{
	last = (struct job_call){ .verb = JOB_WORK,
				  .name = "deploy",
				  .id = 7,
				  .token = token,
				  .length_us = length_us,
				  .seq = seq,
				  .final = final,
				  .counts.built = built,
				  .wants = true };
	return both(&last);
}

/* ---- scenes -------------------------------------------------------------------------------- */

Test(redis_jobs, who_asks_for_a_job_that_runs_joins_it)
{
	cr_assert_eq(job_open("deploy", 7), JOB_OK);
	cr_assert(!last.joined);
	cr_assert_eq(job_open("deploy", 8), JOB_OK);
	cr_assert(last.joined);
	cr_assert_eq(last.job.id, 7);
	last = (struct job_call){ .verb = JOB_LIST };
	cr_assert_eq(both(&last), JOB_OK);
	cr_assert_eq(last.data_len, CHUNK_HEAD + strlen("deploy"));
	last = (struct job_call){ .verb = JOB_END, .name = "deploy", .end = JOB_CANCELLED };
	cr_assert_eq(both(&last), JOB_OK);
	last = (struct job_call){ .verb = JOB_LOOK, .name = "deploy" };
	both(&last);
	cr_assert_eq(last.job.state, JOB_CANCELLED);
	cr_assert_eq(job_open("deploy", 8), JOB_OK);
	cr_assert(!last.joined, "what has ended begins anew");
}

Test(redis_jobs, so_many_run_and_no_more)
{
	char name[16];
	for (uint64_t i = 1; i <= JOBS_MAX; i++) {
		snprintf(name, sizeof(name), "job%d", (int)i);
		cr_assert_eq(job_open(name, i), JOB_OK);
	}
	cr_assert_eq(job_open("deploy", 7), JOB_FULL);
	last = (struct job_call){ .verb = JOB_END, .name = "job3", .end = JOB_FAILED, .why = "no" };
	both(&last);
	cr_assert_eq(job_open("deploy", 7), JOB_OK);
}

Test(redis_jobs, each_chunk_is_claimed_once_and_the_last_one_ends_the_job)
{
	job_open("deploy", 7);
	cr_assert_eq(feed(1, LONG, 0, "a"), JOB_OK);
	cr_assert_eq(feed(1, LONG, last.fed, "b"), JOB_OK);
	cr_assert_eq(feed_end(1, last.fed), JOB_OK);
	work(11, LONG, 0, false, 0);
	cr_assert_eq(last.next, 1);
	work(12, LONG, 0, false, 0);
	cr_assert_eq(last.next, 2);
	work(13, LONG, 0, false, 0);
	cr_assert_eq(last.next, 0);
	work(12, LONG, 2, true, 1);
	cr_assert_eq(last.job.state, JOB_RUNNING);
	work(11, LONG, 1, true, 1);
	cr_assert_eq(last.job.state, JOB_DONE);
	cr_assert_eq(last.job.counts.built, 2);
	cr_assert_eq(last.job.total, 2);
	last = (struct job_call){ .verb = JOB_LIST };
	both(&last);
	cr_assert_eq(last.data_len, 0);
}

Test(redis_jobs, a_claim_that_is_not_kept_is_anothers_and_counts_anew)
{
	job_open("deploy", 7);
	feed(1, LONG, 0, "a");
	work(11, LONG, 0, false, 0);
	work(11, LAPSES, 1, false, 1);
	cr_assert_eq(last.job.counts.built, 1);
	work(12, LONG, 0, false, 0);
	cr_assert_eq(last.next, 1);
	cr_assert_eq(last.job.counts.built, 0);
	work(11, LONG, 1, true, 1);
	cr_assert(last.lost);
	cr_assert_eq(last.job.counts.built, 0);
	work(12, LONG, 1, true, 1);
	cr_assert_eq(last.job.counts.built, 1);
}

Test(redis_jobs, one_feeds_and_no_more_ahead_than_it_may)
{
	job_open("deploy", 7);
	feed(1, LONG, 0, NULL);
	cr_assert_eq(feed(2, LONG, 0, "a"), JOB_HELD);
	int64_t at = 0;
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(feed(1, LONG, at, "a"), JOB_OK);
		at = last.fed;
	}
	cr_assert_eq(feed(1, LONG, at, "a"), JOB_FULL);
	cr_assert_eq(last.ahead, 3);
	work(11, LONG, 0, false, 0);
	work(11, LONG, 1, true, 1);
	cr_assert_eq(feed(1, LONG, at, "a"), JOB_OK);
}

Test(redis_jobs, a_spooler_with_the_same_spool_goes_on_and_one_without_begins_anew)
{
	job_open("deploy", 7);
	feed(1, LAPSES, 0, "a");
	int64_t at = last.fed;
	cr_assert_eq(feed(2, LAPSES, 0, NULL), JOB_OK, "its right has lapsed");
	cr_assert_eq(last.fed, at);
	cr_assert_eq(feed(2, LAPSES, at, "b"), JOB_OK);
	cr_assert_eq(last.ahead, 2);
	work(11, LONG, 0, false, 0);
	work(11, LONG, 1, true, 1);
	work(11, LONG, 0, false, 0);
	cr_assert_eq(feed(3, LONG, 0, "b"), JOB_OK);
	cr_assert_eq(last.ahead, 1);
	work(11, LONG, 2, true, 1);
	cr_assert(last.lost);
	cr_assert_eq(last.job.counts.built, 0);
	cr_assert_eq(last.job.keys, 1);
}

Test(redis_jobs, a_spool_without_keys_is_done_at_once)
{
	job_open("deploy", 7);
	feed_end(1, 0);
	last = (struct job_call){ .verb = JOB_LOOK, .name = "deploy" };
	both(&last);
	cr_assert_eq(last.job.state, JOB_DONE);
	cr_assert_eq(last.job.total, 0);
}

Test(redis_jobs, who_feeds_hears_that_the_store_was_emptied_and_that_a_job_has_ended)
{
	job_open("deploy", 7);
	feed(1, LONG, 0, "a");
	flush();
	cr_assert_eq(feed(1, LONG, last.fed, "b"), JOB_LOST);
	cr_assert_eq(job_open("deploy", 7), JOB_OK);
	cr_assert_eq(feed(1, LONG, 0, "a"), JOB_OK);
	cr_assert_eq(last.fed, last.to);
	cr_assert_eq(feed_end(1, last.fed), JOB_OK);
	cr_assert(last.job.all);
	work(11, LONG, 0, false, 0);
	cr_assert_eq(feed(1, LONG, last.fed, NULL), JOB_OK, "it is watched over to its end");
	cr_assert(last.job.all);
	work(11, LONG, 1, true, 1);
	cr_assert_eq(feed(1, LONG, last.fed, NULL), JOB_GONE);
}

Test(redis_jobs, some_failures_are_kept)
{
	char bytes[128];
	size_t len = chunk_put(bytes, sizeof(bytes), "k:a", 3);
	len += chunk_put(bytes + len, sizeof(bytes) - len, "it is broken", 12);
	job_open("deploy", 7);
	feed(1, LONG, 0, "a");
	work(11, LONG, 0, false, 0);
	last = (struct job_call){ .verb = JOB_WORK,
				  .name = "deploy",
				  .id = 7,
				  .token = 11,
				  .length_us = LONG,
				  .seq = 1,
				  .final = true,
				  .counts.failed = 1,
				  .failures = bytes,
				  .failures_len = (uint32_t)len,
				  .failures_count = 1 };
	both(&last);
	last = (struct job_call){ .verb = JOB_LOOK, .name = "deploy" };
	both(&last);
	cr_assert_eq(last.data_len, len);
	cr_assert(memcmp(last.data, bytes, len) == 0);
}

/* ---- by chance ------------------------------------------------------------------------------ */

static struct rng rng;
static int64_t fed_to[2]; /* up to where each job has been fed, and … */
static uint64_t ids[2];
static uint64_t claimed[2]; /* … the chunk of it that was claimed last */

static void draw(struct job_call *call, char *bytes, size_t size)
{
	static const char *const names[] = { "deploy", "other" };
	*call = (struct job_call){ .verb = (enum job_verb)rng_between(&rng, 0, JOB_LOOK),
				   .id = (uint64_t)rng_between(&rng, 7, 8),
				   .token = (uint64_t)rng_between(&rng, 1, 3),
				   .length_us = rng_between(&rng, 0, 2) ? LONG : LAPSES,
				   .interval_us = 20000,
				   .total = -1,
				   .ahead_max = 3 };
	int which = (int)rng_between(&rng, 0, 1);
	if (call->verb == JOB_END && rng_between(&rng, 0, 19) > 0)
		call->verb = JOB_WORK;
	if (call->verb == JOB_LIST && rng_between(&rng, 0, 3) > 0)
		call->verb = JOB_FEED;
	strcpy(call->name, names[which]);
	if (call->verb != JOB_OPEN && rng_between(&rng, 0, 9) > 0)
		call->id = ids[which];
	if (call->verb == JOB_FEED) {
		call->from = rng_between(&rng, 0, 19) ? fed_to[which] : 0;
		call->last = rng_between(&rng, 0, 29) == 0;
		call->spool = rng_between(&rng, 0, 9) ? 5 : 6;
		if (rng_between(&rng, 0, 3) > 0) {
			call->len = (uint32_t)chunk_put(bytes, size, "key",
							(uint32_t)rng_between(&rng, 0, 3));
			call->bytes = bytes;
			call->keys = 1;
			call->to = call->from + call->len;
		}
	} else if (call->verb == JOB_WORK) {
		call->seq = claimed[which] + (uint64_t)rng_between(&rng, 0, 1);
		call->final = rng_between(&rng, 0, 1);
		call->counts =
			(struct job_counts){ rng_between(&rng, 0, 5), rng_between(&rng, 0, 5),
					     rng_between(&rng, 0, 5) };
		call->wants = rng_between(&rng, 0, 1);
		if (call->final && rng_between(&rng, 0, 1)) {
			call->failures_len = (uint32_t)chunk_put(bytes, size, "text", 4);
			call->failures = bytes;
			call->failures_count = (uint32_t)rng_between(&rng, 1, 40);
		}
	} else if (call->verb == JOB_END) {
		call->end = JOB_CANCELLED;
		strcpy(call->why, "asked to");
	}
}

Test(redis_jobs, both_answer_alike_whatever_is_done)
{
	char bytes[64];
	rng_seed(&rng, 11);
	int outcomes[JOB_AWAY + 1] = { 0 };
	for (int i = 0; i < ACTS; i++) {
		draw(&last, bytes, sizeof(bytes));
		if (rng_between(&rng, 0, 199) == 0)
			flush();
		outcomes[both(&last)]++;
		int which = strcmp(last.name, "other") == 0;
		if (last.verb == JOB_OPEN)
			ids[which] = last.job.id;
		if (last.verb == JOB_FEED)
			fed_to[which] = last.fed;
		if (last.verb == JOB_WORK && last.next)
			claimed[which] = last.next;
	}
	for (int i = 0; i < JOB_AWAY; i++)
		cr_assert(outcomes[i] > 20, "outcome %d came %d times", i, outcomes[i]);
	cr_assert_eq(outcomes[JOB_AWAY], 0);
}

Test(redis_jobs, without_redis_nothing_is_known)
{
	struct act act = { .call = { .verb = JOB_LIST, .done = on_done } };
	server_kill(&fleet.server);
	AWAIT(&fleet, !daemon_is_up(daemon_a));
	jobs.submit(jobs.impl, &act.call);
	AWAIT(&fleet, act.done);
	cr_assert_eq(act.call.outcome, JOB_AWAY);
}
