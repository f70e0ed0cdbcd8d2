/* Leases in a real Redis: who gets the right to build, for how long, and what is remembered. */
#include <string.h>

#include "fleet.h"

static struct fleet fleet;
static struct daemon *a, *b;
static struct doing doing;

static void setup(void)
{
	fleet_open(&fleet, NULL);
	fleet.options.fleet = 2;
	a = fleet_add(&fleet);
	b = fleet_add(&fleet);
}

static void teardown(void)
{
	fleet_close(&fleet);
}

TestSuite(redis_leases, .init = setup, .fini = teardown, .timeout = 30);

Test(redis_leases, a_key_that_nobody_knows_has_neither_entry_nor_claim)
{
	cr_assert_eq(do_load(&doing, a, "rows:1"), STORE_DONE);
	cr_assert(!doing.op.has_entry && !doing.op.has_claim && !doing.op.has_failure);
	cr_assert_eq(doing.op.fence, 0);
	cr_assert_eq(doing.op.left_us, 0);
}

Test(redis_leases, a_held_lease_is_not_given_twice)
{
	struct doing load;
	cr_assert_eq(do_lease(&doing, a, "rows:1", 7), STORE_DONE);
	uint64_t fence = doing.op.fence;
	cr_assert_eq(do_lease(&doing, b, "rows:1", 8), STORE_HELD);
	cr_assert(doing.op.left_us > 9 * SECOND && doing.op.left_us <= 10 * SECOND);
	do_load(&load, b, "rows:1");
	cr_assert(load.op.has_claim && !load.op.has_entry);
	cr_assert_eq(load.op.fence, fence);
	cr_assert(load.op.left_us > 9 * SECOND && load.op.left_us <= 10 * SECOND);
	cr_assert_eq(do_lease(&doing, b, "rows:2", 8), STORE_DONE, "another key");
	cr_assert_eq(do_release(&doing, a, "rows:1", 7), STORE_DONE);
	cr_assert_eq(do_lease(&doing, b, "rows:1", 8), STORE_DONE);
	cr_assert_gt(doing.op.fence, fence);
}

Test(redis_leases, a_repeat_gets_the_same_answer)
{
	cr_assert_eq(do_lease(&doing, a, "rows:1", 7), STORE_DONE);
	uint64_t fence = doing.op.fence;
	cr_assert_eq(do_lease(&doing, a, "rows:1", 7), STORE_DONE);
	cr_assert_eq(doing.op.fence, fence);
	doing_init(&doing, b, STORE_INVALIDATE, "rows:1", 0);
	cr_assert_eq(doing_wait(&doing, b), STORE_DONE);
	uint64_t floor = doing.op.fence;
	cr_assert_eq(do_lease(&doing, a, "rows:1", 7), STORE_DONE);
	cr_assert_eq(doing.op.fence, fence, "not the claim's, which has grown");
	cr_assert_eq(doing.op.floor, floor);
}

Test(redis_leases, a_lapsed_lease_is_taken_over_and_its_holder_refused)
{
	struct doing save;
	doing_init(&doing, a, STORE_LEASE, "rows:1", 7);
	doing.op.length_us = 30000;
	cr_assert_eq(doing_wait(&doing, a), STORE_DONE);
	uint64_t fence = doing.op.fence;
	do
		do_lease(&doing, b, "rows:1", 8);
	while (doing.op.outcome == STORE_HELD);
	cr_assert_eq(doing.op.outcome, STORE_DONE);
	cr_assert_gt(doing.op.fence, fence);
	cr_assert_eq(do_save(&save, a, "rows:1", 7, fence, 1, "late"), STORE_REFUSED);
	doing_init(&doing, a, STORE_RENEW, "rows:1", 7);
	cr_assert_eq(doing_wait(&doing, a), STORE_REFUSED);
	cr_assert_eq(do_release(&doing, a, "rows:1", 7), STORE_DONE);
	cr_assert_eq(do_lease(&doing, a, "rows:1", 9), STORE_HELD, "the successor's stays");
}

