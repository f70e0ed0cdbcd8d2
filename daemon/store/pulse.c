#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "store/redis_state.h"

enum {
	CLOCK_US = 1000 * 1000,          /* the time is asked for so often */
	TICK_MS = 100,                   /* the pulse's timer */
	SUCCESSION_US = 2 * 1000 * 1000, /* what a dead daemon ran at the origin ends meanwhile */
	BEATS_PER_TRUST = 4,
	EPOCHS_PER_TRUST = 2, /* without it */
	BEAT_LEAST_US = 50 * 1000,
	AMENDS_RETRY_US = 500 * 1000,
	DEFINE_US = 5 * 1000 * 1000,        /* the definitions are told so often */
	DEFINE_QUIET_US = 30 * 1000 * 1000, /* one that nobody told for so long rules no more */
};

static struct redis_store *redis_of(struct script_call *call, size_t offset)
{
	return (struct redis_store *)((char *)call - offset);
}
#define REDIS_OF(call, member) redis_of(call, offsetof(struct redis_store, pulse.member))

static bool pulse_send(struct redis_store *redis, struct script_call *call, bool *asked)
{
	call->with_text = false;
	redis->counters.commands++;
	*asked = script_call_send(call, &redis->control);
	return *asked;
}

/* While control is greeting, an error ends the attempt. */
static bool pulse_failed(struct redis_store *redis, const char *what, enum store_error error,
			 const char *text)
{
	if (error == STORE_ERROR_NONE)
		return false;
	redis_note_error(redis, what, error, text);
	if (!link_is_ready(&redis->control))
		link_drop(&redis->control, error, text);
	return true;
}

/* ---- the time ---------------------------------------------------------------------------- */

static void clock_write(struct script_call *call, struct script_args *args)
{
	struct redis_store *redis = REDIS_OF(call, clock);
	int64_t now_us = redis_local_us();
	int64_t jump_us = era_jump_to_tell(&redis->era, now_us);
	redis->pulse.clock_sent_us = now_us;
	args_text(args, redis->keys.era);
	args_text(args, redis->keys.places);
	args_number(args, redis->era.number);
	if (jump_us)
		args_number(args, jump_us);
	else
		args_text(args, "");
	args_u64(args, redis->place.token);
	args_number(args, PLACE_HEARTBEAT_US);
}

static void greet_place(struct redis_store *redis);

static void take_era(struct redis_store *redis, const redisReply *reply)
{
	int64_t number = reply_number(reply, 2);
	if (number <= 0 || number > UINT32_MAX)
		return;
	if (era_adopt(&redis->era, (uint32_t)number, reply_number(reply, 3), reply_number(reply, 4),
		      redis_local_us()))
		log_warning("store.era", LOG_INT("era", number),
			    LOG_MS("jump_ms", redis->era.jump_us));
}

static void clock_done(struct script_call *call, const redisReply *reply, enum store_error error,
		       const char *text)
{
	struct redis_store *redis = REDIS_OF(call, clock);
	struct pulse *pulse = &redis->pulse;
	int64_t now_us = redis_local_us();
	pulse->clock_asked = false;
	if (reply && reply->elements != 5)
		error = STORE_ERROR_GARBAGE;
	if (pulse_failed(redis, "clock", error, text))
		return;
	int64_t store_us = reply_number(reply, 0) * 1000000 + reply_number(reply, 1);
	int64_t jump_us = fleet_clock_sample(&redis->clock, pulse->clock_sent_us, now_us, store_us);
	redis->rtt_us = now_us - pulse->clock_sent_us;
	pulse->clock_due_us = now_us + CLOCK_US;
	if (jump_us) {
		redis->counters.clock_jumps++;
		log_error("store.clock_jump", LOG_MS("jump_ms", jump_us));
		era_saw_jump(&redis->era, jump_us, now_us);
		pulse->clock_due_us = now_us;
	}
	take_era(redis, reply);
	if (!link_is_ready(&redis->control))
		greet_place(redis);
}

/* ---- the place --------------------------------------------------------------------------- */

