#include "core/roster.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"

void roster_init(struct roster *roster)
{
	*roster = (struct roster){ 0 };
	list_init(&roster->removed);
}

static void free_keyspace(struct keyspace *keyspace)
{
	policy_unref(keyspace->policy);
	mem_free(keyspace);
}

void roster_close(struct roster *roster)
{
	for (uint32_t i = 0; i < roster->end; i++)
		if (roster->at[i])
			free_keyspace(roster->at[i]);
	roster->end = 0;
}

static uint32_t bucket_of(const char *name, size_t len)
{
	return (uint32_t)(key_public_hash(name, len) % KEYSPACES_MAX);
}

struct keyspace *roster_find_any(const struct roster *roster, const char *name, size_t len)
{
	struct keyspace *keyspace = roster->names[bucket_of(name, len)];
	for (; keyspace; keyspace = keyspace->namesake) {
		const char *its = keyspace->policy->name;
		if (strncmp(its, name, len) == 0 && its[len] == '\0')
			return keyspace;
	}
	return NULL;
}

struct keyspace *roster_find(const struct roster *roster, const char *name, size_t len)
{
	struct keyspace *keyspace = roster_find_any(roster, name, len);
	return keyspace && !keyspace->removed ? keyspace : NULL;
}

struct keyspace *roster_next_any(const struct roster *roster, uint32_t *at)
{
	while (*at < roster->end) {
		struct keyspace *keyspace = roster->at[(*at)++];
		if (keyspace)
			return keyspace;
	}
	return NULL;
}

struct keyspace *roster_next(const struct roster *roster, uint32_t *at)
{
	struct keyspace *keyspace;
	do
		keyspace = roster_next_any(roster, at);
	while (keyspace && keyspace->removed);
	return keyspace;
}

/* ---- coming, changing, leaving ------------------------------------------------------------ */

static struct keyspace *find_policy(const struct roster *roster, const struct policy *policy)
{
	return roster_find_any(roster, policy->name, strlen(policy->name));
}

/* New ones for the policies without a keyspace, in `ret_new`, ended by NULL. */
static enum reload_outcome create_missing(const struct roster *roster,
					  const struct policy *policies, uint32_t count,
					  struct keyspace *ret_new[KEYSPACES_MAX + 1])
{
	struct keyspace **next = ret_new;
	uint32_t at = 0;
	for (uint32_t i = 0; i < count; i++) {
		if (find_policy(roster, &policies[i]))
			continue;
		while (at < ROSTER_MAX && roster->at[at])
			at++;
		struct keyspace *keyspace = at < ROSTER_MAX ? mem_zalloc(sizeof(*keyspace)) : NULL;
		if (!keyspace) {
			while (next > ret_new)
				mem_free(*--next);
			return at < ROSTER_MAX ? RELOAD_NO_MEMORY : RELOAD_NO_PLACE;
		}
		keyspace->index = at++;
		list_node_init(&keyspace->leaving);
		*next++ = keyspace;
	}
	*next = NULL;
	return RELOAD_OK;
}

static void come_back(struct roster *roster, struct keyspace *keyspace)
{
	if (!keyspace->removed)
		return;
	keyspace->removed = false;
	list_remove(&roster->removed, &keyspace->leaving);
}

static void leave(struct roster *roster, struct keyspace *keyspace)
{
	if (keyspace->removed)
		return;
	keyspace->removed = true;
	keyspace->generation++; /* the hot path knows entries only */
	list_push_back(&roster->removed, &keyspace->leaving);
}

static void enter(struct roster *roster, struct keyspace *keyspace, const char *name)
{
	struct keyspace **bucket = &roster->names[bucket_of(name, strlen(name))];
	keyspace->namesake = *bucket;
	*bucket = keyspace;
	roster->at[keyspace->index] = keyspace;
	if (roster->end <= keyspace->index)
		roster->end = keyspace->index + 1;
}

static bool has_policy(const struct policy *policies, uint32_t count, const char *name)
{
	for (uint32_t i = 0; i < count; i++)
		if (strcmp(policies[i].name, name) == 0)
			return true;
	return false;
}

enum reload_outcome roster_reload(struct roster *roster, const struct policy *policies,
				  uint32_t count, int64_t now_us)
{
	struct keyspace *created[KEYSPACES_MAX + 1], **next = created;
	CHECK(count <= KEYSPACES_MAX);
	enum reload_outcome reload = create_missing(roster, policies, count, created);
	if (reload != RELOAD_OK)
		return reload;
	for (uint32_t i = 0; i < roster->end; i++)
		if (roster->at[i] && !has_policy(policies, count, roster->at[i]->policy->name))
			leave(roster, roster->at[i]);
	for (uint32_t i = 0; i < count; i++) {
		struct keyspace *keyspace = find_policy(roster, &policies[i]);
		if (!keyspace) {
			keyspace = *next++;
			enter(roster, keyspace, policies[i].name);
		}
		come_back(roster, keyspace);
		keyspace_take(keyspace, &policies[i], now_us);
	}
	CHECK(!*next);
	return RELOAD_OK;
}

/* ---- going -------------------------------------------------------------------------------- */

static struct keyspace *find_gone(const struct roster *roster)
{
	list_foreach (&roster->removed, node) {
		struct keyspace *keyspace = container_of(node, struct keyspace, leaving);
		if (keyspace->users == 0)
			return keyspace;
	}
	return NULL;
}

bool roster_has_gone(const struct roster *roster)
{
	return find_gone(roster) != NULL;
}

int roster_collect(struct roster *roster)
{
	struct keyspace *keyspace = find_gone(roster);
	if (!keyspace)
		return -1;
	uint32_t index = keyspace->index;
	const char *name = keyspace->policy->name;
	struct keyspace **its = &roster->names[bucket_of(name, strlen(name))];
	while (*its != keyspace)
		its = &(*its)->namesake;
	*its = keyspace->namesake;
	list_remove(&roster->removed, &keyspace->leaving);
	roster->at[index] = NULL;
	while (roster->end > 0 && !roster->at[roster->end - 1])
		roster->end--;
	free_keyspace(keyspace);
	return (int)index;
}
