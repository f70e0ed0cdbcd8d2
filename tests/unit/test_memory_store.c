/* The store behind `url: none`, through the interface that the core uses. */
#include "store/memory.h"

#include <criterion/criterion.h>
#include <string.h>

enum { MS = 1000, SECOND = 1000 * 1000 };

static struct policy policy = { .name = (char *)"k" };
static struct keyspace keyspace = { .policy = &policy };
static struct memory_store *memory;
static struct store store;
static int64_t now_us;
static bool wants_turn;
static int answers;

static int64_t clock_now(void *impl)
{
	(void)impl;
	return now_us;
}

static void want_turn(void *impl)
{
	(void)impl;
	wants_turn = true;
}

static void count_answer(struct store_op *op)
{
	(void)op;
	answers++;
}

static void open_store(void)
{
	struct memory_store_limits limits = {
		.concurrency = 4, .budget_per_s = 100, .fleet = 1, .failures_max = 2
	};
	struct memory_store_host host = { NULL, clock_now, want_turn, NULL };
	now_us = 1000 * (int64_t)SECOND;
	memory = memory_store_create(&limits, &host);
	store = memory_store_iface(memory);
}

static void close_store(void)
{
	memory_store_free(memory);
}

TestSuite(memory_store, .init = open_store, .fini = close_store);

static struct store_op run(struct store_op op, enum store_verb verb, const char *key)
{
	op.verb = verb;
	op.done = count_answer;
	op.key = (struct key){ &keyspace, key, (uint32_t)strlen(key), (uint64_t)key[0] * 77 };
	int before = answers;
	store.submit(store.impl, &op);
	cr_assert_eq(answers, before, "answered inside submit");
	cr_assert(wants_turn);
	memory_store_turn(memory);
	cr_assert_eq(answers, before + 1);
	return op;
}

static struct store_op lease(const char *key, uint64_t token)
{
	return run((struct store_op){ .token = token, .length_us = SECOND }, STORE_LEASE, key);
}

Test(memory_store, one_lease_a_key_until_it_lapses)
{
	struct store_op first = lease("a", 1);
	cr_assert_eq(first.outcome, STORE_DONE);
	struct store_op second = lease("a", 2);
	cr_assert_eq(second.outcome, STORE_HELD);
	cr_assert_eq(second.left_us, SECOND);
	cr_assert_eq(lease("b", 2).outcome, STORE_DONE);
	now_us += SECOND;
	second = lease("a", 2);
	cr_assert_eq(second.outcome, STORE_DONE);
	cr_assert_gt(second.fence, first.fence);
}

static int64_t others_us;

static int64_t others_clock(void *impl)
{
	(void)impl;
	return others_us;
}

/* Behind a shared store, on a host whose clock is wrong. */
Test(memory_store, fences_go_by_the_clock_of_those_who_share_and_by_what_is_known)
{
	memory_store_free(memory);
	struct memory_store_limits limits = { .concurrency = 4, .budget_per_s = 10, .fleet = 1 };
	struct memory_store_host host = { NULL, clock_now, want_turn, others_clock };
	memory = memory_store_create(&limits, &host);
	store = memory_store_iface(memory);
	others_us = 0;
	cr_assert_eq(lease("a", 1).fence, 1, "never in touch");
	struct store_op op = { .token = 2, .length_us = SECOND, .known_fence = 500 };
	cr_assert_eq(run(op, STORE_LEASE, "b").fence, 501);
	others_us = now_us - 600 * SECOND;
	uint64_t fence = lease("c", 1).fence;
	cr_assert(fence > (uint64_t)others_us && fence <= (uint64_t)others_us + 10);
}

Test(memory_store, a_repeat_of_the_same_token_gets_the_lease_again)
{
	lease("a", 1);
	cr_assert_eq(lease("a", 1).outcome, STORE_DONE);
}

Test(memory_store, only_the_holder_saves_renews_and_releases)
{
	lease("a", 1);
	struct store_op other = { .token = 2, .length_us = SECOND };
	cr_assert_eq(run(other, STORE_SAVE, "a").outcome, STORE_REFUSED);
	cr_assert_eq(run(other, STORE_RENEW, "a").outcome, STORE_REFUSED);
	run(other, STORE_RELEASE, "a");
	cr_assert_eq(lease("a", 3).outcome, STORE_HELD);
	cr_assert_eq(run((struct store_op){ .token = 1 }, STORE_SAVE, "a").outcome, STORE_DONE);
	cr_assert_eq(lease("a", 3).outcome, STORE_DONE);
}

Test(memory_store, a_lapsed_lease_saves_nothing)
{
	lease("a", 1);
	now_us += SECOND;
	cr_assert_eq(run((struct store_op){ .token = 1 }, STORE_SAVE, "a").outcome, STORE_REFUSED);
}

