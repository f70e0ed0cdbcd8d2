#include "origin/statement.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "origin/types.h"

const char *statement_state_name(enum statement_state state)
{
	switch (state) {
#define X(NAME, name)                                                                              \
	case STATEMENT_##NAME:                                                                     \
		return #name;
		STATEMENT_STATE_MAP(X)
#undef X
	}
	return "?";
}

struct statement *statement_create(uint32_t *generations)
{
	struct statement *statement = mem_zalloc(sizeof(*statement));

	if (!statement)
		return NULL;
	statement->refs = 1;
	statement->generations = generations;
	list_node_init(&statement->node);
	return statement;
}

void statement_set(struct statement *statement, const struct policy *policy, uint32_t index,
		   struct statement *single)
{
	policy_ref(policy);
	policy_unref(statement->policy);
	if (single)
		statement_ref(single);
	statement_unref(statement->single);
	statement->policy = policy;
	statement->query = single ? policy->batch.query : policy->query;
	statement->single = single;
	statement->index = index;
}

struct statement *statement_ref(struct statement *statement)
{
	statement->refs++;
	return statement;
}

void statement_unref(struct statement *statement)
{
	if (!statement || --statement->refs > 0)
		return;
	policy_unref(statement->policy);
	statement_unref(statement->single);
	mem_free(statement->sql);
	mem_free(statement);
}

void statement_accept(struct statement *statement)
{
	CHECK(statement->sql);
	if (statement->state == STATEMENT_REFUSED)
		log_info("keyspace.accepted", LOG_TEXT("keyspace", statement->policy->name));
	statement->state = STATEMENT_OK;
	statement->error[0] = '\0';
}

void statement_refuse(struct statement *statement, const char *text)
{
	char error[sizeof(statement->error)];
	bool is_news;

	snprintf(error, sizeof(error), "%s%.*s", statement->single ? "batch: " : "",
		 ERROR_TEXT_MAX - 8, text);
	is_news = statement->state != STATEMENT_REFUSED || strcmp(statement->error, error);
	statement->state = STATEMENT_REFUSED;
	memcpy(statement->error, error, sizeof(error));
	if (is_news)
		log_warning("keyspace.refused", LOG_TEXT("keyspace", statement->policy->name),
			    LOG_TEXT("why", error));
}

static bool is_integer_type(uint32_t type)
{
	return type == PG_TYPE_INT2 || type == PG_TYPE_INT4 || type == PG_TYPE_INT8;
}

/* An optional column's GUARD_HAS_ bit, or 0. */
static unsigned column_bit(const char *name)
{
	if (!strcmp(name, "version"))
		return GUARD_HAS_VERSION;
	if (!strcmp(name, "fresh_ms"))
		return GUARD_HAS_FRESH_MS;
	return !strcmp(name, "stale_ms") ? GUARD_HAS_STALE_MS : 0;
}

/* What is wrong with the column, or NULL. */
static const char *column_refusal(const struct statement *statement, const char *name,
				  uint32_t type)
{
	if (!strcmp(name, "value") || (statement->single && !strcmp(name, "key")))
		return NULL;
	if (column_bit(name) != 0)
		return is_integer_type(type) ? NULL : "must be smallint, integer or bigint";
	return statement->single
		       ? "is none that segard knows: key, value, version, fresh_ms, stale_ms"
		       : "is none that segard knows: value, version, fresh_ms, stale_ms";
}

