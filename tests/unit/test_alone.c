#include "store/alone.h"

#include <criterion/criterion.h>

#define SECOND INT64_C(1000000)
#define NOW    (INT64_C(1700000000) * SECOND)

static struct alone alone;
static uint32_t among;

static void open_alone(double rate, uint32_t concurrency, uint32_t fleet)
{
	among = fleet;
	cr_assert_eq(alone_init(&alone, rate, concurrency, fleet), 0);
}

static struct store_op ask(uint64_t token, uint32_t place, int64_t reach_us, int64_t now_us)
{
	struct store_op op = {
		.verb = STORE_PERMIT, .token = token, .reach_us = reach_us, .length_us = 10 * SECOND
	};
	alone_permit(&alone, &op, place, among, now_us);
	return op;
}

Test(alone, each_moment_gives_one_permit)
{
	open_alone(10, 40, 1); /* a moment each 100 ms */
	int64_t moment = NOW + 30000;
	moment -= moment % 100000;
	struct store_op op = ask(1, 0, 200000, moment);
	cr_assert_eq(op.outcome, STORE_DONE);
	cr_assert_eq(op.left_us, 0);
	op = ask(2, 0, 200000, moment);
	cr_assert_eq(op.outcome, STORE_DONE);
	cr_assert(op.left_us > 99000 && op.left_us <= 100001);
	op = ask(3, 0, 200000, moment);
	cr_assert_eq(op.outcome, STORE_DONE);
	op = ask(4, 0, 200000, moment);
	cr_assert_eq(op.outcome, STORE_RETRY, "300 ms are out of reach");
	cr_assert(op.left_us > 99000 && op.left_us <= 100001);
	alone_close(&alone);
}

Test(alone, what_was_used_by_a_clock_that_was_ahead_is_forgotten)
{
	open_alone(10, 40, 1);
	cr_assert_eq(ask(1, 0, 200000, NOW + 600 * SECOND).outcome, STORE_DONE);
	cr_assert_eq(ask(2, 0, 200000, NOW).outcome, STORE_DONE);
	alone_close(&alone);
}

Test(alone, background_takes_a_moment_only_when_it_comes)
{
	open_alone(10, 40, 1);
	int64_t moment = NOW + 30000;
	moment -= moment % 100000;
	cr_assert_eq(ask(1, 0, 0, moment + 6000).outcome, STORE_RETRY);
	cr_assert_eq(ask(1, 0, 0, moment + 4000).outcome, STORE_DONE);
	cr_assert_eq(ask(1, 0, 0, moment + 4000).outcome, STORE_RETRY);
	alone_close(&alone);
}

Test(alone, slots_are_the_place_s_own_and_end_by_themselves)
{
	open_alone(1000, 5, 2); /* place 1 has the slots 1 and 3 */
	struct store_op a = ask(1, 1, SECOND, NOW), b = ask(2, 1, SECOND, NOW);
	cr_assert(a.outcome == STORE_DONE && a.slot == 1);
	cr_assert(b.outcome == STORE_DONE && b.slot == 3);
	cr_assert_eq(ask(3, 1, SECOND, NOW).outcome, STORE_RETRY);
	cr_assert(alone_free(&alone, 1));
	cr_assert_not(alone_free(&alone, 1), "only once");
	cr_assert_not(alone_free(&alone, 9));
	struct store_op c = ask(4, 1, SECOND, NOW);
	cr_assert(c.outcome == STORE_DONE && c.slot == 1);
	c = ask(5, 1, SECOND, NOW + 11 * SECOND);
	cr_assert(c.outcome == STORE_DONE, "those that nobody gave back have lapsed");
	alone_close(&alone);
}

Test(alone, there_is_a_share_once_the_heartbeat_has_ended)
{
	struct store_op op = { .verb = STORE_PERMIT, .token = 1, .reach_us = SECOND };
	struct place place;
	open_alone(10, 40, 1);
	place_init(&place, NULL, 1, 1, 0);
	place_given(&place, 0);
	place_sent(&place, SECOND, 5 * SECOND);
	cr_assert(alone_answer(&alone, &place, &op, NOW, 6 * SECOND));
	cr_assert_eq(op.outcome, STORE_RETRY);
	cr_assert_eq(op.left_us, PLACE_HEARTBEAT_US);
	cr_assert(op.away);
	cr_assert(alone_answer(&alone, &place, &op, NOW, 6 * SECOND + PLACE_HEARTBEAT_US));
	cr_assert(op.outcome == STORE_DONE && op.away);
	place_given(&place, PLACE_NONE);
	op.outcome = STORE_AWAY;
	cr_assert_not(alone_answer(&alone, &place, &op, NOW, 600 * SECOND));
	cr_assert_eq(op.outcome, STORE_AWAY, "untouched");
	alone_close(&alone);
}
