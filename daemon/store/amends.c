#include "store/amends.h"

#include <string.h>

#include "base/mem.h"

/* What nobody knows the end of ends by then. */
#define LONGEST_US (INT64_C(3600) * 1000 * 1000)

void amends_init(struct amends *amends)
{
	*amends = (struct amends){ 0 };
	list_init(&amends->list);
}

static size_t cost(const struct amend *amend)
{
	return sizeof(*amend) + amend->key_len;
}

void amends_done(struct amend *amend)
{
	mem_free(amend);
}

void amends_put_back(struct amends *amends, struct amend *amend)
{
	amends->bytes += cost(amend);
	list_push_front(&amends->list, &amend->node);
}

struct amend *amends_take(struct amends *amends, int64_t local_us)
{
	struct list_node *node;
	while ((node = list_pop_front(&amends->list))) {
		struct amend *amend = container_of(node, struct amend, node);
		amends->bytes -= cost(amend);
		if (local_us < amend->until_us)
			return amend;
		amends_done(amend);
	}
	return NULL;
}

void amends_close(struct amends *amends)
{
	struct amend *amend;
	while ((amend = amends_take(amends, INT64_MIN)))
		amends_done(amend);
}

void amends_add(struct amends *amends, enum store_verb verb, const struct store_op *op,
		int64_t until_us)
{
	uint32_t key_len = verb == STORE_RELEASE ? op->key.len : 0;
	struct amend *amend = NULL;
	if (amends->bytes + sizeof(*amend) + key_len <= AMENDS_BYTES_MAX)
		amend = mem_alloc(sizeof(*amend) + key_len);
	if (!amend) {
		amends->dropped++;
		return;
	}
	*amend = (struct amend){ .verb = verb,
				 .token = op->token,
				 .slot = op->verb == STORE_FREE ? op->slot : -1,
				 .until_us = until_us,
				 .key_len = key_len };
	if (key_len > 0)
		memcpy(amend->key, op->key.bytes, key_len);
	amends->bytes += cost(amend);
	list_push_back(&amends->list, &amend->node);
}

void amends_make(struct amends *amends, const struct store_op *op, enum store_error error,
		 int64_t local_us)
{
	bool doubtful = store_error_is_doubtful(error);
	switch (op->verb) {
	case STORE_PERMIT:
		if (doubtful)
			amends_add(amends, STORE_FREE, op, local_us + op->length_us);
		break;
	case STORE_FREE:
		amends_add(amends, STORE_FREE, op, local_us + LONGEST_US);
		break;
	case STORE_LEASE:
		if (doubtful)
			amends_add(amends, STORE_RELEASE, op, local_us + op->length_us);
		break;
	case STORE_SAVE:
	case STORE_RELEASE:
		amends_add(amends, STORE_RELEASE, op, local_us + LONGEST_US);
		break;
	case STORE_LOAD:
	case STORE_RENEW:
	case STORE_INVALIDATE:
	case STORE_EPOCH:
		break;
	}
}
