#include "origin/feed_rows.h"

#include <stdlib.h>
#include <string.h>

#include "proto/key.h"

void feed_rows_drop(struct feed_rows *rows)
{
	PQclear(rows->result);
	rows->result = NULL;
	rows->next = rows->count = 0;
}

bool feed_rows_take(struct feed_rows *rows, const PGresult *result)
{
	feed_rows_drop(rows);
	if (PQnfields(result) != FEED_ROW_COLUMNS)
		return false;
	rows->result = PQcopyResult(result, PG_COPYRES_ATTRS | PG_COPYRES_TUPLES);
	if (!rows->result)
		return false;
	rows->count = PQntuples(rows->result);
	return true;
}

static const char *cell(const struct feed_rows *rows, int row, enum feed_row_column column)
{
	return PQgetvalue(rows->result, row, column);
}

static const struct policy *policy_of(const struct feed_rows *rows, const char *key, size_t len)
{
	size_t name_len = key_keyspace_len(key, len);
	for (size_t i = 0; i < rows->policies_count; i++) {
		const struct policy *policy = &rows->policies[i];
		if (strncmp(policy->name, key, name_len) == 0 && policy->name[name_len] == '\0')
			return policy->on_change == ON_CHANGE_IGNORE ? NULL : policy;
	}
	return NULL;
}

/* Whether a key in this form can be asked for: the daemon knows keys by their canonical text. */
static bool is_canonical(const char *key, size_t len)
{
	static char scratch[KEY_TEXT_MAX]; /* the loop's thread alone */
	struct wire_error error;
	struct wire_key parsed;
	if (key_parse(key, len, scratch, &parsed, &error) != STATUS_OK)
		return false;
	return parsed.len == len && memcmp(parsed.text, key, len) == 0;
}

static bool read_row(struct feed_rows *rows, int row, struct logged_change *change)
{
	const char *key = cell(rows, row, FEED_ROW_KEY);
	size_t len = (size_t)PQgetlength(rows->result, row, FEED_ROW_KEY);
	const struct policy *policy = policy_of(rows, key, len);
	if (!policy)
		return false;
	if (!is_canonical(key, len)) {
		rows->bad_keys++;
		return false;
	}
	*change = (struct logged_change){
		.key = key,
		.len = (uint32_t)len,
		.policy = policy,
		.whole = cell(rows, row, FEED_ROW_WHOLE)[0] == 't',
		/* Of several changes the greatest version tells only where versions order. */
		.has_version = policy->single_row || !strcmp(cell(rows, row, FEED_ROW_COUNT), "1"),
		.version = strtoll(cell(rows, row, FEED_ROW_VERSION), NULL, 10),
		.xid = strtoull(cell(rows, row, FEED_ROW_XID), NULL, 10),
	};
	return true;
}

uint32_t feed_rows_next(struct feed_rows *rows)
{
	uint32_t count = 0;
	size_t bytes = 0;
	while (rows->next < rows->count && count < CHANGES_MAX) {
		struct logged_change *change = &rows->changes[count];
		if (read_row(rows, rows->next, change)) {
			if (count > 0 && bytes + change->len > CHANGES_BYTES_MAX)
				break;
			bytes += change->len;
			count++;
		}
		rows->next++;
	}
	return count;
}

/* What may not be served stale after a change is ended at once (core/epoch.h). */
static int64_t spread_of(const struct policy *policy, int64_t spread_us)
{
	if (policy->on_change == ON_CHANGE_INVALIDATE)
		return 0;
	return policy->fresh_us < spread_us ? policy->fresh_us : spread_us;
}

uint32_t feed_rows_expire_all(struct feed_rows *rows, size_t *at, int64_t spread_us, uint64_t xid)
{
	uint32_t count = 0;
	for (; *at < rows->policies_count && count < CHANGES_MAX; (*at)++) {
		const struct policy *policy = &rows->policies[*at];
		if (policy->on_change == ON_CHANGE_IGNORE)
			continue;
		rows->changes[count++] = (struct logged_change){
			.key = policy->name,
			.len = (uint32_t)strlen(policy->name),
			.policy = policy,
			.whole = true,
			.spread_us = spread_of(policy, spread_us),
			.xid = xid,
		};
	}
	return count;
}

int64_t feed_rows_age_ms(const struct feed_rows *rows)
{
	int64_t oldest = 0;
	for (int i = 0; i < rows->count; i++) {
		int64_t age = strtoll(cell(rows, i, FEED_ROW_AGE_MS), NULL, 10);
		if (age > oldest)
			oldest = age;
	}
	return oldest;
}
