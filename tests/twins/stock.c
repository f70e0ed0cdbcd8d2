/* What is stored: read from Redis as daemons and scripts lay it down, and compared with what the
 * simulated store holds, until when each record lives included.
 */
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "twins.h"
#include "wire.h"

enum {
	CLAIM_LEN = 124,
	PERMITS_LEN = 16,
	SLOT_LEN = 32,
	BEAT_LEN = 24,
	ERA_LEN = 36,
	EPOCH_LEN = 16,
	HISTORY_LEN = 24,
	READER_LEN = 26,
};

static const struct keys *names(const struct twins *twins)
{
	return &twins->daemons[0]->keys;
}

/* ---- reading ----------------------------------------------------------------------------- */

static const unsigned char *bytes_of(const redisReply *reply)
{
	return (const unsigned char *)reply->str;
}

static int64_t real_at(const unsigned char *at)
{
	double real;
	uint64_t bits = record_get_u64(at);
	memcpy(&real, &bits, sizeof(real));
	CHECK(real == (double)(int64_t)real);
	return (int64_t)real;
}

static unsigned u16_at(const unsigned char *at)
{
	return (unsigned)at[0] << 8 | at[1];
}

/* What lies at a key of that many bytes at least, or NULL. */
static redisReply *get(const char *name, size_t name_len, size_t len)
{
	redisReply *reply = wire_ask("GET %b", name, name_len);
	if (reply->type == REDIS_REPLY_STRING && reply->len >= len)
		return reply;
	CHECK_MSG(reply->type == REDIS_REPLY_NIL, "%.*s is cut", (int)name_len, name);
	freeReplyObject(reply);
	return NULL;
}

/* ms of the server's clock. */
static int64_t end_of(const char *name, size_t name_len)
{
	redisReply *reply = wire_ask("PEXPIRETIME %b", name, name_len);
	int64_t end_ms = reply->integer;
	freeReplyObject(reply);
	return end_ms;
}

/* ---- keys -------------------------------------------------------------------------------- */

static void print_entry(FILE *out, const struct entry *entry, bool overtaken, int64_t value_len,
			int64_t ends_ms)
{
	fprintf(out,
		"entry version=%d:%" PRId64 " fence=%" PRIu64 " covers=%" PRId64
		" generated=%" PRId64 " fresh=%" PRId64 " stale=%" PRId64
		" build=%u era=%u history=%" PRIx64 " definition=%" PRIu64
		" absent=%d changed=%d own=%d overtaken=%d bytes=%" PRId64 " ends=%" PRId64 "; ",
		entry->has_version, entry->version, entry->fence, entry->covers,
		entry->generated_at_us, entry->fresh_until_us, entry->stale_until_us,
		entry->build_us, entry->era, entry->history, entry->definition, entry->absent,
		entry->changed, entry->own_times, overtaken, value_len, ends_ms);
}

static void print_real_entry(FILE *out, const struct keys *keys)
{
	struct entry entry = { 0 };
	int64_t value_len;
	redisReply *reply = get(keys->entry, keys->len, RECORD_HEADER_LEN);
	if (!reply)
		return;
	if (record_decode(reply->str, reply->len, &entry, &value_len))
		print_entry(out, &entry, u16_at(bytes_of(reply) + 2) & 32, value_len,
			    end_of(keys->entry, keys->len));
	else
		fputs("entry malformed; ", out);
	freeReplyObject(reply);
}

/* Of what is over, nothing is said: neither side has to forget it at once. */
struct claim_view {
	bool waited, hard, stored, by_row;
	uint64_t fence, floor, token, lease_fence;
	int64_t floor_version; /* where it is by_row */
	int64_t granted_at_us, lease_left_us, failed_left_us, ends_ms;
	unsigned status, streak;
	const char *text;
	size_t text_len;
};