Test(redis_leases, a_lease_that_has_lapsed_does_not_save_even_if_nobody_took_it)
{
	struct doing load;
	doing_init(&doing, a, STORE_LEASE, "rows:1", 7);
	doing.op.length_us = 20000;
	cr_assert_eq(doing_wait(&doing, a), STORE_DONE);
	uint64_t fence = doing.op.fence;
	do
		do_load(&load, a, "rows:1");
	while (load.op.left_us > 0);
	cr_assert_eq(do_save(&doing, a, "rows:1", 7, fence, 1, "late"), STORE_REFUSED);
	cr_assert_not(doing.op.has_entry);
}

Test(redis_leases, renewals_lengthen_it_up_to_the_hard_end)
{
	struct doing load;
	doing_init(&doing, a, STORE_LEASE, "rows:1", 7);
	doing.op.length_us = SECOND;
	cr_assert_eq(doing_wait(&doing, a), STORE_DONE);
	doing_init(&doing, a, STORE_RENEW, "rows:1", 7);
	doing.op.length_us = 20 * SECOND;
	cr_assert_eq(doing_wait(&doing, a), STORE_DONE);
	do_load(&load, b, "rows:1");
	cr_assert(load.op.left_us > 19 * SECOND && load.op.left_us <= 20 * SECOND);
	doing_init(&doing, a, STORE_RENEW, "rows:1", 7);
	doing.op.length_us = 600 * SECOND;
	cr_assert_eq(doing_wait(&doing, a), STORE_DONE);
	do_load(&load, b, "rows:1");
	cr_assert(load.op.left_us > 80 * SECOND && load.op.left_us <= 90 * SECOND);
	doing_init(&doing, b, STORE_RENEW, "rows:1", 8);
	cr_assert_eq(doing_wait(&doing, b), STORE_REFUSED, "another's");
	doing_init(&doing, a, STORE_RENEW, "rows:1", 7);
	doing.op.longest_us = 0;
	cr_assert_eq(doing_wait(&doing, a), STORE_REFUSED, "at its hard end");
}

Test(redis_leases, fences_only_grow_whatever_becomes_of_the_store)
{
	uint64_t fence = 0;
	for (int i = 0; i < 5; i++) {
		cr_assert_eq(do_lease(&doing, a, "rows:1", 7), STORE_DONE);
		cr_assert_gt(doing.op.fence, fence);
		fence = doing.op.fence;
		if (i % 2)
			server_ask(&fleet.server, "FLUSHALL");
		else
			do_release(&doing, a, "rows:1", 7);
	}
	do_release(&doing, a, "rows:1", 7);
	doing_init(&doing, a, STORE_LEASE, "rows:1", 7);
	doing.op.known_fence = fence + 1000 * (uint64_t)SECOND;
	cr_assert_eq(doing_wait(&doing, a), STORE_DONE);
	cr_assert_eq(doing.op.fence, fence + 1000 * (uint64_t)SECOND + 1);
	do_release(&doing, a, "rows:1", 7);
	cr_assert_eq(do_lease(&doing, b, "rows:1", 8), STORE_DONE);
	cr_assert_eq(doing.op.fence, fence + 1000 * (uint64_t)SECOND + 2, "the claim remembers");
}

Test(redis_leases, fences_carry_over_all_64_bits)
{
	static const uint64_t known[] = { UINT32_MAX,       (1ull << 53) - 1, 1ull << 53,
					  (1ull << 63) - 1, 1ull << 63,       UINT64_MAX - 2 };
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		char key[16];
		snprintf(key, sizeof(key), "rows:%zu", i);
		doing_init(&doing, a, STORE_LEASE, key, 7);
		doing.op.known_fence = known[i];
		cr_assert_eq(doing_wait(&doing, a), STORE_DONE);
		if (known[i] > 1ull << 52)
			cr_assert_eq(doing.op.fence, known[i] + 1);
		uint64_t fence = doing.op.fence;
		do_release(&doing, a, key, 7);
		cr_assert_eq(do_lease(&doing, a, key, 8), STORE_DONE);
		cr_assert_gt(doing.op.fence, fence);
	}
}

