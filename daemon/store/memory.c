#include "store/memory.h"

#include <string.h>

#include "base/check.h"
#include "base/heap.h"
#include "base/mem.h"
#include "base/table.h"
#include "store/share.h"

/* The promise is the budget; the share given out stays a tenth below it, so that the origin's own
   clock and the network's jitter cannot push a second over it. */
#define BUDGET_SHARE 0.9

/* What is remembered of a key: there only while it has a lease or a failure. */
struct claim {
	struct table_node node;
	struct list_node failed; /* among those with a failure, oldest first */
	struct heap_node end;    /* of the lease or the failure, whichever comes last */
	uint64_t token;          /* of the lease; meaningless once lease_until_us has passed */
	int64_t lease_until_us;
	uint32_t streak; /* of the last failure, known until … */
	int64_t streak_until_us;

	uint64_t fence;
	struct failure failure; /* text counted; status OK: none */
	uint32_t key_len;
	char key[];
};

struct slot {
	uint64_t token;
	int64_t until_us; /* free when passed */
	bool background;
};

/* When the next statement of a pace may start. */
struct pace_mark {
	uint64_t id;
	int64_t next_us;
};
enum { PACES_MAX = 16 };

struct memory_store {
	struct memory_store_host host;
	struct memory_store_limits limits;
	struct list submitted; /* of struct store_op, in order */
	struct table claims;
	struct heap ends; /* of claims */
	struct list failed;
	uint64_t last_fence;
	int64_t interval_us;    /* between two permits */
	int64_t next_permit_us; /* GCRA's theoretical arrival time, without burst (ITU-T I.371) */
	struct pace_mark paces[PACES_MAX];
	struct slot slots[];
};

/* ---- claims ------------------------------------------------------------------------------ */

static struct claim *claim_find(const struct memory_store *memory, const struct key *key)
{
	for (struct table_node *node = table_find(&memory->claims, key->hash); node;
	     node = table_next(node)) {
		struct claim *claim = container_of(node, struct claim, node);
		if (claim->key_len == key->len && memcmp(claim->key, key->bytes, key->len) == 0)
			return claim;
	}
	return NULL;
}

static struct claim *claim_get(struct memory_store *memory, const struct key *key)
{
	struct claim *claim = claim_find(memory, key);
	if (claim)
		return claim;
	claim = mem_zalloc(sizeof(*claim) + key->len);
	if (!claim)
		return NULL;
	claim->key_len = key->len;
	memcpy(claim->key, key->bytes, key->len);
	list_node_init(&claim->failed);
	table_insert(&memory->claims, &claim->node, key->hash);
	return claim;
}

static void claim_forget_failure(struct memory_store *memory, struct claim *claim)
{
	if (claim->failure.status == STATUS_OK)
		return;
	list_remove(&memory->failed, &claim->failed);
	value_unref(claim->failure.text);
	claim->failure = (struct failure){ 0 };
}

static bool claim_is_leased(const struct claim *claim, int64_t now_us)
{
	return now_us < claim->lease_until_us;
}

static bool claim_has_failed(const struct claim *claim, int64_t now_us)
{
	return claim->failure.status != STATUS_OK && now_us < claim->failure.until_us;
}

/* Keeps the claim as long as something of it holds, else frees it. Fences need no memory: they
   start at the clock's microseconds, so a forgotten one cannot come again. */
static void claim_settle(struct memory_store *memory, struct claim *claim, int64_t now_us)
{
	heap_remove(&memory->ends, &claim->end);
	if (!claim_has_failed(claim, now_us))
		claim_forget_failure(memory, claim);
	int64_t end = claim->lease_until_us > claim->streak_until_us ? claim->lease_until_us
								     : claim->streak_until_us;
	if (claim->failure.status != STATUS_OK && claim->failure.until_us > end)
		end = claim->failure.until_us;
	if (end > now_us) {
		heap_insert(&memory->ends, &claim->end, end);
		return;
	}
	table_remove(&memory->claims, &claim->node);
	mem_free(claim);
}

static void claims_expire(struct memory_store *memory, int64_t now_us)
{
	struct heap_node *due;
	while ((due = heap_first(&memory->ends)) && due->at <= now_us)
		claim_settle(memory, container_of(due, struct claim, end), now_us);
}

static uint64_t next_fence(struct memory_store *memory, uint64_t known, int64_t now_us)
{
	const struct memory_store_host *host = &memory->host;
	uint64_t fence = (uint64_t)(host->fence_us ? host->fence_us(host->impl) : now_us - 1);
	if (fence < memory->last_fence)
		fence = memory->last_fence;
	if (fence < known)
		fence = known;
	return memory->last_fence = fence + 1;
}

/* ---- the verbs --------------------------------------------------------------------------- */

static void copy_failure(const struct claim *claim, struct store_op *op)
{
	op->failure = claim->failure;
	value_ref(op->failure.text);
}