static void print_claim(FILE *out, const struct claim_view *claim)
{
	bool is_held = claim->lease_left_us > 0, has_failed = claim->failed_left_us > 0;
	fprintf(out,
		"claim fence=%" PRIu64 " floor=%" PRIu64
		" hard=%d waited=%d stored=%d by_row=%d:%" PRId64,
		claim->fence, claim->floor, claim->hard, claim->waited, claim->stored,
		claim->by_row, claim->by_row ? claim->floor_version : 0);
	if (is_held)
		fprintf(out, " token=%" PRIx64 " lease=%" PRIu64 " since=%" PRId64 " left=%" PRId64,
			claim->token, claim->lease_fence, claim->granted_at_us,
			claim->lease_left_us);
	if (has_failed)
		fprintf(out, " status=%u left=%" PRId64 " text=%.*s", claim->status,
			claim->failed_left_us, (int)claim->text_len, claim->text);
	fprintf(out, " streak=%u ends=%" PRId64 "; ", claim->streak, claim->ends_ms);
}

static void print_real_claim(FILE *out, const struct keys *keys, int64_t now_us)
{
	redisReply *reply = get(keys->claim, keys->len, CLAIM_LEN);
	if (!reply)
		return;
	const unsigned char *at = bytes_of(reply);
	int64_t failed_us = real_at(at + 64), failed_until_us = real_at(at + 72);
	struct claim_view claim = {
		.waited = u16_at(at + 2) & 1,
		.hard = u16_at(at + 2) & 2,
		.stored = u16_at(at + 2) & 8,
		.by_row = u16_at(at + 2) & 4,
		.floor_version = (int64_t)record_get_u64(at + 84),
		.fence = record_get_u64(at + 8),
		.floor = record_get_u64(at + 16),
		.token = record_get_u64(at + 24),
		.lease_fence = record_get_u64(at + 32),
		.granted_at_us = real_at(at + 40),
		.lease_left_us = left_of(real_at(at + 56), real_at(at + 48), now_us),
		.failed_left_us = left_of(failed_until_us, failed_us, now_us),
		.ends_ms = end_of(keys->claim, keys->len),
		.status =
			u16_at(at + 6), /* before it: whose lease it is, which is for people only */
		.text = reply->str + CLAIM_LEN,
		.text_len = reply->len - CLAIM_LEN,
	};
	if (left_of(failed_until_us + failed_us, 2 * failed_us, now_us) > 0)
		claim.streak = record_get_u32(at + 80);
	print_claim(out, &claim);
	freeReplyObject(reply);
}

static void print_sim_key(FILE *out, const struct shared_key *key, int64_t now_us)
{
	const struct shared_claim *claim = &key->claim;
	const struct value *value = key->entry.value, *text = claim->failure.text;
	if (key->has_entry && !shared_has_ended(key->entry_ends_us, now_us))
		print_entry(out, &key->entry, key->overtaken, value ? (int64_t)value->len : -1,
			    key->entry_ends_us / 1000);
	if (!claim->exists || shared_has_ended(claim->ends_us, now_us))
		return;
	print_claim(out, &(struct claim_view){
				 .waited = claim->waited,
				 .hard = claim->hard,
				 .stored = claim->stored,
				 .by_row = claim->by_row,
				 .floor_version = claim->floor_version,
				 .fence = claim->fence,
				 .floor = claim->floor,
				 .token = claim->token,
				 .lease_fence = claim->lease_fence,
				 .granted_at_us = claim->granted_at_us,
				 .lease_left_us = left_of(claim->lease_until_us,
							  claim->lease_length_us, now_us),
				 .failed_left_us = shared_failed_left(claim, now_us),
				 .ends_ms = claim->ends_us / 1000,
				 .status = (unsigned)claim->failure.status,
				 .streak = shared_streak(claim, now_us),
				 .text = text ? text->bytes : "",
				 .text_len = text ? text->len : 0,
			 });
}

static void compare_key(struct twins *twins, int number)
{
	struct subject *subject = &twins->scene.keys[number];
	struct keys *keys = &twins->daemons[0]->keys;
	struct pair pair;
	pair_open(&pair);
	pair.quiet = true;
	keys_name(keys, subject->bytes, subject->len);
	print_real_entry(pair.real, keys);
	print_real_claim(pair.real, keys, twins->server_us);
	print_sim_key(pair.sim, &twins->shared->data.keys[number], twins->server_us);
	pair_compare(&pair, twins, subject->bytes);
}

