/* A real Redis that fails: what is no answer is told apart, and all comes back by itself. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fleet.h"
#include "proxy.h"

static struct fleet fleet;
static struct proxy proxy;
static struct doing doing;

static void setup(void)
{
	fleet_open(&fleet, NULL);
}

static void teardown(void)
{
	if (proxy.target)
		proxy_close(&proxy);
	fleet_close(&fleet);
}

TestSuite(redis_faults, .init = setup, .fini = teardown, .timeout = 60);

/* The daemon's way to Redis leads through the proxy. */
static struct daemon *add_behind_proxy(void)
{
	proxy_open(&proxy, &fleet.loop, fleet.server.folder, "proxy.sock", fleet.server.socket);
	cr_assert_null(store_url_parse(proxy.url, &fleet.url));
	return fleet_add(&fleet);
}

static void take_permit(struct daemon *daemon, uint64_t token)
{
	while (do_permit(&doing, daemon, token, 200000) == STORE_RETRY)
		;
	cr_assert_eq(doing.op.outcome, STORE_DONE);
}

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

Test(redis_faults, scripts_that_were_flushed_are_sent_anew)
{
	struct daemon *daemon = fleet_add(&fleet);
	for (int i = 0; i < 3; i++) {
		server_ask(&fleet.server, "SCRIPT FLUSH");
		cr_assert_eq(do_lease(&doing, daemon, "rows:1", 7), STORE_DONE);
		server_ask(&fleet.server, "SCRIPT FLUSH");
		uint64_t fence = doing.op.fence;
		cr_assert_eq(do_save(&doing, daemon, "rows:1", 7, fence, i, "value"), STORE_DONE);
		doing_init(&doing, daemon, STORE_INVALIDATE, "rows:1", 0);
		cr_assert_eq(doing_wait(&doing, daemon), STORE_DONE);
	}
	cr_assert_eq(daemon_errors(daemon, STORE_ERROR_NOSCRIPT), 0);
}

Test(redis_faults, a_server_that_is_killed_is_away_and_comes_back)
{
	struct daemon *daemon = fleet_add(&fleet);
	cr_assert_eq(do_lease(&doing, daemon, "rows:1", 7), STORE_DONE);
	uint64_t fence = doing.op.fence;
	fleet_restart(&fleet);
	cr_assert_eq(do_save(&doing, daemon, "rows:1", 7, fence, 1, "old"), STORE_REFUSED);
	cr_assert_eq(do_lease(&doing, daemon, "rows:1", 8), STORE_DONE);
	cr_assert_gt(doing.op.fence, fence);
	server_kill(&fleet.server);
	AWAIT(&fleet, !daemon_is_up(daemon));
	cr_assert_eq(do_lease(&doing, daemon, "rows:2", 7), STORE_AWAY);
	cr_assert_eq(do_load(&doing, daemon, "rows:2"), STORE_AWAY);
	AWAIT(&fleet, daemon_errors(daemon, STORE_ERROR_CONNECT) > 2);
	cr_assert_eq(daemon_stats(daemon).error, STORE_ERROR_CONNECT);
	server_start(&fleet.server, NULL);
	await_recovery(daemon);
}

Test(redis_faults, what_is_asked_while_the_first_connection_is_made_waits_for_it)
{
	struct daemon *daemon = fleet_start(&fleet);
	struct doing load;
	doing_init(&doing, daemon, STORE_LEASE, "rows:1", 7);
	doing_init(&load, daemon, STORE_LOAD, "rows:2", 0);
	doing_start(&doing, daemon);
	doing_start(&load, daemon);
	cr_assert_eq(doing_wait(&doing, daemon), STORE_DONE);
	cr_assert_eq(doing_wait(&load, daemon), STORE_DONE);
}

Test(redis_faults, a_server_that_is_not_there_is_away_at_once)
{
	server_kill(&fleet.server);
	struct daemon *daemon = fleet_add(&fleet);
	cr_assert_eq(do_lease(&doing, daemon, "rows:1", 7), STORE_AWAY);
	server_start(&fleet.server, NULL);
	await_recovery(daemon);
}

