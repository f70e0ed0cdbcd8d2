#include "rpc/top.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "core/request.h"
#include "proto/wire_buf.h"
#include "rpc/peer.h"
#include "rpc/reply.h"
#include "rpc/server.h"

/* A hot key, and what it would come to without a cache. */
struct top_key {
	const struct hot_rank *rank;
	const struct near_entry *near; /* NULL: it is not in the near cache */
	int64_t build_us;
	double load; /* builds that would run at once: gets a second by the time of a build */
};

static void put_int(struct wire_buf *b, const char *name, int64_t number)
{
	wire_buf_str(b, name);
	wire_buf_int(b, number);
}

static struct keyspace *keyspace_of(const struct engine *engine, const struct hot_rank *rank)
{
	const char *colon = memchr(rank->bytes, ':', rank->len);
	return engine_keyspace(engine, rank->bytes,
			       colon ? (size_t)(colon - rank->bytes) : rank->len);
}

static bool may_see(const struct server *server, const struct access *access,
		    const struct keyspace *keyspace)
{
	return keyspace &&
	       access_allows(access, &server->access, METHOD_TOP, keyspace->policy->name);
}

/* Those of the ranks that the client may see, in their order. Returns how many. */
static uint32_t look_up(struct server *server, const struct access *access,
			const struct hot_rank *ranks, uint32_t count, struct top_key *ret_keys)
{
	struct engine *engine = server->pump->engine;
	uint32_t seen = 0;
	for (uint32_t i = 0; i < count; i++) {
		struct keyspace *keyspace = keyspace_of(engine, &ranks[i]);
		if (!may_see(server, access, keyspace))
			continue;
		const struct key key = { .keyspace = keyspace,
					 .bytes = ranks[i].bytes,
					 .len = ranks[i].len,
					 .hash = ranks[i].hash };
		const struct near_entry *near = engine_near(engine, &key);
		int64_t build_us = near && near->entry.build_us > 0 ? near->entry.build_us
								    : keyspace->refresh_us;
		ret_keys[seen++] =
			(struct top_key){ .rank = &ranks[i],
					  .near = near,
					  .build_us = build_us,
					  .load = ranks[i].rate * (double)build_us / 1e6 };
	}
	return seen;
}

static int by_load(const void *a, const void *b)
{
	const struct top_key *one = a, *other = b;
	if (one->load != other->load)
		return one->load < other->load ? 1 : -1;
	return (one->rank > other->rank) - (one->rank < other->rank);
}

static void put_key(struct wire_buf *b, const struct top_key *key, int64_t now_us)
{
	static const char *const phases[] = {
		[ENTRY_FRESH] = "fresh", [ENTRY_STALE] = "stale", [ENTRY_DEAD] = "dead"
	};
	wire_buf_map(b, 6);
	wire_buf_str(b, "key");
	wire_buf_str_len(b, key->rank->bytes, key->rank->len);
	wire_buf_str(b, "rate");
	wire_buf_float(b, key->rank->rate);
	put_int(b, "build_us", key->build_us);
	wire_buf_str(b, "load");
	wire_buf_float(b, key->load);
	wire_buf_str(b, "near");
	if (key->near)
		wire_buf_str(b, phases[entry_phase(&key->near->entry, now_us)]);
	else
		wire_buf_nil(b);
	wire_buf_str(b, "age_ms");
	if (key->near)
		wire_buf_int(b, (now_us - key->near->entry.generated_at_us) / 1000);
	else
		wire_buf_nil(b);
}

static void put_keys(struct wire_buf *b, const char *name, const struct top_key *keys,
		     uint32_t count, uint32_t most, int64_t now_us)
{
	uint32_t shown = count < most ? count : most;
	wire_buf_str(b, name);
	wire_buf_array(b, shown);
	for (uint32_t i = 0; i < shown; i++)
		put_key(b, &keys[i], now_us);
}

