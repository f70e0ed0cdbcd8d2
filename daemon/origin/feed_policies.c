/* Copies of the policies that the feed goes by: a reload replaces those that it was given. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "core/keyspace.h"
#include "origin/feed_state.h"

static void free_policies(struct policy *policies, size_t count)
{
	for (size_t i = 0; policies && i < count; i++)
		mem_free(policies[i].name);
	mem_free(policies);
}

/* Of each only what a change is judged by. NULL where memory is missing. */
static struct policy *copy_policies(const struct policy *policies, size_t count)
{
	struct policy *copies = mem_zalloc((count + 1) * sizeof(*copies));
	for (size_t i = 0; copies && i < count; i++) {
		size_t size = strlen(policies[i].name) + 1;
		copies[i].name = mem_alloc(size);
		if (!copies[i].name) {
			free_policies(copies, i);
			return NULL;
		}
		memcpy(copies[i].name, policies[i].name, size);
		copies[i].single_row = policies[i].single_row;
		copies[i].fresh_us = policies[i].fresh_us;
		copies[i].stale_us = policies[i].stale_us;
		copies[i].on_change = policies[i].on_change;
	}
	return copies;
}

/* The followed ones as PostgreSQL's text[]; NULL where memory is missing. */
static char *list_followed(const struct policy *policies, size_t count)
{
	size_t size = sizeof("{}"), len = 0;
	char *text;
	for (size_t i = 0; i < count; i++)
		size += strlen(policies[i].name) + 1;
	text = mem_alloc(size);
	if (!text)
		return NULL;
	text[len++] = '{';
	/* Their names need no quotes. */
	for (size_t i = 0; i < count; i++)
		if (policies[i].on_change != ON_CHANGE_IGNORE)
			len += (size_t)sprintf(text + len, "%s%s", len > 1 ? "," : "",
					       policies[i].name);
	text[len++] = '}';
	text[len] = '\0';
	return text;
}

/* In whatever order they stand. */
static uint64_t hash_followed(const struct policy *policies, size_t count)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < count; i++)
		if (policies[i].on_change != ON_CHANGE_IGNORE)
			sum += key_public_hash(policies[i].name, strlen(policies[i].name));
	return sum;
}

int feed_policies_take(struct feed *feed, const struct policy *policies, size_t count)
{
	struct policy *copies = copy_policies(policies, count);
	char *list = copies ? list_followed(copies, count) : NULL;
	if (!list) {
		free_policies(copies, count);
		return -ENOMEM;
	}
	feed_policies_drop_later(feed);
	feed->later = copies;
	feed->later_count = count;
	feed->later_keyspaces = list;
	return 0;
}

void feed_policies_drop_later(struct feed *feed)
{
	free_policies(feed->later, feed->later_count);
	mem_free(feed->later_keyspaces);
	feed->later = NULL;
	feed->later_keyspaces = NULL;
}

void feed_policies_adopt(struct feed *feed)
{
	if (!feed->later)
		return;
	feed_policies_free(feed);
	feed->policies = feed->later;
	feed->rows.policies = feed->policies;
	feed->rows.policies_count = feed->later_count;
	feed->keyspaces = feed->later_keyspaces;
	feed->followed = hash_followed(feed->policies, feed->rows.policies_count);
	feed->later = NULL;
	feed->later_keyspaces = NULL;
}

void feed_policies_free(struct feed *feed)
{
	free_policies(feed->policies, feed->rows.policies_count);
	mem_free(feed->keyspaces);
}
