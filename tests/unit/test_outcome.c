#include "origin/outcome.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <endian.h>
#include <string.h>

#include "core/entry.h"
#include "origin/guard.h"
#include "origin/types.h"

/* A result as libpq would have it, one row of it. */
struct row {
	uint32_t held;
	uint64_t ticket;
	uint64_t snapshot;
	const uint32_t *timeline;
	const char *value; /* NULL: SQL NULL */
	bool is_found;
	const uint64_t *version;
	const uint64_t *fresh_ms;
	const uint64_t *stale_ms;
};

static void set_u64(PGresult *result, int row, int column, uint64_t number)
{
	number = htobe64(number);
	PQsetvalue(result, row, column, (char *)&number, sizeof(number));
}

static void set_u32(PGresult *result, int row, int column, uint32_t number)
{
	number = htobe32(number);
	PQsetvalue(result, row, column, (char *)&number, sizeof(number));
}

static void set_optional(PGresult *result, int row, int column, const uint64_t *number)
{
	if (number)
		set_u64(result, row, column, *number);
	else
		PQsetvalue(result, row, column, NULL, -1);
}

static void set_row(PGresult *result, int at, const struct row *row)
{
	set_u32(result, at, GUARD_HELD, row->held);
	set_u64(result, at, GUARD_TICKET, row->ticket);
	set_u64(result, at, GUARD_SNAPSHOT, row->snapshot);
	if (row->timeline)
		set_u32(result, at, GUARD_TIMELINE, *row->timeline);
	else
		PQsetvalue(result, at, GUARD_TIMELINE, NULL, -1);
	PQsetvalue(result, at, GUARD_FOUND, row->is_found ? (char *)"\1" : NULL,
		   row->is_found ? 1 : -1);
	PQsetvalue(result, at, GUARD_LENGTH, NULL, -1);
	PQsetvalue(result, at, GUARD_VALUE, NULL, -1);
	if (row->value) {
		set_u32(result, at, GUARD_LENGTH, (uint32_t)strlen(row->value));
		PQsetvalue(result, at, GUARD_VALUE, (char *)row->value, (int)strlen(row->value));
	}
	set_optional(result, at, GUARD_VERSION, row->version);
	set_optional(result, at, GUARD_FRESH_MS, row->fresh_ms);
	set_optional(result, at, GUARD_STALE_MS, row->stale_ms);
}

static PGresult *make_result(const struct row *row, int rows)
{
	PGresult *result = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
	PGresAttDesc columns[GUARD_COLUMNS] = { 0 };
	char name[] = "column";

	for (int i = 0; i < GUARD_COLUMNS; i++)
		columns[i] = (PGresAttDesc){ .name = name, .format = 1, .typid = PG_TYPE_TEXT };
	PQsetResultAttrs(result, GUARD_COLUMNS, columns);
	for (int i = 0; i < rows; i++)
		set_row(result, i, row);
	return result;
}

enum { SYSTEM = 4711 };

static int read_row(const struct row *row, int rows, struct build *build, struct trouble *trouble)
{
	PGresult *result = make_result(row, rows);
	int r;

	*build = (struct build){ 0 };
	r = outcome_read(build, result, 7, SYSTEM, trouble);
	PQclear(result);
	return r;
}

Test(outcome, a_row_has_value_version_and_snapshot)
{
	const uint64_t version = (uint64_t)-5;
	struct row row = { .ticket = 7, .snapshot = 99, .value = "v", .is_found = true };
	struct trouble trouble;
	struct build build;

	cr_assert_eq(read_row(&row, 1, &build, &trouble), 0);
	cr_assert(build.outcome == BUILD_ROW && !build.has_version && build.snapshot == 99);
	cr_assert_str_eq(build.value->bytes, "v");
	value_unref(build.value);

	row.version = &version;
	cr_assert_eq(read_row(&row, 1, &build, &trouble), 0);
	cr_assert(build.has_version && build.version == -5);
	value_unref(build.value);

	row.version = NULL;
	row.value = NULL;
	cr_assert_eq(read_row(&row, 1, &build, &trouble), 0);
	cr_assert(build.outcome == BUILD_ROW && !build.value && !build.has_version);
}

Test(outcome, a_row_may_have_times_of_its_own)
{
	const uint64_t fresh_ms = 5, stale_ms = 0;
	struct row row = { .ticket = 7, .value = "v", .is_found = true, .fresh_ms = &fresh_ms };
	struct trouble trouble;
	struct build build;

	cr_assert_eq(read_row(&row, 1, &build, &trouble), 0);
	cr_assert(build.fresh_us == 5000 && build.stale_us == -1);
	value_unref(build.value);

	row.fresh_ms = NULL;
	row.stale_ms = &stale_ms;
	cr_assert_eq(read_row(&row, 1, &build, &trouble), 0);
	cr_assert(build.fresh_us == -1 && build.stale_us == 0);
	value_unref(build.value);

	row.fresh_ms = &stale_ms; /* 0: it would never be fresh */
	cr_assert_lt(read_row(&row, 1, &build, &trouble), 0);
	cr_assert_str_eq(trouble.text, "the row's fresh_ms is 0; expected 1 to 315360000000");
}

Test(outcome, the_history_is_known_where_the_timeline_is)
{
	const uint32_t timeline = 3;
	struct row row = { .ticket = 7 };
	struct trouble trouble;
	struct build build;

	cr_assert_eq(read_row(&row, 1, &build, &trouble), 0);
	cr_assert_eq(build.history, 0);
	row.timeline = &timeline;
	cr_assert_eq(read_row(&row, 1, &build, &trouble), 0);
	cr_assert_eq(build.history, history_of(SYSTEM, 3));
}

Test(outcome, no_row_and_held_locks_are_told_apart)
{
	struct row row = { .ticket = 7 };
	struct trouble trouble;
	struct build build;

	cr_assert_eq(read_row(&row, 1, &build, &trouble), 0);
	cr_assert_eq(build.outcome, BUILD_NO_ROW);
	row.held = GUARD_SLOT_HELD;
	cr_assert_eq(read_row(&row, 1, &build, &trouble), 0);
	cr_assert_eq(build.outcome, BUILD_SLOT_HELD);
	row.held = GUARD_KEY_HELD;
	cr_assert_eq(read_row(&row, 1, &build, &trouble), 0);
	cr_assert_eq(build.outcome, BUILD_KEY_HELD);
}

Test(outcome, an_answer_to_another_build_is_never_taken)
{
	struct row row = { .ticket = 8, .value = "not yours", .is_found = true };
	struct trouble trouble;
	struct build build;

	cr_assert_eq(read_row(&row, 1, &build, &trouble), -1);
	cr_assert(trouble.outcome == BUILD_LOST && !build.value);
	row.ticket = 7;
	cr_assert_eq(read_row(&row, 0, &build, &trouble), -1);
	cr_assert(trouble.outcome == BUILD_LOST);
	cr_assert_eq(read_row(&row, 2, &build, &trouble), -1);
	cr_assert(trouble.outcome == BUILD_FAILED && trouble.status == STATUS_ORIGIN_ERROR);
}
