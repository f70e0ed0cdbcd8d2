#include "origin/chain.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "origin/canonical.h"
#include "origin/guard.h"
#include "origin/outcome.h"
#include "origin/types.h"

enum { LOCK_TEXT_MAX = 21 }; /* of a bigint, with the comma before it */

/* ---- asking ------------------------------------------------------------------------------ */

static bool is_asked(const struct build *build)
{
	return build->outcome != BUILD_BAD_KEY && build->outcome != BUILD_APART;
}

/* An element in quotes, in which only quotes and backslashes mean something. */
static size_t element_len(const char *text)
{
	size_t len = 2;
	for (; *text; text++)
		len += *text == '"' || *text == '\\' ? 2 : 1;
	return len;
}

/* Writes it; returns the place after it. */
static char *write_element(char *to, const char *text)
{
	*to++ = '"';
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			*to++ = '\\';
		*to++ = *text;
	}
	*to++ = '"';
	return to;
}

static void judge(struct build *build, const struct statement *statement,
		  const struct arguments *arguments)
{
	char text[ERROR_TEXT_MAX];
	uint32_t type = pg_type_element(statement->params[0]);

	value_unref(build->text);
	build->text = NULL;
	build->outcome = BUILD_NO_ROW;
	build->status = STATUS_OK;
	if (arguments_fit(arguments, statement->policy->name, &type, 1, text, sizeof(text)))
		return;
	/* Where the keyspace's own query takes another type, or is not known yet, it may have a
	 * row. */
	bool is_own = statement->single->params_count == 1 && statement->single->params[0] == type;
	build->outcome = is_own || arguments->count != 1 ? BUILD_BAD_KEY : BUILD_APART;
	build->status = STATUS_BAD_REQUEST;
	build->text = value_create(text, strlen(text));
}

int chain_ask(struct build *first, const struct statement *statement, const char *lock_namespace,
	      struct chain_arrays *ret_arrays)
{
	struct arguments arguments;
	size_t keys_len = 0, asked = 0;
	char *keys, *locks, comma = '{';

	*ret_arrays = (struct chain_arrays){ 0 };
	for (struct build *build = first; build; build = build->next) {
		arguments_decode(&arguments, build->key.bytes, build->key.len);
		judge(build, statement, &arguments);
		if (!is_asked(build))
			continue;
		asked++;
		keys_len += element_len(arguments.args[0]) + 1;
	}
	if (asked == 0)
		return 0;
	keys = ret_arrays->keys = mem_alloc(keys_len + 2);
	locks = ret_arrays->locks = mem_alloc(asked * LOCK_TEXT_MAX + 2);
	if (!keys || !locks) {
		chain_arrays_free(ret_arrays);
		return -1;
	}
	for (struct build *build = first; build; build = build->next) {
		if (!is_asked(build))
			continue;
		arguments_decode(&arguments, build->key.bytes, build->key.len);
		*keys++ = comma;
		keys = write_element(keys, arguments.args[0]);
		*locks++ = comma;
		comma = ',';
		if (build->lock_key)
			locks += snprintf(locks, LOCK_TEXT_MAX, "%" PRId64,
					  guard_key_lock(lock_namespace, &build->key));
		else
			locks += snprintf(locks, LOCK_TEXT_MAX, "NULL");
	}
	memcpy(keys, "}", 2);
	memcpy(locks, "}", 2);
	return 0;
}

void chain_arrays_free(struct chain_arrays *arrays)
{
	mem_free(arrays->keys);
	mem_free(arrays->locks);
	*arrays = (struct chain_arrays){ 0 };
}

/* ---- reading ----------------------------------------------------------------------------- */

enum { NO_ROW_OF_IT = -1, MANY_ROWS_OF_IT = -2 };

/* Rows and builds, matched by key. */
struct match {
	int rows_count;
	bool taken[GUARD_BATCH_ROWS_MAX]; /* row belongs to a build */
	int row[BATCH_KEYS_MAX];          /* of each build, or one of the above */
};

/* One key that the query takes otherwise than it is spelled can do this to all: each is built
 * alone. */
static void set_apart(struct trouble *trouble, const char *what, const char *key)
{
	trouble_set(trouble, BUILD_APART, STATUS_ORIGIN_ERROR, "the batch query returned %s%.200s",
		    what, key);
}

