/* The near cache's own idea of what it costs, against what the allocator says. */
#include "core/near.h"

#include <criterion/criterion.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct policy policy = { .name = (char *)"k" };
static struct keyspace keyspace = { .policy = &policy };
static struct near near;

/* All that malloc has given out. */
static size_t given_out(void)
{
	struct mallinfo2 info = mallinfo2();
	return info.uordblks + info.hblkhd;
}

/* A sanitizer's allocator tells nothing. */
static void need_numbers(void)
{
	void *some = malloc(1000);
	bool none = some && given_out() == 0;
	free(some);
	if (none)
		cr_skip_test("this allocator tells nothing of what it gives out");
}

TestSuite(near_memory, .init = need_numbers);

static void put(int i, size_t key_len, size_t len, bool absent)
{
	static char bytes[4096];
	memset(bytes, 'x', sizeof(bytes));
	int digits = snprintf(bytes, sizeof(bytes), "k:%d", i);
	bytes[digits] = 'x';
	struct key key = { .keyspace = &keyspace,
			   .bytes = bytes,
			   .len = (uint32_t)(key_len > (size_t)digits ? key_len : (size_t)digits),
			   .hash = (uint64_t)(i + 1) * 0x9e3779b97f4a7c15u };
	struct entry entry = { .value = absent ? NULL : value_create(NULL, len), .absent = absent };
	cr_assert_not_null(near_put(&near, &key, &entry, 0));
	value_unref(entry.value);
}

/* What malloc keeps for the next small objects counts as given out. */
enum { KEPT = 256 * 1024 };

/* `count` entries: what they are counted with is what they take, within 3 %. */
static void compare(int count, size_t key_len, size_t len, bool absent)
{
	size_t before = given_out();
	cr_assert_eq(near_init(&near, (size_t)8 << 30), 0);
	near_close(&near);
	cr_assert_leq(given_out(), before + KEPT);
	/* The ghosts' share would be most of it. */
	cr_assert_eq(near_init(&near, (size_t)1 << 20), 0);
	near.bytes_max = (size_t)8 << 30;
	for (int i = 0; i < count; i++)
		put(i, key_len, len, absent);
	cr_assert_eq(near.table.count, (size_t)count);
	double counted = (double)near_cost(&near), taken = (double)(given_out() - before);
	cr_assert(counted > taken * 0.97 && counted < taken * 1.03,
		  "%d entries, keys of %zu, values of %zu: counted %.0f, taken %.0f", count,
		  key_len, len, counted, taken);
	near_close(&near);
	cr_assert_leq(given_out(), before + KEPT, "all is given back");
}

Test(near_memory, is_counted_as_the_allocator_takes_it)
{
	const size_t sizes[] = { 0, 1, 10, 100, 1000 };
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		compare(100000, 20, sizes[i], false);
	compare(20000, 20, 10000, false);
	compare(1000, 20, 200000, false);
	compare(50, 20, 4000000, false);
}

Test(near_memory, counts_long_keys_and_rows_that_are_not_there)
{
	compare(100000, 300, 10, false);
	compare(100000, 20, 0, true);
	compare(20000, 3000, 0, true);
}

Test(near_memory, replacing_and_evicting_loses_no_byte)
{
	size_t before = given_out();
	cr_assert_eq(near_init(&near, (size_t)4 << 20), 0);
	for (int i = 0; i < 200000; i++)
		put(i * 7919 % 5000, 20 + (size_t)i % 50, (size_t)i * 31 % 3000, i % 5 == 0);
	double counted = (double)near_cost(&near), taken = (double)(given_out() - before);
	cr_assert(counted > taken * 0.97 && counted < taken * 1.03, "counted %.0f, taken %.0f",
		  counted, taken);
	cr_assert_gt(near.evictions, 0);
	near_close(&near);
	cr_assert_leq(given_out(), before + KEPT);
	cr_assert_eq(keyspace.account.near_bytes, 0);
	cr_assert_eq(keyspace.account.near_entries, 0);
}
