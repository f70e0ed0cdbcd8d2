/* Leases and entries in a real Redis: load, lease, renew, save, release, invalidate. */
#include <string.h>

#include "fleet.h"

static struct fleet fleet;

static void setup(void)
{
	fleet_open(&fleet, NULL);
}

static void teardown(void)
{
	fleet_close(&fleet);
}

TestSuite(redis_leases, .init = setup, .fini = teardown, .timeout = 30);

Test(redis_leases, a_key_that_nobody_knows_has_neither_entry_nor_claim)
{
	struct daemon *daemon = fleet_add(&fleet);
	struct doing load;
	cr_assert_eq(do_load(&load, daemon, "rows:1"), STORE_DONE);
	cr_assert(!load.op.has_entry && !load.op.has_claim && !load.op.has_failure);
	cr_assert_eq(load.op.fence, 0);
	cr_assert_eq(load.op.left_us, 0);
}

Test(redis_leases, what_one_daemon_saves_the_other_loads)
{
	struct daemon *a = fleet_add(&fleet), *b = fleet_add(&fleet);
	struct doing lease, save, load;
	cr_assert_eq(do_lease(&lease, a, "rows:1", 7), STORE_DONE);
	cr_assert_eq(do_save(&save, a, "rows:1", 7, lease.op.fence, 42, "forty-two"), STORE_DONE);
	cr_assert_eq(do_load(&load, b, "rows:1"), STORE_DONE);
	cr_assert(load.op.has_entry && load.op.has_value && load.op.has_claim);
	cr_assert_str_eq(load.op.entry.value->bytes, "forty-two");
	cr_assert_eq(load.op.entry.version, 42);
	cr_assert_eq(load.op.entry.fence, lease.op.fence);
	cr_assert_eq(load.op.left_us, 0, "the save gave the lease back");
	doing_free(&load);
}

Test(redis_leases, a_held_lease_is_not_given_twice)
{
	struct daemon *a = fleet_add(&fleet), *b = fleet_add(&fleet);
	struct doing first, second, third;
	cr_assert_eq(do_lease(&first, a, "rows:1", 7), STORE_DONE);
	cr_assert_eq(do_lease(&second, b, "rows:1", 8), STORE_HELD);
	cr_assert(second.op.left_us > 9 * SECOND && second.op.left_us <= 10 * SECOND);
	do_release(&third, a, "rows:1", 7);
	cr_assert_eq(do_lease(&second, b, "rows:1", 8), STORE_DONE);
	cr_assert_gt(second.op.fence, first.op.fence);
}
