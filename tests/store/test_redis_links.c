/* Connections to a real Redis: how it is found, how all ends, and what one connection bears. */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/mem.h"
#include "fleet.h"

static struct fleet fleet;
static struct doing doing;

static void setup(void)
{
	fleet_open(&fleet, NULL);
}

static void teardown(void)
{
	fleet_close(&fleet);
}

TestSuite(redis_links, .init = setup, .fini = teardown, .timeout = 60);

/* Waits until operations are answered again. */
static void await_recovery(struct daemon *daemon)
{
	do
		do_lease(&doing, daemon, "rows:recovery", 99);
	while (doing.op.outcome == STORE_AWAY);
	cr_assert_eq(doing.op.outcome, STORE_DONE);
	do_release(&doing, daemon, "rows:recovery", 99);
	AWAIT(&fleet, daemon_is_up(daemon));
}

/* ---- addresses --------------------------------------------------------------------------- */

static unsigned free_port(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	cr_assert_eq(bind(fd, (struct sockaddr *)&address, len), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &len), 0);
	close(fd);
	return ntohs(address.sin_port);
}

Test(redis_links, hosts_are_found_by_address_and_by_name)
{
	static const char *const hosts[] = { "127.0.0.1", "localhost" };
	char port[8], url[64];
	snprintf(port, sizeof(port), "%u", free_port());
	server_kill(&fleet.server);
	server_start(&fleet.server, "--port", port, NULL);
	for (int i = 0; i < 2; i++) {
		snprintf(url, sizeof(url), "redis://%s:%s/%d", hosts[i], port, i);
		cr_assert_null(store_url_parse(url, &fleet.url));
		fleet.options.fleet = 2;
		struct daemon *daemon = fleet_start(&fleet);
		/* A name may have addresses on which nobody listens. */
		AWAIT(&fleet, daemon_is_up(daemon));
		await_recovery(daemon);
	}
}

Test(redis_links, a_host_that_refuses_or_does_not_exist_is_away)
{
	char url[64];
	snprintf(url, sizeof(url), "redis://127.0.0.1:%u", free_port());
	cr_assert_null(store_url_parse(url, &fleet.url));
	struct daemon *daemon = fleet_add(&fleet);
	cr_assert_eq(do_load(&doing, daemon, "rows:1"), STORE_AWAY);
	cr_assert_eq(daemon_stats(daemon).error, STORE_ERROR_CONNECT);
	cr_assert_null(store_url_parse("redis://no-such-host.invalid", &fleet.url));
	daemon = fleet_add(&fleet);
	cr_assert_eq(do_load(&doing, daemon, "rows:1"), STORE_AWAY);
}

Test(redis_links, who_closes_does_not_wait_for_the_resolver)
{
	cr_assert_null(store_url_parse("redis://no-such-host.invalid", &fleet.url));
	struct daemon *daemon = fleet_start(&fleet);
	uv_run(&fleet.loop, UV_RUN_NOWAIT);
	daemon_close(daemon);
}

/* ---- the end ----------------------------------------------------------------------------- */

Test(redis_links, closing_answers_all_that_is_under_way)
{
	enum { MANY = 100 };
	static struct doing many[MANY];
	struct daemon *daemon = fleet_add(&fleet);
	server_pause(&fleet.server);
	for (int i = 0; i < MANY; i++) {
		static const enum store_verb verbs[] = { STORE_LOAD,      STORE_LEASE,
							 STORE_PERMIT,    STORE_FREE,
							 STORE_RENEW,     STORE_RELEASE,
							 STORE_INVALIDATE };
		doing_init(&many[i], daemon, verbs[i % 7], "rows:1", (uint64_t)i);
		doing_start(&many[i], daemon);
	}
	uv_run(&fleet.loop, UV_RUN_NOWAIT);
	daemon_close(daemon);
	for (int i = 0; i < MANY; i++) {
		cr_assert_eq(many[i].done, 1);
		cr_assert_eq(many[i].op.outcome, STORE_AWAY);
	}
	server_resume(&fleet.server);
}

