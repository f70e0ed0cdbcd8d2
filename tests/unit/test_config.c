#include "base/config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/mem.h"

#define ORIGIN   "origin: { dsn: x, concurrency: 1, budget: 1/s }\n"
#define KEYSPACE "keyspaces: [ { name: a, query: SELECT 1, fresh: 10m } ]\n"
#define GOOD     ORIGIN KEYSPACE

/* What the operator would see of a text that is called f.yaml; for free(). */
static char *findings_of(const char *text, size_t len, int *ret_result)
{
	struct config *config = NULL;
	struct config_errors errors;
	char *printed = NULL;
	size_t printed_len = 0;
	*ret_result = config_parse("f.yaml", text, len, &config, &errors);
	cr_assert_eq(config != NULL, *ret_result == 0);
	cr_assert_eq(errors.errors.count > 0, *ret_result != 0);
	config_free(config);
	FILE *out = open_memstream(&printed, &printed_len);
	config_errors_print(&errors, out);
	fclose(out);
	return printed;
}

struct bad {
	const char *yaml;
	const char *expected; /* every line without its "f.yaml:" */
};

static char *with_path(const char *lines)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	while (*lines) {
		int n = (int)strcspn(lines, "\n");
		fprintf(out, "f.yaml:%.*s\n", n, lines);
		lines += n + (lines[n] == '\n');
	}
	fclose(out);
	return text;
}

static void refuse(const struct bad *cases, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int r;
		char *found = findings_of(cases[i].yaml, strlen(cases[i].yaml), &r);
		char *expected = with_path(cases[i].expected);
		cr_expect_str_eq(found, expected, "of\n%s\nexpected\n%s\nfound\n%s", cases[i].yaml,
				 expected, found);
		cr_expect_eq(r, -EINVAL, "%s", cases[i].yaml);
		free(found);
		free(expected);
	}
}

#define REFUSE(...)                                                                                \
	refuse((const struct bad[]){ __VA_ARGS__ },                                                \
	       sizeof(const struct bad[]){ __VA_ARGS__ } / sizeof(struct bad))

static struct config *accept(const char *yaml)
{
	struct config *config = NULL;
	struct config_errors errors;
	int r = config_parse("f.yaml", yaml, strlen(yaml), &config, &errors);
	if (r != 0)
		config_errors_print(&errors, stderr);
	cr_assert_eq(r, 0, "%s", yaml);
	return config;
}

/* ---- what is accepted ------------------------------------------------------------------------ */

Test(config, what_is_not_written_gets_its_default)
{
	struct config *config = accept(GOOD);
	cr_assert_str_eq(config->path, "f.yaml");
	cr_assert_str_eq(config->listen.socket, "/run/segar/segard.sock");
	cr_assert_eq(config->listen.mode, 0660);
	cr_assert_null(config->listen.group);
	cr_assert_str_eq(config->store_url, "none");
	cr_assert_str_eq(config->store_prefix, "segar:");
	cr_assert_eq(config->origin.fleet, 1);
	cr_assert_not(config->origin.pooler);
	cr_assert_eq(config->origin.build_timeout_us, 30000000);
	cr_assert_eq(config->near.memory, 256 << 20);
	cr_assert_eq(config->log_level, LOG_LEVEL_INFO);
	cr_assert_eq(config->log_format, LOG_FORMAT_TEXT);
	cr_assert_eq(config->limits.connections, 10000);
	cr_assert_eq(config->limits.requests, 100000);
	cr_assert_eq(config->limits.requests_per_connection, 10000);
	cr_assert_eq(config->limits.queue, 10000);
	cr_assert_eq(config->keyspaces_count, 1);
	const struct policy *policy = config->keyspaces;
	cr_assert_not(policy->single_row);
	cr_assert_eq(policy->stale_us, 30000000);
	cr_assert_float_eq(policy->jitter, 0.1, 1e-12);
	cr_assert_eq(policy->negative_us, 5000000);
	cr_assert_eq(policy->error_us, 2000000);
	cr_assert_eq(policy->wait_us, 1000000);
	cr_assert_float_eq(policy->early, 1, 1e-12);
	cr_assert_eq(policy->build_timeout_us, 30000000);
	cr_assert_null(policy->default_value);
	cr_assert_null(policy->batch.query);
	config_free(config);
}

