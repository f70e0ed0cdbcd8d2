#include "base/config_checks.h"

#include <ctype.h>
#include <grp.h>
#include <string.h>
#include <sys/stat.h>

#include "base/endpoint.h"
#include "base/policy.h"
#include "base/schema_value.h"
#include "base/store_url.h"

/* ---- checks of one value --------------------------------------------------------------------- */

/* A value as it may be shown. */
static struct schema_snippet shown(const char *text)
{
	return schema_snippet(text, strlen(text));
}

bool config_check_socket(const struct scope *scope, const struct field *field, void *value)
{
	const char *path = *(char **)value;
	const char *fault = NULL;
	if (path[0] != '/')
		fault = "is not absolute";
	else if (path[strlen(path) - 1] == '/')
		fault = "names a directory";
	if (fault)
		scope_error(scope, field->name, "%s %s; expected %s", shown(path).text, fault,
			    field->form);
	return !fault;
}

bool config_check_mode(const struct scope *scope, const struct field *field, void *value)
{
	unsigned mode = *(unsigned *)value;
	if ((mode & 0222) == 0) {
		scope_error(scope, field->name,
			    "%04o lets nobody connect; expected write permission for somebody",
			    mode);
		return false;
	}
	if (mode & 0002)
		scope_warning(scope, field->name, "%04o lets every user of this host connect",
			      mode);
	return true;
}

bool config_check_group(const struct scope *scope, const struct field *field, void *value)
{
	const char *group = *(char **)value;
	if (getgrnam(group))
		return true;
	scope_error(scope, field->name, "there is no group %s; expected %s", shown(group).text,
		    field->form);
	return false;
}

bool config_check_store_url(const struct scope *scope, const struct field *field, void *value)
{
	struct store_url url;
	const char *why = store_url_parse(*(char **)value, &url);
	if (why)
		scope_error(scope, field->name, "%s; expected %s", why, field->form);
	return !why;
}

bool config_check_endpoint(const struct scope *scope, const struct field *field, void *value)
{
	const char *text = *(char **)value;
	struct endpoint endpoint;
	const char *why = endpoint_parse(text, &endpoint);
	if (why)
		scope_error(scope, field->name, "%s %s; expected %s", shown(text).text, why,
			    field->form);
	else if (!endpoint.loopback)
		scope_warning(scope, field->name, "%s can be read by other hosts",
			      shown(text).text);
	return !why;
}

bool config_check_state_dir(const struct scope *scope, const struct field *field, void *value)
{
	const char *path = *(char **)value;
	struct stat info;
	if (path[0] == '/' && stat(path, &info) == 0 && S_ISDIR(info.st_mode))
		return true;
	scope_error(scope, field->name, "%s is not a folder that exists; expected %s",
		    shown(path).text, field->form);
	return false;
}

bool config_check_path(const struct scope *scope, const struct field *field, void *value)
{
	const char *path = *(char **)value;
	if (path[0] == '/')
		return true;
	scope_error(scope, field->name, "%s is not absolute; expected %s", shown(path).text,
		    field->form);
	return false;
}

bool config_check_name(const struct scope *scope, const struct field *field, void *value)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_.-";
	const char *name = *(char **)value;
	if (name[strspn(name, allowed)] == '\0')
		return true;
	scope_error(scope, field->name, "%s has other characters; expected %s", shown(name).text,
		    field->form);
	return false;
}

/* The query is going to stand inside another one: it ends without its semicolon. */
bool config_check_query(const struct scope *scope, const struct field *field, void *value)
{
	char *query = *(char **)value;
	size_t len = strlen(query);
	while (len > 0 && (isspace((unsigned char)query[len - 1]) || query[len - 1] == ';'))
		len--;
	query[len] = '\0';
	if (len == 0)
		scope_error(scope, field->name, "is empty; expected %s", field->form);
	return len > 0;
}

/* ---- checks of a whole part ------------------------------------------------------------------ */

void config_check_limits(const struct scope *scope, void *object)
{
	struct limits_policy *limits = object;
	if (!scope_written(scope, "connections_per_user"))
		limits->connections_per_user = limits->connections;
	if (!scope_written(scope, "requests_per_user"))
		limits->requests_per_user = limits->requests;
	if (limits->requests_per_connection <= limits->requests)
		return;
	if (scope_written(scope, "requests_per_connection"))
		scope_error(scope, "requests_per_connection",
			    "%d is more than all connections together may have; "
			    "expected at most requests (%d)",
			    limits->requests_per_connection, limits->requests);
	else
		limits->requests_per_connection = limits->requests;
}

static void check_unique(const struct scope *scope, const struct config *config,
			 const struct policy *policy)
{
	for (size_t i = 0; i < scope->index; i++) {
		const struct policy *other = &config->keyspaces[i];
		if (other->name && strcmp(other->name, policy->name) == 0) {
			scope_error(
				scope, "name",
				"\"%s\" is the keyspace on line %d already; expected another name",
				policy->name, other->line);
			return;
		}
	}
}

/* Not an error: a usual build may take much less than it is allowed to. */
static void check_life(const struct scope *scope, const struct policy *policy)
{
	char life[UNITS_TEXT_MAX];
	char build[UNITS_TEXT_MAX];
	int64_t life_us = policy->fresh_us + policy->stale_us;
	if (life_us < policy->build_timeout_us)
		scope_warning(scope, "fresh",
			      "a value lives %s with stale, counted from the start of a build that "
			      "may take %s; expected a longer life, or a shorter build_timeout",
			      units_format(UNIT_DURATION, life_us, life),
			      units_format(UNIT_DURATION, policy->build_timeout_us, build));
}