Test(redis_links, closing_at_any_moment_is_clean)
{
	for (int turns = 0; turns < 40; turns++) {
		struct doing lease, load;
		fleet.daemons_count = 0;
		struct daemon *daemon = fleet_start(&fleet);
		doing_init(&lease, daemon, STORE_LEASE, "rows:1", 7);
		doing_init(&load, daemon, STORE_LOAD, "rows:1", 7);
		for (int i = 0; i < turns; i++) {
			if (i == 3)
				doing_start(&lease, daemon);
			if (i == 6)
				doing_start(&load, daemon);
			uv_run(&fleet.loop, UV_RUN_NOWAIT);
		}
		daemon_close(daemon);
		cr_assert(turns <= 3 || lease.done == 1);
		cr_assert(turns <= 6 || load.done == 1);
	}
}

/* ---- limits ------------------------------------------------------------------------------ */

Test(redis_links, many_large_values_go_one_after_the_other)
{
	enum { MANY = 6 };
	static struct doing saves[MANY];
	fleet.options.values_timeout_ms = 20000;
	struct daemon *daemon = fleet_add(&fleet);
	struct value *value = value_create(NULL, VALUE_BYTES_MAX);
	memset(value->bytes, 'x', VALUE_BYTES_MAX);
	int64_t now_us = redis_store_now_us(daemon->redis);
	for (int i = 0; i < MANY; i++) {
		char key[16];
		snprintf(key, sizeof(key), "rows:%d", i);
		cr_assert_eq(do_lease(&doing, daemon, key, 7), STORE_DONE);
		doing_init(&saves[i], daemon, STORE_SAVE, key, 7);
		saves[i].op.entry = (struct entry){ .value = value,
						    .fence = doing.op.fence,
						    .generated_at_us = now_us,
						    .fresh_until_us = now_us + SECOND,
						    .stale_until_us = now_us + SECOND };
	}
	for (int i = 0; i < MANY; i++)
		doing_start(&saves[i], daemon);
	for (int i = 0; i < MANY; i++)
		cr_assert_eq(doing_wait(&saves[i], daemon), STORE_DONE);
	value_unref(value);
}

Test(redis_links, without_memory_an_operation_is_away_and_nothing_leaks)
{
	struct daemon *daemon = fleet_add(&fleet);
	static const enum store_verb verbs[] = { STORE_LOAD, STORE_LEASE, STORE_INVALIDATE,
						 STORE_RELEASE };
	cr_assert_eq(do_lease(&doing, daemon, "rows:1", 7), STORE_DONE);
	uint64_t fence = doing.op.fence;
	cr_assert_eq(do_save(&doing, daemon, "rows:1", 7, fence, 1, "value"), STORE_DONE);
	for (size_t i = 0; i < sizeof(verbs) / sizeof(*verbs); i++) {
		bool away = true;
		for (uint64_t n = 1; away; n++) {
			cr_assert_lt(n, 20);
			doing_init(&doing, daemon, verbs[i], "rows:1", 8);
			doing.op.want.fresh = true;
			mem_fail_at(n);
			doing_wait(&doing, daemon);
			mem_fail_at(0);
			away = doing.op.outcome == STORE_AWAY;
			doing_free(&doing);
		}
	}
	cr_assert_gt(daemon_errors(daemon, STORE_ERROR_MEMORY), 0);
}

Test(redis_links, a_store_without_memory_is_not_created)
{
	struct redis_store *redis = NULL;
	int error = -1;
	for (uint64_t n = 1; error; n++) {
		cr_assert_lt(n, 20);
		mem_fail_at(n);
		error = redis_store_create(&fleet.loop, &fleet.options, &redis);
		mem_fail_at(0);
		cr_assert_eq(redis != NULL, error == 0);
	}
	redis_store_close(redis, NULL, NULL);
}