/* Gets that were told so, from anywhere, for any reason. */
static uint64_t gets_of(const struct account *account, enum answer_state state, int source)
{
	uint64_t sum = 0;
	for (int i = 0; i < RESULT_SOURCE_COUNT; i++)
		for (int reason = 0; reason < RESULT_REASON_COUNT; reason++)
			sum += source < 0 || source == i ? account->gets[state][i][reason] : 0;
	return sum;
}

static uint64_t errors_of(const struct account *account)
{
	uint64_t sum = 0;
	for (int status = 0; status < STATUS_COUNT; status++)
		sum += account->errors[status];
	return sum;
}

static void put_keyspace(struct wire_buf *b, const struct keyspace *keyspace)
{
	const struct account *account = &keyspace->account;
	wire_buf_map(b, 14);
	wire_buf_str(b, "name");
	wire_buf_str(b, keyspace->policy->name);
	put_int(b, "gets", (int64_t)account_gets(account));
	put_int(b, "near",
		(int64_t)(gets_of(account, ANSWER_FRESH, SOURCE_NEAR) +
			  gets_of(account, ANSWER_ABSENT, SOURCE_NEAR)));
	put_int(b, "store",
		(int64_t)(gets_of(account, ANSWER_FRESH, SOURCE_STORE) +
			  gets_of(account, ANSWER_ABSENT, SOURCE_STORE)));
	put_int(b, "origin",
		(int64_t)(gets_of(account, ANSWER_FRESH, SOURCE_ORIGIN) +
			  gets_of(account, ANSWER_ABSENT, SOURCE_ORIGIN)));
	put_int(b, "stale", (int64_t)gets_of(account, ANSWER_STALE, -1));
	put_int(b, "default", (int64_t)gets_of(account, ANSWER_DEFAULT, -1));
	put_int(b, "errors", (int64_t)errors_of(account));
	put_int(b, "builds", (int64_t)account->counters.builds);
	put_int(b, "build_us", durations_percentile(&account->build_times, 50));
	put_int(b, "stale_us", durations_percentile(&account->stale_ages, 99));
	put_int(b, "waiting", account->waiting);
	put_int(b, "near_entries", account->near_entries);
	put_int(b, "near_bytes", (int64_t)account->near_bytes);
}

static void put_keyspaces(struct server *server, const struct access *access, struct wire_buf *b)
{
	const struct roster *roster = &server->pump->engine->keyspaces;
	struct keyspace *keyspace;
	uint32_t count = 0;
	for (uint32_t at = 0; (keyspace = roster_next(roster, &at));)
		count += may_see(server, access, keyspace);
	wire_buf_str(b, "keyspaces");
	wire_buf_array(b, count);
	for (uint32_t at = 0; (keyspace = roster_next(roster, &at));)
		if (may_see(server, access, keyspace))
			put_keyspace(b, keyspace);
}

enum status top_reply(struct peer *peer, uint32_t id, uint32_t keys)
{
	struct server *server = peer->server;
	struct hotlist *hot = &server->pump->engine->hotlist;
	int64_t now_us = server_now(server);
	struct hot_rank *ranks = mem_alloc((hot->used + 1) * sizeof(*ranks));
	struct top_key *seen = mem_alloc((hot->used + 1) * sizeof(*seen));
	if (!ranks || !seen) {
		mem_free(ranks);
		mem_free(seen);
		return STATUS_OVERLOADED;
	}
	uint32_t count = hotlist_top(hot, now_us, ranks, hot->used);
	count = look_up(server, &peer->access, ranks, count, seen);
	struct reply reply = reply_begin(peer, id);
	struct wire_buf *b = &reply.out->bytes;
	wire_buf_map(b, 3);
	put_keyspaces(server, &peer->access, b);
	put_keys(b, "hot", seen, count, keys, now_us);
	qsort(seen, count, sizeof(*seen), by_load);
	put_keys(b, "costly", seen, count, keys, now_us);
	mem_free(ranks);
	mem_free(seen);
	reply_end(&reply);
	return STATUS_OK;
}