/* What is booked of our own share is used up first: no place is live and on its own. */
static bool place_may_be_asked(struct redis_store *redis)
{
	return !redis->pulse.place_asked &&
	       alone_booked_us(&redis->alone, redis_store_clock_us(redis)) == 0;
}

static void greet_place(struct redis_store *redis)
{
	struct pulse *pulse = &redis->pulse;
	pulse->place_held_back = !place_may_be_asked(redis);
	if (!pulse->place_held_back && !pulse_send(redis, &pulse->place, &pulse->place_asked))
		link_drop(&redis->control, STORE_ERROR_LOST, NULL);
}

static void place_write_args(struct script_call *call, struct script_args *args)
{
	struct redis_store *redis = REDIS_OF(call, place);
	const struct place *place = &redis->place;
	place_sent(&redis->place, (int64_t)redis->control_timeout_ms * 1000, redis_local_us());
	args_text(args, redis->keys.places);
	args_text(args, redis->keys.holders);
	args_text(args, redis->keys.permits);
	args_number(args, redis_deadline_us(redis, &redis->control));
	args_number(args, place->number);
	args_u64(args, place->token);
	if (place->before)
		args_u64(args, place->before);
	else
		args_text(args, "");
	args_number(args, place->fleet);
	args_number(args, PLACE_HEARTBEAT_US);
	args_real(args, redis->rate_per_s);
	args_flag(args, alone_owes(&redis->alone, redis_store_clock_us(redis)));
}

static void take_place(struct redis_store *redis, int number, bool succeeds)
{
	bool is_news = number != redis->place.number;
	int error = place_given(&redis->place, number);
	if (error)
		log_warning("store.place", LOG_TEXT("error", strerror(-error)),
			    LOG_TEXT("path", redis->place.path));
	if (is_news && number == PLACE_NONE)
		log_error("store.fleet_full", LOG_UINT("fleet", redis->fleet));
	else if (is_news)
		log_info("store.place", LOG_INT("place", number));
	if (succeeds)
		redis->pulse.successor_due_us = redis_local_us() + SUCCESSION_US;
}

static void place_done(struct script_call *call, const redisReply *reply, enum store_error error,
		       const char *text)
{
	struct redis_store *redis = REDIS_OF(call, place);
	int64_t number = PLACE_NONE;
	redis->pulse.place_asked = false;
	redis->pulse.place_due_us = redis_local_us() + PLACE_BEAT_US;
	if (reply && reply_is(reply, "placed", 3))
		number = reply_number(reply, 1);
	else if (reply && !reply_is(reply, "full", 1))
		error = STORE_ERROR_GARBAGE;
	if (number < PLACE_NONE || number >= redis->fleet)
		error = STORE_ERROR_GARBAGE;
	if (error != STORE_ERROR_NONE && !store_error_is_doubtful(error))
		place_not_taken(&redis->place);
	if (pulse_failed(redis, "place", error, text))
		return;
	take_place(redis, (int)number, number >= 0 && reply_number(reply, 2) != 0);
	if (!link_is_ready(&redis->control) &&
	    !pulse_send(redis, &redis->pulse.epochs, &redis->pulse.epochs_asked))
		link_drop(&redis->control, STORE_ERROR_LOST, NULL);
}

/* ---- the epochs -------------------------------------------------------------------------- */

static void epochs_write(struct script_call *call, struct script_args *args)
{
	struct redis_store *redis = REDIS_OF(call, epochs);
	size_t len = epoch_book_write(&redis->epochs, redis->epochs_form);
	args_text(args, redis->keys.epochs);
	args_number(args, redis_deadline_us(redis, &redis->control));
	args_bytes(args, redis->epochs_form, len);
}

static bool epochs_are_due(struct redis_store *redis, int64_t now_us)
{
	const struct pulse *pulse = &redis->pulse;
	bool told = redis->trust_us == 0 || redis_store_now_us(redis) < redis->trusted_until_us;
	return !pulse->epochs_asked &&
	       (pulse->epochs_due || (!told && now_us >= pulse->epochs_again_us));
}

