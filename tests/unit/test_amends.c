#include "store/amends.h"

#include <criterion/criterion.h>
#include <string.h>

static struct store_op op_on(const char *key, uint64_t token)
{
	return (struct store_op){ .verb = STORE_LEASE,
				  .token = token,
				  .key = { .bytes = key, .len = (uint32_t)strlen(key) } };
}

Test(amends, come_out_in_order_with_all_that_is_needed)
{
	struct amends amends;
	struct store_op lease = op_on("rows:1", 7), permit = op_on("", 8), free = op_on("", 9);
	amends_init(&amends);
	permit.verb = STORE_PERMIT;
	free.verb = STORE_FREE;
	free.slot = 3;
	amends_add(&amends, STORE_RELEASE, &lease, 1000);
	amends_add(&amends, STORE_FREE, &permit, 1000);
	amends_add(&amends, STORE_FREE, &free, 1000);
	struct amend *amend = amends_take(&amends, 0);
	cr_assert(amend->verb == STORE_RELEASE && amend->token == 7 && amend->key_len == 6);
	cr_assert_eq(memcmp(amend->key, "rows:1", 6), 0);
	amends_put_back(&amends, amend);
	cr_assert_eq(amends_take(&amends, 0), amend, "first again");
	amends_done(amend);
	amend = amends_take(&amends, 0);
	cr_assert(amend->verb == STORE_FREE && amend->token == 8 && amend->slot == -1);
	amends_done(amend);
	amend = amends_take(&amends, 0);
	cr_assert(amend->token == 9 && amend->slot == 3);
	amends_done(amend);
	cr_assert_null(amends_take(&amends, 0));
	cr_assert_eq(amends.bytes, 0);
	amends_close(&amends);
}

Test(amends, what_has_lapsed_by_itself_is_forgotten)
{
	struct amends amends;
	struct store_op op = op_on("rows:1", 7);
	amends_init(&amends);
	amends_add(&amends, STORE_RELEASE, &op, 1000);
	op.token = 8;
	amends_add(&amends, STORE_RELEASE, &op, 3000);
	struct amend *amend = amends_take(&amends, 2000);
	cr_assert_eq(amend->token, 8);
	amends_done(amend);
	amends_close(&amends);
}

Test(amends, are_bounded)
{
	struct amends amends;
	struct store_op op = op_on("rows:1", 7);
	amends_init(&amends);
	for (int i = 0; i < 100000; i++)
		amends_add(&amends, STORE_RELEASE, &op, 1000);
	cr_assert_leq(amends.bytes, AMENDS_BYTES_MAX);
	cr_assert_gt(amends.dropped, 0);
	cr_assert_eq(amends.dropped + amends.list.count, 100000);
	amends_close(&amends);
	cr_assert_eq(amends.bytes, 0);
}

Test(amends, are_made_for_what_may_have_been_given_or_not_taken_back)
{
	static const struct {
		enum store_verb verb;
		bool if_doubtful, if_refused;
	} cases[] = {
		{ STORE_LOAD, false, false },  { STORE_LEASE, true, false },
		{ STORE_RENEW, false, false }, { STORE_PERMIT, true, false },
		{ STORE_FREE, true, true },    { STORE_SAVE, true, true },
		{ STORE_RELEASE, true, true }, { STORE_INVALIDATE, false, false },
		{ STORE_EPOCH, false, false },
	};
	struct amends amends;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct store_op op = op_on("rows:1", 7);
		op.verb = cases[i].verb;
		amends_init(&amends);
		op.length_us = 10;
		amends_make(&amends, &op, STORE_ERROR_TIMEOUT, 1000);
		cr_assert_eq(amends.list.count, cases[i].if_doubtful);
		struct amend *amend = amends_take(&amends, 1009);
		cr_assert_eq(amend != NULL, cases[i].if_doubtful, "it matters for its length");
		amends_done(amend);
		amends_close(&amends);
		amends_make(&amends, &op, STORE_ERROR_OOM, 0);
		cr_assert_eq(amends.list.count, cases[i].if_refused);
		amends_close(&amends);
	}
}
