#include "store/keys.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "proto/key.h"

enum { NAME_MAX_LEN = 3 * KEYS_PREFIX_MAX + 4 + 3 * KEY_TEXT_MAX };

static size_t escape(const char *from, size_t len, char *to)
{
	char *at = to;
	for (size_t i = 0; i < len; i++) {
		if (from[i] == '{' || from[i] == '}') {
			memcpy(at, from[i] == '{' ? "%7B" : "%7D", 3);
			at += 3;
		} else {
			*at++ = from[i];
		}
	}
	return (size_t)(at - to);
}

int keys_init(struct keys *keys, const char *prefix, uint32_t db)
{
	size_t len = strlen(prefix);
	CHECK(len <= KEYS_PREFIX_MAX);
	*keys = (struct keys){ 0 };
	keys->prefix[escape(prefix, len, keys->prefix)] = '\0';
	snprintf(keys->permits, KEYS_FLEET_MAX, "%s{fleet}:permits", keys->prefix);
	snprintf(keys->places, KEYS_FLEET_MAX, "%s{fleet}:places", keys->prefix);
	snprintf(keys->holders, KEYS_FLEET_MAX, "%s{fleet}:holders", keys->prefix);
	snprintf(keys->era, KEYS_FLEET_MAX, "%s{fleet}:era", keys->prefix);
	snprintf(keys->beat, KEYS_FLEET_MAX, "%s{fleet}:beat", keys->prefix);
	snprintf(keys->epochs, KEYS_FLEET_MAX, "%s{fleet}:epochs", keys->prefix);
	snprintf(keys->feed, KEYS_FLEET_MAX, "%s{fleet}:feed", keys->prefix);
	snprintf(keys->floors, KEYS_FLEET_MAX, "%s{fleet}:floors", keys->prefix);
	snprintf(keys->history, KEYS_FLEET_MAX, "%s{fleet}:history", keys->prefix);
	snprintf(keys->definitions, KEYS_FLEET_MAX, "%s{fleet}:definitions", keys->prefix);
	snprintf(keys->jobs, KEYS_FLEET_MAX, "%s{fleet}:jobs", keys->prefix);
	snprintf(keys->job, KEYS_FLEET_MAX, "%s{fleet}:job:", keys->prefix);
	snprintf(keys->channel, KEYS_FLEET_MAX, "%schanges:%u", keys->prefix, db);
	keys->entry = mem_alloc(NAME_MAX_LEN);
	keys->claim = mem_alloc(NAME_MAX_LEN);
	if (keys->entry && keys->claim)
		return 0;
	keys_close(keys);
	return -1;
}

void keys_close(struct keys *keys)
{
	mem_free(keys->entry);
	mem_free(keys->claim);
	keys->entry = keys->claim = NULL;
}

void keys_name(struct keys *keys, const char *key, size_t len)
{
	size_t prefix_len = strlen(keys->prefix);
	CHECK(len <= KEY_TEXT_MAX);
	memcpy(keys->entry, keys->prefix, prefix_len);
	memcpy(keys->entry + prefix_len, "e:{", 3);
	keys->len = prefix_len + 3 + escape(key, len, keys->entry + prefix_len + 3);
	keys->entry[keys->len++] = '}';
	memcpy(keys->claim, keys->entry, keys->len);
	keys->claim[prefix_len] = 'c';
}

void keys_pace(struct keys *keys, uint64_t id)
{
	snprintf(keys->pace, KEYS_FLEET_MAX, "%s{fleet}:pace:%016" PRIx64, keys->prefix, id);
}
