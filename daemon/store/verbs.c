#include <string.h>

#include "base/check.h"
#include "base/limits.h"
#include "store/redis_state.h"

enum script_name verb_script(const struct errand *errand)
{
	static const enum script_name of_verb[] = {
		[STORE_LOAD] = SCRIPT_LOAD,       [STORE_LEASE] = SCRIPT_LEASE,
		[STORE_RENEW] = SCRIPT_RENEW,     [STORE_PERMIT] = SCRIPT_PERMIT,
		[STORE_FREE] = SCRIPT_FREE,       [STORE_SAVE] = SCRIPT_SAVE,
		[STORE_RELEASE] = SCRIPT_RELEASE, [STORE_INVALIDATE] = SCRIPT_INVALIDATE,
		[STORE_EPOCH] = SCRIPT_EPOCH,
	};
	return errand->fetching ? SCRIPT_LOAD : of_verb[errand->op->verb];
}

uint32_t verb_keys(const struct errand *errand)
{
	switch (errand->op->verb) {
	case STORE_FREE:
	case STORE_EPOCH:
		return 1;
	case STORE_PERMIT:
		return 3;
	case STORE_LOAD:
	case STORE_LEASE:
	case STORE_RENEW:
	case STORE_SAVE:
	case STORE_RELEASE:
	case STORE_INVALIDATE:
		return 2;
	}
	return 2;
}

/* ---- arguments --------------------------------------------------------------------------- */

static void write_key_names(struct errand *errand, struct script_args *args)
{
	struct keys *keys = &errand->redis->keys;
	keys_name(keys, errand->op->key.bytes, errand->op->key.len);
	args_bytes(args, keys->entry, keys->len);
	args_bytes(args, keys->claim, keys->len);
}

static void write_channel_and_key(struct errand *errand, struct script_args *args)
{
	args_text(args, errand->redis->keys.channel);
	args_bytes(args, errand->op->key.bytes, errand->op->key.len);
}

static void write_deadline(struct errand *errand, struct script_args *args)
{
	args_number(args, redis_deadline_us(errand->redis, errand->link));
}

/* What the new fence is to be greater than. */
static void write_known_fence(struct errand *errand, struct script_args *args)
{
	struct redis_store *redis = errand->redis;
	uint64_t floor = era_fence(&redis->era, redis_store_clock_us(redis));
	uint64_t known = errand->op->known_fence;
	args_u64(args, known > floor ? known : floor);
}

static void write_lease(struct errand *errand, struct script_args *args)
{
	const struct store_op *op = errand->op;
	const struct want *want = &op->want;
	write_key_names(errand, args);
	write_deadline(errand, args);
	args_u64(args, op->token);
	args_number(args, op->length_us);
	write_known_fence(errand, args);
	if (want->fence_after)
		args_u64(args, want->fence_after);
	else
		args_text(args, "");
	if (want->has_min_version)
		args_u64(args, (uint64_t)want->min_version);
	else
		args_text(args, "");
	args_flag(args, want->fresh);
	args_flag(args, op->key.keyspace->policy->single_row);
	args_u32(args, errand->redis->era.number);
	args_number(args, errand->redis->place.number + 1);
}

static void write_renew(struct errand *errand, struct script_args *args)
{
	const struct store_op *op = errand->op;
	write_key_names(errand, args);
	write_deadline(errand, args);
	args_u64(args, op->token);
	args_number(args, op->length_us);
	args_number(args, op->longest_us);
}

static int64_t to_store(struct redis_store *redis, int64_t moment_us)
{
	return fleet_clock_to_store(&redis->clock, moment_us, redis_local_us());
}

static void write_save(struct errand *errand, struct script_args *args)
{
	struct redis_store *redis = errand->redis;
	const struct store_op *op = errand->op;
	const struct policy *policy = op->key.keyspace->policy;
	struct entry entry = op->entry;
	entry.generated_at_us = to_store(redis, entry.generated_at_us);
	entry.fresh_until_us = to_store(redis, entry.fresh_until_us);
	entry.stale_until_us = to_store(redis, entry.stale_until_us);
	era_mark(&redis->era, &entry, redis_local_us());
	record_encode(&entry, errand->header);
	write_key_names(errand, args);
	write_deadline(errand, args);
	args_u64(args, op->token);
	args_bytes(args, errand->header, RECORD_HEADER_LEN);
	args_bytes(args, entry.value ? entry.value->bytes : "", entry.value ? entry.value->len : 0);
	args_flag(args, policy->single_row);
	args_number(args, policy->stale_us);
	write_channel_and_key(errand, args);
	args_text(args, redis->keys.history);
	args_text(args, redis->trust_us > 0 ? redis->keys.beat : "");
	if (op->given)
		args_number(args, redis->beat_store_us);
	else
		args_text(args, "");
	if (!redis->standby || op->given)
		return;
	args_u64(args, op->snapshot);
	args_text(args, redis->keys.floors);
	args_text(args, policy->name);
}