/* ---- the fleet's ------------------------------------------------------------------------- */

static void print_slot(FILE *out, int slot, const struct shared_slot *its)
{
	if (its->until_us != 0)
		fprintf(out,
			" %d: start=%" PRId64 " until=%" PRId64 " token=%" PRIx64
			" instance=%x place=%d background=%d",
			slot, its->start_us, its->until_us, its->token, (uint32_t)its->owner,
			its->place, its->background);
}

static void print_real_permits(FILE *out, const struct twins *twins)
{
	redisReply *reply = get(names(twins)->permits, strlen(names(twins)->permits), PERMITS_LEN);
	if (!reply)
		return;
	const unsigned char *at = bytes_of(reply);
	fprintf(out, "permits next=%" PRId64, real_at(at + 8));
	for (size_t i = 0; PERMITS_LEN + (i + 1) * SLOT_LEN <= reply->len; i++) {
		at = bytes_of(reply) + PERMITS_LEN + i * SLOT_LEN;
		/* Never used, Redis fills them with zeros. */
		if (record_get_u64(at + 8) == 0)
			continue;
		struct shared_slot slot = { .start_us = real_at(at),
					    .until_us = real_at(at + 8),
					    .token = record_get_u64(at + 16),
					    .owner = record_get_u32(at + 24),
					    .place = (int)u16_at(at + 28),
					    .background = at[30] };
		if (slot.place == UINT16_MAX)
			slot.place = PLACE_NONE;
		print_slot(out, (int)i, &slot);
	}
	freeReplyObject(reply);
}

static void print_sim_permits(FILE *out, const struct twins *twins)
{
	const struct shared_data *data = &twins->shared->data;
	if (!data->has_permits)
		return;
	fprintf(out, "permits next=%" PRId64, data->next_us);
	for (int i = 0; i < twins->scene.concurrency; i++)
		print_slot(out, i, &data->slots[i]);
}

/* Of those whose record may still hold anybody up: in Redis it ends some time after that. */
static void print_paces(const struct pair *pair, const struct twins *twins)
{
	struct keys *keys = &twins->daemons[0]->keys;
	const struct shared_data *data = &twins->shared->data;
	int64_t now_us = shared_now(twins->shared);
	for (uint64_t id = 1; id <= TWINS_PACES; id++) {
		keys_pace(keys, id);
		redisReply *reply = get(keys->pace, strlen(keys->pace), 8);
		int64_t next_us = reply ? real_at(bytes_of(reply)) : 0;
		if (next_us > now_us)
			fprintf(pair->real, " pace %" PRIu64 "=%" PRId64, id, next_us);
		if (reply)
			freeReplyObject(reply);
		for (int i = 0; i < SHARED_PACES; i++)
			if (data->paces[i].id == id && data->paces[i].next_us > now_us)
				fprintf(pair->sim, " pace %" PRIu64 "=%" PRId64, id,
					data->paces[i].next_us);
	}
}

static void print_real_places(FILE *out, const struct twins *twins)
{
	for (int i = 0; i < twins->scene.nodes; i++) {
		redisReply *until = wire_ask("ZSCORE %s %d", names(twins)->places, i);
		redisReply *holder = wire_ask("HGET %s %d", names(twins)->holders, i);
		if (until->type == REDIS_REPLY_STRING)
			fprintf(out, " place %d until=%lld", i, strtoll(until->str, NULL, 10));
		if (holder->type == REDIS_REPLY_STRING)
			fprintf(out, " holder %d=%" PRIx64, i, record_get_u64(bytes_of(holder)));
		freeReplyObject(until);
		freeReplyObject(holder);
	}
}

static void print_sim_places(FILE *out, const struct twins *twins)
{
	for (int i = 0; i < twins->scene.nodes; i++) {
		const struct shared_place *place = &twins->shared->data.places[i];
		if (place->until_us != 0)
			fprintf(out, " place %d until=%" PRId64, i, place->until_us);
		if (place->holder != 0)
			fprintf(out, " holder %d=%" PRIx64, i, place->holder);
	}
}

