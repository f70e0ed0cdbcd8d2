#include "base/mem.h"
#include "core/warmer_state.h"

enum { LOOK_BURST_US = 20 * 1000, AWAY_US = 1000 * 1000 };

static void on_looked(struct look *look)
{
	struct warmer_look *mine = container_of(look, struct warmer_look, look);
	struct warmer *warmer = mine->warmer;
	struct warm_chunk *chunk = mine->place.chunk;
	uint32_t index = mine->place.item;
	int64_t now_us = warmer_now_us(warmer);
	warmer->looks--;
	chunk->under_way--;
	switch (look->outcome) {
	case LOOK_FRESH:
		warm_item_fresh(chunk, index);
		break;
	case LOOK_MISSING:
		warm_item_move(chunk, index, ITEM_TO_BUILD);
		break;
	case LOOK_FAILED:
		warm_item_fail(chunk, index, &look->failure, now_us);
		break;
	case LOOK_AWAY:
		warm_item_rest(chunk, index, now_us + warmer_jittered(warmer, AWAY_US));
		break;
	}
	value_unref(look->failure.text);
	mem_free(mine);
	warm_chunk_release(chunk);
	warmer_kick(warmer);
}

static void look_at(struct warmer *warmer, struct warm_chunk *chunk, uint32_t index)
{
	struct key key;
	if (!warm_item_key(chunk, index, &key))
		return;
	struct warmer_look *mine = mem_zalloc(sizeof(*mine));
	if (!mine)
		return; /* the next turn tries again */
	mine->warmer = warmer;
	mine->place = (struct warm_place){ chunk, index };
	mine->look = (struct look){ .key = key, .alone = warmer->options.alone, .done = on_looked };
	warm_item_move(chunk, index, ITEM_LOOKING);
	chunk->under_way++;
	warmer->looks++;
	warmer->counters.looks++;
	pump_look(warmer->options.pump, &mine->look);
}

static bool may_look(struct warmer *warmer, int64_t now_us)
{
	if (warmer->looks >= WARMER_LOOKS_MAX || warmer->look_next_us > now_us)
		return false;
	if (warmer->look_next_us < now_us - LOOK_BURST_US)
		warmer->look_next_us = now_us - LOOK_BURST_US;
	warmer->look_next_us += warmer->look_interval_us;
	return true;
}

void warmer_look_around(struct warmer_job *job, int64_t now_us)
{
	struct warmer *warmer = job->warmer;
	list_foreach (&job->chunks, node) {
		struct warm_chunk *chunk = container_of(node, struct warm_chunk, node);
		for (uint32_t i = 0; i < chunk->count && !chunk->given_up; i++) {
			struct warm_item *item = &chunk->items[i];
			if (item->state == ITEM_RESTING && now_us >= item->due_us)
				warm_item_move(chunk, i, ITEM_TO_LOOK);
			if (item->state != ITEM_TO_LOOK)
				continue;
			if (!may_look(warmer, now_us))
				return;
			look_at(warmer, chunk, i);
		}
	}
}