static void write_release(struct errand *errand, struct script_args *args)
{
	struct redis_store *redis = errand->redis;
	const struct store_op *op = errand->op;
	const struct value *text = op->failure.text;
	int64_t length_us = op->failure.until_us - redis_store_now_us(redis);
	bool remember = op->failure.status != STATUS_OK && length_us > 0;
	write_key_names(errand, args);
	write_deadline(errand, args);
	args_u64(args, op->token);
	args_number(args, remember ? (int64_t)op->failure.status : 0);
	args_number(args, remember ? length_us : 0);
	args_bytes(args, text ? text->bytes : "", text ? text->len : 0);
	args_number(args, op->failure.streak);
	write_channel_and_key(errand, args);
}

static void write_invalidate(struct errand *errand, struct script_args *args)
{
	const struct store_op *op = errand->op;
	write_key_names(errand, args);
	write_deadline(errand, args);
	write_known_fence(errand, args);
	args_number(args, op->key.keyspace->policy->stale_us);
	args_flag(args, op->hard);
	write_channel_and_key(errand, args);
}

static void write_permit(struct errand *errand, struct script_args *args)
{
	struct redis_store *redis = errand->redis;
	const struct store_op *op = errand->op;
	args_text(args, redis->keys.permits);
	args_text(args, redis->keys.places);
	keys_pace(&redis->keys, op->pace.id);
	args_text(args, redis->keys.pace);
	write_deadline(errand, args);
	args_number(args, redis_store_clock_us(redis));
	args_u64(args, op->token);
	args_number(args, redis->place.number == PLACE_NONE ? UINT16_MAX : redis->place.number);
	args_number(args, place_instance(&redis->place));
	args_number(args, op->length_us);
	args_number(args, op->reach_us);
	args_flag(args, op->background);
	args_number(args, redis->concurrency);
	args_real(args, redis->rate_per_s);
	args_number(args, redis->fleet);
	args_number(args, PLACE_HEARTBEAT_US);
	args_number(args, op->pace.interval_us);
}

static void write_free(struct errand *errand, struct script_args *args)
{
	args_text(args, errand->redis->keys.permits);
	args_text(args, "token");
	args_u64(args, errand->op->token);
	args_number(args, errand->op->slot);
}

static void write_epoch(struct errand *errand, struct script_args *args)
{
	const struct store_op *op = errand->op;
	args_text(args, errand->redis->keys.epochs);
	write_deadline(errand, args);
	args_text(args, op->key.keyspace->policy->name);
	args_number(args, op->length_us);
	args_text(args, errand->redis->keys.channel);
}

void verb_write(struct errand *errand, struct script_args *args)
{
	if (errand->fetching) {
		write_key_names(errand, args);
		args_u64(args, 0);
		args_text(args, errand->redis->keys.beat);
		return;
	}
	switch (errand->op->verb) {
	case STORE_LOAD:
		write_key_names(errand, args);
		args_u64(args, errand->op->known_fence);
		args_text(args, errand->redis->keys.beat);
		return;
	case STORE_LEASE:
		write_lease(errand, args);
		return;
	case STORE_RENEW:
		write_renew(errand, args);
		return;
	case STORE_SAVE:
		write_save(errand, args);
		return;
	case STORE_RELEASE:
		write_release(errand, args);
		return;
	case STORE_INVALIDATE:
		write_invalidate(errand, args);
		return;
	case STORE_PERMIT:
		write_permit(errand, args);
		return;
	case STORE_FREE:
		write_free(errand, args);
		return;
	case STORE_EPOCH:
		write_epoch(errand, args);
		return;
	}
}

/* ---- answers ----------------------------------------------------------------------------- */

static int64_t from_store(struct redis_store *redis, int64_t moment_us)
{
	return fleet_clock_from_store(&redis->clock, moment_us, redis_local_us());
}

/* The entry of which these are header and value (each may be nil). True also where there is none,
   or none that can be read; false where memory is missing. */