Test(config, every_key_that_is_written_arrives)
{
	struct config *config = accept(
		"listen: { socket: /s, mode: 0606, group: root }\n"
		"store: { url: none, prefix: \"x:\" }\n"
		"origin: { dsn: \"host=h password=p\", concurrency: 7, budget: 90/m, fleet: 1, "
		"build_timeout: 9s, pooler: true }\n"
		"near: { memory: 1.5GiB }\n"
		"log: { level: debug, format: json }\n"
		"limits: { connections: 1, requests: 4, requests_per_connection: 3, queue: 2 }\n"
		"keyspaces:\n"
		"- name: A.b_c-9\n"
		"  query: |\n"
		"    SELECT 1;\n"
		"    -- all of it ;\n"
		"    ;\n"
		"\n"
		"  single_row: true\n"
		"  fresh: 1h\n"
		"  stale: 0\n"
		"  jitter: 0%\n"
		"  negative: 0\n"
		"  error: 1ms\n"
		"  wait: 5m\n"
		"  build_timeout: 1m\n"
		"  default: \"\\0{}\"\n"
		"  early: 2.5\n"
		"  batch: { query: \"SELECT 2 ; \", linger: 5ms, max: 2 }\n"
		"warm: []\n"
		"access:\n");
	cr_assert_str_eq(config->listen.socket, "/s");
	cr_assert_eq(config->listen.mode, 0606);
	cr_assert_str_eq(config->listen.group, "root");
	cr_assert_str_eq(config->store_prefix, "x:");
	cr_assert_str_eq(config->origin.dsn, "host=h password=p");
	cr_assert_eq(config->origin.concurrency, 7);
	cr_assert(config->origin.pooler);
	cr_assert_float_eq(config->origin.budget_per_s, 1.5, 1e-12);
	cr_assert_eq(config->origin.fleet, 1);
	cr_assert_eq(config->near.memory, 1536u << 20);
	cr_assert_eq(config->log_level, LOG_LEVEL_DEBUG);
	cr_assert_eq(config->log_format, LOG_FORMAT_JSON);
	cr_assert_eq(config->limits.connections, 1);
	cr_assert_eq(config->limits.requests, 4);
	cr_assert_eq(config->limits.requests_per_connection, 3);
	cr_assert_eq(config->limits.queue, 2);
	const struct policy *policy = config->keyspaces;
	cr_assert_str_eq(policy->name, "A.b_c-9");
	cr_assert_str_eq(policy->query, "SELECT 1;\n-- all of it");
	cr_assert(policy->single_row);
	cr_assert_eq(policy->fresh_us, 3600000000);
	cr_assert_eq(policy->stale_us, 0);
	cr_assert_eq(policy->jitter, 0);
	cr_assert_eq(policy->negative_us, 0);
	cr_assert_eq(policy->error_us, 1000);
	cr_assert_eq(policy->wait_us, 300000000);
	cr_assert_eq(policy->build_timeout_us, 60000000);
	cr_assert_eq(policy->default_value->len, 3);
	cr_assert_arr_eq(policy->default_value->bytes, "\0{}", 3);
	cr_assert_eq(policy->line, 8);
	cr_assert_str_eq(policy->batch.query, "SELECT 2");
	cr_assert_eq(policy->batch.linger_us, 5000);
	cr_assert_eq(policy->batch.max, 2);
	config_free(config);
}