static void print_real_beat_and_era(FILE *out, const struct twins *twins)
{
	const struct keys *keys = names(twins);
	redisReply *beat = get(keys->beat, strlen(keys->beat), BEAT_LEN);
	redisReply *era = get(keys->era, strlen(keys->era), ERA_LEN);
	if (beat)
		fprintf(out, " beat by=%" PRIx64 " until=%" PRId64 " number=%" PRId64,
			record_get_u64(bytes_of(beat)), real_at(bytes_of(beat) + 8),
			real_at(bytes_of(beat) + 16));
	if (era)
		fprintf(out,
			" era %u since=%" PRId64 " jump=%" PRId64 " witness=%" PRIx64
			" seen=%" PRId64,
			record_get_u32(bytes_of(era)), real_at(bytes_of(era) + 4),
			real_at(bytes_of(era) + 12), record_get_u64(bytes_of(era) + 20),
			real_at(bytes_of(era) + 28));
	redisReply *history = get(keys->history, strlen(keys->history), HISTORY_LEN);
	if (history)
		fprintf(out, " history=%" PRIx64 " built=%" PRId64,
			record_get_u64(bytes_of(history) + 8), real_at(bytes_of(history) + 16));
	freeReplyObject(history);
	freeReplyObject(beat);
	freeReplyObject(era);
}

static void print_sim_beat_and_era(FILE *out, const struct twins *twins)
{
	const struct shared_data *data = &twins->shared->data;
	if (data->has_beat)
		fprintf(out, " beat by=%" PRIx64 " until=%" PRId64 " number=%" PRId64,
			data->beat_holder, data->beat_until_us, (int64_t)data->beat_number);
	if (data->era != 0)
		fprintf(out,
			" era %u since=%" PRId64 " jump=%" PRId64 " witness=%" PRIx64
			" seen=%" PRId64,
			data->era, data->era_since_us, data->era_jump_us, data->era_witness,
			data->era_seen_us);
	if (data->history != 0)
		fprintf(out, " history=%" PRIx64 " built=%" PRId64, data->history,
			data->history_built_us);
}

static void print_real_reader(FILE *out, const struct twins *twins)
{
	redisReply *reply = get(names(twins)->feed, strlen(names(twins)->feed), READER_LEN);
	if (!reply)
		return;
	const unsigned char *at = bytes_of(reply);
	fprintf(out, " reader=%" PRIx64 " until=%" PRId64 " length=%" PRId64 " position=%.*s",
		record_get_u64(at + 2), real_at(at + 10), real_at(at + 18),
		(int)(reply->len - READER_LEN), reply->str + READER_LEN);
	freeReplyObject(reply);
}

static void print_sim_reader(FILE *out, const struct twins *twins)
{
	const struct shared_reader *reader = &twins->shared->data.reader;
	if (reader->exists)
		fprintf(out, " reader=%" PRIx64 " until=%" PRId64 " length=%" PRId64 " position=%s",
			reader->token, reader->until_us, reader->length_us, reader->position);
}

static void compare_epochs(struct twins *twins)
{
	struct pair pair;
	pair_open(&pair);
	pair.quiet = true;
	for (uint32_t i = 0; i < KEYSPACES; i++) {
		const struct epochs *epochs = &twins->shared->data.epochs[i];
		const char *name = twins->scene.policies[i].name;
		redisReply *reply = wire_ask("HGET %s %s", names(twins)->epochs, name);
		for (uint32_t j = 0; j < epochs->count; j++)
			fprintf(pair.sim, "%s@%" PRId64 "+%" PRId64 " ", name,
				epochs->at[j].moment_us, epochs->at[j].spread_us);
		size_t count = reply->type == REDIS_REPLY_STRING ? reply->len / EPOCH_LEN : 0;
		for (size_t j = 0; j < count; j++)
			fprintf(pair.real, "%s@%" PRId64 "+%" PRId64 " ", name,
				real_at(bytes_of(reply) + j * EPOCH_LEN),
				real_at(bytes_of(reply) + j * EPOCH_LEN + 8));
		freeReplyObject(reply);
	}
	pair_compare(&pair, twins, "the epochs");
}