static void take_epochs(struct redis_store *redis, const char *at, size_t len)
{
	size_t step, name_len;
	int64_t store_us, spread_us;
	const char *name;
	while ((step = epoch_form_read(at, len, &store_us, &spread_us, &name, &name_len)) > 0) {
		news_take_epoch(redis, name, name_len, store_us, spread_us);
		at += step;
		len -= step;
	}
}

static void epochs_done(struct script_call *call, const redisReply *reply, enum store_error error,
			const char *text)
{
	struct redis_store *redis = REDIS_OF(call, epochs);
	redis->pulse.epochs_asked = false;
	if (reply &&
	    (!reply_is(reply, "epochs", 2) || reply->element[1]->type != REDIS_REPLY_STRING))
		error = STORE_ERROR_GARBAGE;
	if (pulse_failed(redis, "epochs", error, text)) {
		redis->pulse.epochs_due = true;
		return;
	}
	take_epochs(redis, reply->element[1]->str, reply->element[1]->len);
	if (!redis->pulse.epochs_due)
		news_epochs_are_known(redis);
	if (link_is_ready(&redis->control))
		return;
	if (redis->definitions.count == 0)
		link_greeted(&redis->control);
	else if (!pulse_send(redis, &redis->pulse.define, &redis->pulse.define_asked))
		link_drop(&redis->control, STORE_ERROR_LOST, NULL);
}

/* ---- the definitions ----------------------------------------------------------------------- */

static void define_write(struct script_call *call, struct script_args *args)
{
	struct redis_store *redis = REDIS_OF(call, define);
	size_t len = definition_book_write(&redis->definitions, redis->definitions_form);
	redis->pulse.define_edition = redis->definitions.edition;
	args_text(args, redis->keys.definitions);
	args_number(args, redis_deadline_us(redis, &redis->control));
	args_number(args, DEFINE_QUIET_US);
	args_bytes(args, redis->definitions_form, len);
}

static void define_done(struct script_call *call, const redisReply *reply, enum store_error error,
			const char *text)
{
	struct redis_store *redis = REDIS_OF(call, define);
	struct pulse *pulse = &redis->pulse;
	/* What was asked before a reload says nothing of what is our own by now. */
	bool is_old = pulse->define_edition != redis->definitions.edition;
	pulse->define_asked = false;
	pulse->define_due_us = is_old ? 0 : redis_local_us() + DEFINE_US;
	if (reply &&
	    (!reply_is(reply, "defined", 2) || reply->element[1]->type != REDIS_REPLY_STRING))
		error = STORE_ERROR_GARBAGE;
	if (pulse_failed(redis, "define", error, text))
		return;
	if (!is_old)
		news_take_definitions(redis, reply->element[1]->str, reply->element[1]->len);
	if (!link_is_ready(&redis->control))
		link_greeted(&redis->control);
}

static bool define_is_due(const struct redis_store *redis, int64_t now_us)
{
	return redis->definitions.count > 0 && !redis->pulse.define_asked &&
	       now_us >= redis->pulse.define_due_us;
}

/* ---- the predecessor's slots ------------------------------------------------------------- */

static void successor_write(struct script_call *call, struct script_args *args)
{
	struct redis_store *redis = REDIS_OF(call, successor);
	args_text(args, redis->keys.permits);
	args_text(args, "place");
	args_number(args, redis->place.number);
	args_number(args, place_instance(&redis->place));
}

static void successor_done(struct script_call *call, const redisReply *reply,
			   enum store_error error, const char *text)
{
	struct redis_store *redis = REDIS_OF(call, successor);
	redis->pulse.successor_asked = false;
	if (reply && !reply_is(reply, "freed", 2))
		error = STORE_ERROR_GARBAGE;
	if (pulse_failed(redis, "successor", error, text))
		redis->pulse.successor_due_us = redis_local_us() + SUCCESSION_US;
	else
		log_info("store.slots_freed", LOG_INT("slots", reply_number(reply, 1)));
}

/* ---- trust ------------------------------------------------------------------------------- */

static int64_t beat_interval_us(const struct redis_store *redis)
{
	int64_t interval = redis->trust_us / BEATS_PER_TRUST;
	return interval < BEAT_LEAST_US ? BEAT_LEAST_US : interval;
}