Test(redis_leases, a_lease_flushed_away_does_not_save)
{
	struct doing load;
	cr_assert_eq(do_lease(&doing, a, "rows:1", 7), STORE_DONE);
	uint64_t fence = doing.op.fence;
	server_ask(&fleet.server, "FLUSHALL");
	cr_assert_eq(do_save(&doing, a, "rows:1", 7, fence, 1, "old"), STORE_REFUSED);
	cr_assert_eq(do_lease(&doing, b, "rows:1", 8), STORE_DONE);
	cr_assert_eq(do_save(&load, a, "rows:1", 7, fence, 1, "old"), STORE_REFUSED);
	cr_assert_eq(do_save(&load, b, "rows:1", 8, doing.op.fence, 2, "new"), STORE_DONE);
}

/* ---- what is enough ---------------------------------------------------------------------- */

static uint64_t store_entry(const char *key, int64_t version, const char *value)
{
	struct doing lease, save;
	doing_init(&lease, a, STORE_LEASE, key, 77);
	cr_assert_eq(doing_wait(&lease, a), STORE_DONE);
	cr_assert_eq(do_save(&save, a, key, 77, lease.op.fence, version, value), STORE_DONE);
	return lease.op.fence;
}

static enum store_outcome lease_for(const char *key, struct want want)
{
	doing_init(&doing, b, STORE_LEASE, key, 8);
	doing.op.want = want;
	enum store_outcome outcome = doing_wait(&doing, b);
	if (outcome == STORE_DONE) {
		struct doing release;
		do_release(&release, b, key, 8);
	}
	doing_free(&doing);
	return outcome;
}

Test(redis_leases, an_entry_that_is_enough_comes_instead)
{
	uint64_t fence = store_entry("rows:1", 42, "value");
	doing_init(&doing, b, STORE_LEASE, "rows:1", 8);
	doing.op.want = (struct want){ .fresh = true };
	cr_assert_eq(doing_wait(&doing, b), STORE_ENOUGH);
	cr_assert(doing.op.has_entry && doing.op.has_value);
	cr_assert_str_eq(doing.op.entry.value->bytes, "value");
	cr_assert_eq(doing.op.entry.fence, fence);
	doing_free(&doing);
}

Test(redis_leases, all_that_is_wanted_has_to_be_there)
{
	uint64_t fence = store_entry("rows:1", 42, "value");
	cr_assert_eq(lease_for("rows:1", (struct want){ 0 }), STORE_DONE, "nothing is wanted");
	cr_assert_eq(lease_for("rows:1", (struct want){ .fresh = true }), STORE_ENOUGH);
	cr_assert_eq(lease_for("rows:1", (struct want){ .fresh = true, .fence_after = fence }),
		     STORE_DONE);
	cr_assert_eq(lease_for("rows:1", (struct want){ .fresh = true, .fence_after = fence - 1 }),
		     STORE_ENOUGH);
	cr_assert_eq(
		lease_for("rows:1", (struct want){ .min_version = 42, .has_min_version = true }),
		STORE_ENOUGH);
	cr_assert_eq(
		lease_for("rows:1", (struct want){ .min_version = 43, .has_min_version = true }),
		STORE_DONE);
	cr_assert_eq(
		lease_for("rows:1", (struct want){ .min_version = -5, .has_min_version = true }),
		STORE_ENOUGH);
}