static void do_load(struct memory_store *memory, struct store_op *op, int64_t now_us)
{
	struct claim *claim = claim_find(memory, &op->key);
	if (!claim)
		return;
	op->has_claim = true;
	op->fence = claim->fence;
	if (claim_is_leased(claim, now_us))
		op->left_us = claim->lease_until_us - now_us;
	op->has_failure = claim_has_failed(claim, now_us);
	if (op->has_failure)
		copy_failure(claim, op);
}

static void do_lease(struct memory_store *memory, struct store_op *op, int64_t now_us)
{
	struct claim *claim = claim_get(memory, &op->key);
	if (!claim) {
		op->outcome = STORE_AWAY;
	} else if (claim_has_failed(claim, now_us)) {
		op->outcome = STORE_FAILED;
		copy_failure(claim, op);
	} else if (claim_is_leased(claim, now_us) && claim->token != op->token) {
		op->outcome = STORE_HELD;
		op->left_us = claim->lease_until_us - now_us;
	} else {
		claim->token = op->token;
		claim->lease_until_us = now_us + op->length_us;
		uint64_t known = claim->fence > op->known_fence ? claim->fence : op->known_fence;
		claim->fence = op->fence = next_fence(memory, known, now_us);
		op->failure.streak = now_us < claim->streak_until_us ? claim->streak : 0;
		claim_settle(memory, claim, now_us);
	}
}

static bool lease_is_ours(const struct claim *claim, const struct store_op *op, int64_t now_us)
{
	return claim && claim_is_leased(claim, now_us) && claim->token == op->token;
}

static void do_save(struct memory_store *memory, struct store_op *op, int64_t now_us)
{
	struct claim *claim = claim_find(memory, &op->key);
	if (!lease_is_ours(claim, op, now_us)) {
		op->outcome = STORE_REFUSED;
		return;
	}
	claim->lease_until_us = claim->streak_until_us = 0;
	claim_settle(memory, claim, now_us);
}

static void do_renew(struct memory_store *memory, struct store_op *op, int64_t now_us)
{
	struct claim *claim = claim_find(memory, &op->key);
	if (!lease_is_ours(claim, op, now_us)) {
		op->outcome = STORE_REFUSED;
		return;
	}
	claim->lease_until_us = now_us + op->length_us;
	claim_settle(memory, claim, now_us);
}

static void remember_failure(struct memory_store *memory, struct claim *claim,
			     const struct failure *failure, int64_t now_us)
{
	claim_forget_failure(memory, claim);
	if (memory->failed.count >= memory->limits.failures_max) {
		struct claim *oldest =
			container_of(list_first(&memory->failed), struct claim, failed);
		claim_forget_failure(memory, oldest);
	}
	claim->failure = *failure;
	claim->streak = failure->streak;
	claim->streak_until_us = failure->until_us + (failure->until_us - now_us);
	value_ref(claim->failure.text);
	list_push_back(&memory->failed, &claim->failed);
}

static void do_release(struct memory_store *memory, struct store_op *op, int64_t now_us)
{
	struct claim *claim = claim_find(memory, &op->key);
	if (!lease_is_ours(claim, op, now_us))
		return;
	claim->lease_until_us = 0;
	if (op->failure.status != STATUS_OK && op->failure.until_us > now_us)
		remember_failure(memory, claim, &op->failure, now_us);
	claim_settle(memory, claim, now_us);
}

static uint64_t change(struct memory_store *memory, const struct key *key, int64_t now_us)
{
	struct claim *claim = claim_find(memory, key);
	uint64_t floor = next_fence(memory, claim ? claim->fence : 0, now_us);
	if (!claim)
		return floor;
	/* A change may have mended what failed. */
	claim_forget_failure(memory, claim);
	claim->streak_until_us = 0;
	claim_settle(memory, claim, now_us);
	return floor;
}

/* The slot that is free first, or whose turn it is; `ret_taken`: background ones in use. */
static struct slot *slot_pick(struct memory_store *memory, int64_t now_us, uint32_t *ret_background)
{
	struct slot *best = &memory->slots[0];
	*ret_background = 0;
	for (uint32_t i = 0; i < memory->limits.concurrency; i++) {
		struct slot *slot = &memory->slots[i];
		if (slot->until_us < best->until_us)
			best = slot;
		*ret_background += slot->background && now_us < slot->until_us;
	}
	return best;
}

/* How long that pace still has to wait; where it is kept. Of too many the one that is due longest
   goes. */
static struct pace_mark *find_pace(struct memory_store *memory, uint64_t id)
{
	struct pace_mark *oldest = &memory->paces[0];
	for (int i = 0; i < PACES_MAX; i++) {
		struct pace_mark *mark = &memory->paces[i];
		if (mark->id == id)
			return mark;
		if (mark->next_us < oldest->next_us)
			oldest = mark;
	}
	*oldest = (struct pace_mark){ .id = id };
	return oldest;
}