Test(config, a_default_of_null_is_none_and_of_text_is_that_text)
{
	static const struct {
		const char *written;
		const char *value;
	} cases[] = {
		{ "", NULL },   { "null", NULL },   { "~", NULL },  { "\"null\"", "null" },
		{ "\"\"", "" }, { "true", "true" }, { "'~'", "~" }, { "5", "5" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char yaml[400];
		snprintf(yaml, sizeof yaml,
			 ORIGIN "keyspaces: [ { name: a, query: q, fresh: 1m, default: %s } ]\n",
			 cases[i].written);
		struct config *config = accept(yaml);
		const struct value *value = config->keyspaces[0].default_value;
		cr_assert_eq(value != NULL, cases[i].value != NULL, "%s", cases[i].written);
		if (value)
			cr_assert_str_eq(value->bytes, cases[i].value);
		config_free(config);
	}
}

Test(config, the_limit_of_a_connection_follows_a_lower_limit_of_all)
{
	struct config *config = accept(GOOD "limits: { requests: 50 }\n");
	cr_assert_eq(config->limits.requests_per_connection, 50);
	config_free(config);
}

Test(config, a_byte_order_mark_is_passed_over)
{
	config_free(accept("\xEF\xBB\xBF" GOOD));
}

Test(config, a_part_without_content_is_as_if_it_were_not_there)
{
	config_free(accept(GOOD "near:\nlisten: ~\nlog: {}\nwarm:\nmetrics:\n"));
}

/* ---- what is refused ------------------------------------------------------------------------- */

Test(config, missing_keys_are_named_where_their_mapping_begins)
{
	REFUSE({ KEYSPACE, "1:1: origin.dsn: is missing; expected a libpq connection string, such "
			   "as \"service=app\"\n"
			   "1:1: origin.concurrency: is missing; expected a whole number from 1 to "
			   "1000\n"
			   "1:1: origin.budget: is missing; expected a rate from 1/m to 100000/s" },
	       { "origin: { dsn: x, concurrency: 1 }\n" KEYSPACE,
		 "1:9: origin.budget: is missing; expected a rate from 1/m to 100000/s" },
	       { ORIGIN, "1:1: keyspaces: is missing; expected a list" },
	       { ORIGIN "keyspaces:\n", "2:11: keyspaces: is missing; expected a list" },
	       { ORIGIN "keyspaces:\n - name: a\n   stale: 1s\n",
		 "3:4: keyspaces[0].query: is missing; expected an SQL query with a column "
		 "\"value\"\n"
		 "3:4: keyspaces[0].fresh: is missing; expected a duration from 1ms to 3650d" });
}

Test(config, unknown_keys_get_a_suggestion_or_the_list)
{
	REFUSE({ GOOD "keyspace: []\n", "3:1: unknown key \"keyspace\"; did you mean keyspaces?" },
	       { GOOD "listen: { sokcet: /s }\n",
		 "3:11: listen: unknown key \"sokcet\"; did you mean socket?" },
	       { "origin: { dns: x, dsn: x, concurrency: 1, budget: 1/s }\n" KEYSPACE,
		 "1:11: origin: unknown key \"dns\"; did you mean dsn?" },
	       { GOOD "limits: { requests-per-connection: 1 }\n",
		 "3:11: limits: unknown key \"requests-per-connection\"; did you mean "
		 "requests_per_connection?" },
	       { GOOD "log: { Level: info }\n",
		 "3:8: log: unknown key \"Level\"; did you mean level?" },
	       { GOOD "near: { ttl: 5s }\n", "3:9: near: unknown key \"ttl\"; expected one of "
					     "memory, trust, hot, hot_refresh" },
	       { GOOD "near: { \"a\\0b\": 5s }\n", "3:9: near: unknown key \"a b\"; expected one "
						   "of memory, trust, hot, hot_refresh" },
	       { GOOD "near: { <<: 5s }\n",
		 "3:9: near: unknown key \"<<\"; expected one of memory, trust, hot, hot_refresh" },
	       { GOOD "near: { [a]: 5s }\n",
		 "3:9: near: a list or mapping stands for a key; expected a name" });
}

Test(config, a_key_that_is_there_twice_names_the_first)
{
	REFUSE({ GOOD "log: { level: info, level: debug }\n",
		 "3:21: log.level: is there twice; expected only that on line 3" },
	       { GOOD "origin: {}\n",
		 "3:1: origin: is there twice; expected only that on line 1" });
}

Test(config, values_of_another_type_say_what_is_expected)
{
	REFUSE({ GOOD "log: info\n", "3:6: log: is a plain value; expected a mapping" },
	       { GOOD "log: []\n", "3:6: log: is a list; expected a mapping" },
	       { ORIGIN "keyspaces: {}\n", "2:12: keyspaces: is a mapping; expected a list" },
	       { ORIGIN "keyspaces: all\n", "2:12: keyspaces: is a plain value; expected a list" },
	       { ORIGIN "keyspaces: [ a ]\n",
		 "2:14: keyspaces[0]: is a plain value; expected a mapping" },
	       { GOOD "near: { memory: [ 1MiB ] }\n",
		 "3:17: near.memory: is a list; expected a size from 1MiB to 1024GiB" },
	       { GOOD "near: { memory: { a: b } }\n",
		 "3:17: near.memory: is a mapping; expected a size from 1MiB to 1024GiB" },
	       { GOOD "near: { memory: }\n",
		 "3:17: near.memory: has no value; expected a size from 1MiB to 1024GiB" },
	       { GOOD "near: { memory: 256MB }\n",
		 "3:17: near.memory: \"256MB\" is not valid; expected a size from 1MiB to 1024GiB, "
		 "such as 64KiB, 256MiB or 2GiB" },
	       { GOOD "log: { level: verbose }\n",
		 "3:15: log.level: \"verbose\" is not valid; expected error, warning, info or "
		 "debug" },
	       { ORIGIN "keyspaces: [ { name: a, query: q, fresh: 1m, single_row: yes } ]\n",
		 "2:58: keyspaces[0].single_row: \"yes\" is not valid; expected true or false" },
	       { GOOD "limits: { queue: 1.5 }\n",
		 "3:18: limits.queue: \"1.5\" is not valid; expected a whole number from 1 to "
		 "1000000" },
	       { GOOD "limits: { queue: \"1\\01\" }\n",
		 "3:18: limits.queue: \"1 1\" is not valid; expected a whole number from 1 to "
		 "1000000" });
}

Test(config, numbers_outside_their_range_say_the_range)
{
	REFUSE({ "origin: { dsn: x, concurrency: 0, budget: 0/s }\n" KEYSPACE,
		 "1:32: origin.concurrency: \"0\" is too small; expected a whole number from 1 to "
		 "1000\n"
		 "1:43: origin.budget: \"0/s\" is too small; expected a rate from 1/m to "
		 "100000/s" },
	       { "origin: { dsn: x, concurrency: 1001, budget: 100001/s }\n" KEYSPACE,
		 "1:32: origin.concurrency: \"1001\" is too large; expected a whole number from 1 "
		 "to 1000\n"
		 "1:46: origin.budget: \"100001/s\" is too large; expected a rate from 1/m to "
		 "100000/s" },
	       { "origin: { dsn: x, concurrency: 99999999999999999999, budget: 1/s }\n" KEYSPACE,
		 "1:32: origin.concurrency: \"99999999999999999999\" is too large; expected a "
		 "whole "
		 "number from 1 to 1000" },
	       { GOOD "near: { memory: 1023KiB }\n",
		 "3:17: near.memory: \"1023KiB\" is too small; expected a size from 1MiB to "
		 "1024GiB" });
}

Test(config, a_fleet_that_shares_nothing_is_refused)
{
	REFUSE({ "origin: { dsn: x, concurrency: 1, budget: 1/s, fleet: 2 }\n" KEYSPACE,
		 "1:9: origin: fleet is 2, but with store.url \"none\" nothing is shared; "
		 "expected 1" });
}

Test(config, a_standby_has_no_log_of_changes)
{
#define STANDBY "origin: { dsn: x, concurrency: 1, budget: 1/s, standby: true }\n"
#define FOLLOW  "keyspaces:\n- { name: a, query: q, fresh: 1s, on_change: refresh }\n"
	REFUSE({ "store: { url: \"redis://h\" }\n" STANDBY FOLLOW,
		 "2:9: origin: standby is true, and a standby has no log of changes to be read; "
		 "expected feed.dsn, which reaches its primary" },
	       { STANDBY FOLLOW "feed: { dsn: y }\n",
		 "1:9: origin: standby is true, but with store.url \"none\" nothing keeps what a "
		 "build of a standby must have seen; expected a Redis" });
}

Test(config, times_that_cannot_work_are_refused)
{
	REFUSE({ ORIGIN "keyspaces:\n"
			"- name: a\n"
			"  query: q\n"
			"  fresh: 0\n"
			"  stale: -1s\n"
			"  jitter: 51%\n"
			"  error: 0\n"
			"  wait: 301s\n"
			"  build_timeout: 0\n",
		 "5:10: keyspaces[0].fresh: \"0\" is too small; expected a duration from 1ms to "
		 "3650d\n"
		 "6:10: keyspaces[0].stale: \"-1s\" is not valid; expected a duration from 0 to "
		 "3650d, such as 800ms, 10s, 5m, 2h or 7d\n"
		 "7:11: keyspaces[0].jitter: \"51%\" is too large; expected a percentage from 0 to "
		 "50%\n"
		 "8:10: keyspaces[0].error: \"0\" is too small; expected a duration from 1ms to "
		 "1h\n"
		 "9:9: keyspaces[0].wait: \"301s\" is too large; expected a duration from 0 to 5m\n"
		 "10:18: keyspaces[0].build_timeout: \"0\" is too small; expected a duration from "
		 "1ms to 1h" });
}

Test(config, keyspaces_have_names_of_their_own)
{
	REFUSE({ ORIGIN "keyspaces:\n"
			"- { name: a, query: q, fresh: 1m }\n"
			"- { name: b, query: q, fresh: 1m }\n"
			"- { name: a, query: q, fresh: 1m }\n",
		 "5:11: keyspaces[2].name: \"a\" is the keyspace on line 3 already; expected "
		 "another "
		 "name" },
	       { ORIGIN "keyspaces:\n"
			"- { name: a, query: q, fresh: 1m }\n"
			"- { name: a, query: q, fresh: 1m }\n",
		 "4:11: keyspaces[1].name: \"a\" is the keyspace on line 3 already; expected "
		 "another "
		 "name" },
	       { ORIGIN "keyspaces: [ { name: \"a:b\", query: q, fresh: 1m } ]\n",
		 "2:22: keyspaces[0].name: \"a:b\" has other characters; expected 1 to 64 of A-Z "
		 "a-z "
		 "0-9 _ . -" },
	       { ORIGIN "keyspaces: [ { name: \"a\\nb\", query: q, fresh: 1m } ]\n",
		 "2:22: keyspaces[0].name: \"a b\" has other characters; expected 1 to 64 of A-Z "
		 "a-z 0-9 _ . -" },
	       { ORIGIN "keyspaces: [ { name: \"\", query: q, fresh: 1m } ]\n",
		 "2:22: keyspaces[0].name: \"\" is too short; expected 1 to 64 of A-Z a-z 0-9 _ . "
		 "-" },
	       { ORIGIN "keyspaces: [ { name: "
			"a123456789b123456789c123456789d123456789e123456789f1234567891234x"
			", query: q, fresh: 1m } ]\n",
		 "2:22: keyspaces[0].name: "
		 "\"a123456789b123456789c123456789d123456789e123456789f1234..."
		 "\" is too long; expected 1 to 64 of A-Z a-z 0-9 _ . -" });
}

Test(config, a_query_says_something)
{
	REFUSE({ ORIGIN "keyspaces: [ { name: a, query: \" ;\\n; \", fresh: 1m } ]\n",
		 "2:32: keyspaces[0].query: is empty; expected an SQL query with a column "
		 "\"value\"" },
	       { ORIGIN "keyspaces: [ { name: a, query: \"SELECT \\0\", fresh: 1m } ]\n",
		 "2:32: keyspaces[0].query: \"SELECT  \" holds a NUL character; expected an SQL "
		 "query with a column \"value\"" });
}

Test(config, a_socket_path_fits_the_system)
{
#define A107                                                                                       \
	"/2345678901234567890123456789012345678901234567890123456789012345678901234567890"         \
	"123456789012345678901234567"
	config_free(accept(GOOD "listen: { socket: " A107 " }\n"));
	REFUSE({ GOOD "listen: { socket: " A107 "x }\n",
		 "3:19: listen.socket: "
		 "\"/234567890123456789012345678901234567890123456789012345...\" "
		 "is too long; expected an absolute path of at most 107 bytes" },
	       { GOOD "listen: { socket: run/s }\n",
		 "3:19: listen.socket: \"run/s\" is not absolute; expected an absolute path of at "
		 "most 107 bytes" },
	       { GOOD "listen: { socket: /run/ }\n", "3:19: listen.socket: \"/run/\" names a "
						     "directory; expected an absolute path of at "
						     "most 107 bytes" });
}

Test(config, who_may_connect_is_checked)
{
	REFUSE({ GOOD "listen: { mode: 0440 }\n",
		 "3:17: listen.mode: 0440 lets nobody connect; expected write permission for "
		 "somebody" },
	       { GOOD "listen: { mode: 0888 }\n", "3:17: listen.mode: \"0888\" is not valid; "
						  "expected permission bits in octal (such "
						  "as 0660)" },
	       { GOOD "listen: { mode: 7777 }\n", "3:17: listen.mode: \"7777\" is too large; "
						  "expected permission bits in octal (such "
						  "as 0660)" },
	       { GOOD "listen: { group: no-such-group-here }\n",
		 "3:18: listen.group: there is no group \"no-such-group-here\"; expected the name "
		 "of "
		 "a group of this host" });
}

Test(config, limits_stand_in_order)
{
	REFUSE({ GOOD "limits: { requests: 5, requests_per_connection: 6 }\n",
		 "3:49: limits.requests_per_connection: 6 is more than all connections together "
		 "may "
		 "have; expected at most requests (5)" });
}

#define URL_FORM "expected none, redis://[[user:]password@]host[:port][/db] or unix:///path[?db=N]"

#define POOLED  "origin: { dsn: \"service=app\", concurrency: 1, budget: 1/s, pooler: true }\n"
#define FOLLOWS "keyspaces: [{ name: a, query: q, fresh: 1s, on_change: refresh }]\n"

Test(config, behind_a_pooler_the_feed_takes_a_way_of_its_own)
{
	REFUSE({ POOLED FOLLOWS,
		 "1:9: origin: has a pooler, which passes no word of changes on, and a keyspace "
		 "has on_change; expected a feed.dsn that leads to PostgreSQL itself" });
	struct config *config = accept(POOLED FOLLOWS "feed: { dsn: \"service=direct\" }\n");
	cr_assert(config->origin.pooler);
	config_free(config);
	config_free(accept(POOLED KEYSPACE));
}

Test(config, a_feed_that_nobody_follows_is_refused)
{
	REFUSE({ GOOD "feed: { poll: 2s }\n", "3:7: feed: has no effect: no keyspace says what a "
					      "change does; expected on_change in "
					      "one of them" },
	       { ORIGIN "keyspaces: [ { name: a, query: q, fresh: 1m, on_change: ignore } ]\n"
			"feed: {}\n",
		 "3:7: feed: has no effect: no keyspace says what a change does; expected "
		 "on_change in "
		 "one of them" },
	       { ORIGIN "keyspaces: [ { name: a, query: q, fresh: 1m, on_change: renew } ]\n",
		 "2:57: keyspaces[0].on_change: \"renew\" is not valid; expected ignore, "
		 "refresh, "
		 "expire or invalidate" }, );
}

Test(config, a_store_that_cannot_be_is_refused)
{
	REFUSE({ "store: { url: \"http://h\" }\n" GOOD,
		 "1:15: store.url: is no store that segard knows; " URL_FORM },
	       { "store: { url: none, password_file: redis }\n" GOOD,
		 "1:8: store: password_file goes with a Redis; store.url is none" },
	       { GOOD "state_dir: relative\n",
		 "3:12: state_dir: \"relative\" is not a folder that exists; expected an absolute "
		 "path" },
	       { ORIGIN
		 "keyspaces: [ { name: a, query: q, fresh: 1m, early: 10.1, lease: 1ms } ]\n",
		 "2:53: keyspaces[0].early: \"10.1\" is too large; expected a number from 0 to 10\n"
		 "2:66: keyspaces[0].lease: \"1ms\" is too small; expected auto, or a duration "
		 "from "
		 "100ms to 1h" });
}

Test(config, a_shared_store_is_read)
{
	struct config *config =
		accept("store: { url: \"redis://h:1/2\", password_file: redis }\nstate_dir: /tmp\n"
		       "near: { trust: 5s }\n"
		       "origin: { dsn: x, concurrency: 1, budget: 1/s, fleet: 9 }\n"
		       "keyspaces: [ { name: a, query: q, fresh: 1m, lease: 3s },\n"
		       "             { name: b, query: q, fresh: 1m, lease: auto } ]\n");
	cr_assert_str_eq(config->store_url, "redis://h:1/2");
	cr_assert_str_eq(config->store_password_file, "redis");
	cr_assert_str_eq(config->state_dir, "/tmp");
	cr_assert_eq(config->near.trust_us, 5000000);
	cr_assert_eq(config->keyspaces[0].lease_us, 3000000);
	cr_assert_eq(config->keyspaces[1].lease_us, 0);
	config_free(config);
}

Test(config, rules_of_access_are_read)
{
	struct config *config =
		accept(GOOD "access:\n"
			    "  - { uid: 33, methods: [ get, mget ], keyspaces: [ a ] }\n"
			    "  - { gid: root }\n");
	cr_assert_eq(config->access_count, 2);
	const struct access_rule *web = &config->access[0], *root = &config->access[1];
	cr_assert_eq(web->id, 33);
	cr_assert(web->uid && !web->gid);
	cr_assert_str_eq(web->methods[0], "get");
	cr_assert_str_eq(web->methods[1], "mget");
	cr_assert_null(web->methods[2]);
	cr_assert_str_eq(web->keyspaces[0], "a");
	cr_assert_null(web->keyspaces[1]);
	cr_assert_eq(root->id, 0);
	cr_assert(root->gid && !root->uid && !root->methods && !root->keyspaces);
	config_free(config);
	REFUSE({ GOOD "access: [ { uid: 1, methods: [ get, fetch ] } ]\n",
		 "3:30: access[0].methods: there is no method \"fetch\"" });
}

Test(config, a_metrics_address_is_checked)
{
	struct config *config = accept(GOOD "metrics: { listen: \"[::1]:9633\" }\n");
	cr_assert_str_eq(config->metrics_listen, "[::1]:9633");
	config_free(config);
	REFUSE({ GOOD "metrics: { listen: \"localhost:9633\" }\n",
		 "3:20: metrics.listen: \"localhost:9633\" has no address of numbers; expected "
		 "127.0.0.1:9633, [::1]:9633 or unix:/path" });
}

#define BATCH(batch)                                                                               \
	ORIGIN "keyspaces: [ { name: a, query: SELECT 1, fresh: 10m, batch: " batch " } ]\n"

Test(config, a_batch_has_its_query_or_is_left_out)
{
	struct config *config = accept(BATCH("{ query: q }"));
	cr_assert_eq(config->keyspaces[0].batch.linger_us, 1000);
	cr_assert_eq(config->keyspaces[0].batch.max, 64);
	config_free(config);
	config = accept(BATCH("null"));
	cr_assert_null(config->keyspaces[0].batch.query);
	config_free(config);
	REFUSE({ BATCH("{}"), "2:61: keyspaces[0].batch.query: is missing; expected an SQL query "
			      "with columns \"key\" and \"value\"" },
	       { BATCH("{ max: 3 }"), "2:61: keyspaces[0].batch.query: is missing; expected an SQL "
				      "query with columns \"key\" and \"value\"" },
	       { BATCH("SELECT 1"),
		 "2:61: keyspaces[0].batch: is a plain value; expected a mapping" },
	       { BATCH("{ query: ;, max: 65, linger: 2s }"),
		 "2:70: keyspaces[0].batch.query: is empty; expected an SQL query with columns "
		 "\"key\" and \"value\"\n"
		 "2:78: keyspaces[0].batch.max: \"65\" is too large; expected a whole number from "
		 "2 "
		 "to 64\n"
		 "2:90: keyspaces[0].batch.linger: \"2s\" is too large; expected a duration from 0 "
		 "to 1s" });
}

Test(config, plans_of_warm_ups_are_checked)
{
	REFUSE({ GOOD "warm: [ { name: a, query: SELECT 1 } ]\n",
		 "3:7: warm: has nowhere to keep the keys; expected state_dir besides" },
	       { GOOD "state_dir: /\nwarm: [ { name: cancel, query: SELECT 1 } ]\n",
		 "4:17: warm[0].name: \"cancel\" is what segarctl warm cancel does; expected "
		 "another name" },
	       { GOOD "state_dir: /\nwarm: [ { name: a } ]\n",
		 "4:9: warm[0].query: is missing; expected query, file or keyspace, for the keys" },
	       { GOOD "state_dir: /\nwarm: [ { name: a, query: SELECT 1, file: /a } ]\n",
		 "4:43: warm[0].file: is one source too many; expected query, file or keyspace" },
	       { GOOD "state_dir: /\nwarm: [ { name: a, file: a } ]\n",
		 "4:26: warm[0].file: \"a\" is not absolute; expected an absolute path" },
	       { GOOD "state_dir: /\nwarm: [ { name: a, file: /a, timeout: 1m } ]\n",
		 "4:39: warm[0].timeout: has no effect: it is for query" },
	       { GOOD "state_dir: /\nwarm: [ { name: a, file: /a }, { name: a, file: /b } ]\n",
		 "4:40: warm[1].name: \"a\" is the plan on line 4 already; expected another name" },
	       { GOOD "ready_after_warm: { plan: a, timeout: 5m }\n",
		 "3:19: ready_after_warm: there is no plan \"a\"; expected the name of one of "
		 "warm" });
	struct config *config =
		accept(GOOD "state_dir: /\nwarm: [ { name: a, file: /a, rate: 30/m } ]\n"
			    "ready_after_warm: { plan: a, timeout: 5m }\n");
	cr_assert_eq(config->warm_count, 1);
	cr_assert_float_eq(config->warm[0].rate_per_s, 0.5, 1e-9);
	cr_assert_eq(config->warm[0].retries, 2);
	cr_assert_eq(config->ready.timeout_us, 300 * INT64_C(1000000));
	config_free(config);
}

Test(config, what_is_no_plain_yaml_is_refused_with_its_place)
{
	REFUSE({ "", " is empty; expected keys such as origin: and keyspaces:" },
	       { "# nothing\n", " is empty; expected keys such as origin: and keyspaces:" },
	       { "- a\n", "1:1: is not a mapping; expected keys such as origin: and keyspaces:" },
	       { "word\n", "1:1: is not a mapping; expected keys such as origin: and keyspaces:" },
	       { GOOD "---\na: 1\n", "3:1: a second document begins here; expected one" },
	       { GOOD "log: &l { level: info }\n",
		 "3:6: anchors (&l) are refused; expected each value written out" },
	       { GOOD "log: *l\n",
		 "3:6: aliases (*l) are refused; expected each value written out" },
	       { GOOD "log: { level: !!str info }\n",
		 "3:15: tags (tag:yaml.org,2002:str) are refused; expected a plain value" },
	       { GOOD "log: [[[[[[[[[[[[\n",
		 "3:13: is nested too deeply; expected at most 8 levels" },
	       { GOOD "log:\n\tlevel: info\n",
		 "4:1: a tab indents this line; expected spaces, as YAML wants them" },
	       { GOOD "log: { level: info\n", "4:1: did not find expected ',' or '}' (while "
					      "parsing a flow mapping that begins on "
					      "line 3); expected YAML" },
	       { GOOD "a: \"\xC3\xA9\xFF\"\n",
		 "3:6: invalid leading UTF-8 octet; expected text in UTF-8" },
	       { GOOD "a: \x01\n",
		 "3:4: control characters are not allowed; expected text in UTF-8" });
}

Test(config, a_nul_byte_does_not_end_the_file)
{
	static const char text[] = GOOD "a: 1\0\nb: 2\n";
	int r;
	char *found = findings_of(text, sizeof text - 1, &r);
	cr_assert_eq(r, -EINVAL);
	cr_assert_str_eq(found, "f.yaml:3:5: control characters are not allowed; expected text in "
				"UTF-8\n");
	free(found);
}

Test(config, secrets_are_not_shown)
{
	int r;
	static const char text[] =
		"origin: { dsn: \"host=h password=sesame\\0\", concurrency: 1, budget: 1/s }\n"
		"store: { url: \"redis://:sesame@h\" }\n" KEYSPACE;
	char *found = findings_of(text, sizeof text - 1, &r);
	cr_assert_eq(r, -EINVAL);
	cr_assert_null(strstr(found, "sesame"), "%s", found);
	free(found);
}

Test(config, all_errors_come_at_once_in_the_order_of_the_file)
{
	REFUSE({ "keyspaces: [ { name: a, fresh: x, query: q } ]\n"
		 "near: { memory: x }\n"
		 "origin: { budget: x, concurrency: 1, dsn: x }\n"
		 "lisen: {}\n",
		 "1:32: keyspaces[0].fresh: \"x\" is not valid; expected a duration from 1ms to "
		 "3650d, such as 800ms, 10s, 5m, 2h or 7d\n"
		 "2:17: near.memory: \"x\" is not valid; expected a size from 1MiB to 1024GiB, "
		 "such "
		 "as 64KiB, 256MiB or 2GiB\n"
		 "3:19: origin.budget: \"x\" is not valid; expected a rate from 1/m to 100000/s, "
		 "such as 200/s or 3/m\n"
		 "4:1: unknown key \"lisen\"; did you mean listen?" });
}

static char *many_keyspaces(size_t count, const char *tail)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	fputs(ORIGIN "keyspaces:\n", out);
	for (size_t i = 0; i < count; i++)
		fprintf(out, "- { name: k%zu, query: q, fresh: 1m%s }\n", i, tail);
	fclose(out);
	return text;
}