Test(redis_faults, a_server_that_is_stopped_fails_in_time_and_comes_back)
{
	fleet.options.connect_timeout_ms = fleet.options.control_timeout_ms = 200;
	fleet.options.values_timeout_ms = 300;
	struct daemon *daemon = fleet_add(&fleet);
	struct doing load;
	server_pause(&fleet.server);
	int64_t begun_us = redis_store_now_us(daemon->redis);
	doing_init(&load, daemon, STORE_LOAD, "rows:1", 0);
	doing_start(&load, daemon);
	cr_assert_eq(do_lease(&doing, daemon, "rows:1", 7), STORE_AWAY);
	cr_assert_eq(doing_wait(&load, daemon), STORE_AWAY);
	int64_t took_us = redis_store_now_us(daemon->redis) - begun_us;
	cr_assert(took_us > 200000 && took_us < 2 * SECOND, "%lld", (long long)took_us);
	/* It accepts connections, but is not taken for alive. */
	uint64_t timeouts = daemon_errors(daemon, STORE_ERROR_TIMEOUT);
	AWAIT(&fleet, daemon_errors(daemon, STORE_ERROR_TIMEOUT) >= timeouts + 6);
	cr_assert_not(daemon_is_up(daemon));
	cr_assert_eq(do_lease(&doing, daemon, "rows:1", 7), STORE_AWAY);
	server_resume(&fleet.server);
	await_recovery(daemon);
	cr_assert_eq(do_load(&doing, daemon, "rows:1"), STORE_DONE);
	cr_assert_not(doing.op.has_claim, "nothing of it was carried out");
}

Test(redis_faults, connections_on_which_nothing_is_heard_are_made_anew)
{
	struct daemon *daemon = add_behind_proxy();
	AWAIT(&fleet, daemon_stats(daemon).connects == 3);
	proxy.deaf = true;
	AWAIT(&fleet, !daemon_is_up(daemon));
	proxy_mend(&proxy);
	AWAIT(&fleet, daemon_stats(daemon).connects == 6);
}

/* ---- errors ------------------------------------------------------------------------------ */

Test(redis_faults, out_of_memory_no_value_is_stored_but_nothing_is_lost)
{
	struct daemon *daemon = fleet_add(&fleet);
	struct doing save, renew;
	take_permit(daemon, 5);
	int slot = doing.op.slot;
	cr_assert_eq(do_lease(&doing, daemon, "rows:1", 7), STORE_DONE);
	uint64_t fence = doing.op.fence;
	server_ask(&fleet.server, "CONFIG SET maxmemory 1");
	doing_init(&renew, daemon, STORE_RENEW, "rows:1", 7);
	cr_assert_eq(doing_wait(&renew, daemon), STORE_DONE, "a lease is renewed");
	cr_assert_eq(do_save(&save, daemon, "rows:1", 7, fence, 1, "value"), STORE_AWAY);
	cr_assert_eq(do_lease(&doing, daemon, "rows:2", 8), STORE_AWAY);
	cr_assert_eq(daemon_errors(daemon, STORE_ERROR_OOM), 2);
	doing_init(&doing, daemon, STORE_FREE, "rows:1", 5);
	doing.op.slot = slot;
	cr_assert_eq(doing_wait(&doing, daemon), STORE_DONE, "a slot is given back");
	take_permit(daemon, 6);
	AWAIT(&fleet, daemon_stats(daemon).amends == 1);
	cr_assert_eq(do_load(&doing, daemon, "rows:1"), STORE_DONE);
	cr_assert_eq(doing.op.left_us, 0, "and the lease, too");
	server_ask(&fleet.server, "CONFIG SET maxmemory 0");
	await_recovery(daemon);
}

Test(redis_faults, a_replica_takes_nothing_and_answers_loads)
{
	fleet.options.fleet = 1;
	struct daemon *daemon = fleet_add(&fleet);
	cr_assert_eq(do_lease(&doing, daemon, "rows:1", 7), STORE_DONE);
	uint64_t fence = doing.op.fence;
	cr_assert_eq(do_save(&doing, daemon, "rows:1", 7, fence, 1, "value"), STORE_DONE);
	server_ask(&fleet.server, "REPLICAOF 127.0.0.1 1");
	cr_assert_eq(do_load(&doing, daemon, "rows:1"), STORE_DONE);
	cr_assert(doing.op.has_value);
	doing_free(&doing);
	cr_assert_eq(do_lease(&doing, daemon, "rows:2", 7), STORE_AWAY);
	cr_assert_geq(daemon_errors(daemon, STORE_ERROR_READONLY), 1);
	/* It is as good as out of touch. */
	do
		do_permit(&doing, daemon, 5, 200000);
	while (doing.op.outcome == STORE_RETRY);
	cr_assert_eq(doing.op.outcome, STORE_DONE);
	cr_assert_geq(daemon_stats(daemon).permits_alone, 1);
	server_ask(&fleet.server, "REPLICAOF NO ONE");
	await_recovery(daemon);
}

Test(redis_faults, a_server_without_its_replicas_takes_nothing)
{
	struct daemon *daemon = fleet_add(&fleet);
	server_ask(&fleet.server, "CONFIG SET min-replicas-to-write 1");
	cr_assert_eq(do_lease(&doing, daemon, "rows:1", 7), STORE_AWAY);
	cr_assert_geq(daemon_errors(daemon, STORE_ERROR_MISCONF), 1);
	server_ask(&fleet.server, "CONFIG SET min-replicas-to-write 0");
	await_recovery(daemon);
}

