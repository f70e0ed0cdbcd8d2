/* Entries in a real Redis: what may be stored over what, and what a change does to them. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
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

TestSuite(redis_entries, .init = setup, .fini = teardown, .timeout = 30);

/* What two clocks may differ by that have been set over one machine's socket. */
enum { CLOCKS_US = 20000 };

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

/* The value that is stored, of a key that has one. */
static const char *stored(const char *key)
{
	static char value[64];
	cr_assert_eq(do_load(&doing, b, key), STORE_DONE);
	cr_assert(doing.op.has_entry && doing.op.has_value && doing.op.entry.value);
	snprintf(value, sizeof(value), "%s", doing.op.entry.value->bytes);
	doing_free(&doing);
	return value;
}

static enum store_outcome save_entry(struct daemon *daemon, const char *key, uint64_t token,
				     const struct entry *entry)
{
	doing_init(&doing, daemon, STORE_SAVE, key, token);
	doing.op.entry = *entry;
	enum store_outcome outcome = doing_wait(&doing, daemon);
	value_unref(entry->value);
	return outcome;
}

static struct entry entry_now(uint64_t fence)
{
	int64_t now_us = redis_store_now_us(a->redis);
	return (struct entry){ .fence = fence,
			       .generated_at_us = now_us,
			       .fresh_until_us = now_us + 600 * SECOND,
			       .stale_until_us = now_us + 630 * SECOND };
}

Test(redis_entries, what_one_daemon_saves_the_other_loads)
{
	uint64_t fence = lease(a, "rows:1", 7);
	struct entry entry = entry_now(fence), *back = &doing.op.entry;
	entry.value = value_create("a\0b", 3);
	entry.version = 42;
	entry.has_version = true;
	entry.covers = -3;
	entry.build_us = 800000;
	entry.history = 5;
	cr_assert_eq(save_entry(a, "rows:1", 7, &entry), STORE_DONE);
	cr_assert_eq(do_load(&doing, b, "rows:1"), STORE_DONE);
	cr_assert(doing.op.has_entry && doing.op.has_value && doing.op.has_claim);
	cr_assert(back->value->len == 3 && memcmp(back->value->bytes, "a\0b", 3) == 0);
	cr_assert(back->version == 42 && back->has_version && back->covers == -3);
	cr_assert(back->fence == fence && back->build_us == 800000 && back->history == 5);
	cr_assert(!back->absent && !back->changed && back->era == 1);
	/* The two clocks are one, but for what a round trip leaves open. */
	cr_assert(llabs(back->generated_at_us - entry.generated_at_us) < CLOCKS_US);
	cr_assert(llabs(back->fresh_until_us - entry.fresh_until_us) < CLOCKS_US);
	cr_assert(llabs(back->stale_until_us - entry.stale_until_us) < CLOCKS_US);
	cr_assert_eq(doing.op.left_us, 0, "the save gave the lease back");
	doing_free(&doing);
}

Test(redis_entries, null_nothing_and_no_row_are_told_apart)
{
	struct entry entry = entry_now(lease(a, "rows:1", 7));
	cr_assert_eq(save_entry(a, "rows:1", 7, &entry), STORE_DONE);
	do_load(&doing, b, "rows:1");
	cr_assert(doing.op.has_value && !doing.op.entry.value && !doing.op.entry.absent);

	entry = entry_now(lease(a, "rows:2", 7));
	entry.value = value_create("", 0);
	cr_assert_eq(save_entry(a, "rows:2", 7, &entry), STORE_DONE);
	do_load(&doing, b, "rows:2");
	cr_assert(doing.op.has_value && doing.op.entry.value && doing.op.entry.value->len == 0);
	doing_free(&doing);

	entry = entry_now(lease(a, "rows:3", 7));
	entry.absent = true;
	cr_assert_eq(save_entry(a, "rows:3", 7, &entry), STORE_DONE);
	do_load(&doing, b, "rows:3");
	cr_assert(doing.op.has_value && !doing.op.entry.value && doing.op.entry.absent);
}

