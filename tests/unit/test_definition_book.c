#include "store/definition_book.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "store/record.h"

static struct definition_book book;
static char form[DEFINITION_BOOK_BYTES];

static void enter(const char *name, uint64_t own, bool insists)
{
	definition_book_begin(&book);
	definition_book_enter(&book, name, own, 1000, insists);
	definition_book_end(&book);
}

static void put_real(char *at, double real)
{
	uint64_t bits;
	memcpy(&bits, &real, sizeof(bits));
	record_put_u64((unsigned char *)at, bits);
}

/* What the store says; true if it is news. */
static bool tell(const char *name, uint64_t ruling, double since, struct definition_told *ret_told)
{
	char bytes[DEFINITION_TOLD_LEN + KEYSPACE_NAME_MAX];
	bool is_news;
	record_put_u64((unsigned char *)bytes, ruling);
	put_real(bytes + 8, since);
	put_real(bytes + 16, 7);
	bytes[24] = (char)strlen(name);
	memcpy(bytes + 25, name, strlen(name));
	size_t len = 25 + strlen(name);
	cr_assert_eq(definition_book_read(&book, bytes, len, ret_told, &is_news), len);
	for (size_t cut = 0; cut < len; cut++) {
		bool ignored;
		struct definition_told other;
		cr_assert_eq(definition_book_read(&book, bytes, cut, &other, &ignored), 0);
	}
	return is_news;
}

static unsigned flags(void)
{
	cr_assert_gt(definition_book_write(&book, form), 16);
	return (unsigned char)form[16];
}

Test(definition_book, what_is_told_again_is_no_news)
{
	struct definition_told told;
	enter("k", 5, false);
	cr_assert(tell("k", 5, 100, &told));
	cr_assert(told.is_own && told.since_us == 100 && told.spread_us == 7);
	cr_assert_not(tell("k", 5, 100, &told));
	cr_assert(tell("k", 5, 200, &told));
	cr_assert(tell("k", 6, 200, &told));
	cr_assert_not(told.is_own);
	cr_assert_eq(flags(), 2, "it knows that another rules");
}

Test(definition_book, a_reload_insists_until_it_rules)
{
	struct definition_told told;
	enter("k", 5, true);
	cr_assert_eq(flags(), 0, "a keyspace that comes anew does not");
	tell("k", 5, 100, &told);
	enter("k", 6, true);
	cr_assert_eq(flags(), 1);
	tell("k", 5, 100, &told);
	cr_assert_eq(flags(), 3);
	tell("k", 6, 200, &told);
	cr_assert_eq(flags(), 0);
	enter("k", 6, true);
	cr_assert_eq(flags(), 0, "nothing has changed");
}

Test(definition_book, keyspaces_come_and_go)
{
	uint32_t edition;
	char name[] = "a";
	definition_book_begin(&book);
	for (int i = 0; i < 20; i++, name[0]++)
		definition_book_enter(&book, name, 1, 0, false);
	definition_book_end(&book);
	cr_assert_eq(book.count, 20);
	edition = book.edition;
	enter("c", 1, false);
	cr_assert_eq(book.count, 1);
	cr_assert_eq(book.edition, edition);
	cr_assert_eq(definition_book_write(&book, form), DEFINITION_ASKED_LEN + 1);
}

Test(definition_book, as_many_others_fit_as_there_were)
{
	char name[8];
	for (int round = 0; round < 2; round++) {
		definition_book_begin(&book);
		for (int i = 0; i < KEYSPACES_MAX; i++) {
			snprintf(name, sizeof(name), "%d.%d", round, i);
			definition_book_enter(&book, name, 1, 0, false);
		}
		definition_book_end(&book);
		cr_assert_eq(book.count, KEYSPACES_MAX);
	}
}

Test(definition_book, what_is_no_time_or_no_keyspace_of_ours_is_not_taken)
{
	struct definition_told told;
	bool is_news;
	char bytes[DEFINITION_TOLD_LEN + 1] = { 0 };
	enter("k", 5, false);
	record_put_u64((unsigned char *)bytes, 5);
	bytes[24] = 1;
	bytes[25] = 'k';
	cr_assert_eq(definition_book_read(&book, bytes, sizeof(bytes), &told, &is_news), 26);
	put_real(bytes + 8, -1);
	cr_assert_eq(definition_book_read(&book, bytes, sizeof(bytes), &told, &is_news), 0);
	put_real(bytes + 8, 0.0 / 0.0);
	cr_assert_eq(definition_book_read(&book, bytes, sizeof(bytes), &told, &is_news), 0);
	put_real(bytes + 8, 1);
	bytes[25] = 'x';
	cr_assert_eq(definition_book_read(&book, bytes, sizeof(bytes), &told, &is_news), 0);
}