static int learn_refuse(struct statement *statement, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static int learn_refuse(struct statement *statement, const char *format, ...)
{
	char text[ERROR_TEXT_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	statement_refuse(statement, text);
	return -EINVAL;
}

/* Finds `value` and the optional columns; a refusal goes to `statement`. */
static int learn_columns(struct statement *learned, const PGresult *description,
			 struct statement *statement)
{
	bool has_value = false, has_key = false, twice = false;

	learned->columns = 0;

	for (int i = 0; i < PQnfields(description); i++) {
		const char *name = PQfname(description, i);
		const char *refusal = column_refusal(statement, name, PQftype(description, i));

		if (refusal)
			return learn_refuse(statement, "the query's column \"%s\" %s", name,
					    refusal);
		if (!strcmp(name, "value")) {
			learned->value_type = PQftype(description, i);
			twice |= has_value;
			has_value = true;
		} else if (!strcmp(name, "key")) {
			twice |= has_key;
			has_key = true;
		} else {
			twice |= (learned->columns & column_bit(name)) != 0;
			learned->columns |= column_bit(name);
		}
	}
	if (!has_value)
		return learn_refuse(statement, "the query returns no column named \"value\"");
	if (statement->single && !has_key)
		return learn_refuse(statement, "the query returns no column named \"key\"");
	if (twice)
		return learn_refuse(statement, "the query returns a column twice");
	return 0;
}

/* Whether a value of the type has one spelling only: by nature, or since arguments of it must be
 * canonical. Of a type that others have defined nobody knows. */
static bool is_of_one_spelling(uint32_t type)
{
	switch (type) {
	case PG_TYPE_TEXT:
	case PG_TYPE_VARCHAR:
	case PG_TYPE_INT2:
	case PG_TYPE_INT4:
	case PG_TYPE_INT8:
	case PG_TYPE_OID:
	case PG_TYPE_UUID:
	case PG_TYPE_BOOL:
	case PG_TYPE_DATE:
		return true;
	}
	return false;
}

/* Rows find their keys by spelling. Where `1.5` and `1.50` are one row, one of them would find
 * none, and be taken for "no such row". */
static int learn_batch_spelling(uint32_t array, struct statement *statement)
{
	uint32_t type = pg_type_element(array);

	if (is_of_one_spelling(type))
		return 0;
	return learn_refuse(statement,
			    "the query's parameter is an array of %s: a value may have several "
			    "spellings there, and a key that is not spelled as the row has it "
			    "would be taken for \"no such row\"; take the keys as text, and give "
			    "each back as it came: SELECT k AS key, ... FROM unnest($1::text[]) k "
			    "JOIN ... ON id = k::%s",
			    type ? pg_type_name(type) : "a type that segard does not know",
			    type ? pg_type_name(type) : "its_type");
}

/* A batch query takes the keys, each of which is one argument of the other. */
static int learn_batch_params(const PGresult *description, struct statement *statement)
{
	const struct statement *single = statement->single;
	const char *type;
	int count = PQnparams(description);

	if (single->sql && single->params_count != 1)
		return learn_refuse(statement,
				    "only keys of one argument can be built together, and the "
				    "keyspace's own query takes %u",
				    single->params_count);
	if (count != 1)
		return learn_refuse(statement,
				    "the query takes %d parameters; expected one, the array of the "
				    "keys, as in WHERE id = ANY($1)",
				    count);
	type = pg_type_name(PQparamtype(description, 0));
	if (type)
		return learn_refuse(
			statement,
			"the query's parameter is of type %s; expected the array of the "
			"keys, as in WHERE id = ANY($1)",
			type);
	return learn_batch_spelling(PQparamtype(description, 0), statement);
}

/* Whether what is known describes the query already: a second connection learned it meanwhile. */
static bool is_same(const struct statement *a, const struct statement *b)
{
	return a->sql && a->params_count == b->params_count && a->value_type == b->value_type &&
	       a->columns == b->columns && a->has_timeline == b->has_timeline &&
	       !memcmp(a->params, b->params, a->params_count * sizeof(a->params[0]));
}

int statement_learn(struct statement *statement, const PGresult *description, bool has_timeline)
{
	static const uint32_t guards[GUARD_PARAMS] = {
		[GUARD_PARAM_CLASS] = PG_TYPE_INT4,
		[GUARD_PARAM_SLOT] = PG_TYPE_INT4,
		[GUARD_PARAM_KEY] = PG_TYPE_INT8,
		[GUARD_PARAM_TICKET] = PG_TYPE_INT8,
	};
	const char *query = statement->query;
	struct statement learned = *statement;
	int count = PQnparams(description);

	if (count > KEY_ARGS_MAX)
		return learn_refuse(statement, "the query takes more than %d parameters",
				    KEY_ARGS_MAX);
	if (statement->single && learn_batch_params(description, statement) < 0)
		return -EINVAL;
	if (learn_columns(&learned, description, statement) < 0)
		return -EINVAL;
	learned.has_timeline = has_timeline;
	learned.params_count = (unsigned)count;
	for (int i = 0; i < count; i++)
		learned.params[i] = PQparamtype(description, i);
	memcpy(learned.params + count, guards, sizeof(guards));
	if (statement->single)
		learned.params[count + GUARD_PARAM_KEY] = PG_TYPE_INT8_ARRAY;
	if (is_same(statement, &learned))
		return 0;
	if (statement->single)
		learned.sql = guard_batch_sql(query, learned.value_type, learned.columns,
					      learned.has_timeline);
	else
		learned.sql = guard_sql(query, learned.params_count, learned.value_type,
					learned.columns, learned.has_timeline);
	if (!learned.sql)
		return -ENOMEM;
	learned.generation = ++*statement->generations;
	mem_free(statement->sql);
	*statement = learned;
	return 0;
}
