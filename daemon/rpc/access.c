#include "rpc/access.h"

#include <string.h>
#include <sys/socket.h>

enum { GROUPS_MAX = 256 }; /* of one process; who is in more has just its first */

static bool names(char *const *words, const char *word)
{
	if (!words)
		return true; /* all */
	for (; *words; words++)
		if (strcmp(*words, word) == 0)
			return true;
	return false;
}

static bool is_in(const gid_t *groups, size_t count, gid_t group)
{
	for (size_t i = 0; i < count; i++)
		if (groups[i] == group)
			return true;
	return false;
}

void access_init(struct access *access, const struct access_rules *rules, int fd)
{
	struct ucred cred;
	gid_t groups[GROUPS_MAX + 1];
	socklen_t cred_len = sizeof(cred), groups_len = sizeof(gid_t) * GROUPS_MAX;
	size_t count = 0;

	*access = (struct access){ .uid = (uid_t)-1, .pid = -1 };
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &cred_len) == 0) {
		access->uid = cred.uid;
		access->pid = cred.pid;
		if (rules->count > 0 &&
		    getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &groups_len) == 0)
			count = groups_len / sizeof(gid_t);
		groups[count++] = cred.gid;
	}
	for (size_t i = 0; i < rules->count; i++) {
		const struct access_rule *rule = &rules->rules[i];
		const bool fits = rule->uid ? access->uid != (uid_t)-1 && rule->id == access->uid
					    : is_in(groups, count, rule->id);

		if (fits)
			access->fits |= UINT64_C(1) << i;
		if (!fits || rule->keyspaces)
			continue;
		access->gets_all |= names(rule->methods, method_name(METHOD_GET));
		access->mgets_all |= names(rule->methods, method_name(METHOD_MGET));
	}
	access->gets_all |= rules->count == 0;
	access->mgets_all |= rules->count == 0;
}

bool access_allows(const struct access *access, const struct access_rules *rules,
		   enum method method, const char *keyspace)
{
	if (rules->count == 0)
		return true;
	for (size_t i = 0; i < rules->count; i++) {
		const struct access_rule *rule = &rules->rules[i];

		if ((access->fits >> i & 1) && names(rule->methods, method_name(method)) &&
		    (!keyspace || names(rule->keyspaces, keyspace)))
			return true;
	}
	return false;
}
