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
	while (statements->spare.count < count) {
		struct statement *statement = statement_create(&statements->generations);

		if (!statement)
			return -ENOMEM;
		list_push_back(&statements->spare, &statement->node);
	}
	return 0;
}

void statements_set(struct statements *statements, uint32_t index, const struct policy *policy)
{
	CHECK(index < ROSTER_MAX);
	struct statement **at = &statements->at[index];

	if (!*at || strcmp((*at)->policy->query, policy->query)) {
		struct list_node *node = list_pop_front(&statements->spare);

		CHECK_MSG(node, "no memory was reserved");
		statement_unref(*at);
		*at = container_of(node, struct statement, node);
	}
	statement_set(*at, policy, index);
}

void statements_forget(struct statements *statements, uint32_t index)
{
	statement_unref(statements->at[index]);
	statements->at[index] = NULL;
}