static bool read_entry(struct errand *errand, const redisReply *header, const redisReply *value)
{
	struct redis_store *redis = errand->redis;
	struct store_op *op = errand->op;
	struct entry entry;
	int64_t value_len;
	op->has_entry = op->has_value = false;
	if (header->type != REDIS_REPLY_STRING ||
	    !record_decode(header->str, header->len, &entry, &value_len))
		return true;
	if (value && value->type == REDIS_REPLY_STRING) {
		if (value->len != (size_t)(value_len < 0 ? 0 : value_len))
			return true;
		if (value_len >= 0 && !(entry.value = value_create(value->str, value->len)))
			return false;
		op->has_value = true;
	}
	era_translate(&redis->era, &entry, op->key.keyspace->policy, redis_store_clock_us(redis),
		      redis_local_us());
	entry.generated_at_us = from_store(redis, entry.generated_at_us);
	entry.fresh_until_us = from_store(redis, entry.fresh_until_us);
	entry.stale_until_us = from_store(redis, entry.stale_until_us);
	op->entry = entry;
	op->has_entry = true;
	return true;
}

/* The remembered failure of which these items are status, what is left, text and streak. */
static bool read_failure(struct errand *errand, const redisReply *reply, size_t item)
{
	struct store_op *op = errand->op;
	int64_t status = reply_number(reply, item), left_us = reply_number(reply, item + 1);
	const redisReply *text = reply->element[item + 2];
	if (status <= 0 || status >= STATUS_COUNT || left_us <= 0)
		return false;
	op->failure = (struct failure){ .status = (enum status)status,
					.streak = (uint32_t)reply_number(reply, item + 3),
					.until_us = redis_store_now_us(errand->redis) + left_us,
					.retry_in_us = left_us };
	if (text->type == REDIS_REPLY_STRING && text->len > 0 && text->len <= ERROR_TEXT_MAX)
		op->failure.text = value_create(text->str, text->len);
	return true;
}

static enum store_error read_load(struct errand *errand, const redisReply *reply)
{
	struct store_op *op = errand->op;
	const struct trust *trust = &errand->redis->trust;
	if (!reply_is(reply, "loaded", 14))
		return STORE_ERROR_GARBAGE;
	if (!read_entry(errand, reply->element[1], reply->element[2]))
		return STORE_ERROR_MEMORY;
	op->beat = (uint64_t)reply_number(reply, 11);
	op->is_whole = trust->has_last && trust->last == op->beat;
	op->has_claim = reply_number(reply, 3) != 0;
	op->fence = reply_u64(reply, 4);
	op->floor = reply_u64(reply, 5);
	op->left_us = reply_number(reply, 6);
	op->has_failure = reply_number(reply, 8) > 0 && read_failure(errand, reply, 7);
	op->lease_age_us = reply_number(reply, 12);
	op->holder = (int)reply_number(reply, 13) - 1;
	return STORE_ERROR_NONE;
}

/* What was enough was too large for the control connection, and has been loaded since. If it is
   there no more, the caller looks again. */
static enum store_error read_fetched(struct errand *errand, const redisReply *reply)
{
	struct store_op *op = errand->op;
	if (!reply_is(reply, "loaded", 14))
		return STORE_ERROR_GARBAGE;
	if (!read_entry(errand, reply->element[1], reply->element[2]))
		return STORE_ERROR_MEMORY;
	if (op->has_entry && op->has_value && op->entry.fence >= errand->fetched_fence) {
		op->outcome = STORE_ENOUGH;
		return STORE_ERROR_NONE;
	}
	value_unref(op->entry.value);
	op->entry = (struct entry){ 0 };
	op->has_entry = op->has_value = false;
	op->outcome = STORE_HELD;
	op->left_us = 1;
	return STORE_ERROR_NONE;
}

static enum store_error read_enough(struct errand *errand, const redisReply *reply)
{
	struct store_op *op = errand->op;
	if (!read_entry(errand, reply->element[2], reply->element[3]))
		return STORE_ERROR_MEMORY;
	if (!op->has_entry)
		return STORE_ERROR_GARBAGE;
	op->outcome = STORE_ENOUGH;
	errand->fetching = !op->has_value;
	errand->fetched_fence = op->entry.fence;
	return STORE_ERROR_NONE;
}

static enum store_error read_lease(struct errand *errand, const redisReply *reply)
{
	struct store_op *op = errand->op;
	if (reply->elements < 3)
		return STORE_ERROR_GARBAGE;
	op->floor = reply_u64(reply, 1);
	if (reply_is(reply, "leased", 4)) {
		op->fence = reply_u64(reply, 2);
		op->failure = (struct failure){ .streak = (uint32_t)reply_number(reply, 3) };
		return op->fence ? STORE_ERROR_NONE : STORE_ERROR_GARBAGE;
	}
	if (reply_is(reply, "enough", 4))
		return read_enough(errand, reply);
	if (reply_is(reply, "held", 3)) {
		op->outcome = STORE_HELD;
		op->left_us = reply_number(reply, 2);
		return STORE_ERROR_NONE;
	}
	if (!reply_is(reply, "failed", 6) || !read_failure(errand, reply, 2))
		return STORE_ERROR_GARBAGE;
	op->outcome = STORE_FAILED;
	op->has_failure = true;
	return STORE_ERROR_NONE;
}