Test(config, errors_beyond_the_limit_are_counted)
{
	char *yaml = many_keyspaces(60, ", stale: x");
	int r;
	char *found = findings_of(yaml, strlen(yaml), &r);
	cr_assert_eq(r, -EINVAL);
	cr_assert_not_null(strstr(found, "f.yaml:52:"));
	cr_assert_null(strstr(found, "f.yaml:53:"));
	cr_assert_not_null(strstr(found, "\nf.yaml: and 10 more errors\n"));
	free(found);
	free(yaml);
}

Test(config, keyspaces_are_counted)
{
	char *yaml = many_keyspaces(KEYSPACES_MAX, "");
	struct config *config = accept(yaml);
	cr_assert_eq(config->keyspaces_count, KEYSPACES_MAX);
	config_free(config);
	free(yaml);

	yaml = many_keyspaces(KEYSPACES_MAX + 1, "");
	int r;
	char *found = findings_of(yaml, strlen(yaml), &r);
	cr_assert_eq(r, -EINVAL);
	cr_assert_str_eq(found, "f.yaml:3:1: keyspaces: has 1025 items; expected at most 1024\n");
	free(found);
	free(yaml);
}

Test(config, warnings_do_not_refuse)
{
	static const char text[] = "listen: { mode: 0666 }\n" ORIGIN
				   "keyspaces: [ { name: a, query: q, fresh: 5s, stale: 0 } ]\n";
	int r;
	char *found = findings_of(text, sizeof text - 1, &r);
	cr_assert_eq(r, 0);
	cr_assert_str_eq(found,
			 "f.yaml:1:17: warning: listen.mode: 0666 lets every user of this host "
			 "connect\n"
			 "f.yaml:3:42: warning: keyspaces[0].fresh: a value lives 5s with stale, "
			 "counted from the "
			 "start of a build that may take 30s; expected a longer life, or a shorter "
			 "build_timeout\n");
	free(found);

	static const char long_enough[] =
		ORIGIN "keyspaces: [ { name: a, query: q, fresh: 20s, stale: 10s } ]\n";
	found = findings_of(long_enough, sizeof long_enough - 1, &r);
	cr_assert_str_eq(found, "");
	free(found);

	found = findings_of(ORIGIN "keyspaces: []\n", strlen(ORIGIN "keyspaces: []\n"), &r);
	cr_assert_eq(r, 0);
	cr_assert_str_eq(found, "f.yaml:2:12: warning: keyspaces: is empty: every request will be "
				"answered with unknown_keyspace\n");
	free(found);
}

