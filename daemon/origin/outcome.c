#include "origin/outcome.h"

#include <endian.h>
#include <string.h>

#include "base/check.h"
#include "base/limits.h"
#include "core/entry.h"
#include "origin/guard.h"

static uint64_t read_u64(const PGresult *result, int row, int column)
{
	uint64_t number;

	CHECK(PQgetlength(result, row, column) == sizeof(number));
	memcpy(&number, PQgetvalue(result, row, column), sizeof(number));
	return be64toh(number);
}

static uint32_t read_u32(const PGresult *result, int row, int column)
{
	uint32_t number;

	CHECK(PQgetlength(result, row, column) == sizeof(number));
	memcpy(&number, PQgetvalue(result, row, column), sizeof(number));
	return be32toh(number);
}

/* Whether the columns are the guard's, in binary form. */
static bool is_guarded(const PGresult *result, int columns)
{
	static const int lengths[] = {
		[GUARD_HELD] = sizeof(uint32_t),
		[GUARD_TICKET] = sizeof(uint64_t),
		[GUARD_SNAPSHOT] = sizeof(uint64_t),
	};

	if (PQntuples(result) < 1 || PQnfields(result) != columns)
		return false;
	for (int i = 0; i <= GUARD_SNAPSHOT; i++)
		if (PQgetlength(result, 0, i) != lengths[i] || !PQfformat(result, i))
			return false;
	return true;
}

static int read_value(struct build *build, const PGresult *result, int row,
		      struct trouble *ret_trouble)
{
	size_t len;

	if (PQgetisnull(result, row, GUARD_LENGTH)) {
		build->value = NULL;
		return 0;
	}
	/* The server's own count rules; where its encoding isn't UTF-8 ours may be greater. */
	len = read_u32(result, row, GUARD_LENGTH);
	if (!PQgetisnull(result, row, GUARD_VALUE))
		len = (size_t)PQgetlength(result, row, GUARD_VALUE);
	if (len > VALUE_BYTES_MAX) {
		trouble_set(ret_trouble, BUILD_FAILED, STATUS_TOO_LARGE,
			    "the value is %zu bytes, over the limit of %d", len, VALUE_BYTES_MAX);
		return -1;
	}
	build->value = value_create(PQgetvalue(result, row, GUARD_VALUE), len);
	if (!build->value) {
		trouble_set(ret_trouble, BUILD_NO_ROOM, STATUS_OVERLOADED,
			    "no memory for a value of %zu bytes", len);
		return -1;
	}
	return 0;
}

/* A row's own time, in µs, -1 where it has none. */
static int read_time(const PGresult *result, int row, int column, int64_t least_ms, int64_t *ret_us,
		     struct trouble *ret_trouble)
{
	int64_t ms;

	*ret_us = -1;
	if (PQgetisnull(result, row, column))
		return 0;
	ms = (int64_t)read_u64(result, row, column);
	if (ms < least_ms || ms > LIFE_MS_MAX) {
		trouble_set(ret_trouble, BUILD_FAILED, STATUS_ORIGIN_ERROR,
			    "the row's %s is %lld; expected %lld to %lld",
			    column == GUARD_FRESH_MS ? "fresh_ms" : "stale_ms", (long long)ms,
			    (long long)least_ms, (long long)LIFE_MS_MAX);
		return -1;
	}
	*ret_us = ms * 1000;
	return 0;
}

int outcome_read_row(struct build *build, const PGresult *result, int row,
		     struct trouble *ret_trouble)
{
	if (read_value(build, result, row, ret_trouble) < 0)
		return -1;
	build->outcome = BUILD_ROW;
	build->has_version = !PQgetisnull(result, row, GUARD_VERSION);
	build->version = build->has_version ? (int64_t)read_u64(result, row, GUARD_VERSION) : 0;
	if (read_time(result, row, GUARD_FRESH_MS, 1, &build->fresh_us, ret_trouble) < 0 ||
	    read_time(result, row, GUARD_STALE_MS, 0, &build->stale_us, ret_trouble) < 0) {
		value_unref(build->value);
		build->value = NULL;
		return -1;
	}
	return 0;
}

uint64_t outcome_system(const PGresult *result)
{
	if (PQntuples(result) != 1 || PQnfields(result) != 1 || PQgetisnull(result, 0, 0))
		return 0;
	return read_u64(result, 0, 0);
}

int outcome_read_head(struct build *build, const PGresult *result, int columns, uint64_t ticket,
		      uint64_t system, struct trouble *ret_trouble)
{
	if (!is_guarded(result, columns) || read_u64(result, 0, GUARD_TICKET) != ticket) {
		trouble_set(ret_trouble, BUILD_LOST, STATUS_UNAVAILABLE,
			    "PostgreSQL's answer belongs to another statement");
		return -1;
	}
	build->snapshot = read_u64(result, 0, GUARD_SNAPSHOT);
	if (system != 0 && !PQgetisnull(result, 0, GUARD_TIMELINE))
		build->history = history_of(system, read_u32(result, 0, GUARD_TIMELINE));
	return 0;
}

enum guard_held outcome_held(const PGresult *result)
{
	return (enum guard_held)read_u32(result, 0, GUARD_HELD);
}

bool outcome_is_left_out(const PGresult *result, int row)
{
	return !PQgetisnull(result, row, GUARD_LENGTH) && PQgetisnull(result, row, GUARD_VALUE) &&
	       read_u32(result, row, GUARD_LENGTH) <= VALUE_BYTES_MAX;
}

int outcome_read(struct build *build, const PGresult *result, uint64_t ticket, uint64_t system,
		 struct trouble *ret_trouble)
{
	if (outcome_read_head(build, result, GUARD_COLUMNS, ticket, system, ret_trouble) < 0)
		return -1;
	switch (outcome_held(result)) {
	case GUARD_SLOT_HELD:
		build->outcome = BUILD_SLOT_HELD;
		return 0;
	case GUARD_KEY_HELD:
		build->outcome = BUILD_KEY_HELD;
		return 0;
	case GUARD_FREE:
		break;
	}
	if (PQntuples(result) > 1) {
		trouble_set(ret_trouble, BUILD_FAILED, STATUS_ORIGIN_ERROR,
			    "the query returned more than one row for this key");
		return -1;
	}
	if (!PQgetisnull(result, 0, GUARD_FOUND))
		return outcome_read_row(build, result, 0, ret_trouble);
	build->outcome = BUILD_NO_ROW;
	return 0;
}

void outcome_fail(struct build *build, const struct trouble *trouble)
{
	CHECK(!build->value && !build->text);
	build->outcome = trouble->outcome;
	build->status = trouble->status;
	build->text = value_create(trouble->text, strlen(trouble->text));
}