Test(redis_faults, a_server_that_cannot_save_takes_nothing)
{
	char folder[96];
	snprintf(folder, sizeof(folder), "%s/rdb", fleet.server.folder);
	server_kill(&fleet.server);
	server_start(&fleet.server, "--enable-protected-configs", "yes", "--save", "10000 10000",
		     NULL);
	struct daemon *daemon = fleet_add(&fleet);
	cr_assert_eq(mkdir(folder, 0700), 0);
	server_ask(&fleet.server, "CONFIG SET dir %s", folder);
	cr_assert_eq(rmdir(folder), 0);
	server_ask(&fleet.server, "BGSAVE");
	AWAIT(&fleet,
	      strstr(server_ask(&fleet.server, "INFO persistence"), "rdb_last_bgsave_status:err"));
	cr_assert_eq(do_lease(&doing, daemon, "rows:1", 7), STORE_AWAY);
	cr_assert_geq(daemon_errors(daemon, STORE_ERROR_MISCONF), 1);
	server_ask(&fleet.server, "CONFIG SET stop-writes-on-bgsave-error no");
	await_recovery(daemon);
}

Test(redis_faults, a_server_busy_with_a_script_is_told_from_one_that_is_gone)
{
	struct daemon *daemon = fleet_add(&fleet);
	int sent = 0;
	server_ask(&fleet.server, "CONFIG SET busy-reply-threshold 20");
	redisContext *other = redisConnectUnix(fleet.server.socket);
	redisAppendCommand(other, "EVAL %s 0", "while true do end");
	while (!sent)
		cr_assert_eq(redisBufferWrite(other, &sent), REDIS_OK);
	AWAIT(&fleet, do_lease(&doing, daemon, "rows:1", 7) == STORE_AWAY);
	cr_assert_geq(daemon_errors(daemon, STORE_ERROR_BUSY), 1);
	cr_assert_eq(daemon_errors(daemon, STORE_ERROR_TIMEOUT), 0);
	server_ask(&fleet.server, "SCRIPT KILL");
	redisFree(other);
	await_recovery(daemon);
}

Test(redis_faults, a_user_who_may_not_is_told_so)
{
	server_ask(&fleet.server, "ACL SETUSER segar on >sesame ~t:* &t:* +@all");
	snprintf(fleet.url.user, sizeof(fleet.url.user), "segar");
	snprintf(fleet.url.password, sizeof(fleet.url.password), "sesame");
	struct daemon *daemon = fleet_add(&fleet);
	await_recovery(daemon);
	server_ask(&fleet.server, "ACL SETUSER segar resetkeys ~u:*");
	cr_assert_eq(do_lease(&doing, daemon, "rows:1", 7), STORE_AWAY);
	cr_assert_geq(daemon_errors(daemon, STORE_ERROR_FORBIDDEN), 1);
	server_ask(&fleet.server, "ACL SETUSER segar resetkeys ~t:*");
	await_recovery(daemon);
	server_ask(&fleet.server, "ACL SETUSER segar -evalsha -eval");
	cr_assert_eq(do_load(&doing, daemon, "rows:1"), STORE_AWAY);
	server_ask(&fleet.server, "ACL SETUSER segar +@all");
	await_recovery(daemon);
}

/* What has to be allowed at the least; documented for operators. */
Test(redis_faults, these_commands_are_all_that_is_needed)
{
	server_ask(
		&fleet.server,
		"ACL SETUSER segar on >sesame ~t:* &t:* -@all +ping +select +client|setname "
		"+evalsha +eval +subscribe +publish +time +info +get +set +del +getrange +setrange "
		"+strlen +pttl +hget +hset +hkeys +zadd +zcard +zcount +zscore");
	snprintf(fleet.url.user, sizeof(fleet.url.user), "segar");
	snprintf(fleet.url.password, sizeof(fleet.url.password), "sesame");
	fleet.options.fleet = 2;
	struct daemon *a = fleet_add(&fleet), *b = fleet_add(&fleet);
	await_recovery(a);
	cr_assert_eq(do_lease(&doing, a, "rows:1", 7), STORE_DONE);
	uint64_t fence = doing.op.fence;
	cr_assert_eq(do_lease(&doing, b, "rows:1", 8), STORE_HELD);
	cr_assert_eq(do_save(&doing, a, "rows:1", 7, fence, 1, "value"), STORE_DONE);
	AWAIT(&fleet, b->told_count > 0);
	cr_assert_eq(do_lease(&doing, b, "rows:1", 8), STORE_ENOUGH);
	doing_free(&doing);
	doing_init(&doing, a, STORE_INVALIDATE, "rows:1", 0);
	cr_assert_eq(doing_wait(&doing, a), STORE_DONE);
	doing_init(&doing, a, STORE_EPOCH, "rows", 0);
	cr_assert_eq(doing_wait(&doing, a), STORE_DONE);
	take_permit(a, 5);
	doing_init(&doing, a, STORE_FREE, "rows:1", 5);
	doing.op.slot = -1;
	cr_assert_eq(doing_wait(&doing, a), STORE_DONE);
	AWAIT(&fleet, daemon_stats(a).trusted && daemon_stats(b).trusted);
	cr_assert_eq(daemon_errors(a, STORE_ERROR_FORBIDDEN), 0);
}