static bool is_row_of(const PGresult *result, int row, const char *key, size_t len)
{
	return !PQgetisnull(result, row, GUARD_KEY) &&
	       (size_t)PQgetlength(result, row, GUARD_KEY) == len &&
	       memcmp(PQgetvalue(result, row, GUARD_KEY), key, len) == 0;
}

static int find_rows(struct match *match, const PGresult *result, const struct build *build)
{
	struct arguments arguments;
	int found = NO_ROW_OF_IT;

	arguments_decode(&arguments, build->key.bytes, build->key.len);
	for (int row = 0; row < match->rows_count; row++) {
		if (!is_row_of(result, row, arguments.args[0], strlen(arguments.args[0])))
			continue;
		match->taken[row] = true;
		found = found == NO_ROW_OF_IT ? row : MANY_ROWS_OF_IT;
	}
	return found;
}

/* Every row must belong to a build whose lock is ours. */
static int match_rows(struct match *match, const struct build *first, const PGresult *result,
		      struct trouble *ret_trouble)
{
	const char *locked = PQgetvalue(result, 0, GUARD_LOCKED);
	int count = 0;

	match->rows_count = PQgetisnull(result, 0, GUARD_FOUND) ? 0 : PQntuples(result);
	if (match->rows_count > GUARD_BATCH_ROWS_MAX) {
		set_apart(ret_trouble, "many more rows than it was asked for", "");
		return -1;
	}
	for (const struct build *build = first; build; build = build->next) {
		if (!is_asked(build))
			continue;
		match->row[count] =
			locked[count] == '1' ? find_rows(match, result, build) : NO_ROW_OF_IT;
		count++;
	}
	for (int row = 0; row < match->rows_count; row++) {
		if (match->taken[row])
			continue;
		if (PQgetisnull(result, row, GUARD_KEY))
			set_apart(ret_trouble, "a row whose key is NULL", "");
		else
			set_apart(ret_trouble, "a row for a key that was not asked for: ",
				  PQgetvalue(result, row, GUARD_KEY));
		return -1;
	}
	return 0;
}

static void settle_build(struct build *build, const PGresult *result, bool locked, int row)
{
	struct trouble trouble;

	if (!locked) {
		build->outcome = BUILD_KEY_HELD;
	} else if (row == MANY_ROWS_OF_IT) {
		struct arguments arguments;
		arguments_decode(&arguments, build->key.bytes, build->key.len);
		trouble_set(&trouble, BUILD_FAILED, STATUS_ORIGIN_ERROR,
			    "the batch query returned two rows for the key %.200s",
			    arguments.args[0]);
		outcome_fail(build, &trouble);
	} else if (row == NO_ROW_OF_IT) {
		build->outcome = BUILD_NO_ROW;
	} else if (outcome_is_left_out(result, row)) {
		build->outcome = BUILD_APART;
	} else if (outcome_read_row(build, result, row, &trouble) < 0) {
		outcome_fail(build, &trouble);
	}
}

int chain_read(struct build *first, const PGresult *result, uint64_t ticket, uint64_t system,
	       struct trouble *ret_trouble)
{
	struct match match = { 0 };
	int count = 0;
	bool has_slot;

	for (struct build *build = first; build; build = build->next)
		if (outcome_read_head(build, result, GUARD_BATCH_COLUMNS, ticket, system,
				      ret_trouble) < 0)
			return -1;
	has_slot = outcome_held(result) == GUARD_FREE;
	if (has_slot && match_rows(&match, first, result, ret_trouble) < 0)
		return -1;
	for (struct build *build = first; build; build = build->next) {
		if (!is_asked(build))
			continue;
		if (!has_slot)
			build->outcome = BUILD_SLOT_HELD;
		else
			settle_build(build, result,
				     PQgetvalue(result, 0, GUARD_LOCKED)[count] == '1',
				     match.row[count]);
		count++;
	}
	return 0;
}

void chain_fail(struct build *first, const struct trouble *trouble, bool apart)
{
	struct trouble its = *trouble;

	if (apart)
		its.outcome = BUILD_APART;
	for (struct build *build = first; build; build = build->next)
		if (is_asked(build))
			outcome_fail(build, &its);
}

bool chain_has(const struct build *first, enum build_outcome outcome)
{
	for (const struct build *build = first; build; build = build->next)
		if (build->outcome == outcome)
			return true;
	return false;
}
