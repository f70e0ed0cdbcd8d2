#include "core/near.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

static struct policy policy = { .name = (char *)"k" };
static struct keyspace keyspace = { .policy = &policy };
static struct near near;
enum { MEMORY = 1 << 20 };

static struct key key_of(int i)
{
	static char bytes[32];
	int len = snprintf(bytes, sizeof(bytes), "k:%d", i);
	return (struct key){ .keyspace = &keyspace,
			     .bytes = bytes,
			     .len = (uint32_t)len,
			     .hash = (uint64_t)i * 0x9e3779b97f4a7c15u };
}

static struct near_entry *put(int i, size_t len)
{
	struct key key = key_of(i);
	struct entry entry = { .value = value_create(NULL, len), .fresh_until_us = 1000 };
	memset(entry.value->bytes, 'x', len);
	struct near_entry *ne = near_put(&near, &key, &entry, 0);
	value_unref(entry.value);
	return ne;
}

static struct near_entry *find(int i)
{
	struct key key = key_of(i);
	return near_find(&near, &key);
}

static void open_near(void)
{
	cr_assert_eq(near_init(&near, MEMORY), 0);
}

static void close_near(void)
{
	near_close(&near);
	cr_assert_eq(near.rows.bytes + near.absent.bytes, 0);
}

TestSuite(near, .init = open_near, .fini = close_near);

Test(near, finds_what_was_put)
{
	cr_assert_null(find(1));
	put(1, 10);
	put(2, 20);
	cr_assert_eq(find(1)->entry.value->len, 10);
	cr_assert_eq(find(2)->entry.value->len, 20);
	put(1, 30);
	cr_assert_eq(find(1)->entry.value->len, 30);
	cr_assert_eq(near.table.count, 2);
}

Test(near, keeps_within_its_bytes_whatever_the_sizes)
{
	for (int i = 0; i < 20000; i++) {
		put(i % 3000, (size_t)(i * 7919 % 9000));
		cr_assert_leq(near_cost(&near), (size_t)MEMORY);
	}
	cr_assert_gt(near.evictions, 0);
	cr_assert_gt(near_cost(&near), (size_t)MEMORY / 2, "most of the room is used");
}

Test(near, counts_what_the_allocator_takes)
{
	size_t before = near.rows.bytes;
	struct near_entry *ne = put(1, 1000);
	cr_assert_eq(near.rows.bytes - before, mem_cost(ne) + mem_cost(ne->entry.value));
	cr_assert_geq(near.rows.bytes - before, sizeof(*ne) + 1000);
}

Test(near, spares_what_is_read)
{
	put(0, 100);
	for (int i = 1; i < 20000; i++) {
		find(0)->visited = true;
		put(i, 100);
	}
	cr_assert_not_null(find(0));
	cr_assert_null(find(1));
}

Test(near, a_scan_does_not_push_out_what_is_read_again_and_again)
{
	for (int i = 0; i < 100; i++)
		put(i, 1000);
	for (int i = 100; i < 20000; i++) {
		put(i, 1000);
		for (int hot = 0; hot < 100 && i % 50 == 0; hot++)
			if (find(hot))
				find(hot)->visited = true;
	}
	int left = 0;
	for (int hot = 0; hot < 100; hot++)
		left += find(hot) != NULL;
	cr_assert_geq(left, 95, "%d of 100", left);
}

static void put_absent(int i)
{
	struct key key = key_of(i);
	struct entry entry = { .absent = true };
	near_put(&near, &key, &entry, 0);
}

Test(near, made_up_keys_evict_no_row)
{
	for (int i = 0; i < 100; i++)
		put(i, 8000);
	size_t rows = near.rows.queue.count;
	uint64_t evictions = near.evictions;
	for (int i = 1000; i < 20000; i++)
		put_absent(i);
	cr_assert_eq(near.rows.queue.count, rows);
	cr_assert_gt(near.evictions, evictions);
	cr_assert_leq(near.absent.bytes, (size_t)MEMORY / NEAR_ABSENT_SHARE);
	cr_assert_leq(near_cost(&near), (size_t)MEMORY);
}