Test(redis_faults, a_wrong_password_is_told_and_may_be_mended)
{
	server_ask(&fleet.server, "ACL SETUSER segar on >sesame ~* &* +@all");
	snprintf(fleet.url.user, sizeof(fleet.url.user), "segar");
	snprintf(fleet.url.password, sizeof(fleet.url.password), "open");
	struct daemon *daemon = fleet_add(&fleet);
	cr_assert_eq(do_lease(&doing, daemon, "rows:1", 7), STORE_AWAY);
	cr_assert_eq(daemon_stats(daemon).error, STORE_ERROR_PASSWORD);
	cr_assert_null(strstr(daemon_stats(daemon).error_text, "open"));
	server_ask(&fleet.server, "ACL SETUSER segar >open");
	await_recovery(daemon);
}

Test(redis_faults, a_missing_password_is_told)
{
	server_ask(&fleet.server, "CONFIG SET requirepass sesame");
	struct daemon *daemon = fleet_add(&fleet);
	cr_assert_eq(do_lease(&doing, daemon, "rows:1", 7), STORE_AWAY);
	cr_assert_eq(daemon_stats(daemon).error, STORE_ERROR_PASSWORD);
	snprintf(fleet.url.password, sizeof(fleet.url.password), "sesame");
	await_recovery(fleet_add(&fleet));
}

/* ---- lost replies ------------------------------------------------------------------------ */

Test(redis_faults, what_was_given_without_the_daemon_hearing_of_it_is_given_back)
{
	fleet.options.concurrency = 1;
	struct daemon *daemon = add_behind_proxy();
	struct doing lease, permit;
	take_permit(daemon, 5);
	doing_init(&doing, daemon, STORE_FREE, "rows:1", 5);
	doing.op.slot = 0;
	cr_assert_eq(doing_wait(&doing, daemon), STORE_DONE);
	await_recovery(daemon); /* the server knows the scripts, now */
	proxy.deaf = true;
	doing_init(&lease, daemon, STORE_LEASE, "rows:1", 7);
	doing_init(&permit, daemon, STORE_PERMIT, "rows:1", 8);
	permit.op.reach_us = 200000;
	doing_start(&lease, daemon);
	doing_start(&permit, daemon);
	AWAIT(&fleet, server_number(&fleet.server, "EXISTS t:c:{rows:1}") == 1);
	cr_assert_eq(doing_wait(&lease, daemon), STORE_AWAY);
	cr_assert_eq(doing_wait(&permit, daemon), STORE_RETRY, "it is still counted as in touch");
	proxy_mend(&proxy);
	AWAIT(&fleet, daemon_stats(daemon).amends >= 2);
	cr_assert_eq(do_lease(&doing, daemon, "rows:1", 9), STORE_DONE);
	take_permit(daemon, 10);
}

Test(redis_faults, a_give_back_that_was_not_heard_is_repeated)
{
	fleet.options.concurrency = 1;
	struct daemon *daemon = add_behind_proxy();
	struct doing release, give;
	take_permit(daemon, 5);
	cr_assert_eq(do_lease(&doing, daemon, "rows:1", 7), STORE_DONE);
	proxy_cut(&proxy);
	AWAIT(&fleet, !daemon_is_up(daemon));
	doing_init(&release, daemon, STORE_RELEASE, "rows:1", 7);
	doing_init(&give, daemon, STORE_FREE, "rows:1", 5);
	cr_assert_eq(doing_wait(&release, daemon), STORE_AWAY);
	cr_assert_eq(doing_wait(&give, daemon), STORE_AWAY);
	proxy_mend(&proxy);
	await_recovery(daemon);
	AWAIT(&fleet, daemon_stats(daemon).amends >= 2);
	cr_assert_eq(do_lease(&doing, daemon, "rows:1", 9), STORE_DONE);
	take_permit(daemon, 10);
}