static void do_permit(struct memory_store *memory, struct store_op *op, int64_t now_us)
{
	const int64_t pace_us = op->pace.interval_us;
	struct pace_mark *mark = pace_us > 0 ? find_pace(memory, op->pace.id) : NULL;
	int64_t paced_us = mark ? share_pace(mark->next_us, pace_us, now_us) : 0;
	uint32_t background, half = (memory->limits.concurrency + 1) / 2;
	struct slot *slot = slot_pick(memory, now_us, &background);
	int64_t start_us = memory->next_permit_us > now_us ? memory->next_permit_us : now_us;
	int64_t wait_us = start_us - now_us;
	bool full = now_us < slot->until_us || (op->background && background >= half);
	if (full || wait_us > op->reach_us) {
		op->outcome = STORE_RETRY;
		/* The reach need not be waited for; a slot comes back unannounced: look again soon.
		 */
		op->left_us = wait_us > op->reach_us ? wait_us - op->reach_us : memory->interval_us;
		return;
	}
	if (paced_us > now_us) {
		op->outcome = STORE_RETRY;
		op->left_us = paced_us - now_us;
		return;
	}
	if (mark)
		mark->next_us = paced_us + pace_us;
	memory->next_permit_us = start_us + memory->interval_us;
	*slot = (struct slot){ .token = op->token,
			       .until_us = start_us + op->length_us,
			       .background = op->background };
	op->slot = (int)(slot - memory->slots);
	op->left_us = wait_us;
}

static void do_free(struct memory_store *memory, struct store_op *op)
{
	CHECK(op->slot >= 0 && (uint32_t)op->slot < memory->limits.concurrency);
	struct slot *slot = &memory->slots[op->slot];
	if (slot->token == op->token)
		*slot = (struct slot){ 0 };
}

static void carry_out(struct memory_store *memory, struct store_op *op, int64_t now_us)
{
	op->outcome = STORE_DONE;
	switch (op->verb) {
	case STORE_LOAD:
		do_load(memory, op, now_us);
		break;
	case STORE_LEASE:
		do_lease(memory, op, now_us);
		break;
	case STORE_RENEW:
		do_renew(memory, op, now_us);
		break;
	case STORE_PERMIT:
		do_permit(memory, op, now_us);
		break;
	case STORE_FREE:
		do_free(memory, op);
		break;
	case STORE_SAVE:
		do_save(memory, op, now_us);
		break;
	case STORE_RELEASE:
		do_release(memory, op, now_us);
		break;
	case STORE_INVALIDATE:
		op->fence = change(memory, &op->key, now_us);
		break;
	case STORE_EPOCH:
		op->moment_us = now_us; /* there is nobody else to tell */
		break;
	}
}

/* ---- life -------------------------------------------------------------------------------- */

static void memory_submit(void *impl, struct store_op *op)
{
	struct memory_store *memory = impl;
	list_push_back(&memory->submitted, &op->node);
	memory->host.want_turn(memory->host.impl);
}

void memory_store_turn(struct memory_store *memory)
{
	int64_t now_us = memory->host.now_us(memory->host.impl);
	claims_expire(memory, now_us);
	/* Answers submit anew: those wait for the next turn, so that the loop gets its share. */
	for (size_t n = memory->submitted.count; n > 0; n--) {
		struct store_op *op =
			container_of(list_pop_front(&memory->submitted), struct store_op, node);
		carry_out(memory, op, now_us);
		op->done(op);
	}
}

void memory_store_set_budget(struct memory_store *memory, double budget_per_s)
{
	memory->interval_us = (int64_t)(1e6 * memory->limits.fleet / (BUDGET_SHARE * budget_per_s));
}

struct memory_store *memory_store_create(const struct memory_store_limits *limits,
					 const struct memory_store_host *host)
{
	CHECK(limits->concurrency > 0 && limits->budget_per_s > 0 && limits->fleet > 0);
	struct memory_store *memory =
		mem_zalloc(sizeof(*memory) + limits->concurrency * sizeof(struct slot));
	if (!memory)
		return NULL;
	memory->limits = *limits;
	memory->host = *host;
	list_init(&memory->submitted);
	list_init(&memory->failed);
	memory_store_set_budget(memory, limits->budget_per_s);
	/* A predecessor may have started builds in this very second. */
	memory->next_permit_us = host->now_us(host->impl);
	if (table_init(&memory->claims, 64) != 0) {
		mem_free(memory);
		return NULL;
	}
	return memory;
}

void memory_store_free(struct memory_store *memory)
{
	if (!memory)
		return;
	CHECK(list_empty(&memory->submitted));
	struct heap_node *node;
	while ((node = heap_first(&memory->ends)))
		claim_settle(memory, container_of(node, struct claim, end), INT64_MAX);
	table_close(&memory->claims);
	mem_free(memory);
}

struct store memory_store_iface(struct memory_store *memory)
{
	return (struct store){ .impl = memory, .submit = memory_submit };
}

uint64_t memory_store_change(struct memory_store *memory, const struct key *key)
{
	return change(memory, key, memory->host.now_us(memory->host.impl));
}

uint32_t memory_store_claims(const struct memory_store *memory)
{
	return (uint32_t)memory->claims.count;
}