Test(redis_entries, the_largest_value_arrives_intact_and_holds_up_no_lease)
{
	struct entry entry = entry_now(lease(a, "rows:1", 7));
	struct doing save, renew;
	entry.value = value_create(NULL, VALUE_BYTES_MAX);
	for (size_t i = 0; i < VALUE_BYTES_MAX; i++)
		entry.value->bytes[i] = (char)(i * 2654435761u >> 24);
	lease(a, "rows:2", 8);
	doing_init(&save, a, STORE_SAVE, "rows:1", 7);
	doing_init(&renew, a, STORE_RENEW, "rows:2", 8);
	save.op.entry = entry;
	doing_start(&save, a);
	doing_start(&renew, a);
	cr_assert_eq(doing_wait(&renew, a), STORE_DONE);
	cr_assert_eq(save.done, 0, "it is still on its way");
	cr_assert_eq(doing_wait(&save, a), STORE_DONE);
	cr_assert_eq(do_load(&doing, b, "rows:1"), STORE_DONE);
	cr_assert_eq(doing.op.entry.value->len, VALUE_BYTES_MAX);
	cr_assert_eq(memcmp(doing.op.entry.value->bytes, entry.value->bytes, VALUE_BYTES_MAX), 0);
	doing_free(&doing);
	value_unref(entry.value);
}

Test(redis_entries, a_value_that_is_known_is_left_out)
{
	put("rows:1", 1, "value");
	do_load(&doing, b, "rows:1");
	uint64_t fence = doing.op.entry.fence;
	doing_free(&doing);
	doing_init(&doing, b, STORE_LOAD, "rows:1", 0);
	doing.op.known_fence = fence;
	cr_assert_eq(doing_wait(&doing, b), STORE_DONE);
	cr_assert(doing.op.has_entry && !doing.op.has_value && !doing.op.entry.value);
	doing_init(&doing, b, STORE_LOAD, "rows:1", 0);
	doing.op.known_fence = fence - 1;
	cr_assert_eq(doing_wait(&doing, b), STORE_DONE);
	cr_assert(doing.op.has_value);
	doing_free(&doing);
}

/* ---- order ------------------------------------------------------------------------------- */

/* In this order; none of two neighbours is the same number to a double. */
static const int64_t versions[] = {
	INT64_MIN,
	INT64_MIN + 1,
	-(1LL << 53) - 1,
	-(1LL << 53),
	-(1LL << 53) + 1,
	-(1LL << 32) - 1,
	-(1LL << 32),
	-256,
	-255,
	-2,
	-1,
	0,
	1,
	127,
	128,
	255,
	256,
	(1LL << 31) - 1,
	1LL << 31,
	(1LL << 32) - 1,
	1LL << 32,
	(1LL << 53) - 1,
	1LL << 53,
	(1LL << 53) + 1,
	(1LL << 53) + 2,
	INT64_MAX - 1,
	INT64_MAX,
};
enum { VERSIONS = sizeof(versions) / sizeof(*versions) };

static void versions_order_rows(void)
{
	for (int i = 1; i < VERSIONS; i++) {
		char key[32];
		snprintf(key, sizeof(key), "rows:%d", i);
		cr_assert_eq(put(key, versions[i - 1], "older"), STORE_DONE);
		cr_assert_eq(put(key, versions[i], "newer"), STORE_DONE, "case %d", i);
		cr_assert_eq(put(key, versions[i - 1], "older again"), STORE_REFUSED, "case %d", i);
		cr_assert(doing.op.has_entry && doing.op.entry.version == versions[i]);
		cr_assert_str_eq(stored(key), "newer");
	}
}

Test(redis_entries, rows_are_ordered_by_version_at_every_size)
{
	versions_order_rows();
}

Test(redis_entries, rows_are_ordered_by_version_under_another_locale)
{
	static const char make[] = "localedef -i en_US -f UTF-8 --no-archive %s/en_US.UTF-8 2>&1";
	char command[256];
	if (access("/usr/share/i18n/locales/en_US", R_OK) != 0)
		cr_skip_test("the sources of en_US are not installed (package locales)");
	snprintf(command, sizeof(command), make, fleet.server.folder);
	cr_assert_eq(system(command), 0);
	fleet.server.lc_all = "en_US.UTF-8";
	fleet.server.locpath = fleet.server.folder;
	fleet_restart(&fleet);
	/* Redis orders strings by the locale's rules now. */
	cr_assert_str_eq(server_ask(&fleet.server, "EVAL return('a'<'B'and'yes'or'no') 0"), "yes");
	versions_order_rows();
	snprintf(command, sizeof(command), "rm -r %s/en_US.UTF-8", fleet.server.folder);
	cr_assert_eq(system(command), 0);
}