static enum store_error read_renew(struct errand *errand, const redisReply *reply)
{
	bool refused = reply_is(reply, "refused", 2);
	if (!refused && !reply_is(reply, "renewed", 2))
		return STORE_ERROR_GARBAGE;
	errand->op->floor = reply_u64(reply, 1);
	if (refused)
		errand->op->outcome = STORE_REFUSED;
	return STORE_ERROR_NONE;
}

static enum store_error read_save(struct errand *errand, const redisReply *reply)
{
	struct store_op *op = errand->op;
	if (reply_is(reply, "saved", 2)) {
		op->floor = reply_u64(reply, 1);
		return STORE_ERROR_NONE;
	}
	if (reply_is(reply, "early", 1)) {
		op->outcome = STORE_RETRY;
		return STORE_ERROR_NONE;
	}
	bool foreign = reply_is(reply, "foreign", 3);
	if (!foreign && !reply_is(reply, "refused", 3))
		return STORE_ERROR_GARBAGE;
	op->floor = reply_u64(reply, 1);
	op->outcome = STORE_REFUSED;
	if (foreign)
		redis_note_foreign(errand->redis);
	return read_entry(errand, reply->element[2], NULL) ? STORE_ERROR_NONE : STORE_ERROR_MEMORY;
}

static enum store_error read_permit(struct errand *errand, const redisReply *reply)
{
	struct redis_store *redis = errand->redis;
	struct store_op *op = errand->op;
	bool granted = reply_is(reply, "granted", 4);
	if (!granted && !reply_is(reply, "retry", 4))
		return STORE_ERROR_GARBAGE;
	int64_t second = reply_number(reply, 2), third = reply_number(reply, 3);
	redis->places_live = (uint32_t)reply_number(reply, 1);
	if (!granted) {
		if (second < 0 || third < 0)
			return STORE_ERROR_GARBAGE;
		op->outcome = STORE_RETRY;
		op->left_us = second + rng_between(&redis->rng, 0, third);
		return STORE_ERROR_NONE;
	}
	if (second < 0 || second >= redis->concurrency)
		return STORE_ERROR_GARBAGE;
	op->slot = (int)second;
	op->left_us = errand->sent_at_us + third - redis_local_us();
	if (op->background && op->left_us > 0)
		op->left_us = 0; /* it was free at once; the rest is the clocks' */
	return STORE_ERROR_NONE;
}

static enum store_error read_epoch(struct errand *errand, const redisReply *reply)
{
	struct store_op *op = errand->op;
	const char *keyspace = op->key.keyspace->policy->name;
	if (!reply_is(reply, "epoch", 2))
		return STORE_ERROR_GARBAGE;
	op->moment_us = news_take_epoch(errand->redis, keyspace, strlen(keyspace),
					reply_number(reply, 1), op->length_us);
	return STORE_ERROR_NONE;
}

enum store_error verb_read(struct errand *errand, const redisReply *reply)
{
	struct store_op *op = errand->op;
	op->outcome = STORE_DONE;
	if (errand->fetching)
		return read_fetched(errand, reply);
	switch (op->verb) {
	case STORE_LOAD:
		return read_load(errand, reply);
	case STORE_LEASE:
		return read_lease(errand, reply);
	case STORE_RENEW:
		return read_renew(errand, reply);
	case STORE_SAVE:
		return read_save(errand, reply);
	case STORE_PERMIT:
		return read_permit(errand, reply);
	case STORE_RELEASE:
		return reply_is(reply, "released", 1) ? STORE_ERROR_NONE : STORE_ERROR_GARBAGE;
	case STORE_FREE:
		return reply_is(reply, "freed", 2) ? STORE_ERROR_NONE : STORE_ERROR_GARBAGE;
	case STORE_INVALIDATE:
		if (!reply_is(reply, "changed", 2))
			return STORE_ERROR_GARBAGE;
		op->fence = op->floor = reply_u64(reply, 1);
		return STORE_ERROR_NONE;
	case STORE_EPOCH:
		return read_epoch(errand, reply);
	}
	return STORE_ERROR_GARBAGE;
}
