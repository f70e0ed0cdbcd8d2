/* Operations: where each goes, and what becomes of it. */
#include "base/check.h"
#include "base/mem.h"
#include "store/redis_state.h"

enum {
	/* A permit whose start is longer ago is void. Of the fleet's rate nine tenths are given
	   out: if all start as late as each other there are never too many in a second, and not if
	   some are by up to a ninth of a second later than others. Half of that is for the answers.
	 */
	PERMIT_LATE_US = 50 * 1000,
};

static void errand_answer(struct redis_store *redis, struct store_op *op)
{
	op->work = NULL;
	list_push_back(&redis->answered, &op->node);
	redis_kick(redis);
}

static void errand_end(struct errand *errand)
{
	struct redis_store *redis = errand->redis;
	redis->errands--;
	durations_add(&redis->latencies[errand->op->verb], redis_local_us() - errand->asked_at_us);
	errand_answer(redis, errand->op);
	mem_free(errand);
}

/* The store gave no answer. */
static void op_fail(struct redis_store *redis, struct store_op *op, enum store_error error,
		    const char *text)
{
	redis_note_error(redis, store_verb_name(op->verb), error, text);
	amends_make(&redis->amends, op, error, redis_local_us());
	op->outcome = STORE_AWAY;
	op->has_entry = op->has_value = op->has_claim = op->has_failure = false;
	if (op->verb == STORE_PERMIT && !redis->closing &&
	    alone_answer(&redis->alone, &redis->place, op, redis_store_clock_us(redis),
			 redis_local_us()))
		redis->counters.permits_alone += op->outcome == STORE_DONE;
}

static void errand_fail(struct errand *errand, enum store_error error, const char *text)
{
	op_fail(errand->redis, errand->op, error, text);
	errand_end(errand);
}

/* A permit whose moment is long past would start its build in somebody else's. */
static void check_permit(struct redis_store *redis, struct store_op *op)
{
	if (op->verb != STORE_PERMIT || op->outcome != STORE_DONE)
		return;
	/* What every answer takes makes no difference. */
	if (op->left_us < -PERMIT_LATE_US - redis->clock.rtt_us / 2) {
		redis->counters.permits_late++;
		amends_add(&redis->amends, STORE_FREE, op, redis_local_us() + op->length_us);
		op->outcome = STORE_RETRY;
	}
	if (op->left_us < 0)
		op->left_us = 0;
}

static void errand_go(struct errand *errand);

static void errand_done(struct script_call *call, const redisReply *reply, enum store_error error,
			const char *text)
{
	struct errand *errand = container_of(call, struct errand, call);
	struct redis_store *redis = errand->redis;
	if (errand->link == &redis->values)
		redis->values_bytes -= errand->bytes;
	if (error == STORE_ERROR_LATE)
		redis->pulse.clock_due_us = 0; /* one of the clocks is wrong, perhaps */
	if (reply) {
		bool was_fetching = errand->fetching;
		error = verb_read(errand, reply);
		if (error == STORE_ERROR_NONE && errand->fetching && !was_fetching) {
			errand->link = &redis->values;
			errand_go(errand);
			return;
		}
	}
	if (error != STORE_ERROR_NONE) {
		errand_fail(errand, error, text);
		return;
	}
	check_permit(redis, errand->op);
	errand_end(errand);
}

static void errand_write(struct script_call *call, struct script_args *args)
{
	struct errand *errand = container_of(call, struct errand, call);
	errand->sent_at_us = redis_local_us();
	errand->redis->counters.commands++;
	verb_write(errand, args);
}

static bool errand_has_room(const struct errand *errand)
{
	const struct redis_store *redis = errand->redis;
	return errand->link != &redis->values || redis->values_bytes == 0 ||
	       redis->values_bytes + errand->bytes <= REDIS_VALUES_WINDOW;
}

/* Sends it, lets it wait, or lets it fail. */
static void errand_go(struct errand *errand)
{
	struct redis_store *redis = errand->redis;
	const struct link *link = errand->link;
	/* Without the control connection's greeting, no times can be told. */
	const struct link *missing = !link_is_ready(link)     ? link
				     : !redis->clock.in_touch ? &redis->control
							      : NULL;
	if (redis->closing) {
		errand_fail(errand, STORE_ERROR_CLOSED, NULL);
	} else if (missing ? link_is_hopeful(missing) : !errand_has_room(errand)) {
		list_push_back(&redis->waiting, &errand->node);
	} else if (missing) {
		errand_fail(errand, missing->error, missing->error_text);
	} else {
		errand->call = (struct script_call){ .script = verb_script(errand),
						     .keys_count = verb_keys(errand),
						     .write = errand_write,
						     .done = errand_done };
		if (!script_call_send(&errand->call, errand->link))
			errand_fail(errand, STORE_ERROR_LOST, NULL);
		else if (errand->link == &redis->values)
			redis->values_bytes += errand->bytes;
	}
}

void errands_go_on(struct redis_store *redis)
{
	int64_t now_us = redis_local_us();
	for (size_t n = redis->waiting.count; n > 0; n--) {
		struct errand *errand =
			container_of(list_pop_front(&redis->waiting), struct errand, node);
		if (now_us >= errand->give_up_at_us)
			errand_fail(errand, STORE_ERROR_TIMEOUT, NULL);
		else
			errand_go(errand);
	}
}

static bool is_for_values(const struct store_op *op)
{
	return op->verb == STORE_LOAD || op->verb == STORE_SAVE;
}

void errand_submit(void *impl, struct store_op *op)
{
	struct redis_store *redis = impl;
	list_node_init(&op->node);
	op->outcome = STORE_AWAY;
	op->has_entry = op->has_value = op->has_claim = op->has_failure = false;
	op->floor = 0;
	op->left_us = 0;
	if (op->verb == STORE_FREE && alone_free(&redis->alone, op->token)) {
		op->outcome = STORE_DONE;
		errand_answer(redis, op);
		return;
	}
	struct errand *errand = mem_zalloc(sizeof(*errand));
	if (!errand) {
		op_fail(redis, op, STORE_ERROR_MEMORY, NULL);
		errand_answer(redis, op);
		return;
	}
	bool values = is_for_values(op);
	list_node_init(&errand->node);
	errand->redis = redis;
	errand->op = op;
	errand->link = values ? &redis->values : &redis->control;
	errand->asked_at_us = redis_local_us();
	errand->give_up_at_us =
		errand->asked_at_us +
		INT64_C(1000) * (values ? redis->values_timeout_ms : redis->control_timeout_ms);
	if (op->verb == STORE_SAVE && op->entry.value)
		errand->bytes = op->entry.value->len;
	redis->errands++;
	errand_go(errand);
}
