#include "origin/statements.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"

void statements_init(struct statements *statements)
{
	*statements = (struct statements){ 0 };
	list_init(&statements->spare);
}

void statements_close(struct statements *statements)
{
	struct list_node *node;

	for (uint32_t i = 0; i < ROSTER_MAX; i++)
		statements_forget(statements, i);
	while (statements->spare.count > 0 && (node = list_pop_front(&statements->spare)))
		statement_unref(container_of(node, struct statement, node));
}

int statements_reserve(struct statements *statements, uint32_t count)
{
	while (statements->spare.count < 2 * count) {
		struct statement *statement = statement_create(&statements->generations);

		if (!statement)
			return -ENOMEM;
		list_push_back(&statements->spare, &statement->node);
	}
	return 0;
}

static void replace(struct statements *statements, uint32_t index)
{
	struct list_node *node = list_pop_front(&statements->spare);

	CHECK_MSG(node, "no memory was reserved");
	statement_unref(statements->at[index]);
	statements->at[index] = container_of(node, struct statement, node);
}

/* Another query of the keyspace's own makes the batch query another statement too: it is refused or
 * not by what that one takes. */
void statements_set(struct statements *statements, uint32_t index, const struct policy *policy)
{
	CHECK(index < ROSTER_MAX);
	struct statement **single = &statements->at[index];
	struct statement **batch = &statements->at[STATEMENTS_BATCH + index];
	bool changed = !*single || strcmp((*single)->query, policy->query) != 0;

	if (changed)
		replace(statements, index);
	statement_set(*single, policy, index, NULL);
	if (!policy->batch.query) {
		statement_unref(*batch);
		*batch = NULL;
		return;
	}
	if (changed || !*batch || strcmp((*batch)->query, policy->batch.query) != 0)
		replace(statements, STATEMENTS_BATCH + index);
	statement_set(*batch, policy, STATEMENTS_BATCH + index, *single);
}

void statements_forget(struct statements *statements, uint32_t index)
{
	statement_unref(statements->at[index]);
	statement_unref(statements->at[STATEMENTS_BATCH + index]);
	statements->at[index] = statements->at[STATEMENTS_BATCH + index] = NULL;
}
