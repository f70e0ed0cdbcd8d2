#include <string.h>

#include "base/log.h"
#include "store/messages.h"
#include "store/redis_state.h"

static void tell_trusted(struct redis_store *redis, int64_t until_us)
{
	redis->trusted_until_us = until_us;
	if (redis->listener.trusted)
		redis->listener.trusted(redis->listener.impl, until_us);
}

void news_lost(struct redis_store *redis)
{
	if (redis->trust.has_last)
		redis->counters.trust_breaks++;
	trust_lose(&redis->trust);
	redis->beat_store_us = 0;
	redis->trust_waits = false;
	tell_trusted(redis, 0);
}

/* As long after the last beat as it vouches for. */
static void trust_goes_on(struct redis_store *redis)
{
	int64_t now_us = redis_store_now_us(redis), store_us = redis_store_clock_us(redis);
	int64_t age_us = store_us > redis->beat_store_us ? store_us - redis->beat_store_us : 0;
	if (!redis->trust_waits && redis->beat_store_us != 0 && age_us < redis->trust_us)
		tell_trusted(redis, now_us - age_us + redis->trust_us);
}

void news_epochs_are_known(struct redis_store *redis)
{
	if (!redis->trust_waits)
		return;
	redis->trust_waits = false;
	trust_goes_on(redis);
}

/* It was flushed: what all know of it is told to it again. */
static void tell_emptied(struct redis_store *redis)
{
	redis->counters.emptied++;
	redis->pulse.epochs_due = true;
	if (redis->listener.emptied)
		redis->listener.emptied(redis->listener.impl);
}

static void on_beat(struct redis_store *redis, const struct message *message)
{
	if (redis->trust_us == 0)
		return;
	switch (trust_hear(&redis->trust, message->number)) {
	case TRUST_REPEATED:
		if (message->emptied)
			tell_emptied(redis);
		return;
	case TRUST_BEGINS:
		/* What was known before the gap is to be looked up again. */
		redis->counters.trust_breaks++;
		tell_trusted(redis, 0);
		redis->trust_waits = redis->pulse.epochs_due = true;
		break;
	case TRUST_GOES_ON:
		if (message->emptied)
			tell_emptied(redis);
		break;
	}
	redis->beat_store_us = message->published_at_us;
	redis->pulse.beat_heard_us = redis_local_us();
	trust_goes_on(redis);
}

int64_t news_take_epoch(struct redis_store *redis, const char *keyspace, size_t len,
			int64_t store_us, int64_t spread_us)
{
	int64_t local_us = redis_local_us();
	int64_t moment_us = fleet_clock_from_store(&redis->clock, store_us, local_us);
	bool is_new = false;
	const struct epoch_line *line = epoch_book_enter(&redis->epochs, keyspace, len, store_us,
							 moment_us, spread_us, &is_new);
	if (!line)
		return moment_us;
	if (is_new && redis->listener.epoch)
		redis->listener.epoch(redis->listener.impl, keyspace, len, line->moment_us,
				      line->spread_us);
	return line->moment_us;
}

void news_take_definitions(struct redis_store *redis, const char *bytes, size_t len)
{
	const struct store_listener *listener = &redis->listener;
	struct definition_told told;
	bool is_news;
	size_t step;
	while ((step = definition_book_read(&redis->definitions, bytes, len, &told, &is_news)) >
	       0) {
		bytes += step;
		len -= step;
		if (!is_news)
			continue;
		if (!told.is_own)
			log_warning("keyspace.superseded", LOG_TEXT("keyspace", told.keyspace),
				    LOG_TEXT("why",
					     "the fleet has a later query: its values are taken"));
		if (listener->defined)
			listener->defined(listener->impl, told.keyspace, strlen(told.keyspace),
					  told.ruling,
					  fleet_clock_from_store(&redis->clock, told.since_us,
								 redis_local_us()),
					  told.spread_us);
	}
}

void news_tell_epochs(struct redis_store *redis)
{
	const struct store_listener *listener = &redis->listener;
	redis->epochs_untold = false;
	for (uint32_t i = 0; i < redis->epochs.count && listener->epoch; i++) {
		const struct epoch_page *page = &redis->epochs.pages[i];
		for (uint32_t j = 0; j < page->count; j++)
			listener->epoch(listener->impl, page->keyspace, strlen(page->keyspace),
					page->lines[j].moment_us, page->lines[j].spread_us);
	}
}

void news_on_message(struct redis_store *redis, const char *bytes, size_t len)
{
	const struct store_listener *listener = &redis->listener;
	struct message message;
	redis->counters.messages++;
	if (!message_read(bytes, len, &message)) {
		redis->counters.messages_bad++;
		log_warning("store.message_bad", LOG_UINT("bytes", len));
		return;
	}
	switch (message.kind) {
	case MESSAGE_FOREIGN:
		return;
	case MESSAGE_BEAT:
		on_beat(redis, &message);
		return;
	case MESSAGE_EPOCH:
		news_take_epoch(redis, message.keyspace, message.keyspace_len, message.moment_us,
				message.spread_us);
		return;
	case MESSAGE_SETTLED:
	case MESSAGE_CHANGED:
	case MESSAGE_ROW:
		break;
	}
	while (message.keys_count > 0) {
		struct message_key key = message_next(&message);
		if (message.kind == MESSAGE_SETTLED && listener->settled)
			listener->settled(listener->impl, key.bytes, key.len, key.fence);
		if (message.kind == MESSAGE_CHANGED && listener->changed)
			listener->changed(listener->impl, key.bytes, key.len, key.fence, key.hard);
		if (message.kind == MESSAGE_ROW && listener->row_changed)
			listener->row_changed(listener->impl, key.bytes, key.len,
					      &(struct row_change){ .floor = key.fence,
								    .hard = key.hard,
								    .has_version = key.has_version,
								    .version = key.version });
	}
}
