/* What a real Redis tells of leases and entries, and to whom. */
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
	AWAIT(&fleet, daemon_stats(a).connects == 3 && daemon_stats(b).connects == 3);
	AWAIT(&fleet, daemon_stats(a).trusted && daemon_stats(b).trusted);
}

static void teardown(void)
{
	fleet_close(&fleet);
}

TestSuite(redis_told, .init = setup, .fini = teardown, .timeout = 30);

static uint64_t lease(struct daemon *daemon, const char *key, uint64_t token)
{
	doing_init(&doing, daemon, STORE_LEASE, key, token);
	cr_assert_eq(doing_wait(&doing, daemon), STORE_DONE, "%s: outcome %d", key,
		     (int)doing.op.outcome);
	return doing.op.fence;
}

static uint64_t invalidate(struct daemon *daemon, const char *key, bool hard)
{
	doing_init(&doing, daemon, STORE_INVALIDATE, key, 0);
	doing.op.hard = hard;
	cr_assert_eq(doing_wait(&doing, daemon), STORE_DONE);
	return doing.op.fence;
}

/* Saves an entry under a lease of its own. */
static enum store_outcome put(const char *key, int64_t version, const char *value)
{
	uint64_t fence = lease(a, key, 7);
	return do_save(&doing, a, key, 7, fence, version, value);
}

/* Waits until all that was published has arrived: this comes after it. */
static void await_news(struct daemon *daemon)
{
	static int mark;
	char key[32];
	snprintf(key, sizeof(key), "views:mark%d", ++mark);
	invalidate(a, key, false);
	AWAIT(&fleet,
	      daemon->told_count > 0 && strcmp(daemon->told[daemon->told_count - 1].key, key) == 0);
	daemon->told_count--;
}

Test(redis_told, a_first_save_that_nobody_waits_for_is_not_told)
{
	put("rows:1", 1, "value");
	await_news(b);
	cr_assert_eq(b->told_count, 0);
}

Test(redis_told, who_waits_for_the_lease_is_told_of_the_save)
{
	uint64_t fence = lease(a, "rows:1", 7);
	cr_assert_eq(do_lease(&doing, b, "rows:1", 8), STORE_HELD);
	cr_assert_eq(do_save(&doing, a, "rows:1", 7, fence, 1, "value"), STORE_DONE);
	await_news(b);
	cr_assert_eq(b->told_count, 1);
	cr_assert_str_eq(b->told[0].key, "rows:1");
	cr_assert(!b->told[0].changed && b->told[0].fence == fence);
}

Test(redis_told, who_waits_for_the_lease_is_told_of_its_end)
{
	lease(a, "rows:1", 7);
	cr_assert_eq(do_lease(&doing, b, "rows:1", 8), STORE_HELD);
	cr_assert_eq(do_lease(&doing, b, "rows:1", 9), STORE_HELD);
	do_release(&doing, a, "rows:1", 7);
	await_news(b);
	cr_assert_eq(b->told_count, 1, "once");
	cr_assert_str_eq(b->told[0].key, "rows:1");
	lease(a, "rows:1", 7);
	do_release(&doing, a, "rows:1", 7);
	await_news(b);
	cr_assert_eq(b->told_count, 1, "nobody waited for this one");
}

Test(redis_told, who_waits_stays_noted_when_a_lease_lapses)
{
	doing_init(&doing, a, STORE_LEASE, "rows:1", 7);
	doing.op.length_us = 300000;
	doing_wait(&doing, a);
	cr_assert_eq(do_lease(&doing, b, "rows:1", 8), STORE_HELD);
	do
		do_lease(&doing, a, "rows:1", 9);
	while (doing.op.outcome == STORE_HELD);
	do_release(&doing, a, "rows:1", 9);
	await_news(b);
	cr_assert_eq(b->told_count, 1);
}

Test(redis_told, a_replaced_entry_is_told)
{
	put("rows:1", 1, "value");
	put("rows:1", 2, "newer");
	await_news(b);
	cr_assert_eq(b->told_count, 1);
	cr_assert_str_eq(b->told[0].key, "rows:1");
	do_load(&doing, b, "rows:1");
	cr_assert_eq(b->told[0].fence, doing.op.entry.fence);
	doing_free(&doing);
}

/* A near cache may have the entry that is gone here. */
Test(redis_told, a_save_after_a_loss_is_told)
{
	put("rows:1", 1, "value");
	server_ask(&fleet.server, "DEL t:e:{rows:1}");
	put("rows:1", 2, "newer");
	await_news(b);
	cr_assert_eq(b->told_count, 1);
	cr_assert_str_eq(b->told[0].key, "rows:1");
}

