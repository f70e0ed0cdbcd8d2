#include "base/config_access.h"

#include <grp.h>
#include <pwd.h>
#include <string.h>

#include "base/limits.h"
#include "base/policy.h"
#include "base/schema_value.h"
#include "base/units.h"
#include "proto/method.h"

static bool check_methods(const struct scope *scope, const struct field *field, void *value)
{
	for (char **name = *(char ***)value; *name; name++) {
		if (method_from_name(*name, strlen(*name)) >= 0)
			continue;
		scope_error(scope, field->name, "there is no method %s",
			    schema_snippet(*name, strlen(*name)).text);
		return false;
	}
	return true;
}

static bool check_keyspaces(const struct scope *scope, const struct field *field, void *value)
{
	const struct config *config = scope->root;
	for (char **name = *(char ***)value; *name; name++) {
		size_t i = 0;
		while (i < config->keyspaces_count &&
		       (!config->keyspaces[i].name ||
			strcmp(config->keyspaces[i].name, *name) != 0))
			i++;
		if (i < config->keyspaces_count)
			continue;
		scope_error(scope, field->name, "there is no keyspace %s",
			    schema_snippet(*name, strlen(*name)).text);
		return false;
	}
	return true;
}

/* The number of a user or group that is given by name or as a number. */
static bool find_id(const struct access_rule *rule, uint32_t *ret_id)
{
	int64_t number;
	const char *text = rule->uid ? rule->uid : rule->gid;
	if (units_parse(UNIT_COUNT, text, strlen(text), &number) == 0 && number < UINT32_MAX) {
		*ret_id = (uint32_t)number;
		return true;
	}
	const struct passwd *user = rule->uid ? getpwnam(text) : NULL;
	const struct group *group = rule->gid ? getgrnam(text) : NULL;
	if (user)
		*ret_id = user->pw_uid;
	if (group)
		*ret_id = group->gr_gid;
	return user || group;
}

static void check_access(const struct scope *scope, void *object)
{
	struct access_rule *rule = object;
	const char *name = rule->uid ? rule->uid : rule->gid;
	rule->line = scope->place.line;
	if (!rule->uid == !rule->gid)
		scope_error(scope, "uid", "a rule is for a uid or for a gid; expected one of them");
	else if (!find_id(rule, &rule->id))
		scope_error(scope, rule->uid ? "uid" : "gid", "there is no %s %s",
			    rule->uid ? "user" : "group", schema_snippet(name, strlen(name)).text);
}

static const struct field access_fields[] = {
	TEXT("uid", access_rule, uid, RANGE(1, 64), FORM("a user's name or number"),
	     HELP("The user whose processes the rule is for.")),
	TEXT("gid", access_rule, gid, RANGE(1, 64), FORM("a group's name or number"),
	     HELP("Or the group: also of processes for which it is not the first.")),
	WORDS("methods", access_rule, methods, RANGE(1, METHOD_COUNT), FORM("a list of methods"),
	      CHECKED_BY(check_methods), HELP("The methods that they may call; without it, all.")),
	WORDS("keyspaces", access_rule, keyspaces, RANGE(1, KEYSPACES_MAX),
	      FORM("a list of keyspaces' names"), CHECKED_BY(check_keyspaces),
	      HELP("The keyspaces whose keys they may name; without it, all.")),
};
const struct schema access_schema = SCHEMA(access_fields, access_rule, check_access);