static void beat_write(struct script_call *call, struct script_args *args)
{
	struct redis_store *redis = REDIS_OF(call, beat);
	args_text(args, redis->keys.beat);
	args_number(args, redis_deadline_us(redis, &redis->control));
	args_u64(args, redis->place.token);
	args_number(args, 2 * beat_interval_us(redis));
	args_text(args, redis->keys.channel);
	args_number(args, redis->pulse.beat_number);
	args_bytes(args, redis->pulse.beat_history,
		   redis->pulse.beat_number > 0 ? SERVER_HISTORY_LEN : 0);
}

static bool take_beat(struct pulse *pulse, const redisReply *reply)
{
	const redisReply *history = reply->element[2];
	int64_t number = reply_number(reply, 1);
	if (number <= 0 || history->type != REDIS_REPLY_STRING ||
	    history->len != SERVER_HISTORY_LEN)
		return false;
	pulse->beat_number = number;
	memcpy(pulse->beat_history, history->str, SERVER_HISTORY_LEN);
	return true;
}

static void beat_done(struct script_call *call, const redisReply *reply, enum store_error error,
		      const char *text)
{
	struct redis_store *redis = REDIS_OF(call, beat);
	redis->pulse.beat_asked = false;
	redis->pulse.is_beating =
		reply && reply_is(reply, "beat", 3) && take_beat(&redis->pulse, reply);
	if (reply && !redis->pulse.is_beating && !reply_is(reply, "held", 2))
		error = STORE_ERROR_GARBAGE;
	pulse_failed(redis, "beat", error, text);
}

/* Who publishes goes on; the others step in when they hear nothing any more. */
static bool beat_is_due(const struct redis_store *redis, int64_t now_us)
{
	const struct pulse *pulse = &redis->pulse;
	if (redis->trust_us == 0 || pulse->beat_asked || now_us < pulse->beat_due_us)
		return false;
	int64_t silence_us = now_us - pulse->beat_heard_us;
	return pulse->is_beating || silence_us > beat_interval_us(redis) * 3 / 2;
}

/* ---- amends ------------------------------------------------------------------------------ */

static void amend_write(struct script_call *call, struct script_args *args)
{
	struct redis_store *redis = REDIS_OF(call, amend);
	const struct amend *amend = redis->pulse.amending;
	if (amend->verb == STORE_FREE) {
		args_text(args, redis->keys.permits);
		args_text(args, "token");
		args_u64(args, amend->token);
		args_number(args, amend->slot);
		return;
	}
	keys_name(&redis->keys, amend->key, amend->key_len);
	args_bytes(args, redis->keys.entry, redis->keys.len);
	args_bytes(args, redis->keys.claim, redis->keys.len);
	args_number(args, redis_deadline_us(redis, &redis->control));
	args_u64(args, amend->token);
	args_text(args, "0");
	args_text(args, "0");
	args_text(args, "");
	args_text(args, "0");
	args_text(args, redis->keys.channel);
	args_bytes(args, amend->key, amend->key_len);
}

static void amend_next(struct redis_store *redis)
{
	struct pulse *pulse = &redis->pulse;
	if (pulse->amend_asked || redis->closing || !link_is_ready(&redis->control))
		return;
	pulse->amending = amends_take(&redis->amends, redis_local_us());
	if (!pulse->amending)
		return;
	bool frees = pulse->amending->verb == STORE_FREE;
	pulse->amend.script = frees ? SCRIPT_FREE : SCRIPT_RELEASE;
	pulse->amend.keys_count = frees ? 1 : 2;
	if (pulse_send(redis, &pulse->amend, &pulse->amend_asked))
		return;
	amends_put_back(&redis->amends, pulse->amending);
	pulse->amending = NULL;
}

static void amend_done(struct script_call *call, const redisReply *reply, enum store_error error,
		       const char *text)
{
	struct redis_store *redis = REDIS_OF(call, amend);
	struct pulse *pulse = &redis->pulse;
	(void)reply;
	pulse->amend_asked = false;
	if (pulse_failed(redis, "amend", error, text)) {
		/* The next turn of the pulse tries again. */
		amends_put_back(&redis->amends, pulse->amending);
		pulse->amending = NULL;
		return;
	}
	redis->counters.amends++;
	amends_done(pulse->amending);
	pulse->amending = NULL;
	amend_next(redis);
}

