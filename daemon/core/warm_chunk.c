#include "core/warm_chunk.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "core/warmer_state.h"

enum {
	RETRY_LEAST_US = 100 * 1000,
	RETRY_MOST_US = 60 * 1000 * 1000,
	FAILURE_TEXT_MAX = 200, /* of each that is listed */
};

struct warm_chunk *warm_chunk_create(struct warmer_job *job, const struct job_call *call,
				     int64_t now_us)
{
	struct warm_chunk *chunk = mem_zalloc(sizeof(*chunk) + call->data_len);
	const char *text;
	uint32_t len;
	size_t at = 0, step;
	if (!chunk)
		return NULL;
	list_node_init(&chunk->node);
	chunk->job = job;
	chunk->seq = call->next;
	chunk->reported_us = now_us;
	memcpy(chunk->bytes, call->data, call->data_len);
	while (chunk->count < CHUNK_KEYS_MAX &&
	       (step = chunk_next(chunk->bytes + at, call->data_len - at, &text, &len)) > 0) {
		chunk->items[chunk->count++] =
			(struct warm_item){ .at = (uint32_t)(text - chunk->bytes), .len = len };
		at += step;
	}
	chunk->to_look = chunk->count;
	list_push_back(&job->chunks, &chunk->node);
	return chunk;
}

void warm_chunk_release(struct warm_chunk *chunk)
{
	struct warmer_job *job = chunk->job;
	if (!chunk->given_up || chunk->under_way > 0 || job->reporting == chunk)
		return;
	list_remove(&job->chunks, &chunk->node);
	mem_free(chunk->failures);
	mem_free(chunk);
}

void warm_chunk_give_up(struct warm_chunk *chunk)
{
	chunk->given_up = true;
	warm_chunk_release(chunk);
}

void warm_chunks_give_up(struct warmer_job *job)
{
	struct list_node *next;
	for (struct list_node *node = list_first(&job->chunks); node; node = next) {
		next = node->next != &job->chunks.head ? node->next : NULL;
		warm_chunk_give_up(container_of(node, struct warm_chunk, node));
	}
}

/* ---- its keys ---------------------------------------------------------------------------- */

void warm_item_move(struct warm_chunk *chunk, uint32_t index, enum warm_item_state state)
{
	struct warm_item *item = &chunk->items[index];
	CHECK(item->state != ITEM_DONE);
	chunk->to_look -= item->state == ITEM_TO_LOOK;
	chunk->to_look += state == ITEM_TO_LOOK;
	chunk->done += state == ITEM_DONE;
	item->state = (uint8_t)state;
}

void warm_item_rest(struct warm_chunk *chunk, uint32_t index, int64_t until_us)
{
	chunk->items[index].due_us = until_us;
	warm_item_move(chunk, index, ITEM_RESTING);
}

void warm_item_fresh(struct warm_chunk *chunk, uint32_t index)
{
	chunk->counts.fresh++;
	chunk->job->warmer->counters.fresh++;
	warm_item_move(chunk, index, ITEM_DONE);
}

/* Notes the key and why, if there is room. */
static void note_failure(struct warm_chunk *chunk, const struct warm_item *item, const char *text,
			 uint32_t len)
{
	if (!chunk->failures)
		chunk->failures = mem_alloc(WARM_FAILURES_BYTES);
	if (!chunk->failures || chunk->failures_count >= JOB_FAILURES_MAX)
		return;
	char *to = chunk->failures + chunk->failures_len;
	size_t room = WARM_FAILURES_BYTES - chunk->failures_len;
	size_t key = chunk_put(to, room, chunk->bytes + item->at, item->len);
	if (len > FAILURE_TEXT_MAX)
		len = FAILURE_TEXT_MAX;
	size_t why = key ? chunk_put(to + key, room - key, text, len) : 0;
	if (!why)
		return;
	chunk->failures_len += (uint32_t)(key + why);
	chunk->failures_count++;
}

static void fail_for_good(struct warm_chunk *chunk, uint32_t index, const char *text, uint32_t len)
{
	chunk->counts.failed++;
	chunk->job->warmer->counters.failed++;
	note_failure(chunk, &chunk->items[index], text, len);
	warm_item_move(chunk, index, ITEM_DONE);
}

void warm_item_fail(struct warm_chunk *chunk, uint32_t index, const struct failure *failure,
		    int64_t now_us)
{
	struct warmer *warmer = chunk->job->warmer;
	struct warm_item *item = &chunk->items[index];
	if (item->tries >= warmer_retries(&chunk->job->job)) {
		const char *why = failure->why ? failure->why : status_text(failure->status);
		if (failure->text)
			fail_for_good(chunk, index, failure->text->bytes,
				      (uint32_t)failure->text->len);
		else
			fail_for_good(chunk, index, why, (uint32_t)strlen(why));
		return;
	}
	int64_t wait_us =
		failure->until_us > now_us ? failure->until_us - now_us : failure->retry_in_us;
	if (wait_us < RETRY_LEAST_US)
		wait_us = RETRY_LEAST_US;
	if (wait_us > RETRY_MOST_US)
		wait_us = RETRY_MOST_US;
	item->tries++;
	warmer->counters.retries++;
	warm_item_rest(chunk, index, now_us + wait_us + rng_between(&warmer->rng, 0, wait_us / 4));
}

bool warm_item_key(struct warm_chunk *chunk, uint32_t index, struct key *ret_key)
{
	struct warmer *warmer = chunk->job->warmer;
	struct warm_item *item = &chunk->items[index];
	struct pump *pump = warmer->options.pump;
	char *bytes = chunk->bytes + item->at, text[ERROR_TEXT_MAX];
	uint32_t name_len;
	const char *why;
	if (warmer->options.read_key(bytes, &item->len, &name_len, &why)) {
		struct keyspace *keyspace = engine_keyspace(pump->engine, bytes, name_len);
		why = "there is no such keyspace";
		if (keyspace) {
			engine_key(pump->engine, keyspace, bytes, item->len, ret_key);
			why = text;
			if (!pump->origin.check_key ||
			    pump->origin.check_key(pump->origin.impl, ret_key, text,
						   sizeof(text)) == STATUS_OK)
				return true;
		}
	}
	fail_for_good(chunk, index, why, (uint32_t)strlen(why));
	return false;
}