/* The claim is gone with the entry; only the server knows that it has evicted something. */
Test(redis_told, a_save_on_a_server_that_evicts_is_told)
{
	put("rows:1", 1, "value");
	server_ask(&fleet.server, "CONFIG SET maxmemory-policy volatile-random");
	server_ask(&fleet.server, "CONFIG SET maxmemory 1");
	AWAIT(&fleet, server_number(&fleet.server, "EXISTS t:e:{rows:1} t:c:{rows:1}") == 0);
	server_ask(&fleet.server, "CONFIG SET maxmemory 0");
	put("rows:1", 2, "newer");
	await_news(b);
	cr_assert_eq(b->told_count, 1);
	put("rows:2", 1, "value");
	await_news(b);
	cr_assert_eq(b->told_count, 2);
	server_ask(&fleet.server, "CONFIG RESETSTAT");
	put("rows:3", 1, "value");
	await_news(b);
	cr_assert_eq(b->told_count, 2);
}

Test(redis_told, changes_go_to_all)
{
	uint64_t floor = invalidate(a, "rows:{x}:%25", true);
	AWAIT(&fleet, a->told_count > 0 && b->told_count > 0);
	cr_assert_str_eq(b->told[0].key, "rows:{x}:%25");
	cr_assert(b->told[0].changed && b->told[0].hard && b->told[0].fence == floor);
}

Test(redis_told, two_prefixes_and_two_databases_are_two_fleets)
{
	struct daemon *other;
	put("rows:1", 1, "value");
	fleet.options.prefix = "u:";
	other = fleet_add(&fleet);
	do_load(&doing, other, "rows:1");
	cr_assert_not(doing.op.has_entry);
	fleet.options.prefix = "t:";
	fleet.url.db = 1;
	other = fleet_add(&fleet);
	do_load(&doing, other, "rows:1");
	cr_assert_not(doing.op.has_entry);
	invalidate(other, "rows:1", false);
	AWAIT(&fleet, other->told_count > 0);
	await_news(b);
	cr_assert_eq(b->told_count, 0, "channels know no databases, but names do");
}

/* ---- giving back --------------------------------------------------------------------------- */

static void put_entry(struct store_op *op, uint64_t fence)
{
	int64_t now_us = redis_store_now_us(a->redis);
	op->entry = (struct entry){ .value = value_create("old", 3),
				    .fence = fence,
				    .generated_at_us = now_us - SECOND,
				    .fresh_until_us = now_us + 600 * SECOND,
				    .stale_until_us = now_us + 630 * SECOND };
}

/* Gives an entry of that fence back, under the lease of token 7. */
static enum store_outcome give(const char *key, uint64_t fence)
{
	doing_init(&doing, a, STORE_SAVE, key, 7);
	doing.op.given = true;
	put_entry(&doing.op, fence);
	struct value *borrowed = doing.op.entry.value;
	enum store_outcome outcome = doing_wait(&doing, a);
	value_unref(borrowed);
	if (doing.op.entry.value == borrowed)
		doing.op.entry.value = NULL;
	return outcome;
}

/* Gives it until a beat is later than the lease. */
static enum store_outcome give_in_time(const char *key, uint64_t fence)
{
	enum store_outcome outcome;
	AWAIT(&fleet, (outcome = give(key, fence)) != STORE_RETRY);
	return outcome;
}

Test(redis_told, what_is_given_back_waits_for_a_beat_after_its_lease)
{
	uint64_t fence = lease(a, "views:1", 7) - 1000;
	cr_assert_eq(give("views:1", fence), STORE_RETRY);
	cr_assert_eq(give_in_time("views:1", fence), STORE_DONE);
	doing_init(&doing, b, STORE_LOAD, "views:1", 0);
	cr_assert_eq(doing_wait(&doing, b), STORE_DONE);
	cr_assert(doing.op.has_entry && doing.op.entry.fence == fence);
	cr_assert_eq(doing.op.left_us, 0, "the lease is given back");
	value_unref(doing.op.entry.value);
	doing.op.entry.value = NULL;
}

Test(redis_told, what_was_changed_under_the_lease_is_given_back_as_stale)
{
	uint64_t fence = lease(a, "views:1", 7) - 1000;
	invalidate(b, "views:1", false);
	cr_assert_eq(give_in_time("views:1", fence), STORE_DONE);
	doing_init(&doing, b, STORE_LOAD, "views:1", 0);
	cr_assert_eq(doing_wait(&doing, b), STORE_DONE);
	cr_assert(doing.op.has_entry && doing.op.entry.changed);
	cr_assert_leq(doing.op.entry.fresh_until_us, redis_store_now_us(b->redis));
	value_unref(doing.op.entry.value);
	doing.op.entry.value = NULL;
}

Test(redis_told, nothing_is_given_back_over_a_newer_entry)
{
	cr_assert_eq(put("views:1", 1, "new"), STORE_DONE);
	uint64_t fence = lease(a, "views:1", 7);
	cr_assert_eq(give_in_time("views:1", fence - 1000000), STORE_REFUSED);
}

Test(redis_told, a_save_after_a_flush_is_told_until_that_is)
{
	server_ask(&fleet.server, "FLUSHALL");
	cr_assert_eq(put("views:1", 1, "new"), STORE_DONE);
	AWAIT(&fleet, b->told_count > 0);
}