/* ---- the pulse --------------------------------------------------------------------------- */

static void pulse_beat(struct redis_store *redis, int64_t now_us)
{
	struct pulse *pulse = &redis->pulse;
	if (!pulse->clock_asked && now_us >= pulse->clock_due_us)
		pulse_send(redis, &pulse->clock, &pulse->clock_asked);
	if (now_us >= pulse->place_due_us && place_may_be_asked(redis))
		pulse_send(redis, &pulse->place, &pulse->place_asked);
	if (!pulse->successor_asked && now_us >= pulse->successor_due_us &&
	    redis->place.number != PLACE_NONE &&
	    pulse_send(redis, &pulse->successor, &pulse->successor_asked))
		pulse->successor_due_us = INT64_MAX;
	if (epochs_are_due(redis, now_us)) {
		pulse->epochs_again_us = now_us + redis->trust_us / EPOCHS_PER_TRUST;
		pulse->epochs_due = !pulse_send(redis, &pulse->epochs, &pulse->epochs_asked);
	}
	if (define_is_due(redis, now_us))
		pulse_send(redis, &pulse->define, &pulse->define_asked);
	if (beat_is_due(redis, now_us)) {
		pulse->beat_due_us = now_us + beat_interval_us(redis);
		pulse_send(redis, &pulse->beat, &pulse->beat_asked);
	}
	amend_next(redis);
}

static void pulse_on_timer(uv_timer_t *timer)
{
	struct redis_store *redis = container_of(timer, struct redis_store, pulse.timer);
	if (link_is_ready(&redis->control))
		pulse_beat(redis, redis_local_us());
	else if (redis->pulse.place_held_back && redis->control.state == LINK_GREETING)
		greet_place(redis);
	errands_go_on(redis);
}

void pulse_down(struct redis_store *redis)
{
	redis->pulse.place_held_back = false;
}

void pulse_greet(struct redis_store *redis)
{
	if (!pulse_send(redis, &redis->pulse.clock, &redis->pulse.clock_asked))
		link_drop(&redis->control, STORE_ERROR_LOST, NULL);
}

void pulse_ready(struct redis_store *redis)
{
	amend_next(redis);
}

static void prepare(struct script_call *call, enum script_name script, uint32_t keys_count,
		    void (*write)(struct script_call *, struct script_args *),
		    void (*done)(struct script_call *, const redisReply *, enum store_error,
				 const char *))
{
	*call = (struct script_call){
		.script = script, .keys_count = keys_count, .write = write, .done = done
	};
}

void pulse_init(struct redis_store *redis)
{
	struct pulse *pulse = &redis->pulse;
	*pulse = (struct pulse){ .successor_due_us = INT64_MAX };
	prepare(&pulse->clock, SCRIPT_CLOCK, 2, clock_write, clock_done);
	prepare(&pulse->place, SCRIPT_PLACE, 3, place_write_args, place_done);
	prepare(&pulse->epochs, SCRIPT_EPOCHS, 1, epochs_write, epochs_done);
	prepare(&pulse->define, SCRIPT_DEFINE, 1, define_write, define_done);
	prepare(&pulse->beat, SCRIPT_BEAT, 1, beat_write, beat_done);
	prepare(&pulse->amend, SCRIPT_FREE, 1, amend_write, amend_done);
	prepare(&pulse->successor, SCRIPT_FREE, 1, successor_write, successor_done);
	CHECK(uv_timer_init(redis->loop, &pulse->timer) == 0);
	int64_t tick_ms = TICK_MS;
	if (redis->trust_us > 0 && beat_interval_us(redis) / 2000 < tick_ms)
		tick_ms = beat_interval_us(redis) / 2000;
	CHECK(uv_timer_start(&pulse->timer, pulse_on_timer, (uint64_t)tick_ms, (uint64_t)tick_ms) ==
	      0);
}
