/* What the values of a keyspace mean, as a number. */
#include <criterion/criterion.h>

#include "core/keyspace.h"

static uint64_t plain(const char *query)
{
	return keyspace_definition(&(struct policy){ .query = (char *)query });
}

static uint64_t batched(const char *query)
{
	return keyspace_definition(&(struct policy){ .query = (char *)"SELECT 1",
						     .batch = { .query = (char *)query } });
}

#define QUERY "SELECT v AS value FROM t WHERE id = $1"

static void assert_same(const char *a, const char *b, bool same)
{
	cr_assert_eq(plain(a) == plain(b), same, "%s | %s", a, b);
	cr_assert_eq(batched(a) == batched(b), same, "%s | %s", a, b);
}

Test(keyspace, comments_and_layout_do_not_change_what_its_values_mean)
{
	assert_same(QUERY, "\n\tSELECT v AS value\n\tFROM t\r\n  WHERE  id = $1 \n", true);
	assert_same(QUERY, "SELECT v AS value -- the 'value'\nFROM t WHERE id = $1", true);
	assert_same(QUERY, "SELECT v/* one /* and another */ */AS value FROM t WHERE id = $1",
		    true);
	assert_same(QUERY, "/* a */ -- b\n" QUERY " -- c", true);
	assert_same("", " -- nothing", true);
}

Test(keyspace, all_else_does)
{
	assert_same(QUERY, "SELECT v AS value FROM t WHERE id = $2", false);
	assert_same(QUERY, "select v AS value FROM t WHERE id = $1", false);
	assert_same("SELECT 'a b'", "SELECT 'a  b'", false);
	assert_same("SELECT ' -- '", "SELECT ' '", false);
	assert_same("SELECT \"a b\"", "SELECT \"a  b\"", false);
	assert_same("SELECT $$ a $$", "SELECT $$ a  $$", false);
	assert_same("SELECT E'\\' -- '", "SELECT E'\\' '", false);
	assert_same("a <@ b", "a < @ b", false);
	assert_same("SELECT ab", "SELECT a b", false);
}

Test(keyspace, each_part_of_it_counts)
{
	struct policy policy = { .query = (char *)QUERY };
	uint64_t one = keyspace_definition(&policy), two, three;
	policy.batch.query = (char *)QUERY;
	two = keyspace_definition(&policy);
	policy.single_row = true;
	three = keyspace_definition(&policy);
	cr_assert(one != two && two != three && one != three);
	cr_assert(one != 0 && two != 0 && three != 0);
	cr_assert_eq(plain(QUERY), one);
}