void stock_compare(struct twins *twins)
{
	struct pair pair;
	for (int i = 0; i < TWINS_KEYS; i++)
		compare_key(twins, twins->keys[i]);
	pair_open(&pair);
	pair.quiet = true;
	print_real_permits(pair.real, twins);
	print_sim_permits(pair.sim, twins);
	print_paces(&pair, twins);
	print_real_places(pair.real, twins);
	print_sim_places(pair.sim, twins);
	print_real_beat_and_era(pair.real, twins);
	print_sim_beat_and_era(pair.sim, twins);
	print_real_reader(pair.real, twins);
	print_sim_reader(pair.sim, twins);
	pair_compare(&pair, twins, "what the fleet shares");
	compare_epochs(twins);
}

/* ---- changing ---------------------------------------------------------------------------- */

void stock_sweep(struct twins *twins)
{
	struct keys *keys = &twins->daemons[0]->keys;
	for (int i = 0; i < TWINS_KEYS; i++) {
		const struct subject *subject = &twins->scene.keys[twins->keys[i]];
		keys_name(keys, subject->bytes, subject->len);
		freeReplyObject(
			wire_ask("EXISTS %b %b", keys->entry, keys->len, keys->claim, keys->len));
	}
	shared_sweep(twins->shared);
}

void stock_forget(struct twins *twins, const struct act *act)
{
	struct subject *subject = &twins->scene.keys[twins->keys[act->key]];
	struct keys *keys = &twins->daemons[0]->keys;
	enum shared_part part = (enum shared_part)(act->chance % SHARED_PARTS);
	keys_name(keys, subject->bytes, subject->len);
	const char *const fleets[SHARED_PARTS] = {
		[SHARED_PERMITS] = keys->permits, [SHARED_PLACES] = keys->places,
		[SHARED_HOLDERS] = keys->holders, [SHARED_BEAT] = keys->beat,
		[SHARED_ERA] = keys->era,         [SHARED_EPOCHS] = keys->epochs,
		[SHARED_HISTORY] = keys->history, [SHARED_READER] = keys->feed,
	};
	const char *name = part == SHARED_ENTRY   ? keys->entry
			   : part == SHARED_CLAIM ? keys->claim
						  : fleets[part];
	size_t len = part == SHARED_ENTRY || part == SHARED_CLAIM ? keys->len : strlen(name);
	twins_note(twins, "  %.*s", (int)len, name);
	freeReplyObject(wire_ask("DEL %b", name, len));
	shared_forget(twins->shared, part, twins->keys[act->key]);
}

int64_t stock_edge(const struct twins *twins, struct rng *rng)
{
	const struct shared_data *data = &twins->shared->data;
	int number = twins->keys[rng_between(rng, 0, TWINS_KEYS - 1)];
	const struct shared_key *key = &data->keys[number];
	const struct shared_claim *claim = &key->claim;
	const struct shared_slot *slot =
		&data->slots[rng_between(rng, 0, twins->scene.concurrency - 1)];
	const struct shared_place *place =
		&data->places[rng_between(rng, 0, twins->scene.nodes - 1)];
	const int64_t edges[] = {
		key->entry.fresh_until_us,
		key->entry.stale_until_us,
		key->entry_ends_us,
		claim->lease_until_us,
		claim->granted_at_us + TWINS_LEASE_MOST_US,
		claim->failure.until_us,
		claim->failure.until_us + claim->failed_length_us,
		claim->ends_us,
		slot->start_us - SECOND,
		slot->until_us,
		place->until_us,
		data->next_us,
		data->next_us - 200 * MS,
		data->next_us - SECOND,
		data->beat_until_us,
		data->era_seen_us + 10 * SECOND,
		data->history_built_us + SECOND,
		data->history_built_us + 10 * SECOND,
		data->reader.until_us,
		key->overtaken ? key->entry.generated_at_us + SECOND : 0,
	};
	return edges[rng_between(rng, 0, (int64_t)(sizeof(edges) / sizeof(*edges)) - 1)];
}