Test(redis_entries, of_equal_versions_the_later_build_stays)
{
	uint64_t fence;
	cr_assert_eq(put("rows:1", 5, "first"), STORE_DONE);
	cr_assert_eq(put("rows:1", 5, "second"), STORE_DONE);
	cr_assert_str_eq(stored("rows:1"), "second");
	fence = lease(a, "rows:1", 7);
	cr_assert_eq(do_save(&doing, a, "rows:1", 7, fence - 1000000, 5, "older"), STORE_REFUSED);
	cr_assert_str_eq(stored("rows:1"), "second");
}

Test(redis_entries, views_are_ordered_by_fence_alone)
{
	cr_assert_eq(put("views:1", 50, "first"), STORE_DONE);
	cr_assert_eq(put("views:1", 40, "second"), STORE_DONE, "its newest row was deleted");
	cr_assert_str_eq(stored("views:1"), "second");
	uint64_t fence = lease(a, "views:1", 7);
	cr_assert_eq(do_save(&doing, a, "views:1", 7, fence - 1000000, 60, "older"), STORE_REFUSED);
	cr_assert_str_eq(stored("views:1"), "second");
}

Test(redis_entries, no_row_and_a_row_are_ordered_by_fence)
{
	cr_assert_eq(put("rows:1", 50, "row"), STORE_DONE);
	struct entry entry = entry_now(lease(a, "rows:1", 7));
	entry.absent = true;
	cr_assert_eq(save_entry(a, "rows:1", 7, &entry), STORE_DONE);
	do_load(&doing, b, "rows:1");
	cr_assert(doing.op.entry.absent);
	cr_assert_eq(put("rows:1", 40, "inserted again"), STORE_DONE);
	cr_assert_str_eq(stored("rows:1"), "inserted again");
}

/* ---- the origin's history ---------------------------------------------------------------- */

static enum store_outcome put_of(const char *key, uint64_t history, int64_t version)
{
	struct entry entry = entry_now(lease(a, key, 7));
	entry.version = version;
	entry.has_version = true;
	entry.history = history;
	return save_entry(a, key, 7, &entry);
}

Test(redis_entries, a_later_timeline_is_what_the_fleet_builds_in_from_then_on)
{
	cr_assert_eq(put_of("rows:1", history_of(4711, 1), 50), STORE_DONE);
	cr_assert_eq(put_of("rows:1", history_of(4711, 3), 40), STORE_DONE, "a lower version");
	cr_assert_eq(put_of("rows:1", history_of(4711, 2), 60), STORE_REFUSED);
	cr_assert_eq(put_of("rows:2", history_of(4711, 1), 1), STORE_REFUSED, "nothing is there");
	cr_assert_eq(put_of("rows:2", history_of(4711, 3), 2), STORE_DONE);
	cr_assert_eq(daemon_stats(a).saves_foreign, 2);
	cr_assert_eq(put_of("rows:2", 0, 3), STORE_DONE, "who may not know it is not asked");
	cr_assert_eq(lease(a, "rows:1", 9) > 0, true, "a refused save gives the lease back");
}

Test(redis_entries, an_entry_of_a_later_timeline_stays_when_the_fleet_has_forgotten_it)
{
	cr_assert_eq(put_of("rows:1", history_of(4711, 3), 40), STORE_DONE);
	server_ask(&fleet.server, "DEL t:{fleet}:history");
	cr_assert_eq(put_of("rows:1", history_of(4711, 2), 60), STORE_REFUSED);
	cr_assert_eq(put_of("rows:1", history_of(4711, 3), 41), STORE_DONE);
}

/* As if the fleet had last built so long ago. */
static void let_history_rest(long long us)
{
	server_ask(&fleet.server,
		   "EVAL redis.call('SETRANGE',KEYS[1],16,struct.pack('>d',ARGV[1])) 1 "
		   "t:{fleet}:history %lld",
		   server_now_us(&fleet.server) - us);
}