Test(memory_store, a_renewed_lease_lasts_longer)
{
	lease("a", 1);
	now_us += SECOND - 1;
	struct store_op renew = { .token = 1, .length_us = SECOND };
	cr_assert_eq(run(renew, STORE_RENEW, "a").outcome, STORE_DONE);
	now_us += SECOND - 1;
	cr_assert_eq(lease("a", 2).outcome, STORE_HELD);
}

static void fail_key(const char *key, uint64_t token)
{
	lease(key, token);
	struct failure failure = { .status = STATUS_ORIGIN_ERROR,
				   .text = value_create(key, strlen(key)),
				   .until_us = now_us + SECOND };
	run((struct store_op){ .token = token, .failure = failure }, STORE_RELEASE, key);
	value_unref(failure.text);
}

Test(memory_store, a_failure_is_told_until_its_time)
{
	fail_key("a", 1);
	struct store_op op = lease("a", 2);
	cr_assert_eq(op.outcome, STORE_FAILED);
	cr_assert_str_eq(op.failure.text->bytes, "a");
	value_unref(op.failure.text);
	op = run((struct store_op){ 0 }, STORE_LOAD, "a");
	cr_assert(op.has_failure && op.has_claim);
	value_unref(op.failure.text);
	now_us += SECOND;
	cr_assert_eq(lease("a", 2).outcome, STORE_DONE);
}

Test(memory_store, an_invalidation_ends_a_remembered_failure)
{
	fail_key("a", 1);
	run((struct store_op){ 0 }, STORE_INVALIDATE, "a");
	cr_assert_eq(lease("a", 2).outcome, STORE_DONE);
}

Test(memory_store, of_too_many_failures_the_oldest_is_forgotten)
{
	fail_key("a", 1);
	fail_key("b", 1);
	fail_key("c", 1);
	cr_assert_eq(lease("a", 2).outcome, STORE_DONE);
	struct store_op op = lease("c", 2);
	cr_assert_eq(op.outcome, STORE_FAILED);
	value_unref(op.failure.text);
}

Test(memory_store, what_nothing_is_left_of_costs_no_memory)
{
	lease("a", 1);
	fail_key("b", 1);
	cr_assert_eq(memory_store_claims(memory), 2);
	now_us += 10 * SECOND;
	run((struct store_op){ 0 }, STORE_LOAD, "x");
	cr_assert_eq(memory_store_claims(memory), 0);
}

static struct store_op permit(uint64_t token, int64_t reach_us, bool background)
{
	struct store_op op = {
		.token = token, .reach_us = reach_us, .background = background, .length_us = SECOND
	};
	return run(op, STORE_PERMIT, "a");
}

Test(memory_store, permits_come_at_nine_tenths_of_the_budget)
{
	struct store_op first = permit(1, 0, false);
	cr_assert_eq(first.outcome, STORE_DONE);
	struct store_op second = permit(2, 0, false);
	cr_assert_eq(second.outcome, STORE_RETRY);
	cr_assert_eq(second.left_us, SECOND / 90);
	second = permit(2, 20 * MS, false);
	cr_assert_eq(second.outcome, STORE_DONE);
	cr_assert_eq(second.left_us, SECOND / 90);
	cr_assert_neq(second.slot, first.slot);
	now_us += SECOND;
	cr_assert_eq(permit(3, 0, false).left_us, 0, "unused time is not saved up");
	cr_assert_eq(permit(4, 0, false).outcome, STORE_RETRY);
}

Test(memory_store, slots_are_given_back_or_end_by_themselves)
{
	struct store_op ops[4];
	for (uint64_t i = 0; i < 4; i++) {
		now_us += 20 * MS;
		ops[i] = permit(i, 0, false);
		cr_assert_eq(ops[i].outcome, STORE_DONE);
	}
	now_us += 20 * MS;
	cr_assert_eq(permit(9, 0, false).outcome, STORE_RETRY);
	run((struct store_op){ .token = 77, .slot = ops[2].slot }, STORE_FREE, "a");
	cr_assert_eq(permit(9, 0, false).outcome, STORE_RETRY, "a slot freed by a stranger");
	run((struct store_op){ .token = 2, .slot = ops[2].slot }, STORE_FREE, "a");
	cr_assert_eq(permit(9, 0, false).slot, ops[2].slot);
	now_us += SECOND;
	cr_assert_eq(permit(10, 0, false).outcome, STORE_DONE);
}

Test(memory_store, background_work_takes_half_of_the_slots_at_most)
{
	for (uint64_t i = 0; i < 2; i++) {
		now_us += 20 * MS;
		cr_assert_eq(permit(i, 0, true).outcome, STORE_DONE);
	}
	now_us += 20 * MS;
	cr_assert_eq(permit(3, 0, true).outcome, STORE_RETRY);
	cr_assert_eq(permit(3, 0, false).outcome, STORE_DONE);
}
