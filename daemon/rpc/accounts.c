#include "rpc/accounts.h"

#include <stdio.h>

#include "core/request.h"

/* A map whose count of pairs is known only at its end. */
struct open_map {
	size_t at; /* of its head */
	uint32_t pairs;
};

enum { HEAD_BYTES = 3 };

static struct open_map map_begin(struct wire_buf *b)
{
	struct open_map map = { .at = b->len };
	if (wire_buf_reserve(b, HEAD_BYTES))
		b->len += HEAD_BYTES;
	return map;
}

static void map_put(struct wire_buf *b, struct open_map *map, const char *name, uint64_t number)
{
	map->pairs++;
	wire_buf_str(b, name);
	wire_buf_int(b, (int64_t)number);
}

static void map_end(struct wire_buf *b, const struct open_map *map)
{
	if (wire_buf_failed(b))
		return;
	b->data[map->at] = 0xde; /* map 16 */
	b->data[map->at + 1] = (uint8_t)(map->pairs >> 8);
	b->data[map->at + 2] = (uint8_t)map->pairs;
}

static void put_get(struct wire_buf *b, struct open_map *map, const struct account *account,
		    int state, int source, int reason)
{
	char name[64];
	uint64_t number = account->gets[state][source][reason];
	if (number == 0)
		return;
	snprintf(name, sizeof(name), "%s%s%s%s%s", answer_state_name((enum answer_state)state),
		 source == SOURCE_NONE ? "" : ".",
		 source == SOURCE_NONE ? "" : answer_source_name((enum answer_source)source),
		 reason == REASON_NONE ? "" : ".",
		 reason == REASON_NONE ? "" : answer_reason_name((enum answer_reason)reason));
	map_put(b, map, name, number);
}

/* What was never told is left out. */
static void put_gets(struct wire_buf *b, const struct account *account)
{
	char name[64];
	struct open_map map = map_begin(b);
	for (int state = 0; state < RESULT_STATE_COUNT; state++)
		for (int source = 0; source < RESULT_SOURCE_COUNT; source++)
			for (int reason = 0; reason < RESULT_REASON_COUNT; reason++)
				put_get(b, &map, account, state, source, reason);
	for (int status = 0; status < STATUS_COUNT; status++) {
		snprintf(name, sizeof(name), "error.%s", status_name((enum status)status));
		if (account->errors[status] > 0)
			map_put(b, &map, name, account->errors[status]);
	}
	map_end(b, &map);
}

static void put_refreshes(struct wire_buf *b, const struct account *account)
{
	char name[64];
	struct open_map map = map_begin(b);
	for (int cause = 0; cause < REFRESH_CAUSES; cause++) {
		const char *begun = refresh_cause_name((enum refresh_cause)cause);
		for (int outcome = 0; outcome < REFRESH_OUTCOMES; outcome++) {
			snprintf(name, sizeof(name), "%s.%s", begun,
				 refresh_outcome_name((enum refresh_outcome)outcome));
			if (account->refreshes[cause][outcome] > 0)
				map_put(b, &map, name, account->refreshes[cause][outcome]);
		}
		snprintf(name, sizeof(name), "%s.wasted", begun);
		if (account->wasted[cause] > 0)
			map_put(b, &map, name, account->wasted[cause]);
	}
	map_end(b, &map);
}

static void put_durations(struct wire_buf *b, const char *name, const struct durations *durations)
{
	uint64_t count = durations->count;
	wire_buf_str(b, name);
	struct open_map map = map_begin(b);
	map_put(b, &map, "count", count);
	map_put(b, &map, "mean", count > 0 ? durations->sum_us / count : 0);
	map_put(b, &map, "p50", (uint64_t)durations_percentile(durations, 50));
	map_put(b, &map, "p90", (uint64_t)durations_percentile(durations, 90));
	map_put(b, &map, "p99", (uint64_t)durations_percentile(durations, 99));
	map_end(b, &map);
}

void accounts_put(struct wire_buf *b, const struct keyspace *keyspace)
{
	const struct account *account = &keyspace->account;
	struct open_map map = map_begin(b);
	map.pairs = 7;
	wire_buf_str(b, "name");
	wire_buf_str(b, keyspace->policy->name);
	wire_buf_str(b, "gets");
	put_gets(b, account);
	wire_buf_str(b, "refreshes");
	put_refreshes(b, account);
	put_durations(b, "build_us", &account->build_times);
	put_durations(b, "queue_us", &account->queue_times);
	put_durations(b, "stale_us", &account->stale_ages);
	wire_buf_str(b, "jitter");
	wire_buf_float(b, keyspace->policy->jitter);
	map_put(b, &map, "fresh_ms", (uint64_t)keyspace->policy->fresh_us / 1000);
	map_put(b, &map, "stale_ms", (uint64_t)keyspace->policy->stale_us / 1000);
	map_put(b, &map, "refresh_us", (uint64_t)keyspace->refresh_us);
	map_put(b, &map, "gets_total", account_gets(account));
	map_put(b, &map, "waiting", account->waiting);
	map_put(b, &map, "near_entries", account->near_entries);
	map_put(b, &map, "near_bytes", account->near_bytes);
#define X(name, text) map_put(b, &map, #name, account->counters.name);
	ACCOUNT_COUNTER_MAP(X)
#undef X
	map_end(b, &map);
}