Test(redis_leases, where_versions_order_nothing_only_what_was_asked_for_covers_them)
{
	struct doing save;
	store_entry("views:1", 42, "value");
	cr_assert_eq(
		lease_for("views:1", (struct want){ .min_version = 42, .has_min_version = true }),
		STORE_DONE);
	doing_init(&doing, a, STORE_LEASE, "views:1", 7);
	cr_assert_eq(doing_wait(&doing, a), STORE_DONE);
	doing_init(&save, a, STORE_SAVE, "views:1", 7);
	int64_t now_us = redis_store_now_us(a->redis);
	save.op.entry = (struct entry){ .fence = doing.op.fence,
					.covers = 42,
					.generated_at_us = now_us,
					.fresh_until_us = now_us + SECOND,
					.stale_until_us = now_us + SECOND };
	cr_assert_eq(doing_wait(&save, a), STORE_DONE);
	cr_assert_eq(
		lease_for("views:1", (struct want){ .min_version = 42, .has_min_version = true }),
		STORE_ENOUGH);
	cr_assert_eq(
		lease_for("views:1", (struct want){ .min_version = 43, .has_min_version = true }),
		STORE_DONE);
}

Test(redis_leases, a_large_entry_that_is_enough_comes_over_the_other_connection)
{
	static char large[300 * 1024 + 1];
	memset(large, 'x', sizeof(large) - 1);
	store_entry("rows:1", 42, large);
	doing_init(&doing, b, STORE_LEASE, "rows:1", 8);
	doing.op.want.fresh = true;
	cr_assert_eq(doing_wait(&doing, b), STORE_ENOUGH);
	cr_assert(doing.op.has_value);
	cr_assert_eq(doing.op.entry.value->len, sizeof(large) - 1);
	cr_assert_str_eq(doing.op.entry.value->bytes, large);
	doing_free(&doing);
}

/* ---- failures ---------------------------------------------------------------------------- */

static void fail(const char *key, int64_t length_us, uint32_t streak)
{
	struct doing lease;
	cr_assert_eq(do_lease(&lease, a, key, 7), STORE_DONE);
	doing_init(&doing, a, STORE_RELEASE, key, 7);
	doing.op.failure = (struct failure){ .status = STATUS_ORIGIN_ERROR,
					     .text = value_create("no such table", 13),
					     .streak = streak,
					     .until_us = redis_store_now_us(a->redis) + length_us };
	struct value *text = doing.op.failure.text;
	cr_assert_eq(doing_wait(&doing, a), STORE_DONE);
	value_unref(text);
}

Test(redis_leases, a_failure_is_remembered_for_all)
{
	fail("rows:1", 5 * SECOND, 3);
	cr_assert_eq(do_lease(&doing, b, "rows:1", 8), STORE_FAILED);
	cr_assert_eq(doing.op.failure.status, STATUS_ORIGIN_ERROR);
	cr_assert_str_eq(doing.op.failure.text->bytes, "no such table");
	cr_assert_eq(doing.op.failure.streak, 3);
	int64_t left_us = doing.op.failure.until_us - redis_store_now_us(b->redis);
	cr_assert(left_us > 4 * SECOND && left_us <= 5 * SECOND);
	doing_free(&doing);
	cr_assert_eq(do_load(&doing, b, "rows:1"), STORE_DONE);
	cr_assert(doing.op.has_failure && doing.op.left_us == 0);
	cr_assert_str_eq(doing.op.failure.text->bytes, "no such table");
	cr_assert_eq(doing.op.failure.streak, 3);
	doing_free(&doing);
}

Test(redis_leases, a_failure_ends_with_its_time_and_its_streak_a_while_later)
{
	fail("rows:1", 20000, 3);
	while (do_lease(&doing, b, "rows:1", 8) == STORE_FAILED)
		doing_free(&doing);
	cr_assert_eq(doing.op.outcome, STORE_DONE);
	do_release(&doing, b, "rows:1", 8);
	/* As long again as it was remembered. */
	fail("rows:2", 200000, 3);
	while (do_lease(&doing, b, "rows:2", 8) == STORE_FAILED)
		doing_free(&doing);
	cr_assert_eq(doing.op.failure.streak, 3);
	do
		do_lease(&doing, b, "rows:2", 8); /* a repeat */
	while (doing.op.failure.streak == 3);
	cr_assert_eq(doing.op.failure.streak, 0);
}

