/* Redis: whether it can be reached, its version, role and memory, its clock, the fleet in it. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/store_url.h"
#include "doctor/doctor.h"
#include "store/keys.h"

static const char *read_url(const struct config *config, struct store_url *ret_url)
{
	const char *why = store_url_parse(config->store_url, ret_url);
	if (!why && config->store_password_file)
		why = store_url_read_password(ret_url, config->store_password_file,
					      getenv("CREDENTIALS_DIRECTORY"));
	return why;
}

/* The reply, or NULL where there is none, or an error, which `ret_why` then has. */
static redisReply *ask(redisContext *redis, char ret_why[static DOCTOR_TEXT_MAX], int argc,
		       const char **argv)
{
	redisReply *reply = redisCommandArgv(redis, argc, argv, NULL);
	if (reply && reply->type != REDIS_REPLY_ERROR)
		return reply;
	snprintf(ret_why, DOCTOR_TEXT_MAX, "%s", reply ? reply->str : redis->errstr);
	freeReplyObject(reply);
	return NULL;
}
#define ASK(redis, why, ...)                                                                       \
	ask(redis, why, sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(const char *),            \
	    (const char *[]){ __VA_ARGS__ })

/* Connected, authenticated, in its database. False: it is added why not. */
static bool enter(redisContext *redis, const struct store_url *url, struct doctor_report *report)
{
	char why[DOCTOR_TEXT_MAX] = "", db[8];
	redisReply *reply = NULL;
	bool good = true;
	if (url->password[0]) {
		reply = url->user[0] ? ASK(redis, why, "AUTH", url->user, url->password)
				     : ASK(redis, why, "AUTH", url->password);
		good = reply != NULL;
		freeReplyObject(reply);
	}
	snprintf(db, sizeof(db), "%u", url->db);
	if (good) {
		reply = ASK(redis, why, "SELECT", db);
		good = reply != NULL;
		freeReplyObject(reply);
	}
	if (!good)
		doctor_advise(doctor_add(report, DOCTOR_BAD, "store.url", "%s", why),
			      "the password is in store.url or in the file store.password_file; "
			      "docs/REDIS.md has an "
			      "ACL that suffices");
	return good;
}

/* A line of INFO, without its end; "" where there is none. */
static void info_of(const char *info, const char *name, char *ret_text, size_t size)
{
	const char *at = info ? strstr(info, name) : NULL;
	size_t len = at ? strcspn(at += strlen(name), "\r\n") : 0;
	snprintf(ret_text, size, "%.*s", (int)len, at ? at : "");
}

static redisReply *ask_info(redisContext *redis, const char *section, struct doctor_report *report)
{
	char why[DOCTOR_TEXT_MAX];
	redisReply *reply = ASK(redis, why, "INFO", section);
	if (!reply)
		doctor_advise(doctor_add(report, DOCTOR_BAD, "store.rights", "INFO: %s", why),
			      "docs/REDIS.md has an ACL that suffices");
	return reply;
}

static void look_at_version(redisContext *redis, struct doctor_report *report)
{
	char version[32];
	redisReply *info = ask_info(redis, "server", report);
	if (!info)
		return;
	info_of(info->str, "redis_version:", version, sizeof(version));
	struct doctor_finding *finding =
		doctor_add(report, atoi(version) < 7 ? DOCTOR_BAD : DOCTOR_OK, "store.version",
			   "Redis %s", version);
	if (atoi(version) < 7)
		doctor_advise(finding, "segar's scripts need Redis 7.0 or later");
	freeReplyObject(info);
}

static void look_at_role(redisContext *redis, struct doctor_report *report)
{
	char role[16];
	redisReply *info = ask_info(redis, "replication", report);
	if (!info)
		return;
	info_of(info->str, "role:", role, sizeof(role));
	if (strcmp(role, "master") == 0)
		doctor_add(report, DOCTOR_OK, "store.role", "it takes writes");
	else
		doctor_advise(doctor_add(report, DOCTOR_BAD, "store.role", "it is a replica"),
			      "set store.url to the primary, or to the address that a failover "
			      "moves along");
	freeReplyObject(info);
}

static void look_at_memory(redisContext *redis, struct doctor_report *report)
{
	char most[32], used[32], policy[32];
	redisReply *info = ask_info(redis, "memory", report);
	if (!info)
		return;
	info_of(info->str, "maxmemory:", most, sizeof(most));
	info_of(info->str, "used_memory:", used, sizeof(used));
	info_of(info->str, "maxmemory_policy:", policy, sizeof(policy));
	double limit = strtod(most, NULL), share = limit > 0 ? strtod(used, NULL) / limit : 0;
	if (limit <= 0)
		doctor_advise(doctor_add(report, DOCTOR_HINT, "store.memory", "it has no limit"),
			      "set maxmemory, with maxmemory-policy volatile-lfu: or the kernel "
			      "ends Redis when the host "
			      "has no more");
	else if (strcmp(policy, "noeviction") == 0 && share > 0.9)
		doctor_advise(doctor_add(report, DOCTOR_BAD, "store.memory",
					 "%.0f %% of maxmemory is used, and nothing is "
					 "evicted",
					 100 * share),
			      "maxmemory-policy volatile-lfu, or more maxmemory: when it is full "
			      "no value is stored");
	else if (strncmp(policy, "allkeys", 7) == 0)
		doctor_advise(doctor_add(report, DOCTOR_HINT, "store.memory",
					 "%s evicts the fleet's own records too", policy),
			      "maxmemory-policy %s: each record of the fleet that goes costs a "
			      "second without builds",
			      strcmp(policy, "allkeys-lru") == 0 ? "volatile-lru" : "volatile-lfu");
	else
		doctor_add(report, DOCTOR_OK, "store.memory", "%s, %.0f %% used", policy,
			   100 * share);
	freeReplyObject(info);
}