Test(near, made_up_keys_find_no_room_in_a_cache_full_of_rows_but_their_own)
{
	for (int i = 0; i < 1000; i++)
		put(i, 8000);
	size_t rows = near.rows.queue.count;
	for (int i = 1000; i < 5000; i++)
		put_absent(i);
	cr_assert_geq(near.rows.queue.count + 1, rows);
	cr_assert_leq(near_cost(&near), (size_t)MEMORY);
}

Test(near, a_key_may_turn_from_row_to_absent_and_back)
{
	put(1, 10);
	put_absent(1);
	cr_assert(find(1)->entry.absent);
	cr_assert_eq(near.rows.queue.count, 0);
	put(1, 10);
	cr_assert_eq(near.absent.queue.count, 0);
	cr_assert_eq(near.absent.bytes, 0);
}

Test(near, a_row_that_turns_absent_leaves_its_version_behind)
{
	policy.single_row = true;
	struct key key = key_of(1);
	struct entry row = { .has_version = true, .version = 5, .stale_until_us = 1000 };
	struct entry absent = { .absent = true, .stale_until_us = 1000 };
	near_put(&near, &key, &row, 0);
	near_put(&near, &key, &absent, 0);
	cr_assert(ghosts_know_better(&near.ghosts, key.hash, 4, 0));
	cr_assert_not(ghosts_know_better(&near.ghosts, key.hash, 5, 0));
	policy.single_row = false;
}

Test(near, refuses_what_never_fits)
{
	put(1, 100);
	cr_assert_null(put(2, MEMORY));
	cr_assert_null(put(1, MEMORY));
	cr_assert_null(find(1), "an entry that could not be replaced must not stay");
	cr_assert_eq(near.refused, 2);
}

Test(near, without_memory_there_is_just_no_entry)
{
	put(1, 100);
	struct key key = key_of(1);
	struct entry entry = { .value = NULL };
	mem_fail_at(1);
	cr_assert_null(near_put(&near, &key, &entry, 0));
	mem_fail_at(0);
	cr_assert_null(find(1));
}

static struct near_entry *hit(int i, int64_t now_us)
{
	struct key key = key_of(i);
	return near_hit(&near, key.hash, key.bytes, key.len, now_us);
}

Test(near, a_hit_is_a_value_that_is_plainly_fresh)
{
	struct near_entry *ne = put(1, 10);
	cr_assert_eq(hit(1, 999), ne);
	cr_assert(ne->visited);
	cr_assert_eq(ne->hits, 1);
	cr_assert_null(hit(2, 999), "another key");
	cr_assert_null(hit(1, 1000), "its freshness is over");
	ne->generation--;
	cr_assert_null(hit(1, 999), "it is of another generation");
	ne->generation++;
	ne->entry.absent = true;
	cr_assert_null(hit(1, 999), "there is no such row");
	ne->entry.absent = false;
	cr_assert_eq(ne->hits, 1, "what is no hit counts as none");
}

Test(near, keys_of_one_hash_are_told_apart_on_the_hot_path)
{
	struct key one = key_of(1);
	put(1, 10);
	cr_assert_null(near_hit(&near, one.hash, "k:2", 3, 0));
	cr_assert_null(near_hit(&near, one.hash, "k:", 2, 0));
	cr_assert_null(near_hit(&near, one.hash, "k:11", 4, 0));
}

Test(near, looking_ahead_changes_nothing)
{
	const uint64_t hashes[] = { key_of(1).hash, key_of(2).hash, key_of(3).hash };
	struct near_entry *ne = put(1, 10);
	put(2, 0);
	near_prefetch(&near, hashes, 3);
	cr_assert(!ne->visited && ne->hits == 0);
}