/* ---- files ----------------------------------------------------------------------------------- */

static char *load(const char *path, int *ret_result)
{
	struct config *config = NULL;
	struct config_errors errors;
	char *printed = NULL;
	size_t len = 0;
	*ret_result = config_load(path, &config, &errors);
	config_free(config);
	FILE *out = open_memstream(&printed, &len);
	config_errors_print(&errors, out);
	fclose(out);
	return printed;
}

Test(config, what_is_no_readable_file_is_refused)
{
	int r;
	char *found = load("/", &r);
	cr_assert_eq(r, -EISDIR);
	cr_assert_str_eq(found, "/: is a directory; expected a YAML file\n");
	free(found);

	found = load("/nonexistent/segard.yaml", &r);
	cr_assert_eq(r, -ENOENT);
	cr_assert_str_eq(found,
			 "/nonexistent/segard.yaml: cannot be opened: No such file or directory\n");
	free(found);

	found = load("/dev/null", &r);
	cr_assert_eq(r, -EINVAL);
	cr_assert_str_eq(found, "/dev/null: is not a regular file; expected a YAML file\n");
	free(found);
}

Test(config, a_fifo_does_not_hang)
{
	char dir[] = "/tmp/segar-test-XXXXXX";
	char path[64];
	int r;
	cr_assert_not_null(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/fifo", dir);
	cr_assert_eq(mkfifo(path, 0600), 0);
	free(load(path, &r));
	cr_assert_eq(r, -EINVAL);
	unlink(path);
	rmdir(dir);
}

Test(config, a_file_of_the_largest_size_is_read_and_a_larger_one_is_not)
{
	char path[] = "/tmp/segar-test-XXXXXX";
	int fd = mkstemp(path);
	FILE *file = fdopen(fd, "w");
	fputs(GOOD "#", file);
	while (ftell(file) < CONFIG_BYTES_MAX)
		fputc('x', file);
	fflush(file);
	int r;
	free(load(path, &r));
	cr_assert_eq(r, 0);
	fputc('x', file);
	fclose(file);
	char *found = load(path, &r);
	cr_assert_eq(r, -EFBIG);
	cr_assert_not_null(strstr(found, ": is too large; expected at most 1048576 bytes\n"));
	free(found);
	unlink(path);
}

/* The path of one of the project's files. */
static const char *project_file(const char *name)
{
	static char path[4096];
	const char *root = getenv("SEGAR_ROOT");
	snprintf(path, sizeof path, "%s/%s", root ? root : ".", name);
	return path;
}

Test(config, the_sample_is_good)
{
	int r;
	char *found = load(project_file("docs/segard.yaml.example"), &r);
	cr_assert_eq(r, 0, "%s", found);
	cr_assert_str_eq(found, "");
	free(found);
}

static char *file_text(const char *path)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	FILE *in = fopen(path, "r");
	for (int c; in && (c = fgetc(in)) != EOF;)
		fputc(c, out);
	if (in)
		fclose(in);
	fclose(out);
	return text;
}