/* Scripts by their digest are all that the daemon does there. */
static void look_at_rights(redisContext *redis, struct doctor_report *report)
{
	static const char NONE[] = "0000000000000000000000000000000000000000";
	char why[DOCTOR_TEXT_MAX] = "";
	redisReply *reply = ASK(redis, why, "EVALSHA", NONE, "0");
	freeReplyObject(reply);
	if (strncmp(why, "NOSCRIPT", 8) == 0)
		doctor_add(report, DOCTOR_OK, "store.rights", "scripts may run");
	else
		doctor_advise(doctor_add(report, DOCTOR_BAD, "store.rights", "%s", why),
			      "docs/REDIS.md has an ACL that suffices");
}

static void look_at_clock(redisContext *redis, struct doctor_report *report)
{
	char why[DOCTOR_TEXT_MAX];
	redisReply *reply = ASK(redis, why, "TIME");
	if (reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2)
		doctor_compare_clock(report, "store.clock",
				     strtoll(reply->element[0]->str, NULL, 10) * 1000000 +
					     strtoll(reply->element[1]->str, NULL, 10));
	freeReplyObject(reply);
}

static void look_at_fleet(redisContext *redis, const struct config *config,
			  struct doctor_report *report)
{
	char why[DOCTOR_TEXT_MAX], now[32];
	struct keys keys = { 0 };
	redisReply *time = ASK(redis, why, "TIME"), *places = NULL;
	if (time && time->type == REDIS_REPLY_ARRAY && time->elements == 2 &&
	    keys_init(&keys, config->store_prefix, 0) == 0) {
		snprintf(now, sizeof(now), "(%s%s", time->element[0]->str, "000000");
		places = ASK(redis, why, "ZCOUNT", keys.places, now, "+inf");
	}
	if (places && places->type == REDIS_REPLY_INTEGER && places->integer < config->origin.fleet)
		doctor_advise(doctor_add(report, DOCTOR_HINT, "origin.fleet",
					 "%lld daemons are live, of %d", places->integer,
					 config->origin.fleet),
			      "they share that part of budget and concurrency: set origin.fleet, "
			      "in all of them, to as "
			      "many as there are");
	else if (places && places->type == REDIS_REPLY_INTEGER)
		doctor_add(report, DOCTOR_OK, "origin.fleet", "all %lld daemons are live",
			   places->integer);
	freeReplyObject(places);
	freeReplyObject(time);
	keys_close(&keys);
}

void doctor_look_at_store(const struct config *config, struct doctor_report *report)
{
	const struct timeval wait = { .tv_sec = DOCTOR_WAIT_S };
	struct store_url url;
	const char *why = read_url(config, &url);
	if (why) {
		const char *file = config->store_password_file;
		doctor_advise(
			doctor_add(report, DOCTOR_BAD, "store.password_file", "%s: %s",
				   file ? file : "none", why),
			"the user that segard runs as must be able to read it; a name without / "
			"is a credential of segard.service (docs/SYSTEMD.md), which "
			"segarctl doctor sees and segard --doctor does not");
		return;
	}
	if (url.scheme == STORE_URL_NONE) {
		doctor_add(report, DOCTOR_OK, "store.url", "none: this host stands alone");
		return;
	}
	redisContext *redis = url.scheme == STORE_URL_UNIX
				      ? redisConnectUnixWithTimeout(url.host, wait)
				      : redisConnectWithTimeout(url.host, url.port, wait);
	if (!redis || redis->err) {
		doctor_advise(doctor_add(report, DOCTOR_BAD, "store.url", "%s: %s", url.host,
					 redis ? redis->errstr : "no memory"),
			      "see that Redis runs there and lets this host connect (bind, "
			      "protected-mode, "
			      "unixsocketperm)");
	} else if (redisSetTimeout(redis, wait) == REDIS_OK && enter(redis, &url, report)) {
		look_at_version(redis, report);
		look_at_role(redis, report);
		look_at_memory(redis, report);
		look_at_rights(redis, report);
		look_at_clock(redis, report);
		look_at_fleet(redis, config, report);
	}
	if (redis)
		redisFree(redis);
}