Test(redis_entries, another_database_takes_over_when_the_first_is_built_from_no_more)
{
	uint64_t first = history_of(4711, 5), second = history_of(4712, 1);
	cr_assert_eq(put_of("rows:1", first, 50), STORE_DONE);
	let_history_rest(9 * SECOND);
	cr_assert_eq(put_of("rows:1", second, 60), STORE_REFUSED);
	cr_assert_eq(put_of("rows:1", first, 51), STORE_DONE);
	let_history_rest(8 * SECOND);
	cr_assert_eq(put_of("rows:2", first, 1), STORE_DONE);
	cr_assert_eq(put_of("rows:1", second, 60), STORE_REFUSED, "it has just been built from");
	let_history_rest(10 * SECOND);
	cr_assert_eq(put_of("rows:1", second, 1), STORE_DONE, "whatever its version");
	cr_assert_eq(put_of("rows:1", first, 52), STORE_REFUSED,
		     "and now it is the other way round");
	cr_assert_eq(put_of("rows:2", second, 2), STORE_DONE);
}

Test(redis_entries, a_repeated_save_gets_the_same_answer)
{
	uint64_t fence = lease(a, "rows:1", 7);
	cr_assert_eq(do_save(&doing, a, "rows:1", 7, fence, 1, "value"), STORE_DONE);
	cr_assert_eq(do_save(&doing, a, "rows:1", 7, fence, 1, "value"), STORE_DONE);
	cr_assert_eq(put("rows:1", 2, "newer"), STORE_DONE);
	cr_assert_eq(do_save(&doing, a, "rows:1", 7, fence, 1, "value"), STORE_REFUSED);
	cr_assert_str_eq(stored("rows:1"), "newer");
}

Test(redis_entries, a_refused_save_gives_the_lease_back)
{
	put("rows:1", 5, "value");
	cr_assert_eq(put("rows:1", 4, "older"), STORE_REFUSED);
	lease(b, "rows:1", 8);
}

/* ---- changes ----------------------------------------------------------------------------- */

Test(redis_entries, a_change_ends_freshness_and_bounds_staleness)
{
	put("rows:1", 1, "value");
	uint64_t floor = invalidate(b, "rows:1", false);
	do_load(&doing, a, "rows:1");
	int64_t now_us = redis_store_now_us(a->redis);
	cr_assert(doing.op.has_entry && doing.op.entry.changed);
	cr_assert_eq(entry_phase(&doing.op.entry, now_us), ENTRY_STALE);
	cr_assert_leq(doing.op.entry.stale_until_us, now_us + 30 * SECOND + CLOCKS_US);
	cr_assert_gt(doing.op.entry.stale_until_us, now_us + 29 * SECOND);
	cr_assert_eq(doing.op.floor, floor);
	cr_assert_gt(floor, doing.op.entry.fence);
	doing_free(&doing);
	doing_init(&doing, a, STORE_LEASE, "rows:1", 7);
	doing.op.want.fresh = true;
	cr_assert_eq(doing_wait(&doing, a), STORE_DONE, "it is not enough any more");
	cr_assert_gt(doing.op.fence, floor);
}

Test(redis_entries, a_hard_change_ends_staleness_too)
{
	put("rows:1", 1, "value");
	invalidate(b, "rows:1", true);
	do_load(&doing, a, "rows:1");
	cr_assert_eq(entry_phase(&doing.op.entry, redis_store_now_us(a->redis)), ENTRY_DEAD);
	doing_free(&doing);
}

Test(redis_entries, the_floor_is_greater_than_what_the_caller_knows)
{
	doing_init(&doing, a, STORE_INVALIDATE, "rows:1", 0);
	doing.op.known_fence = 1ull << 60;
	cr_assert_eq(doing_wait(&doing, a), STORE_DONE);
	cr_assert_gt(doing.op.fence, 1ull << 60);
	cr_assert_gt(lease(b, "rows:1", 8), doing.op.known_fence);
}

Test(redis_entries, a_build_from_before_the_change_is_stored_expired)
{
	uint64_t fence = lease(a, "rows:1", 7);
	uint64_t floor = invalidate(b, "rows:1", false);
	cr_assert_eq(do_save(&doing, a, "rows:1", 7, fence, 1, "value"), STORE_DONE);
	cr_assert_eq(doing.op.floor, floor);
	do_load(&doing, b, "rows:1");
	int64_t now_us = redis_store_now_us(b->redis);
	cr_assert(doing.op.has_entry && doing.op.entry.changed);
	cr_assert_eq(entry_phase(&doing.op.entry, now_us), ENTRY_STALE);
	cr_assert(llabs(doing.op.entry.stale_until_us - doing.op.entry.generated_at_us -
			30 * SECOND) < CLOCKS_US);
	doing_free(&doing);
	fence = lease(b, "rows:1", 8);
	cr_assert_eq(do_save(&doing, b, "rows:1", 8, fence, 1, "after it"), STORE_DONE);
	do_load(&doing, a, "rows:1");
	cr_assert_eq(entry_phase(&doing.op.entry, redis_store_now_us(a->redis)), ENTRY_FRESH);
	doing_free(&doing);
}

