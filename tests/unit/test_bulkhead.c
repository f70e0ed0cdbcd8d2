#include "core/bulkhead.h"

#include <criterion/criterion.h>

#include "base/check.h"

enum { TICKETS = 200 };
static struct bulkhead bulkhead;
static struct bulkhead_ticket tickets[TICKETS];

static enum admission enter(int i, enum priority priority, uint32_t client)
{
	return bulkhead_enter(&bulkhead, &tickets[i], priority, client, true);
}

static int next(void)
{
	struct bulkhead_ticket *ticket = bulkhead_next(&bulkhead);
	return ticket ? (int)(ticket - tickets) : -1;
}

static int after_one_left(void)
{
	bulkhead_leave(&bulkhead);
	return next();
}

static void open_bulkhead(void)
{
	bulkhead_init(&bulkhead, 1, 100);
	cr_assert_eq(enter(0, PRIORITY_MISS, 1), ADMISSION_IN);
}

TestSuite(bulkhead, .init = open_bulkhead);

Test(bulkhead, lets_in_as_many_as_there_is_room_for)
{
	cr_assert_eq(enter(1, PRIORITY_MISS, 1), ADMISSION_QUEUED);
	cr_assert_eq(next(), -1);
	cr_assert_eq(after_one_left(), 1);
	cr_assert_eq(next(), -1);
}

Test(bulkhead, the_more_urgent_goes_first)
{
	enter(1, PRIORITY_WARM, 1);
	enter(2, PRIORITY_REFRESH, 1);
	enter(3, PRIORITY_MISS, 1);
	cr_assert_eq(after_one_left(), 3);
	cr_assert_eq(after_one_left(), 2);
	cr_assert_eq(after_one_left(), 1);
}

Test(bulkhead, one_clients_flights_go_in_their_order)
{
	for (int i = 1; i < 10; i++)
		enter(i, PRIORITY_MISS, 1);
	for (int i = 1; i < 10; i++)
		cr_assert_eq(after_one_left(), i);
}

Test(bulkhead, who_asks_for_one_key_is_next_to_who_asks_for_many)
{
	for (int i = 1; i < 40; i++)
		enter(i, PRIORITY_MISS, 1);
	cr_assert_eq(after_one_left(), 1);
	enter(100, PRIORITY_MISS, 2);
	int served = 0;
	while (after_one_left() != 100)
		served++;
	cr_assert_leq(served, 1);
}

Test(bulkhead, clients_that_all_ask_for_many_take_turns)
{
	for (int i = 1; i < 10; i++)
		enter(i, PRIORITY_MISS, 1);
	for (int i = 10; i < 20; i++)
		enter(i, PRIORITY_MISS, 2);
	int first = 0;
	for (int i = 0; i < 10; i++)
		first += after_one_left() < 10;
	cr_assert_eq(first, 5);
}

Test(bulkhead, a_client_leaves_as_much_room_as_it_takes)
{
	int queued = 0;
	for (int i = 1; i < TICKETS; i++)
		queued += enter(i, PRIORITY_MISS, 1) == ADMISSION_QUEUED;
	cr_assert_eq(queued, 50);
	cr_assert_eq(enter(199, PRIORITY_MISS, 2), ADMISSION_QUEUED);
}

Test(bulkhead, a_flight_that_another_client_joins_takes_the_better_place)
{
	for (int i = 1; i < 40; i++)
		enter(i, PRIORITY_MISS, 1);
	bulkhead_join(&bulkhead, &tickets[39], PRIORITY_MISS, 2);
	int served = 0;
	while (after_one_left() != 39)
		served++;
	cr_assert_leq(served, 1);
}

Test(bulkhead, who_gives_up_or_is_raised_leaves_nothing_behind)
{
	enter(1, PRIORITY_WARM, 1);
	enter(2, PRIORITY_WARM, 1);
	bulkhead_raise(&bulkhead, &tickets[2], PRIORITY_WARM, PRIORITY_MISS);
	bulkhead_give_up(&bulkhead, &tickets[1], PRIORITY_WARM);
	cr_assert_eq(after_one_left(), 2);
	cr_assert_eq(after_one_left(), -1);
	cr_assert_eq(bulkhead.queued, 0);
	for (int i = 0; i < BULKHEAD_SHARES; i++)
		cr_assert_eq(bulkhead.queues[PRIORITY_WARM].shares[i].queued, 0);
}

Test(bulkhead, background_work_never_queues)
{
	cr_assert_eq(bulkhead_enter(&bulkhead, &tickets[1], PRIORITY_REFRESH, 1, false),
		     ADMISSION_FULL);
}