void config_check_keyspace(const struct scope *scope, void *object)
{
	struct policy *policy = object;
	const struct config *config = scope->root;
	policy->line = scope->place.line;
	policy->home = &((struct config *)scope->root)->home;
	if (!scope_written(scope, "build_timeout") || !scope_good(scope, "build_timeout"))
		policy->build_timeout_us = config->origin.build_timeout_us;
	if (scope_good(scope, "name"))
		check_unique(scope, config, policy);
	if (scope_good(scope, "fresh"))
		check_life(scope, policy);
	if (policy->batch.query && policy->wait_us > 0 &&
	    policy->batch.linger_us >= policy->wait_us)
		scope_warning(
			scope, "batch",
			"lingers for as long as requests wait: who asks for a cold key is told "
			"so, and it is built for the next; expected a linger below wait");
}

void config_check_plan(const struct scope *scope, void *object)
{
	struct warm_policy *plan = object;
	const struct config *config = scope->root;
	plan->line = scope->place.line;
	for (size_t i = 0; i < scope->index && scope_good(scope, "name"); i++) {
		const struct warm_policy *other = &config->warm[i];
		if (other->name && strcmp(other->name, plan->name) == 0) {
			scope_error(scope, "name",
				    "\"%s\" is the plan on line %d already; expected another name",
				    plan->name, other->line);
			break;
		}
	}
	if (scope_good(scope, "name") && plan->name &&
	    (strcmp(plan->name, "status") == 0 || strcmp(plan->name, "cancel") == 0))
		scope_error(scope, "name",
			    "\"%s\" is what segarctl warm %s does; expected another name",
			    plan->name, plan->name);
	static const char *const sources[] = { "query", "file", "keyspace" };
	const char *source = NULL;
	for (size_t i = 0; i < sizeof(sources) / sizeof(*sources); i++) {
		if (!scope_written(scope, sources[i]))
			continue;
		if (source)
			scope_error(scope, sources[i],
				    "is one source too many; expected query, file or keyspace");
		source = sources[i];
	}
	if (!source)
		scope_error(scope, "query",
			    "is missing; expected query, file or keyspace, for the keys");
	if (scope_written(scope, "timeout") && !scope_written(scope, "query"))
		scope_error(scope, "timeout", "has no effect: it is for query");
	if (scope_good(scope, "rate") && plan->rate_per_s > config->origin.budget_per_s)
		scope_warning(scope, "rate",
			      "is more than origin.budget, which holds all the same");
}

static bool has_plan(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->warm_count; i++)
		if (config->warm[i].name && strcmp(config->warm[i].name, name) == 0)
			return true;
	return false;
}

static bool has_keyspace(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->keyspaces_count; i++)
		if (config->keyspaces[i].name && strcmp(config->keyspaces[i].name, name) == 0)
			return true;
	return false;
}

static void check_warm(const struct scope *scope, const struct config *config)
{
	bool spools = false;
	for (size_t i = 0; i < config->warm_count; i++) {
		const struct warm_policy *plan = &config->warm[i];
		spools |= plan->query || plan->file;
		if (plan->keyspace && !has_keyspace(config, plan->keyspace))
			scope_error(scope, "warm",
				    "there is no keyspace %s, for the plan on line %d",
				    shown(plan->keyspace).text, plan->line);
	}
	if (spools && !scope_written(scope, "state_dir"))
		scope_error(scope, "warm",
			    "has nowhere to keep the keys; expected state_dir besides");
	if (config->ready.plan && (scope_good(scope, "warm") || !scope_written(scope, "warm")) &&
	    !has_plan(config, config->ready.plan))
		scope_error(scope, "ready_after_warm",
			    "there is no plan %s; expected the name of one of warm",
			    shown(config->ready.plan).text);
}

void config_check_whole(const struct scope *scope, void *object)
{
	const struct config *config = object;
	if (config->store_password_file && config->store_url &&
	    strcmp(config->store_url, "none") == 0)
		scope_error(scope, "store", "password_file goes with a Redis; store.url is none");
	if (config->store_url && config->origin.fleet > 1 && strcmp(config->store_url, "none") == 0)
		scope_error(
			scope, "origin",
			"fleet is %d, but with store.url \"none\" nothing is shared; expected 1",
			config->origin.fleet);
	check_warm(scope, config);
	bool follows = false;
	for (size_t i = 0; i < config->keyspaces_count; i++)
		follows |= config->keyspaces[i].on_change != ON_CHANGE_IGNORE;
	if (scope_written(scope, "feed") && scope_good(scope, "keyspaces") && !follows)
		scope_error(
			scope, "feed",
			"has no effect: no keyspace says what a change does; expected on_change "
			"in one of them");
	if (config->origin.standby && follows && !config->feed.dsn)
		scope_error(scope, "origin",
			    "standby is true, and a standby has no log of changes to be read; "
			    "expected feed.dsn, which reaches its primary");
	if (config->origin.standby && follows && config->store_url &&
	    strcmp(config->store_url, "none") == 0)
		scope_error(scope, "origin",
			    "standby is true, but with store.url \"none\" nothing keeps what a "
			    "build of a standby must have seen; expected a Redis");
	if (scope_good(scope, "keyspaces") && follows && config->origin.pooler && !config->feed.dsn)
		scope_error(scope, "origin",
			    "has a pooler, which passes no word of changes on, and a keyspace has "
			    "on_change; expected a feed.dsn that leads to PostgreSQL itself");
	if (scope_good(scope, "keyspaces") && config->keyspaces_count == 0)
		scope_warning(scope, "keyspaces",
			      "is empty: every request will be answered with unknown_keyspace");
}
