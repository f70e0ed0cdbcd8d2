/* How a fleet agrees on each keyspace's query, by a real Redis. */
#include <string.h>

#include "fleet.h"

static struct fleet fleet;

static void setup(void)
{
	fleet_open(&fleet, NULL);
	fleet.options.fleet = 4;
}

static void teardown(void)
{
	fleet_close(&fleet);
}

TestSuite(redis_definitions, .init = setup, .fini = teardown, .timeout = 60);

/* A daemon whose keyspace `rows` has this query. */
static struct daemon *add(const char *query)
{
	fleet.query = query;
	return fleet_add(&fleet);
}

static bool rules(const struct daemon *daemon)
{
	return daemon->ruling == keyspace_definition(&daemon->rows_policy);
}

static struct daemon *again(struct daemon *daemon, const char *query)
{
	daemon_close(daemon);
	return add(query);
}

static void reload(struct daemon *daemon, const char *query)
{
	daemon->rows_policy.query = (char *)query;
	redis_store_define(daemon->redis, &daemon->rows_policy, 1, true);
}

Test(redis_definitions, the_first_that_comes_with_a_new_query_makes_it_the_fleets)
{
	struct daemon *a = add("1"), *b = add("1");
	cr_assert(rules(a) && rules(b));
	cr_assert_eq(a->ruling_since_us / SECOND, b->ruling_since_us / SECOND);
	struct daemon *c = add("2"), *d = add("2");
	cr_assert(rules(c) && rules(d));
	cr_assert_lt(d->ruling_since_us - c->ruling_since_us, 1000, "begun once");
	cr_assert_gt(c->ruling_since_us, a->ruling_since_us);
	AWAIT(&fleet, !rules(a) && !rules(b));
	cr_assert_eq(a->ruling, c->ruling);
	cr_assert_eq(a->ruling_spread_us, 60 * SECOND);
}

Test(redis_definitions, an_old_daemon_that_restarts_turns_nothing_back)
{
	struct daemon *a = add("1"), *b = add("2");
	int64_t since_us = b->ruling_since_us;
	for (int i = 0; i < 3; i++) {
		a = again(a, "1");
		cr_assert_not(rules(a));
		b = again(b, "2");
		cr_assert(rules(b));
	}
	cr_assert_lt(b->ruling_since_us - since_us, 1000);
}

Test(redis_definitions, a_reload_brings_an_old_query_back_at_once)
{
	struct daemon *a = add("1"), *b = add("2");
	reload(b, "1");
	AWAIT(&fleet, b->ruling == keyspace_definition(&a->rows_policy));
	AWAIT(&fleet, rules(a));
	cr_assert(rules(b));
	b = again(b, "2");
	cr_assert_not(rules(b));
}

Test(redis_definitions, an_old_query_comes_back_when_nobody_has_the_later_one_any_more)
{
	struct daemon *a = add("1"), *b = add("2");
	cr_assert(rules(b));
	daemon_close(b);
	a = again(a, "1");
	cr_assert_not(rules(a));
	/* As if the last one had told of it long ago. */
	server_ask(
		&fleet.server, "EVAL %s 1 t:{fleet}:definitions",
		"local\told=redis.call('HGET',KEYS[1],'rows')\nreturn\tredis.call('HSET',KEYS[1],"
		"'rows',old:sub(1,24)..string.rep('\\0',8)..old:sub(33))");
	a = again(a, "1");
	cr_assert(rules(a));
}

Test(redis_definitions, after_a_flush_the_later_query_rules_whoever_comes_first)
{
	struct daemon *a = add("1"), *b = add("2");
	AWAIT(&fleet, !rules(a));
	unsigned told = b->ruling_told;
	server_ask(&fleet.server, "FLUSHALL");
	AWAIT(&fleet, b->ruling_told > told);
	cr_assert(rules(b));
	/* Until they have taught it which one is old. */
	AWAIT(&fleet, server_number(&fleet.server, "HSTRLEN t:{fleet}:definitions rows") == 32 + 8);
	a = again(a, "1");
	cr_assert_eq(a->ruling, b->ruling);
}

Test(redis_definitions, a_reload_while_an_answer_is_under_way_is_not_taken_for_it)
{
	struct daemon *a = add("1");
	unsigned told = a->ruling_told;
	reload(a, "2");
	reload(a, "3");
	AWAIT(&fleet, a->ruling_told > told);
	cr_assert(rules(a), "told of what it had before");
}

Test(redis_definitions, what_lies_there_and_is_none_is_replaced)
{
	server_ask(&fleet.server, "HSET t:{fleet}:definitions rows short");
	struct daemon *a = add("1");
	cr_assert(rules(a));
}