Test(config, the_reference_is_what_the_tables_say)
{
	char *printed = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&printed, &len);
	config_print_reference(out);
	fclose(out);
	char *kept = file_text(project_file("docs/CONFIG.md"));
	cr_assert_str_eq(kept, printed, "run: segard --help-config >docs/CONFIG.md");
	free(kept);
	free(printed);
}

/* ---- faults ---------------------------------------------------------------------------------- */

Test(config, a_failed_allocation_is_reported_and_nothing_leaks)
{
	static const char text[] = ORIGIN "listen: { group: root }\n"
					  "keyspaces:\n"
					  "- { name: a, query: q, fresh: 10m, default: x }\n"
					  "- { name: b, query: q, fresh: 10m, default: y }\n";
	int r = -ENOMEM;
	uint64_t n = 0;
	while (r != 0) {
		struct config *config = NULL;
		struct config_errors errors;
		mem_fail_at(++n);
		r = config_parse("f.yaml", text, sizeof text - 1, &config, &errors);
		mem_fail_at(0);
		if (r != 0) {
			cr_assert_eq(r, -ENOMEM);
			cr_assert_null(config);
			cr_assert_str_eq(errors.errors.items[0].text, "out of memory");
		}
		config_free(config);
	}
	cr_assert_gt(n, 10);
}