Test(redis_entries, no_row_from_before_the_change_is_refused)
{
	uint64_t fence = lease(a, "rows:1", 7);
	invalidate(b, "rows:1", false);
	struct entry entry = entry_now(fence);
	entry.absent = true;
	cr_assert_eq(save_entry(a, "rows:1", 7, &entry), STORE_REFUSED);
	lease(b, "rows:1", 8);
}

Test(redis_entries, after_a_hard_change_a_build_from_before_it_is_refused)
{
	uint64_t fence = lease(a, "rows:1", 7);
	invalidate(b, "rows:1", true);
	invalidate(b, "rows:1", false);
	cr_assert_eq(do_save(&doing, a, "rows:1", 7, fence, 1, "value"), STORE_REFUSED);
	do_load(&doing, b, "rows:1");
	cr_assert_not(doing.op.has_entry);
	fence = lease(b, "rows:1", 8);
	invalidate(a, "rows:1", false);
	cr_assert_eq(do_save(&doing, b, "rows:1", 8, fence, 1, "value"), STORE_DONE,
		     "the hard one was before this build");
}

Test(redis_entries, the_floor_lives_as_long_as_the_lease)
{
	doing_init(&doing, a, STORE_LEASE, "rows:1", 7);
	doing.op.length_us = 3600 * SECOND;
	cr_assert_eq(doing_wait(&doing, a), STORE_DONE);
	invalidate(b, "rows:1", false);
	cr_assert_gt(server_number(&fleet.server, "PTTL t:c:{rows:1}"), 3600 * 1000);
}

/* ---- foreign bytes ----------------------------------------------------------------------- */

Test(redis_entries, what_others_put_there_is_no_entry_and_is_replaced)
{
	server_ask(&fleet.server, "SET t:e:{rows:1} nonsense");
	server_ask(&fleet.server, "SET t:c:{rows:1} nonsense");
	cr_assert_eq(do_load(&doing, b, "rows:1"), STORE_DONE);
	cr_assert(!doing.op.has_entry && !doing.op.has_claim);
	cr_assert_eq(put("rows:1", 1, "value"), STORE_DONE);
	cr_assert_str_eq(stored("rows:1"), "value");
}

Test(redis_entries, an_entry_that_was_cut_is_no_entry)
{
	put("rows:1", 1, "value");
	server_ask(&fleet.server, "APPEND t:e:{rows:1} x");
	cr_assert_eq(do_load(&doing, b, "rows:1"), STORE_DONE);
	cr_assert_not(doing.op.has_entry);
}

Test(redis_entries, a_key_of_another_type_is_an_error_and_no_answer)
{
	server_ask(&fleet.server, "LPUSH t:e:{rows:1} x");
	cr_assert_eq(do_load(&doing, b, "rows:1"), STORE_AWAY);
	cr_assert_eq(do_lease(&doing, b, "rows:1", 8), STORE_AWAY);
	cr_assert_eq(daemon_errors(b, STORE_ERROR_OTHER), 2);
}

Test(redis_entries, keys_stay_apart_whatever_they_hold)
{
	static const char *const keys[] = { "rows:{a}",     "rows:{a", "rows:a}",     "rows:a",
					    "rows:%7Ba%7D", "rows:",   "rows:a b\r\n" };
	enum { KEYS = sizeof(keys) / sizeof(*keys) };
	for (int i = 0; i < KEYS; i++) {
		/* A canonical text has no %7B: the fifth is here to show what would happen. */
		if (i != 4)
			cr_assert_eq(put(keys[i], i, keys[i]), STORE_DONE);
	}
	for (int i = 0; i < KEYS; i++)
		if (i != 4)
			cr_assert_str_eq(stored(keys[i]), keys[i]);
	cr_assert_str_eq(stored(keys[4]), keys[0]);
}