Test(redis_leases, a_failure_outlives_the_lease_it_came_of)
{
	fail("rows:1", 60 * SECOND, 1);
	cr_assert_gt(server_number(&fleet.server, "PTTL t:c:{rows:1}"), 100 * 1000);
}

Test(redis_leases, a_change_may_have_mended_what_failed)
{
	fail("rows:1", 5 * SECOND, 3);
	doing_init(&doing, b, STORE_INVALIDATE, "rows:1", 0);
	cr_assert_eq(doing_wait(&doing, b), STORE_DONE);
	cr_assert_eq(do_lease(&doing, b, "rows:1", 8), STORE_DONE);
	cr_assert_eq(doing.op.failure.streak, 0);
}

Test(redis_leases, a_failure_without_a_lease_is_not_remembered)
{
	doing_init(&doing, a, STORE_RELEASE, "rows:1", 7);
	doing.op.failure = (struct failure){ .status = STATUS_ORIGIN_ERROR,
					     .until_us = redis_store_now_us(a->redis) + SECOND };
	cr_assert_eq(doing_wait(&doing, a), STORE_DONE);
	cr_assert_eq(do_lease(&doing, b, "rows:1", 8), STORE_DONE);
}

Test(redis_leases, an_entry_that_is_enough_counts_more_than_a_failure)
{
	store_entry("rows:1", 1, "value");
	doing_init(&doing, a, STORE_LEASE, "rows:1", 7);
	cr_assert_eq(doing_wait(&doing, a), STORE_DONE);
	doing_init(&doing, a, STORE_RELEASE, "rows:1", 7);
	doing.op.failure = (struct failure){ .status = STATUS_ORIGIN_ERROR,
					     .until_us = redis_store_now_us(a->redis) + SECOND };
	cr_assert_eq(doing_wait(&doing, a), STORE_DONE);
	cr_assert_eq(do_lease(&doing, b, "rows:1", 8), STORE_ENOUGH);
	doing_free(&doing);
}

/* ---- lateness ---------------------------------------------------------------------------- */

Test(redis_leases, what_comes_after_its_deadline_is_not_carried_out)
{
	struct doing lease, invalidate;
	/* The server stops; the commands wait in its socket until the daemon has given up. */
	server_pause(&fleet.server);
	doing_init(&lease, a, STORE_LEASE, "rows:1", 7);
	doing_init(&invalidate, a, STORE_INVALIDATE, "rows:2", 0);
	doing_start(&lease, a);
	doing_start(&invalidate, a);
	cr_assert_eq(doing_wait(&lease, a), STORE_AWAY);
	cr_assert_eq(doing_wait(&invalidate, a), STORE_AWAY);
	cr_assert_geq(daemon_errors(a, STORE_ERROR_TIMEOUT), 2);
	server_resume(&fleet.server);
	AWAIT(&fleet, daemon_is_up(a));
	cr_assert_str_eq(server_ask(&fleet.server, "EXISTS t:c:{rows:1} t:c:{rows:2}"), "0");
}

Test(redis_leases, claims_outlive_their_entries_and_entries_their_life)
{
	store_entry("rows:1", 1, "value");
	long long entry = server_number(&fleet.server, "PTTL t:e:{rows:1}");
	long long claim = server_number(&fleet.server, "PTTL t:c:{rows:1}");
	cr_assert(entry > 630 * 1000 && entry < 660 * 1000, "%lld", entry);
	cr_assert(claim > entry && claim < entry + 60 * 1000, "%lld", claim);
	do_lease(&doing, a, "rows:2", 7);
	claim = server_number(&fleet.server, "PTTL t:c:{rows:2}");
	cr_assert(claim > 10 * 1000 && claim < 60 * 1000, "%lld", claim);
}
