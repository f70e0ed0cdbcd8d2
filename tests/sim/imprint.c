#include "imprint.h"

#include "fleet.h"

static uint64_t mix(uint64_t sum, uint64_t number)
{
	sum = (sum ^ number) * 0x100000001b3u;
	return sum ^ sum >> 29;
}

static uint64_t mix_entry(uint64_t sum, const struct near_entry *ne)
{
	const struct entry *entry = &ne->entry;
	const uint64_t numbers[] = { (uint64_t)ne->next_at_us,
				     (uint64_t)ne->put_at_us,
				     ne->hits,
				     ne->early,
				     (uint64_t)ne->retry_at_us,
				     ne->generation,
				     ne->trust,
				     ne->trouble,
				     ne->visited,
				     entry->fence,
				     (uint64_t)entry->version,
				     (uint64_t)entry->generated_at_us,
				     (uint64_t)entry->fresh_until_us,
				     (uint64_t)entry->stale_until_us,
				     entry->changed };
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		sum = mix(sum, numbers[i]);
	return sum;
}

static uint64_t mix_segment(uint64_t sum, const struct near_segment *segment)
{
	uint64_t place = 0, hand = 0;
	list_foreach (&segment->queue, link) {
		place++;
		if (link == segment->hand)
			hand = place;
		sum = mix_entry(sum, container_of(link, struct near_entry, link));
	}
	return mix(sum, hand);
}

uint64_t imprint_of(const struct node *node)
{
	const struct engine *engine = node->engine;
	uint64_t sum = mix((uint64_t)node->number, node->hot.hits);
#define X(name, text) sum = mix(sum, engine->counters.name);
	ENGINE_COUNTER_MAP(X)
	ACCOUNT_COUNTER_MAP(X)
#undef X
	for (int i = 0; i < 4; i++)
		sum = mix(sum, engine->rng.s[i]);
	const struct keyspace *keyspace;
	for (uint32_t at = 0; (keyspace = roster_next(&engine->keyspaces, &at));) {
		sum = mix(sum, (uint64_t)keyspace->refresh_us);
		sum = mix(sum, (uint64_t)keyspace->slow_build_us);
		sum = mix(sum, keyspace->generation);
	}
	sum = mix(sum, engine->trusts);
	sum = mix(sum, (uint64_t)engine->trusted_until_us);
	sum = mix(sum, (uint64_t)node_clock(node));
	sum = mix_segment(sum, &engine->near.rows);
	return mix_segment(sum, &engine->near.absent);
}
