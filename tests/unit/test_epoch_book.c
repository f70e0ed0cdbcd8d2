#include "store/epoch_book.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

static struct epoch_book book;
static bool is_new;

static const struct epoch_line *enter(const char *keyspace, int64_t store_us, int64_t spread_us)
{
	return epoch_book_enter(&book, keyspace, strlen(keyspace), store_us, store_us + 7,
				spread_us, &is_new);
}

Test(epoch_book, an_epoch_that_is_heard_of_again_is_the_same)
{
	const struct epoch_line *line = enter("rows", 100, 5);
	cr_assert(line && is_new);
	cr_assert_eq(line->moment_us, 107);
	line = epoch_book_enter(&book, "rows", 4, 100, 999, 0, &is_new);
	cr_assert(line && !is_new);
	cr_assert(line->moment_us == 107 && line->spread_us == 5);
	enter("views", 100, 5);
	cr_assert(is_new, "another keyspace's");
}

Test(epoch_book, the_last_ones_are_kept_and_the_oldest_ends_what_came_before)
{
	for (int i = 10; i >= 3; i--)
		enter("rows", i * 100, 50);
	cr_assert_null(enter("rows", 100, 50), "older than all of eight");
	enter("rows", 1100, 50);
	cr_assert(is_new);
	cr_assert_eq(book.pages[0].count, EPOCHS_MAX);
	cr_assert_eq(book.pages[0].lines[0].store_us, 400);
	cr_assert_eq(book.pages[0].lines[0].spread_us, 0);
	for (int i = 1; i < EPOCHS_MAX; i++) {
		cr_assert_eq(book.pages[0].lines[i].store_us, 400 + i * 100);
		cr_assert_eq(book.pages[0].lines[i].spread_us, 50);
	}
}

Test(epoch_book, what_is_no_keyspace_is_not_entered)
{
	cr_assert_null(enter("", 1, 1));
	cr_assert_null(enter("a:b", 1, 1));
	char name[KEYSPACE_NAME_MAX + 2];
	memset(name, 'a', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	cr_assert_null(enter(name, 1, 1));
	name[KEYSPACE_NAME_MAX] = '\0';
	cr_assert_not_null(enter(name, 1, 1));
	for (int i = 0; i < 2 * KEYSPACES_MAX; i++) {
		snprintf(name, sizeof(name), "k%d", i);
		enter(name, 1, 1);
	}
	cr_assert_eq(book.count, KEYSPACES_MAX);
}

Test(epoch_book, what_is_written_reads_back)
{
	static char bytes[EPOCH_BOOK_BYTES];
	static const struct epoch_book empty;
	cr_assert_eq(epoch_book_write(&empty, bytes), 0);
	enter("rows", 1700000000123456, 60000000);
	enter("rows", 1700000000123457, 0);
	enter("views", 1, 2);
	size_t len = epoch_book_write(&book, bytes), at = 0;
	int64_t store_us[3], spread_us[3];
	const char *keyspace;
	size_t keyspace_len, step;
	for (int i = 0; i < 3; i++) {
		step = epoch_form_read(bytes + at, len - at, &store_us[i], &spread_us[i], &keyspace,
				       &keyspace_len);
		cr_assert_gt(step, 0);
		at += step;
	}
	cr_assert_eq(at, len);
	cr_assert(store_us[0] == 1700000000123456 && spread_us[0] == 60000000);
	cr_assert(store_us[1] == 1700000000123457 && spread_us[1] == 0);
	cr_assert(keyspace_len == 5 && memcmp(keyspace, "views", 5) == 0);
	cr_assert_eq(epoch_form_read(bytes, 17, store_us, spread_us, &keyspace, &keyspace_len), 0);
}

Test(epoch_book, no_bytes_at_all_do_harm)
{
	struct rng rng;
	rng_seed(&rng, 1);
	for (int i = 0; i < 200000; i++) {
		size_t len = (size_t)rng_between(&rng, 0, 40), keyspace_len;
		char *bytes = malloc(len + 1);
		int64_t store_us, spread_us;
		const char *keyspace;
		for (size_t at = 0; at < len; at++)
			bytes[at] = (char)(rng_next(&rng) >> 60 << 3);
		size_t step = epoch_form_read(bytes, len, &store_us, &spread_us, &keyspace,
					      &keyspace_len);
		cr_assert_leq(step, len);
		if (step > 0)
			cr_assert(store_us >= 0 && spread_us >= 0 &&
				  keyspace + keyspace_len == bytes + step);
		free(bytes);
	}
}
